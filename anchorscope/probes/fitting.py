"""Fitting: one probe for each layer and outer fold, its penalty, and its calibration.

Neither a probe nor its calibration has seen the samples that it scores, nor any linked to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from anchorscope.anchors import labels
from anchorscope.config.settings import Probe
from anchorscope.models.families import Loaded, positions
from anchorscope.passes import planning
from anchorscope.passes.batches import Plan
from anchorscope.passes.features import Features
from anchorscope.probes import platt, probes
from anchorscope.probes.intervals import auc
from anchorscope.questions import folds
from anchorscope.storage.errors import AnchorscopeError

ARRAYS = ("c", "t", "offset", "shift", "inner_auc")
"""The fields of `Fitted` beside the probes."""


class Settings(Probe):
    """How probes are fitted and scored: the config's `probe` section, and the seed of the folds."""

    seed: int = 0

    @property
    def penalties(self) -> np.ndarray:
        """The values of C that are fitted, ascending."""
        return np.array([1.0]) if self.scoring == "published" else np.unique(self.grid)


@dataclass(frozen=True)
class Design:
    """Which sample learns and is scored where."""

    where: str  # such as a read-out: named in errors and tables
    ids: np.ndarray  # of the samples, [n]
    z: np.ndarray  # labels, [n]
    fold: np.ndarray  # outer fold, [n]
    inner: np.ndarray  # inner fold in each outer training fold, -1 outside; [folds, n]
    settings: Settings

    @property
    def outer(self) -> np.ndarray:
        """The outer training folds, bool [folds, n]."""
        return self.fold != np.arange(len(self.inner))[:, None]

    @property
    def inner_folds(self) -> list[tuple[int, int]]:
        """(outer fold, inner fold) of each inner fold; none where nothing is calibrated."""
        return [(k, i) for k, inner in enumerate(self.inner) for i in range(inner.max() + 1)]

    @property
    def uncalibrated(self) -> Design:
        """The same without inner folds: slope 1, offset 0."""
        return replace(self, inner=np.full_like(self.inner, -1))

    def of_draws(self, draws: int) -> np.ndarray:
        """Which of the probes of several draws scores each sample out of fold, int64 [draws, n]."""
        return self.fold + len(self.inner) * np.arange(draws)[:, None]


def design(answers: pd.DataFrame, settings: Settings, where: str = "answers") -> Design:
    """Cut outer folds, and inner folds in each training fold, between linked samples."""
    z = answers["label"].to_numpy(dtype=np.int64, copy=True)
    columns = [list(answers["question"]), list(answers.get("subject", [None] * len(answers)))]
    if settings.disjoint == "subject+answer":
        columns.append([labels.squad_normalise(text) or text for text in answers["ea_text"]])
    linked = folds.components(*columns)
    fold = folds.assign(linked, z, settings.folds, settings.seed, where)
    inner = np.full((settings.folds, len(z)), -1)
    if settings.scoring == "calibrated":
        for k in range(settings.folds):
            train, place = fold != k, f"{where}, training fold {k}"
            given = settings.inner_folds, settings.seed, place
            inner[k, train] = folds.assign(linked[train], z[train], *given)
    ids = answers["id"].astype(str).to_numpy(dtype=object)
    return Design(where, ids, z, fold, inner, settings)


def obstacle(answers: pd.DataFrame, settings: Settings) -> str | None:
    """Why folds cannot be cut, in words; None if they can."""
    try:
        design(answers, settings)
    except AnchorscopeError as error:
        return error.what
    return None


def plan_passes(
    loaded: Loaded,
    answered: pd.DataFrame,
    where: str,
    *,
    conditions: Mapping[str, Any],
    blocks: str,
    batch_tokens: int,
    probe: Settings,
) -> Plan:
    """The passes of a cell, see `planning.plan`; errors name the answers by `where`.

    Raises AnchorscopeError: no probe could be fitted to what they would measure.
    """
    planned = planning.plan(
        answered,
        conditions=conditions,
        batch_tokens=batch_tokens,
        window=loaded.window,
        max_positions=positions(loaded.model.config),
        blocks=blocks,
        seed=probe.seed,
        # A partner is of the sample's own fold: the probe has not learned from it then.
        fold=lambda table: design(table, probe, where).fold,
    )
    left = answered[answered["id"].isin([sample.id for sample in planned.samples])]
    design(left, probe, where)
    return planned


@dataclass(frozen=True)
class Fitted:
    """One probe for each layer and outer fold, with its calibration; all float64 [layers, folds].

    Of several draws: [layers, draws · folds], one draw's probes after another's.
    """

    probes: probes.Probes
    c: np.ndarray  # penalty
    t: np.ndarray  # slope
    offset: np.ndarray
    shift: np.ndarray  # taken off the calibrated logit
    inner_auc: np.ndarray  # of the inner out-of-fold logits; NaN without inner folds

    def at(self, layers: Sequence[int]) -> Fitted:
        """Those of some layers."""
        arrays = (getattr(self, name)[list(layers)] for name in ARRAYS)
        return Fitted(self.probes.part(list(layers)), *arrays)


def join(parts: Sequence[Fitted], axis: int = 0) -> Fitted:
    """Several blocks of layers (axis 0) or draws (axis 1), one after the other."""
    arrays = (np.concatenate([getattr(part, name) for part in parts], axis) for name in ARRAYS)
    return Fitted(probes.join([part.probes for part in parts], axis), *arrays)


def fit(
    x: Features,
    plan: Design,
    c: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    *,
    across: bool = False,
    device: str | torch.device = "cpu",
) -> Fitted:
    """All probes of all layers and draws in one solve, then C and calibration of each outer fold.

    As many probes as folds for each draw, see `Design.of_draws`.

    Args:
        x: activations, float [layers, n, width], in the order of `plan`.
        c: penalties known already, [layers, folds]; None chooses them.
        weights: how often each sample was drawn, [draws, n]; None for each once.
        across: whether slope and offset fit the out-of-fold logits of the other outer folds in
            place of inner ones. That gives the same spread, and takes a sixth of the probes.
    """
    weights = np.ones((1, len(plan.z))) if weights is None else weights
    own = plan.uncalibrated if across else plan
    penalties = np.tile(plan.settings.penalties, (len(x), len(plan.inner), 1))
    grid = penalties if c is None else c[..., None]
    masks, of_fold = training_rows(own)
    drawn = np.repeat(weights[:, None] * masks, grid.shape[-1], axis=1)
    each_c = np.tile(grid[:, of_fold].reshape(len(x), -1), len(weights))
    every = probes.fit(x, plan.z, drawn.reshape(-1, len(plan.z)), each_c, device=device)
    parts = []
    for number, weight in enumerate(weights):
        of_draw = slice(number * drawn.shape[1], (number + 1) * drawn.shape[1])
        parts.append(_choose(every.part(slice(None), of_draw), x, own, grid, weight))
    fitted = join(parts, axis=1)
    if c is None and plan.settings.penalty != 1:
        return fit(x, plan, fitted.c / plan.settings.penalty, device=device)
    return _calibrated_across(fitted, x, plan, weights) if across else fitted


def _calibrated_across(fitted: Fitted, x: Features, plan: Design, weights: np.ndarray) -> Fitted:
    """Slope and offset of each probe from the logits held out of the other outer folds."""
    if not plan.inner_folds:
        return fitted
    where = plan.of_draws(len(weights))
    logits = (out_of_fold(fitted, x, where) + fitted.shift[:, where]).reshape(-1, len(plan.z))
    drawn = np.tile(weights, (len(x), 1))
    found = [platt.calibrate(logits[:, rows], plan.z[rows], drawn[:, rows]) for rows in plan.outer]
    t, offset = (np.stack(one, -1).reshape(fitted.t.shape) for one in zip(*found, strict=True))
    return replace(fitted, t=t, offset=offset)


def usable(plan: Design, weights: np.ndarray) -> np.ndarray:
    """Whether every probe learns from both classes, of weights [draws, n]; bool [draws]."""
    masks, _ = training_rows(plan)
    wrong, everyone = weights @ (masks * plan.z).T, weights @ masks.T
    return ((wrong > 0) & (wrong < everyone)).all(-1)


def training_rows(plan: Design) -> tuple[np.ndarray, np.ndarray]:
    """Who learns, bool [problems, n]: outer training folds, then those inside; and of which outer
    fold, int64 [problems].
    """
    inner = plan.inner_folds
    masks = [*plan.outer, *(plan.outer[k] & (plan.inner[k] != i) for k, i in inner)]
    return np.stack(masks), np.array([*range(len(plan.inner)), *(k for k, _ in inner)])


def _choose(
    every: probes.Probes, x: Features, plan: Design, grid: np.ndarray, weights: np.ndarray
) -> Fitted:
    """The probes of one draw, of weights [n]: penalty, slope, offset and shift."""
    shape, settings = grid.shape[:2], plan.settings
    chosen, t, offset = np.zeros(shape, dtype=np.int64), np.ones(shape), np.zeros(shape)
    inner_auc = np.full(shape, np.nan)
    if plan.inner_folds:
        held = _inner_logits(every, x, plan, grid.shape[-1])
        for k, rows in enumerate(plan.outer):
            chosen[:, k] = platt.choose(held[:, k][..., rows], plan.z[rows], plan.inner[k][rows])
            own = np.take_along_axis(held[:, k], chosen[:, k, None, None], axis=1)[:, 0]
            t[:, k], offset[:, k] = platt.calibrate(own[:, rows], plan.z[rows], weights[rows])
            inner_auc[:, k] = [auc(logits, plan.z[rows]) for logits in own[:, rows]]
    problems = torch.as_tensor(np.arange(settings.folds) * grid.shape[-1] + chosen)
    c = np.take_along_axis(grid, chosen[..., None], axis=-1)[..., 0]
    share = np.array([np.average(plan.z[rows], weights=weights[rows]) for rows in plan.outer])
    balanced = settings.scoring == "calibrated" and settings.prior == "balanced"
    shift = np.log(share / (1 - share)) if balanced else np.zeros_like(share)
    return Fitted(every.take(problems), c, t, offset, np.broadcast_to(shift, shape), inner_auc)


def _inner_logits(every: probes.Probes, x: Features, plan: Design, penalties: int) -> np.ndarray:
    """Inner out-of-fold logits, [layers, folds, penalties, n]; NaN outside the training fold."""
    held = np.full((len(x), len(plan.inner), penalties, len(plan.z)), np.nan)
    for layer in range(len(x)):
        one = every.logits_at(layer, x[layer : layer + 1][0]).cpu().numpy()
        for number, (k, i) in enumerate(plan.inner_folds, start=len(plan.inner)):
            rows = plan.inner[k] == i
            held[layer, k][:, rows] = one[number * penalties : (number + 1) * penalties, rows]
    return held


def out_of_fold(fitted: Fitted, x: Features, fold: np.ndarray) -> np.ndarray:
    """Scores s by the probes numbered `fold` [n] or [draws, n], float64 [layers, *fold.shape]."""
    raw = np.empty((len(x), *fold.shape))
    for layer in range(len(x)):
        one = fitted.probes.logits_at(layer, x[layer : layer + 1][0]).cpu().numpy()
        raw[layer] = one[fold, np.arange(fold.shape[-1])]
    return fitted.t[:, fold] * raw + fitted.offset[:, fold] - fitted.shift[:, fold]
