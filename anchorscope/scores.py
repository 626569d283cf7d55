"""Scores: what the probe of each layer says of each sample, under every condition, out of fold.

Beside the probe itself (`clean`), which scores every condition, three others tell what a flip is
made of: `refit` has seen the condition (what information is left), `offset` is the probe with its
offset fitted anew (what a mere shift does), `shuffled` has learned labels that mean nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch

from anchorscope import folds, probes
from anchorscope.errors import AnchorscopeError
from anchorscope.samples import kept, shuffled, sigmoid

COLUMNS = (
    "id", "layer", "readout", "condition", "draw", "probe", "fold", "c", "t", "offset", "s", "p",
)  # fmt: skip
PROBES = ("clean", "refit", "offset", "shuffled")
LEAST_SLOPE = 1e-3
CLEAN = ("clean", 0)
REFITTED = (("knockout", 0), ("random", 0))
OFFSET_REFITTED = (*REFITTED, ("question", 0))

Activations = Callable[[str, int], tuple[Sequence[str], probes.Features]]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """How probes are fitted and scored; the config's `probe` section.

    Attributes:
        folds, inner_folds: outer folds, and folds inside each training fold.
        grid: inverse penalties C to choose from.
        scoring: `calibrated`, or `published`: C = 1, no calibration, natural prior.
        penalty: factor on the penalty 1/C that was chosen.
        prior: `balanced`, or `natural`: scores keep the training fold's share of z = 1.
        seed: of the folds.
    """

    folds: int = 5
    inner_folds: int = 5
    grid: Sequence[float] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
    penalty: float = 1.0
    scoring: Literal["calibrated", "published"] = "calibrated"
    prior: Literal["balanced", "natural"] = "balanced"
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


@dataclass(frozen=True)
class Fitted:
    """One probe for each layer and outer fold, with its calibration; all float64 [layers, folds].

    Attributes:
        probes: the probes of the outer training folds.
        c, t, offset: penalty, slope and offset.
        shift: taken off the calibrated logit.
    """

    probes: probes.Probes
    c: np.ndarray
    t: np.ndarray
    offset: np.ndarray
    shift: np.ndarray

    def at(self, layers: Sequence[int]) -> Fitted:
        """Those of some layers."""
        of_layers = {name: getattr(self, name)[layers] for name in ("c", "t", "offset", "shift")}
        return Fitted(probes.part(self.probes, layers), **of_layers)


@dataclass(frozen=True)
class Cell:
    """What the scores of one read-out have in common.

    Attributes:
        ids: of the samples that count, [n].
        plan: who learns and is scored where.
        readout: its name.
    """

    ids: np.ndarray
    plan: Design
    readout: str


def score(
    activations: Activations,
    answers: pd.DataFrame,
    readout: str,
    conditions: Sequence[tuple[str, int]],
    settings: Settings | Mapping[str, Any],
    *,
    extras: bool = True,
    device: str | torch.device = "cpu",
) -> pd.DataFrame:
    """Fit the probes of one read-out on the clean pass and score every condition.

    Args:
        activations: `(condition, draw)` → ids and float [layers, len(ids), width], a tensor or
            what reads layers when they are asked for; called once for each. A condition may cover
            some of the samples only, `clean` covers all. A sample is scored by the probe of its
            own fold, whatever its prompt was.
        answers: the samples: id, question, subject, label; rows with a `dropped` reason are left.
        readout: written into the table.
        conditions: (condition, draw) to score; `clean` comes first in any case.
        settings: see `Settings`.
        extras: whether to fit the probes `refit`, `offset` and `shuffled`, too.
        device: where probes are fitted.

    Returns:
        A row for each sample, layer, condition, draw and probe, with the columns `COLUMNS`: fold,
        c, t and offset are those of the probe; s the score and p = σ(s), float32. Probes:
        `clean`, of every condition. `refit`: fitted to the condition's own activations, same
        folds, C of the clean probe; knockout and draw 0 of random. `offset`: see `offset_refit`;
        those and question. `shuffled`: fitted to `shuffled(labels, seed)` on the clean pass with
        C of the clean probe, at balanced prior, not calibrated (p is NaN); not with `published`.

    Raises:
        AnchorscopeError: a probe cannot be fitted, or the ids do not match.
    """
    if not isinstance(settings, Settings):
        settings = Settings(**settings)
    cell = cell_of(answers, settings, readout)
    everyone = np.arange(len(cell.ids))
    clean = of_everyone(activations, CLEAN, cell)
    fitted = fit(clean, cell.plan, settings, device=device)
    frames = [_scored(fitted, clean, everyone, cell, CLEAN)]
    if extras and settings.scoring == "calibrated":
        frames += _shuffled(fitted, clean, cell, settings, device)
    for condition in dict.fromkeys(conditions):
        if condition == CLEAN:
            continue
        rows, x = _rows(activations, condition, cell)
        frames.append(_scored(fitted, x, rows, cell, condition))
        if extras and condition in OFFSET_REFITTED:
            frames.append(_offset(fitted, frames[-1], rows, cell))
        if extras and condition in REFITTED:
            x = _complete(rows, x, cell, condition)
            refitted = fit(x, cell.plan, settings, c=fitted.c, device=device)
            frames.append(_scored(refitted, x, everyone, cell, condition, "refit"))
    return pd.concat(frames, ignore_index=True)


def cell_of(answers: pd.DataFrame, settings: Settings, readout: str) -> Cell:
    """The samples that count, and their folds."""
    answers = kept(answers)
    ids = answers["id"].astype(str).to_numpy(dtype=object)
    return Cell(ids, design(answers, settings, readout), readout)


def of_everyone(
    activations: Activations, condition: tuple[str, int], cell: Cell
) -> probes.Features:
    """The activations of all samples in the order of the cell, [layers, n, width].

    Raises:
        AnchorscopeError: some are missing, or are of samples that the cell does not know.
    """
    rows, x = _rows(activations, condition, cell)
    return _complete(rows, x, cell, condition)


def offset_refit(logits: np.ndarray, z: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """What to add to each sample's logit so that the other folds' logits fit their labels.

    Maximum likelihood of the one parameter, at natural prior; a sample's own fold has no say.

    Args:
        logits: out-of-fold logits under the condition, [layers, n].
        z: labels, [n].
        fold: outer fold, [n].

    Returns:
        float64 [layers, n], equal within a fold.
    """
    moved = np.empty(logits.shape)
    for k in np.unique(fold):
        others = fold != k
        ones = np.ones((len(logits), others.sum(), 1))
        start, equal = np.zeros((len(logits), 1)), np.ones(others.sum())
        moved[:, fold == k] = _newton(ones, z[others], equal, start, logits[:, others])
    return moved


def _offset(fitted: Fitted, scored: pd.DataFrame, rows: np.ndarray, cell: Cell) -> pd.DataFrame:
    fold, z = cell.plan.fold[rows], cell.plan.z[rows]
    s = scored["s"].to_numpy(dtype=np.float64).reshape(len(fitted.c), len(rows))
    moved = offset_refit(s + fitted.shift[:, fold], z, fold)
    s = (s + moved).astype(np.float32)
    offset = (fitted.offset[:, fold] + moved).astype(np.float32)
    return scored.assign(probe="offset", offset=offset.ravel(), s=s.ravel(), p=_p(s).ravel())


def _shuffled(
    fitted: Fitted,
    clean: probes.Features,
    cell: Cell,
    settings: Settings,
    device: str | torch.device,
) -> Iterator[pd.DataFrame]:
    """The rows of probes that learned shuffled labels; none where a fold gets one class only.

    No calibration: it would have to learn a slope from logits that know nothing. The shift to
    balanced classes stays: folds differ in their shares of a label that they were not cut by, and
    their complements differ the other way, so that scores of all folds together would rank
    the samples backwards.
    """
    z = shuffled(cell.plan.z, settings.seed)
    plan = Design(z, cell.plan.fold, np.full_like(cell.plan.inner, -1))
    if any(len(np.unique(z[plan.fold != k])) < 2 for k in range(settings.folds)):
        log.warning("shuffled labels leave a fold one class only: no probe is fitted to them")
        return
    solved = fit(clean, plan, replace(settings, prior="balanced"), c=fitted.c, device=device)
    table = _scored(solved, clean, np.arange(len(z)), cell, CLEAN, "shuffled")
    yield table.assign(p=np.float32("nan"))


def design(answers: pd.DataFrame, settings: Settings, where: str = "answers") -> Design:
    """Cut the outer and inner folds; nothing of the activations is looked at."""
    z = answers["label"].to_numpy(dtype=np.int64, copy=True)
    subjects = answers["subject"] if "subject" in answers else [None] * len(answers)
    linked = folds.components(list(answers["question"]), list(subjects))
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


def fit(
    x: probes.Features,
    plan: Design,
    settings: Settings,
    *,
    c: np.ndarray | None = None,
    device: str | torch.device = "cpu",
) -> Fitted:
    """All probes of all layers in one solve, then C and calibration of each outer fold.

    Args:
        x: activations, float [layers, n, width], in the order of `plan`.
        plan: where it has no inner folds nothing is calibrated: slope 1, offset 0.
        settings: see `Settings`.
        c: penalties, [layers, folds]; None chooses them from the grid.
        device: where to solve.
    """
    shape = (len(x), settings.folds, len(settings.penalties))
    grid = np.broadcast_to(settings.penalties, shape) if c is None else c[..., None]
    everyone = np.ones((1, len(plan.z)))
    fitted = _fit(x, plan, settings, grid, everyone, device)[0]
    if c is None and settings.penalty != 1:
        grid = fitted.c[..., None] / settings.penalty
        fitted = _fit(x, plan, settings, grid, everyone, device)[0]
    return fitted


def fit_draws(
    x: probes.Features,
    plan: Design,
    settings: Settings,
    c: np.ndarray,
    weights: np.ndarray,
    *,
    device: str | torch.device = "cpu",
) -> list[Fitted]:
    """What `fit` finds from samples drawn with replacement, for each draw.

    Args:
        x, plan, settings, device: see `fit`.
        c: penalties, [layers, folds].
        weights: how often each sample was drawn, [draws, n].
    """
    return _fit(x, plan, settings, c[..., None], weights, device)


def _fit(
    x: probes.Features,
    plan: Design,
    settings: Settings,
    grid: np.ndarray,
    weights: np.ndarray,
    device: str | torch.device,
) -> list[Fitted]:
    """Probes of each draw, from penalties [layers, folds, penalties]."""
    masks, of_fold = training_rows(plan)
    drawn = np.repeat(weights[:, None] * masks, grid.shape[-1], axis=1)
    penalties = grid[:, of_fold].reshape(len(x), -1)
    solved = probes.fit(
        x,
        torch.as_tensor(plan.z),
        torch.as_tensor(drawn.reshape(-1, len(plan.z))),
        torch.as_tensor(np.tile(penalties, len(weights)), dtype=torch.float32),
        device=device,
    )
    each = drawn.shape[1]
    return [
        _calibrated(
            probes.part(solved, problems=slice(draw * each, (draw + 1) * each)),
            *(x, plan, settings, grid, weights[draw]),
        )
        for draw in range(len(weights))
    ]


def training_rows(plan: Design) -> tuple[np.ndarray, np.ndarray]:
    """Who learns: the outer training folds, then those inside them.

    Returns:
        bool [problems, n], and the outer fold that each belongs to, int64 [problems].
    """
    outer = plan.fold != np.arange(len(plan.inner))[:, None]
    inner = _inner_folds(plan)
    masks = [*outer, *(outer[k] & (plan.inner[k] != i) for k, i in inner)]
    return np.stack(masks), np.array([*range(len(outer)), *(k for k, _ in inner)])


def _inner_folds(plan: Design) -> list[tuple[int, int]]:
    """(outer fold, inner fold) of each inner fold."""
    return [(k, i) for k, inner in enumerate(plan.inner) for i in range(inner.max() + 1)]


def _calibrated(
    solved: probes.Probes,
    x: probes.Features,
    plan: Design,
    settings: Settings,
    grid: np.ndarray,
    weights: np.ndarray,
) -> Fitted:
    """The probes of one draw: penalty, slope, offset and shift; weights [n]."""
    shape = grid.shape[:2]
    outer = plan.fold != np.arange(settings.folds)[:, None]
    chosen, t, offset = np.zeros(shape, dtype=np.int64), np.ones(shape), np.zeros(shape)
    if _inner_folds(plan):
        held = _inner_logits(solved, x, plan, grid.shape[-1])
        for k, rows in enumerate(outer):
            chosen[:, k] = choose(held[:, k][..., rows], plan.z[rows], plan.inner[k][rows])
            own = np.take_along_axis(held[:, k], chosen[:, k, None, None], axis=1)[:, 0]
            t[:, k], offset[:, k] = calibrate(own[:, rows], plan.z[rows], weights[rows])
    problems = torch.as_tensor(np.arange(settings.folds) * grid.shape[-1] + chosen)
    picked = np.take_along_axis(grid, chosen[..., None], axis=-1)[..., 0]
    share = np.array([np.average(plan.z[rows], weights=weights[rows]) for rows in outer])
    shift = np.broadcast_to(_shift(share, settings), shape)
    return Fitted(solved.take(problems), picked, t, offset, shift)


def _shift(share: np.ndarray, settings: Settings) -> np.ndarray:
    """What is taken off the logits of probes whose training rows hold `share` of z = 1."""
    balanced = settings.scoring == "calibrated" and settings.prior == "balanced"
    return np.log(share / (1 - share)) if balanced else np.zeros_like(share)


def _inner_logits(
    solved: probes.Probes, x: probes.Features, plan: Design, penalties: int
) -> np.ndarray:
    """Inner out-of-fold logits, float64 [layers, folds, penalties, n]; NaN outside the training
    fold."""
    held = np.full((len(x), len(plan.inner), penalties, len(plan.z)), np.nan)
    for layer in range(len(x)):
        one = probes.part(solved, [layer]).logits(x[layer : layer + 1])[0].double().cpu().numpy()
        for number, (k, i) in enumerate(_inner_folds(plan), start=len(plan.inner)):
            rows = plan.inner[k] == i
            held[layer, k][:, rows] = one[number * penalties : (number + 1) * penalties, rows]
    return held


def choose(logits: np.ndarray, z: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """The smallest C whose log-loss is within one standard error of the best.

    Loss and standard error (Hastie, Tibshirani & Friedman, section 7.10) over the inner folds.

    Args:
        logits: inner out-of-fold logits, [layers, penalties, n], penalties ascending.
        z: labels, [n].
        inner: inner fold of each sample, [n].

    Returns:
        Index of the penalty, int64 [layers].
    """
    loss = np.logaddexp(0, np.where(z == 1, -logits, logits))
    by_fold = np.stack([loss[..., inner == i].mean(-1) for i in range(inner.max() + 1)], axis=-1)
    mean = by_fold.mean(-1)
    error = by_fold.std(-1, ddof=1) / np.sqrt(by_fold.shape[-1])
    best = mean.argmin(-1)[:, None]
    limit = np.take_along_axis(mean, best, -1) + np.take_along_axis(error, best, -1)
    return (mean <= limit).argmax(-1)


def calibrate(
    logits: np.ndarray, z: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Slope and offset that make σ(slope · logit + offset) a probability.

    Maximum likelihood with Platt's targets (1999, section 2.2), which keep the slope finite where
    the logits separate the classes. A slope is at least 0.001: a probe that does worse than
    chance inside the training fold knows nothing, and is not turned round.

    Args:
        logits: [layers, n].
        z: labels, [n].
        weights: how often each sample counts, [n]; None for once.

    Returns:
        Slope and offset, float64 [layers] each.
    """
    weights = np.ones(len(z)) if weights is None else weights
    wrong, right = weights @ z, weights @ (1 - z)
    target = np.where(z == 1, (wrong + 1) / (wrong + 2), 1 / (right + 2))
    spread = logits.std(-1, keepdims=True)
    spread = np.where(spread > 0, spread, 1.0)
    design_matrix = np.stack([logits / spread, np.ones_like(logits)], axis=-1)
    start = np.zeros((len(logits), 2))
    found = _newton(design_matrix, target, weights, start)
    slope = found[:, 0] / spread[:, 0]
    slope, floored = np.maximum(slope, LEAST_SLOPE), slope < LEAST_SLOPE
    if floored.any():
        fixed = slope[floored, None] * logits[floored]
        ones = design_matrix[floored][..., 1:]
        found[floored, 1:] = _newton(ones, target, weights, np.zeros((len(ones), 1)), fixed)
    return slope, found[:, 1]


def _newton(
    x: np.ndarray,
    target: np.ndarray,
    weights: np.ndarray,
    w: np.ndarray,
    fixed: np.ndarray | float = 0.0,
) -> np.ndarray:
    """Logistic regressions [layers, k] of targets [n] on [layers, n, k], by damped Newton steps."""

    def loss(w: np.ndarray) -> np.ndarray:
        logit = (x @ w[..., None])[..., 0] + fixed
        return (np.logaddexp(0, logit) - target * logit) @ weights

    now = loss(w)
    for _ in range(100):
        p = sigmoid((x @ w[..., None])[..., 0] + fixed)
        gradient = ((weights * (p - target))[..., None] * x).sum(-2)
        hessian = (x * (weights * p * (1 - p))[..., None]).swapaxes(-1, -2) @ x
        hessian += 1e-9 * np.eye(x.shape[-1])
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        if np.abs(step).max() < 1e-9:
            break
        length = np.ones(len(w))
        for _ in range(30):
            after = loss(w - length[:, None] * step)
            worse = after > now + 1e-12 * np.abs(now)
            if not worse.any():
                break
            length = np.where(worse, length / 2, length)
        w, now = w - length[:, None] * step, after
    return w


def _p(s: np.ndarray) -> np.ndarray:
    """σ(s), float32 as the scores."""
    return sigmoid(s).astype(np.float32)


def _rows(
    activations: Activations, condition: tuple[str, int], cell: Cell
) -> tuple[np.ndarray, probes.Features]:
    """Places among the cell's ids of what was measured, and the activations."""
    measured, x = activations(*condition)
    rows = pd.Index(cell.ids).get_indexer(pd.Index([str(i) for i in measured], dtype=object))
    if (rows < 0).any() or len(np.unique(rows)) < len(rows) or x.shape[1] != len(rows):
        strange = [i for i, row in zip(measured, rows, strict=True) if row < 0]
        raise AnchorscopeError(
            "activations and answers are not of the same samples",
            f"read-out {cell.readout}, condition {condition[0]}, "
            + (f"id {strange[0]} has no answer" if strange else "ids repeat or rows are missing"),
            "delete the cell's folder of activations and run snakemake again",
            see="stale-product",
        )
    return rows, x


def _complete(
    rows: np.ndarray, x: probes.Features, cell: Cell, condition: tuple[str, int]
) -> probes.Features:
    """The activations in the order of the cell's ids.

    Raises:
        AnchorscopeError: some are missing.
    """
    if len(rows) < len(cell.ids):
        missing = len(cell.ids) - len(rows)
        raise AnchorscopeError(
            f"{missing} of {len(cell.ids)} samples have no {condition[0]} activations",
            f"read-out {cell.readout}",
            "measure the cell again: delete its folder of activations and run snakemake again",
            see="stale-product",
        )
    order = np.argsort(rows)
    in_order = (order == np.arange(len(rows))).all()
    return x if in_order else probes.Reordered(x, torch.as_tensor(order))


def _scored(
    fitted: Fitted,
    x: probes.Features,
    rows: np.ndarray,
    cell: Cell,
    condition: tuple[str, int],
    probe: str = "clean",
) -> pd.DataFrame:
    """The table's rows of one condition and probe; `x` [layers, len(rows), width]."""
    fold = cell.plan.fold[rows]
    layers = len(x)
    c, t, offset = (values[:, fold] for values in (fitted.c, fitted.t, fitted.offset))
    s = out_of_fold(fitted, x, fold).astype(np.float32)
    columns = {
        "id": np.tile(cell.ids[rows], layers),
        "layer": np.repeat(np.arange(layers, dtype=np.int32), len(rows)),
        "readout": cell.readout,
        "condition": condition[0],
        "draw": np.int32(condition[1]),
        "probe": probe,
        "fold": np.tile(fold.astype(np.int32), layers),
        "c": c.ravel(),
        "t": t.astype(np.float32).ravel(),
        "offset": offset.astype(np.float32).ravel(),
        "s": s.ravel(),
        "p": _p(s).ravel(),
    }
    return pd.DataFrame(columns)[list(COLUMNS)]


def out_of_fold(fitted: Fitted, x: probes.Features, fold: np.ndarray) -> np.ndarray:
    """Each sample's score s by the probe of its own fold [n], float64 [layers, n]."""
    raw = np.empty((len(x), len(fold)))
    for layer in range(len(x)):
        one = probes.part(fitted.probes, [layer]).logits(x[layer : layer + 1])[0]
        raw[layer] = one.double().cpu().numpy()[fold, np.arange(len(fold))]
    return fitted.t[:, fold] * raw + fitted.offset[:, fold] - fitted.shift[:, fold]
