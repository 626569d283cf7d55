"""Scores: what the probe of each layer says of each sample, under every condition, out of fold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch

from anchorscope import folds, probes
from anchorscope.errors import AnchorscopeError
from anchorscope.intervals import auc
from anchorscope.samples import kept

COLUMNS = ("id", "layer", "readout", "condition", "draw", "fold", "c", "t", "offset", "s", "p")
LEAST_SLOPE = 1e-3
CLEAN = ("clean", 0)

Activations = Callable[[str, int], tuple[Sequence[str], torch.Tensor]]


@dataclass(frozen=True)
class Settings:
    """How probes are fitted and scored; the config's `probe` section.

    Attributes:
        folds, inner_folds: outer folds, and folds inside each training fold.
        grid: inverse penalties C to choose from.
        scoring: `calibrated`, or `published`: C = 1, no calibration, natural prior.
        prior: `balanced`, or `natural`: scores keep the training fold's share of z = 1.
        seed: of the folds.
    """

    folds: int = 5
    inner_folds: int = 5
    grid: Sequence[float] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
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


def score(
    activations: Activations,
    answers: pd.DataFrame,
    readout: str,
    conditions: Sequence[tuple[str, int]],
    settings: Settings | Mapping[str, Any],
    *,
    device: str | torch.device = "cpu",
) -> pd.DataFrame:
    """Fit the probes of one read-out on the clean pass and score every condition.

    Args:
        activations: `(condition, draw)` → ids and float [layers, len(ids), width]; asked once for
            each. A condition may cover some of the samples only, `clean` covers all.
        answers: the samples: id, question, subject, label; rows with a `dropped` reason are left.
        readout: written into the table.
        conditions: (condition, draw) to score; `clean` comes first in any case.
        settings: see `Settings`.
        device: where probes are fitted.

    Returns:
        A row for each sample, layer, condition and draw, with the columns `COLUMNS`: fold, c, t
        and offset are those of the probe; s the score and p = σ(s), float32.

    Raises:
        AnchorscopeError: a probe cannot be fitted, or the ids do not match.
    """
    if not isinstance(settings, Settings):
        settings = Settings(**settings)
    answers = kept(answers)
    ids = answers["id"].astype(str).to_numpy(dtype=object)
    plan = design(answers, settings, readout)
    rows, clean = _rows(activations, CLEAN, ids, readout)
    if len(rows) < len(ids):
        raise AnchorscopeError(
            f"{len(ids) - len(rows)} of {len(ids)} samples have no clean activations",
            f"read-out {readout}",
            "measure the cell again: delete its folder of activations and run snakemake again",
        )
    ordered = clean[:, torch.as_tensor(np.argsort(rows))]
    fitted = fit(ordered, plan, settings, device=device)
    frames = [_scored(fitted, ordered, np.arange(len(ids)), ids, plan, readout, CLEAN)]
    for condition in dict.fromkeys(conditions):
        if condition != CLEAN:
            rows, x = _rows(activations, condition, ids, readout)
            frames.append(_scored(fitted, x, rows, ids, plan, readout, condition))
    return pd.concat(frames, ignore_index=True)


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
    x: torch.Tensor, plan: Design, settings: Settings, *, device: str | torch.device = "cpu"
) -> Fitted:
    """All probes of all layers in one solve, then C and calibration of each outer fold.

    Args:
        x: clean activations, float [layers, n, width], in the order of `plan`.
    """
    grid = settings.penalties
    outer = np.stack([plan.fold != k for k in range(settings.folds)])
    inner = [(k, i) for k in range(settings.folds) for i in range(plan.inner[k].max() + 1)]
    masks = [*outer, *(outer[k] & (plan.inner[k] != i) for k, i in inner)]
    solved = probes.fit(
        x,
        torch.as_tensor(plan.z),
        torch.as_tensor(np.repeat(np.stack(masks), len(grid), axis=0)),
        torch.as_tensor(np.tile(grid, len(masks)), dtype=torch.float32),
        device=device,
    )
    share = np.array([plan.z[train].mean() for train in outer])
    shape = (len(x), settings.folds)
    chosen, t, offset = np.zeros(shape, dtype=np.int64), np.ones(shape), np.zeros(shape)
    if settings.scoring == "calibrated":
        held = _inner_logits(solved, x, plan, inner, len(grid))
        for k in range(settings.folds):
            rows = outer[k]
            chosen[:, k] = choose(held[:, k][..., rows], plan.z[rows], plan.inner[k][rows])
            own = np.take_along_axis(held[:, k], chosen[:, k, None, None], axis=1)[:, 0]
            t[:, k], offset[:, k] = calibrate(own[:, rows], plan.z[rows])
    balanced = settings.scoring == "calibrated" and settings.prior == "balanced"
    shift = np.broadcast_to(np.log(share / (1 - share)) if balanced else 0.0, shape)
    problems = torch.as_tensor(np.arange(settings.folds) * len(grid) + chosen)
    return Fitted(solved.take(problems), grid[chosen], t, offset, shift)


def _inner_logits(
    solved: probes.Probes,
    x: torch.Tensor,
    plan: Design,
    inner: Sequence[tuple[int, int]],
    penalties: int,
) -> np.ndarray:
    """Inner out-of-fold logits, float64 [layers, folds, penalties, n]; NaN outside the training
    fold."""
    held = np.full((len(x), len(plan.inner), penalties, len(plan.z)), np.nan)
    for layer in range(len(x)):
        one = probes.layer(solved, layer).logits(x[layer : layer + 1])[0].double().cpu().numpy()
        for number, (k, i) in enumerate(inner, start=len(plan.inner)):
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


def calibrate(logits: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slope and offset that make σ(slope · logit + offset) a probability.

    Maximum likelihood with Platt's targets (1999, section 2.2), which keep the slope finite where
    the logits separate the classes. A slope is at least 0.001: a probe that does worse than
    chance inside the training fold knows nothing, and is not turned round.

    Args:
        logits: [layers, n].
        z: labels, [n].

    Returns:
        Slope and offset, float64 [layers] each.
    """
    wrong, right = z.sum(), (1 - z).sum()
    target = np.where(z == 1, (wrong + 1) / (wrong + 2), 1 / (right + 2))
    spread = logits.std(-1, keepdims=True)
    spread = np.where(spread > 0, spread, 1.0)
    design_matrix = np.stack([logits / spread, np.ones_like(logits)], axis=-1)
    start = np.zeros((len(logits), 2))
    found = _newton(design_matrix, target, start)
    slope = found[:, 0] / spread[:, 0]
    slope, floored = np.maximum(slope, LEAST_SLOPE), slope < LEAST_SLOPE
    if floored.any():
        fixed = slope[floored, None] * logits[floored]
        ones = design_matrix[floored][..., 1:]
        found[floored, 1:] = _newton(ones, target, np.zeros((len(ones), 1)), fixed)
    return slope, found[:, 1]


def _newton(
    x: np.ndarray, target: np.ndarray, w: np.ndarray, fixed: np.ndarray | float = 0.0
) -> np.ndarray:
    """Logistic regressions [layers, k] of targets [n] on [layers, n, k], by damped Newton steps."""

    def loss(w: np.ndarray) -> np.ndarray:
        logit = (x @ w[..., None])[..., 0] + fixed
        return (np.logaddexp(0, logit) - target * logit).sum(-1)

    now = loss(w)
    for _ in range(100):
        p = _sigmoid((x @ w[..., None])[..., 0] + fixed)
        gradient = ((p - target)[..., None] * x).sum(-2)
        hessian = (x * (p * (1 - p))[..., None]).swapaxes(-1, -2) @ x
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


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * x))


def _rows(
    activations: Activations, condition: tuple[str, int], ids: np.ndarray, readout: str
) -> tuple[np.ndarray, torch.Tensor]:
    """Places among `ids` of what was measured, and the activations."""
    measured, x = activations(*condition)
    rows = pd.Index(ids).get_indexer(pd.Index([str(i) for i in measured], dtype=object))
    if (rows < 0).any() or len(np.unique(rows)) < len(rows) or x.shape[1] != len(rows):
        strange = [i for i, row in zip(measured, rows, strict=True) if row < 0]
        raise AnchorscopeError(
            "activations and answers are not of the same samples",
            f"read-out {readout}, condition {condition[0]}, "
            + (f"id {strange[0]} has no answer" if strange else "ids repeat or rows are missing"),
            "delete the cell's folder of activations and run snakemake again",
        )
    return rows, x


def _scored(
    fitted: Fitted,
    x: torch.Tensor,
    rows: np.ndarray,
    ids: np.ndarray,
    plan: Design,
    readout: str,
    condition: tuple[str, int],
) -> pd.DataFrame:
    """The table's rows of one condition; `x` [layers, len(rows), width]."""
    fold = plan.fold[rows]
    layers = len(x)
    raw = np.stack(
        [
            probes.layer(fitted.probes, k).logits(x[k : k + 1])[0].double().cpu().numpy()
            for k in range(layers)
        ]
    )
    own = np.take_along_axis(raw, fold[None, None, :], axis=1)[:, 0]
    t, offset, shift, c = (
        values[:, fold] for values in (fitted.t, fitted.offset, fitted.shift, fitted.c)
    )
    s = (t * own + offset - shift).astype(np.float32)
    columns = {
        "id": np.tile(ids[rows], layers),
        "layer": np.repeat(np.arange(layers, dtype=np.int32), len(rows)),
        "readout": readout,
        "condition": condition[0],
        "draw": np.int32(condition[1]),
        "fold": np.tile(fold.astype(np.int32), layers),
        "c": c.ravel(),
        "t": t.astype(np.float32).ravel(),
        "offset": offset.astype(np.float32).ravel(),
        "s": s.ravel(),
        "p": _sigmoid(s.astype(np.float64)).astype(np.float32).ravel(),
    }
    return pd.DataFrame(columns)[list(COLUMNS)]


def clean_auc(scores: pd.DataFrame, z: pd.Series) -> pd.DataFrame:
    """Out-of-fold AUC of the clean pass: readout, layer, auc.

    Args:
        scores: the table of `score`, of one or more read-outs.
        z: labels, by id.
    """
    clean = scores[scores["condition"] == "clean"]
    labels = clean["id"].map(z).to_numpy()
    rows = [
        {"readout": readout, "layer": layer, "auc": auc(part["s"].to_numpy(), labels[part.index])}
        for (readout, layer), part in clean.reset_index(drop=True).groupby(["readout", "layer"])
    ]
    return pd.DataFrame(rows, columns=["readout", "layer", "auc"])
