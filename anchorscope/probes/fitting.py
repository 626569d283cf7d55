"""Fitting: one probe for each layer and outer fold, its penalty, and its calibration.

Samples are cut into outer folds between connected components of question and subject (and of the
answer, if asked to); each training fold is cut again. Who is scored by a probe has not been seen by
it, nor by its calibration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
import torch

from anchorscope.anchors import labels
from anchorscope.passes.features import Features
from anchorscope.probes import platt, probes
from anchorscope.probes.intervals import auc
from anchorscope.questions import folds
from anchorscope.storage.errors import AnchorscopeError

ARRAYS = ("c", "t", "offset", "shift", "inner_auc")
"""What is known of each probe of `Fitted` beside its weights."""


@dataclass(frozen=True)
class Settings:
    """How probes are fitted and scored; the config's `probe` section.

    Attributes:
        folds, inner_folds: outer folds, and folds inside each training fold.
        grid: inverse penalties C to choose from.
        scoring: `calibrated`, or `published`: C = 1, no calibration, natural prior.
        penalty: factor on the penalty 1/C that was chosen.
        prior: `balanced`, or `natural`: scores keep the training fold's share of z = 1.
        disjoint: what folds never share: `subject` (and question), or `subject+answer`.
        refits: bootstrap draws that the outer folds' probes are learned from anew; 0 for none.
        seed: of the folds, and of the draws.
    """

    folds: int = 5
    inner_folds: int = 5
    grid: Sequence[float] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
    penalty: float = 1.0
    scoring: Literal["calibrated", "published"] = "calibrated"
    prior: Literal["balanced", "natural"] = "balanced"
    disjoint: Literal["subject", "subject+answer"] = "subject"
    refits: int = 20
    seed: int = 0

    @property
    def penalties(self) -> np.ndarray:
        """The values of C that are fitted, ascending."""
        return np.array([1.0]) if self.scoring == "published" else np.unique(self.grid)


@dataclass(frozen=True)
class Design:
    """Which sample learns and is scored where.

    Attributes:
        z: labels, [n].
        fold: outer fold, [n].
        inner: inner fold of each sample in each outer training fold, -1 outside; [folds, n].
    """

    z: np.ndarray
    fold: np.ndarray
    inner: np.ndarray


def design(answers: pd.DataFrame, settings: Settings, where: str = "answers") -> Design:
    """Cut the outer and inner folds; nothing of the activations is looked at."""
    z = answers["label"].to_numpy(dtype=np.int64, copy=True)
    linked = _linked(answers, settings)
    fold = folds.assign(linked, z, settings.folds, settings.seed, where)
    inner = np.full((settings.folds, len(z)), -1)
    if settings.scoring == "calibrated":
        for k in range(settings.folds):
            train = fold != k
            place = f"{where}, training fold {k}"
            inner[k, train] = folds.assign(
                linked[train], z[train], settings.inner_folds, settings.seed, place
            )
    return Design(z, fold, inner)


def _linked(answers: pd.DataFrame, settings: Settings) -> np.ndarray:
    """Which samples folds keep together, int64 [n]."""
    subjects = answers["subject"] if "subject" in answers else [None] * len(answers)
    columns = [list(answers["question"]), list(subjects)]
    if settings.disjoint == "subject+answer":
        columns.append([labels.squad_normalise(text) or text for text in answers["ea_text"]])
    return folds.components(*columns)


def obstacle(answers: pd.DataFrame, settings: Settings) -> str | None:
    """Why folds cannot be cut, in words; None if they can."""
    try:
        design(answers, settings)
    except AnchorscopeError as error:
        return error.what
    return None


@dataclass(frozen=True)
class Fitted:
    """One probe for each layer and outer fold, with its calibration; all float64 [layers, folds].

    Of several draws: [layers, draws · folds], one draw's probes after another's.

    Attributes:
        probes: the probes of the outer training folds.
        c, t, offset: penalty, slope and offset.
        shift: taken off the calibrated logit.
        inner_auc: AUC of the inner out-of-fold logits; NaN without inner folds.
    """

    probes: probes.Probes
    c: np.ndarray
    t: np.ndarray
    offset: np.ndarray
    shift: np.ndarray
    inner_auc: np.ndarray

    def at(self, layers: Sequence[int]) -> Fitted:
        """Those of some layers."""
        index = list(layers)
        arrays = (getattr(self, name)[index] for name in ARRAYS)
        return Fitted(self.probes.part(index), *arrays)


def join(parts: Sequence[Fitted], axis: int = 0) -> Fitted:
    """Several blocks of layers (axis 0) or draws (axis 1), one after the other."""
    arrays = (np.concatenate([getattr(part, name) for part in parts], axis) for name in ARRAYS)
    return Fitted(probes.join([part.probes for part in parts], axis), *arrays)


def fit(
    x: Features, plan: Design, settings: Settings, *, device: str | torch.device = "cpu"
) -> Fitted:
    """All probes of all layers in one solve, then C and calibration of each outer fold.

    Args:
        x: activations, float [layers, n, width], in the order of `plan`.
        plan: where it has no inner folds nothing is calibrated: slope 1, offset 0.
        settings: see `Settings`.
        device: where to solve.
    """
    shape = (len(x), settings.folds, len(settings.penalties))
    grid = np.broadcast_to(settings.penalties, shape)
    fitted = _fit(x, plan, settings, grid, np.ones((1, len(plan.z))), device)
    if settings.penalty == 1:
        return fitted
    return refit(x, plan, settings, fitted.c / settings.penalty, device=device)


def refit(
    x: Features,
    plan: Design,
    settings: Settings,
    c: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    across: bool = False,
    device: str | torch.device = "cpu",
) -> Fitted:
    """Probes learned anew with penalties as found: from other activations, labels or samples.

    Args:
        x, plan, settings, device: see `fit`.
        c: penalties, [layers, folds].
        weights: how often each sample was drawn, [draws, n]; None for each once.
        across: whether slope and offset fit the out-of-fold logits of the other outer folds in
            place of inner ones. That gives the same spread, and takes a sixth of the probes.

    Returns:
        As many probes as folds for each draw; see `of_draws`.
    """
    weights = np.ones((1, len(plan.z))) if weights is None else weights
    apart = replace(plan, inner=np.full_like(plan.inner, -1)) if across else plan
    again = _fit(x, apart, settings, c[..., None], weights, device)
    if not across or not _inner_folds(plan):
        return again
    where = of_draws(plan.fold, settings, len(weights))
    logits = (out_of_fold(again, x, where) + again.shift[:, where]).reshape(-1, len(plan.z))
    drawn = np.tile(weights, (len(x), 1))
    found = [
        platt.calibrate(logits[:, others], plan.z[others], drawn[:, others])
        for others in _outer(plan)
    ]
    t, offset = (np.stack(one, axis=-1).reshape(again.t.shape) for one in zip(*found, strict=True))
    return replace(again, t=t, offset=offset)


def of_draws(fold: np.ndarray, settings: Settings, draws: int) -> np.ndarray:
    """Which of the probes of `refit` scores each sample out of fold, int64 [draws, n]."""
    return fold + settings.folds * np.arange(draws)[:, None]


def usable(plan: Design, weights: np.ndarray, *, inner: bool = True) -> np.ndarray:
    """Whether every probe (or those of the outer folds) learns from both classes, bool [draws]."""
    masks = training_rows(plan)[0] if inner else _outer(plan)
    wrong, everyone = weights @ (masks * plan.z).T, weights @ masks.T
    return ((wrong > 0) & (wrong < everyone)).all(-1)


def _fit(
    x: Features,
    plan: Design,
    settings: Settings,
    grid: np.ndarray,
    weights: np.ndarray,
    device: str | torch.device,
) -> Fitted:
    """Probes of each draw, from penalties [layers, folds, penalties]."""
    masks, of_fold = training_rows(plan)
    drawn = np.repeat(weights[:, None] * masks, grid.shape[-1], axis=1)
    penalties = grid[:, of_fold].reshape(len(x), -1)
    every = probes.fit(
        x,
        torch.as_tensor(plan.z),
        torch.as_tensor(drawn.reshape(-1, len(plan.z))),
        torch.as_tensor(np.tile(penalties, len(weights)), dtype=torch.float32),
        device=device,
    )
    each = drawn.shape[1]
    parts = [
        _choose(
            every.part(slice(None), slice(k * each, (k + 1) * each)), x, plan, settings, grid, w
        )
        for k, w in enumerate(weights)
    ]
    return join(parts, axis=1)


def _outer(plan: Design) -> np.ndarray:
    """The outer training folds, bool [folds, n]."""
    return plan.fold != np.arange(len(plan.inner))[:, None]


def _inner_folds(plan: Design) -> list[tuple[int, int]]:
    """(outer fold, inner fold) of each inner fold."""
    return [(k, i) for k, inner in enumerate(plan.inner) for i in range(inner.max() + 1)]


def training_rows(plan: Design) -> tuple[np.ndarray, np.ndarray]:
    """Who learns: the outer training folds, then those inside them.

    Returns:
        bool [problems, n], and the outer fold that each belongs to, int64 [problems].
    """
    outer, inner = _outer(plan), _inner_folds(plan)
    masks = [*outer, *(outer[k] & (plan.inner[k] != i) for k, i in inner)]
    return np.stack(masks), np.array([*range(len(outer)), *(k for k, _ in inner)])


def _choose(
    every: probes.Probes,
    x: Features,
    plan: Design,
    settings: Settings,
    grid: np.ndarray,
    weights: np.ndarray,
) -> Fitted:
    """The probes of one draw: penalty, slope, offset and shift; weights [n]."""
    shape, outer = grid.shape[:2], _outer(plan)
    chosen, t, offset = np.zeros(shape, dtype=np.int64), np.ones(shape), np.zeros(shape)
    inner_auc = np.full(shape, np.nan)
    if _inner_folds(plan):
        held = _inner_logits(every, x, plan, grid.shape[-1])
        for k, rows in enumerate(outer):
            chosen[:, k] = platt.choose(held[:, k][..., rows], plan.z[rows], plan.inner[k][rows])
            own = np.take_along_axis(held[:, k], chosen[:, k, None, None], axis=1)[:, 0]
            t[:, k], offset[:, k] = platt.calibrate(own[:, rows], plan.z[rows], weights[rows])
            inner_auc[:, k] = [auc(logits, plan.z[rows]) for logits in own[:, rows]]
    problems = torch.as_tensor(np.arange(settings.folds) * grid.shape[-1] + chosen)
    c = np.take_along_axis(grid, chosen[..., None], axis=-1)[..., 0]
    share = np.array([np.average(plan.z[rows], weights=weights[rows]) for rows in outer])
    balanced = settings.scoring == "calibrated" and settings.prior == "balanced"
    shift = np.log(share / (1 - share)) if balanced else np.zeros_like(share)
    return Fitted(every.take(problems), c, t, offset, np.broadcast_to(shift, shape), inner_auc)


def _inner_logits(every: probes.Probes, x: Features, plan: Design, penalties: int) -> np.ndarray:
    """Inner out-of-fold logits, float64 [layers, folds, penalties, n]; NaN outside the training
    fold."""
    held = np.full((len(x), len(plan.inner), penalties, len(plan.z)), np.nan)
    for layer in range(len(x)):
        one = every.logits_at(layer, x[layer : layer + 1][0]).cpu().numpy()
        for number, (k, i) in enumerate(_inner_folds(plan), start=len(plan.inner)):
            rows = plan.inner[k] == i
            held[layer, k][:, rows] = one[number * penalties : (number + 1) * penalties, rows]
    return held


def out_of_fold(fitted: Fitted, x: Features, fold: np.ndarray) -> np.ndarray:
    """Each sample's score s by the probe of its own fold, float64 [layers, n].

    Folds are [n], or of several draws [draws, n]: then scores are [layers, draws, n].
    """
    raw = np.empty((len(x), *fold.shape))
    for layer in range(len(x)):
        one = fitted.probes.logits_at(layer, x[layer : layer + 1][0]).cpu().numpy()
        raw[layer] = one[fold, np.arange(fold.shape[-1])]
    return fitted.t[:, fold] * raw + fitted.offset[:, fold] - fitted.shift[:, fold]
