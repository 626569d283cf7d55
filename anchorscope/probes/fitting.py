"""Fitting: for each layer and outer fold, choose a penalty, fit a probe, and calibrate it.

Neither a probe nor its calibration has seen the samples that it scores, or samples linked to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch

from anchorscope.anchors import labels
from anchorscope.config.settings import Probe
from anchorscope.models.families import Loaded, positions
from anchorscope.passes import planning
from anchorscope.passes.batches import Plan
from anchorscope.passes.features import Features
from anchorscope.passes.interventions import ConditionSettings
from anchorscope.probes import platt, probes
from anchorscope.questions import folds
from anchorscope.questions.pool import Choice
from anchorscope.statistics.intervals import auc
from anchorscope.statistics.samples import stood_for

ARRAYS = ("c", "t", "offset", "shift", "inner_auc")
"""Fields of `Fitted` other than the probes."""


class ProbeSettings(Probe):
    """Settings of the probes: the config's section `probe`, and the seed of the folds."""

    seed: int = 0

    @property
    def penalties(self) -> np.ndarray:
        """The inverse penalties C to fit, ascending."""
        return np.array([1.0]) if self.scoring == "published" else np.unique(self.grid)


@dataclass(frozen=True)
class Design:
    """The folds of a cell: the samples that each probe learns from, and those that it scores."""

    where: str  # name in error messages, such as a read-out
    ids: np.ndarray  # ids of the samples, sorted, [n]
    z: np.ndarray  # labels, 1 for a wrong answer, [n]
    fold: np.ndarray  # outer fold that holds the sample out, [n]
    inner: np.ndarray  # inner fold in each outer training fold; -1 where there is none, [folds, n]
    stands_for: np.ndarray  # answers that each sample stands for, see `pool.choose`, float64 [n]
    settings: ProbeSettings
    salt: int | None = None  # salt that drew the outer folds, see `folds.assign`; None: unknown

    @property
    def outer(self) -> np.ndarray:
        """Whether each sample is in each outer training fold, bool [folds, n]."""
        return self.fold != np.arange(len(self.inner))[:, None]

    @property
    def inner_folds(self) -> list[tuple[int, int]]:
        """Each inner fold, as (outer fold, number). Without calibration, there are none."""
        return [(k, i) for k, inner in enumerate(self.inner) for i in range(inner.max() + 1)]

    def of_refits(self, refits: int) -> np.ndarray:
        """Return the index of each refit's probe that scores each sample, int64 [refits, n]."""
        return self.fold + len(self.inner) * np.arange(refits)[:, None]


def design(answers: pd.DataFrame, settings: ProbeSettings, where: str = "answers") -> Design:
    """Cut the outer folds, and inner folds inside each training fold. Linked samples share a fold.

    Samples are linked by an equal `component` or, if a sample lacks one, by an equal `question` or
    `subject`. If `disjoint` is `subject+answer`, an equal `ea_text` links them, too. The answers
    also need `id` and `label`. `where` names the answers in errors.

    Raises:
        AnchorscopeError: Folds cannot be cut, see `folds.assign`.
    """
    z = answers["label"].to_numpy(dtype=np.int64, copy=True)
    linked = _linked(answers, settings)
    fold, salt = folds.assign(linked, z, settings.folds, settings.seed, where)
    inner = np.full((settings.folds, len(z)), -1)
    if settings.scoring == "calibrated":
        for k in range(settings.folds):
            train = fold != k
            inner[k, train] = inner_folds(
                answers[train], settings, f"{where}, training fold {k}", outer=k
            )
    ids = answers["id"].to_numpy(dtype=object)
    return Design(where, ids, z, fold, inner, stood_for(answers), settings, salt)


def inner_folds(
    answers: pd.DataFrame, settings: ProbeSettings, where: str, outer: int | None = None
) -> np.ndarray:
    """Return each answer's inner fold, int64 [n]. `outer`, the held-out fold, changes the seed.

    Raises:
        AnchorscopeError: Folds cannot be cut, see `folds.assign`.
    """
    z = answers["label"].to_numpy(dtype=np.int64, copy=True)
    seed = f"{settings.seed}/inner" if outer is None else f"{settings.seed}/inner/{outer}"
    fold, _ = folds.assign(_linked(answers, settings), z, settings.inner_folds, seed, where)
    return fold


def _linked(answers: pd.DataFrame, settings: ProbeSettings) -> np.ndarray:
    """Return each sample's component, object [n]. Samples of one component share a fold."""
    if "component" in answers and answers["component"].notna().all():
        linked = answers["component"].to_numpy(dtype=object)
    else:
        subjects = answers.get("subject", [None] * len(answers))
        linked = folds.named(list(answers["question"]), list(subjects))
    if settings.disjoint != "subject+answer":
        return linked
    said = [labels.squad_normalise(text) or text for text in answers["ea_text"]]
    return folds.named(list(linked), said)


def plan_passes(
    loaded: Loaded,
    answered: pd.DataFrame,
    where: str,
    *,
    conditions: ConditionSettings,
    probe: ProbeSettings,
    choice: Choice | None = None,
) -> Plan:
    """Plan the passes of a cell, see `planning.plan`; `where` names the answers in errors.

    Raises:
        AnchorscopeError: No probe could be fitted to the measured samples.
    """
    plan = planning.plan(
        answered,
        conditions=conditions,
        batch_tokens=loaded.batch_tokens,
        window=loaded.window,
        max_positions=positions(loaded.model.config),
        seed=probe.seed,
        # Partners share an outer fold, so that the probe that scores them has seen neither.
        fold=lambda table: design(table, probe, where).fold,
        choice=choice,
        where=where,
    )
    measured = answered[answered["id"].isin([sample.id for sample in plan.samples])]
    design(measured, probe, where)
    return plan


@dataclass(frozen=True)
class Fitted:
    """One probe per layer and outer fold. The arrays are float64 [layers, folds].

    With refits, the arrays are [layers, refits · folds]: first all folds of the first refit,
    then all folds of the second.
    """

    probes: probes.Probes
    c: np.ndarray  # inverse penalty C
    t: np.ndarray  # slope of the calibration
    offset: np.ndarray  # offset of the calibration
    shift: np.ndarray  # subtracted from the calibrated logit, see `prior_shift`
    inner_auc: np.ndarray  # AUC of the inner out-of-fold logits; NaN without inner folds

    def part(self, layers: Sequence[int] | slice, folds: slice = slice(None)) -> Fitted:
        """Return the probes of some layers and outer folds."""
        arrays = (getattr(self, name)[layers, folds] for name in ARRAYS)
        return Fitted(self.probes.part(layers, folds), *arrays)


def join(parts: Sequence[Fitted]) -> Fitted:
    """Concatenate blocks of layers."""
    arrays = (np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS)
    return Fitted(probes.join([part.probes for part in parts]), *arrays)


def fit(
    x: Features,
    design: Design,
    c: np.ndarray | None = None,
    *,
    of_text: bool = False,
    device: str | torch.device = "cpu",
) -> Fitted:
    """Fit the probes of every C together. Then, per layer and outer fold, choose C and calibrate.

    `x` is float [layers, n, width], in the order of the design. `c` holds C, [layers, folds]; if it
    is None, C is chosen. With `of_text` (used by `floors`), features are not standardised, and
    `platt.strongest` chooses C.
    """
    penalties = np.tile(design.settings.penalties, (len(x), len(design.inner), 1))
    grid = penalties if c is None else c[..., None]  # [layers, folds, penalties]
    masks, of_fold = training_rows(design)
    rows, each_c = np.repeat(masks, grid.shape[-1], axis=0), grid[:, of_fold].reshape(len(x), -1)
    every = probes.fit(x, design.z, rows, each_c, scaled=not of_text, device=device)
    fitted = _choose(every, x, design, grid, platt.strongest if of_text else platt.choose)
    if c is None and design.settings.penalty != 1:
        return fit(x, design, fitted.c / design.settings.penalty, device=device)
    return fitted


def refit(
    x: Features,
    design: Design,
    c: np.ndarray,
    weights: np.ndarray,
    *,
    of_text: bool = False,
    device: str | torch.device = "cpu",
) -> Fitted:
    """Fit the probes of bootstrap resamples, with the known penalties `c`.

    No inner folds are fitted. They would take `inner_folds` + 1 times as many probes, but give the
    same spread over refits. To calibrate a fold, its training samples get logits from the probes of
    other folds. `weights` [refits, n] counts each sample. For the rest, see `fit`.
    """
    n, refits = len(design.z), len(weights)
    rows = (weights[:, None] * design.outer).reshape(-1, n)
    each_c = np.tile(c, refits)
    every = probes.fit(x, design.z, rows, each_c, scaled=not of_text, device=device)
    ones, unknown = np.ones_like(each_c), np.full_like(each_c, np.nan)
    shift = ones * np.concatenate([prior_shift(design, weight) for weight in weights])
    fitted = Fitted(every, each_c, ones, 0 * ones, shift, unknown)
    if not design.inner_folds:
        return fitted
    number = design.of_refits(refits)
    logits = (out_of_fold(fitted, x, number) + shift[:, number]).reshape(-1, n)  # [layers · refits]
    counts = np.tile(weights, (len(x), 1))
    by_fold = [
        platt.calibrate(logits[:, train], design.z[train], counts[:, train])
        for train in design.outer
    ]
    t, offset = (np.stack(one, axis=-1).reshape(shift.shape) for one in zip(*by_fold, strict=True))
    return replace(fitted, t=t, offset=offset)


def usable(design: Design, weights: np.ndarray) -> np.ndarray:
    """Return bool [refits]: whether every training fold of a resample has both classes."""
    wrong, everyone = weights @ (design.outer * design.z).T, weights @ design.outer.T
    return ((wrong > 0) & (wrong < everyone)).all(-1)


def training_rows(design: Design) -> tuple[np.ndarray, np.ndarray]:
    """Return (rows, fold): each fit's training rows, bool [fits, n], and its outer fold, [fits].

    The fits to whole outer training folds come first. Fits that leave out one inner fold follow.
    """
    outer, inner_folds = design.outer, design.inner_folds
    inside = [outer[k] & (design.inner[k] != i) for k, i in inner_folds]
    of_fold = [*range(len(outer)), *(k for k, _ in inner_folds)]
    return np.stack([*outer, *inside]), np.array(of_fold)


def _choose(
    every: probes.Probes,
    x: Features,
    design: Design,
    grid: np.ndarray,
    rule: Callable[..., np.ndarray],
) -> Fitted:
    """Let `rule` choose a penalty of `grid` for each layer and outer fold, then calibrate."""
    layers, folds_, penalties = grid.shape
    chosen = np.zeros((layers, folds_), dtype=np.int64)
    slope, offset = np.ones((layers, folds_)), np.zeros((layers, folds_))
    inner_auc = np.full((layers, folds_), np.nan)
    if design.inner_folds:
        held_out = _inner_logits(every, x, design, penalties)
        for k, rows in enumerate(design.outer):
            z, logits = design.z[rows], held_out[:, k][..., rows]  # [layers, penalties, rows]
            chosen[:, k] = rule(logits, z, design.inner[k][rows])
            of_chosen = np.take_along_axis(logits, chosen[:, k, None, None], axis=1)[:, 0]
            slope[:, k], offset[:, k] = platt.calibrate(of_chosen, z)
            inner_auc[:, k] = [auc(layer, z) for layer in of_chosen]
    first_problem = penalties * np.arange(folds_)  # index of each fold's first problem
    return Fitted(
        every.take(torch.as_tensor(first_problem + chosen)),
        c=np.take_along_axis(grid, chosen[..., None], axis=-1)[..., 0],
        t=slope,
        offset=offset,
        shift=np.broadcast_to(prior_shift(design), (layers, folds_)),
        inner_auc=inner_auc,
    )


def prior_shift(design: Design, weights: np.ndarray | None = None) -> np.ndarray:
    """Return [folds]: what is subtracted from logits, so that p assumes the prior of the settings.

    For balanced classes, it is the logit of a score that tells nothing: `platt.prior` for
    calibrated probes, else the log-odds of z = 1 in the training fold. For the natural prior, it is
    the same less that of all answers that the training fold stands for.
    """
    settings = design.settings
    if settings.scoring != "calibrated":
        return np.zeros(len(design.inner))
    weights = np.ones(len(design.z)) if weights is None else weights
    found = _prior(design, weights)
    if settings.prior == "balanced":
        return found
    return found - _prior(design, weights * design.stands_for)


def _prior(design: Design, weights: np.ndarray) -> np.ndarray:
    """Return [folds]: the logit of a score that tells nothing, in each weighted training fold."""
    wrong, right = (design.outer @ (weights * (design.z == one)) for one in (1, 0))
    return platt.prior(wrong, right) if design.inner_folds else np.log(wrong / right)


def _inner_logits(every: probes.Probes, x: Features, design: Design, penalties: int) -> np.ndarray:
    """Return [layers, folds, penalties, n]: inner out-of-fold logits; NaN in the outer fold."""
    outer_folds, n = design.inner.shape
    held_out = np.full((len(x), outer_folds, penalties, n), np.nan)
    for layer in range(len(x)):
        logits = every.logits_at(layer, x[layer : layer + 1][0]).cpu().numpy()  # [problems, n]
        for number, (k, i) in enumerate(design.inner_folds, start=outer_folds):
            rows = design.inner[k] == i
            of_every_penalty = logits[number * penalties : (number + 1) * penalties]
            held_out[layer, k][:, rows] = of_every_penalty[:, rows]
    return held_out


def out_of_fold(fitted: Fitted, x: Features, fold: np.ndarray) -> np.ndarray:
    """Return scores s, float64 [layers, ..., n]. The probe `fold[..., i]` scores sample i."""
    raw = np.empty((len(x), *fold.shape))
    for layer in range(len(x)):
        logits = fitted.probes.logits_at(layer, x[layer : layer + 1][0]).cpu().numpy()
        raw[layer] = logits[fold, np.arange(fold.shape[-1])]
    return fitted.t[:, fold] * raw + fitted.offset[:, fold] - fitted.shift[:, fold]
