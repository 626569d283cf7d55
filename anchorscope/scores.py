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

from anchorscope import folds, platt, probes
from anchorscope.errors import AnchorscopeError
from anchorscope.samples import kept, shuffled, sigmoid

COLUMNS = (
    "id", "layer", "readout", "condition", "draw", "probe", "fold", "c", "t", "offset", "s", "p",
)  # fmt: skip
PROBES = ("clean", "refit", "offset", "shuffled")
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
class Scored:
    """Probes, and what they say of some samples.

    Attributes:
        fitted: the probes.
        s: scores by the probe of each sample's own fold, float64 [layers, n].
        offset: of each sample, float64 [layers, n]; None for that of the probes.
    """

    fitted: Fitted
    s: np.ndarray
    offset: np.ndarray | None = None

    @classmethod
    def joined(cls, parts: Sequence[Scored]) -> Scored:
        """Of several blocks of layers, one after the other."""
        if len(parts) == 1:
            return parts[0]
        fitted = [part.fitted for part in parts]
        whole = {
            name: np.concatenate([getattr(one, name) for one in fitted])
            for name in ("c", "t", "offset", "shift")
        }
        solved = probes.joined([one.probes for one in fitted])
        return cls(Fitted(solved, **whole), np.concatenate([part.s for part in parts]))


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
        folds, C of the clean probe; knockout and draw 0 of random. `offset`: see
        `platt.offset_refit`; those and question. `shuffled`: fitted to `shuffled(labels, seed)` on
        the clean pass with C of the clean probe, at balanced prior, not calibrated (p is NaN);
        not with `published`.

    Raises:
        AnchorscopeError: a probe cannot be fitted, or the ids do not match.
    """
    found = frames(
        activations, answers, readout, conditions, settings, extras=extras, device=device
    )
    return pd.concat(found, ignore_index=True)


def frames(
    activations: Activations,
    answers: pd.DataFrame,
    readout: str,
    conditions: Sequence[tuple[str, int]],
    settings: Settings | Mapping[str, Any],
    *,
    extras: bool = True,
    device: str | torch.device = "cpu",
) -> Iterator[pd.DataFrame]:
    """The table of `score` in parts, one for each condition and probe, each made when asked for.

    Features are read by blocks of layers, and once beside their checksums: all that needs a block
    is done while it is held.
    """
    if not isinstance(settings, Settings):
        settings = Settings(**settings)
    cell = cell_of(answers, settings, readout)
    everyone = np.arange(len(cell.ids))
    clean = of_everyone(activations, CLEAN, cell)
    null = _null(cell.plan, settings) if extras else None
    learned, *others = _learned(clean, cell.plan, null, settings, device)
    yield _frame(learned, everyone, cell, CLEAN)
    for other in others:
        yield _frame(other, everyone, cell, CLEAN, "shuffled").assign(p=np.float32("nan"))
    del clean, others
    for condition in dict.fromkeys(conditions):
        if condition == CLEAN:
            continue
        rows, x = _rows(activations, condition, cell)
        again = _complete(rows, x, cell, condition) if _has(condition, REFITTED, extras) else None
        moved, *refitted = _moved(learned.fitted, x, rows, again, cell.plan, settings, device)
        yield _frame(moved, rows, cell, condition)
        if _has(condition, OFFSET_REFITTED, extras):
            yield _frame(_offset(moved, rows, cell.plan), rows, cell, condition, "offset")
        for other in refitted:
            yield _frame(other, everyone, cell, condition, "refit")


def to_fit(
    answers: pd.DataFrame,
    conditions: Sequence[tuple[str, int]],
    settings: Settings | Mapping[str, Any],
    *,
    extras: bool = True,
) -> int:
    """How many probes `frames` fits at each layer, see there."""
    if not isinstance(settings, Settings):
        settings = Settings(**settings)
    plan = design(kept(answers), settings)
    masks = len(training_rows(plan)[0])
    clean = masks * (len(settings.penalties) + (settings.penalty != 1))
    if not extras:
        return clean
    null = 0 if _null(plan, settings, quiet=True) is None else settings.folds
    return clean + null + masks * len({*REFITTED} & {*conditions})


def _has(condition: tuple[str, int], those: Sequence[tuple[str, int]], extras: bool) -> bool:
    return extras and condition in those


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


def fit_and_score(
    x: probes.Features,
    plan: Design,
    settings: Settings,
    *,
    c: np.ndarray | None = None,
    device: str | torch.device = "cpu",
) -> Scored:
    """The probes of `fit`, and what they say of all samples; features are read once."""
    parts = []
    for block in probes.blocks(x):
        penalties = None if c is None else c[list(block.layers)]
        parts.append(_of_block(block, plan, settings, device, penalties))
    return Scored.joined(parts)


def _of_block(
    x: probes.Features,
    plan: Design,
    settings: Settings,
    device: str | torch.device,
    c: np.ndarray | None = None,
) -> Scored:
    fitted = fit(x, plan, settings, c=c, device=device)
    return _scored(fitted, x, plan.fold)


def _scored(fitted: Fitted, x: probes.Features, fold: np.ndarray) -> Scored:
    return Scored(fitted, out_of_fold(fitted, x, fold))


def _learned(
    clean: probes.Features,
    plan: Design,
    null: Design | None,
    settings: Settings,
    device: str | torch.device,
) -> list[Scored]:
    """The clean probes, and those of shuffled labels where there is a design for them.

    These are not calibrated: a slope would have to be learned from logits that know nothing. The
    shift to balanced classes stays: folds differ in their shares of a label that they were not cut
    by, and their complements differ the other way, so that scores of all folds together would rank
    the samples backwards.
    """
    found = []
    for block in probes.blocks(clean):
        own = _of_block(block, plan, settings, device)
        found.append([own])
        if null is not None:
            balanced = replace(settings, prior="balanced")
            found[-1].append(_of_block(block, null, balanced, device, own.fitted.c))
    return [Scored.joined(parts) for parts in zip(*found, strict=True)]


def _null(plan: Design, settings: Settings, quiet: bool = False) -> Design | None:
    """The design with shuffled labels; None where a fold gets one class only, or `published`."""
    if settings.scoring != "calibrated":
        return None
    z = shuffled(plan.z, settings.seed)
    if any(len(np.unique(z[plan.fold != k])) < 2 for k in range(settings.folds)):
        if not quiet:
            log.warning("shuffled labels leave a fold one class only: no probe is fitted to them")
        return None
    return Design(z, plan.fold, np.full_like(plan.inner, -1))


def _moved(
    fitted: Fitted,
    x: probes.Features,
    rows: np.ndarray,
    whole: probes.Features | None,
    plan: Design,
    settings: Settings,
    device: str | torch.device,
) -> list[Scored]:
    """What the clean probes say of a condition, `x` [layers, len(rows), width].

    And what probes of its own say that were fitted to `whole`, all samples in the order of the
    plan; None for none.
    """
    found = []
    for block in probes.blocks(x):
        own = fitted.at(block.layers)
        found.append([_scored(own, block, plan.fold[rows])])
        if whole is not None:
            layers = probes.Part(whole, block.layers)
            found[-1].append(_of_block(layers, plan, settings, device, own.c))
    return [Scored.joined(parts) for parts in zip(*found, strict=True)]


def _offset(moved: Scored, rows: np.ndarray, plan: Design) -> Scored:
    """The probes with an offset that was fitted anew to the other folds' logits."""
    fitted, fold = moved.fitted, plan.fold[rows]
    s = moved.s.astype(np.float32).astype(np.float64)  # as the table holds them
    more = platt.offset_refit(s + fitted.shift[:, fold], plan.z[rows], fold)
    return Scored(fitted, s + more, fitted.offset[:, fold] + more)


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
            chosen[:, k] = platt.choose(held[:, k][..., rows], plan.z[rows], plan.inner[k][rows])
            own = np.take_along_axis(held[:, k], chosen[:, k, None, None], axis=1)[:, 0]
            t[:, k], offset[:, k] = platt.calibrate(own[:, rows], plan.z[rows], weights[rows])
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


def _frame(
    scored: Scored,
    rows: np.ndarray,
    cell: Cell,
    condition: tuple[str, int],
    probe: str = "clean",
) -> pd.DataFrame:
    """The table's rows of one condition and probe; `scored` are `rows` of the cell."""
    fold, fitted, s = cell.plan.fold[rows], scored.fitted, scored.s.astype(np.float32)
    layers = len(s)
    offset = fitted.offset[:, fold] if scored.offset is None else scored.offset
    columns = {
        "id": np.tile(cell.ids[rows], layers),
        "layer": np.repeat(np.arange(layers, dtype=np.int32), len(rows)),
        "readout": cell.readout,
        "condition": condition[0],
        "draw": np.int32(condition[1]),
        "probe": probe,
        "fold": np.tile(fold.astype(np.int32), layers),
        "c": fitted.c[:, fold].ravel(),
        "t": fitted.t[:, fold].astype(np.float32).ravel(),
        "offset": offset.astype(np.float32).ravel(),
        "s": s.ravel(),
        "p": sigmoid(s).astype(np.float32).ravel(),
    }
    return pd.DataFrame(columns)[list(COLUMNS)]


def out_of_fold(fitted: Fitted, x: probes.Features, fold: np.ndarray) -> np.ndarray:
    """Each sample's score s by the probe of its own fold [n], float64 [layers, n]."""
    raw = np.empty((len(x), len(fold)))
    for layer in range(len(x)):
        one = probes.part(fitted.probes, [layer]).logits(x[layer : layer + 1])[0]
        raw[layer] = one.double().cpu().numpy()[fold, np.arange(len(fold))]
    return fitted.t[:, fold] * raw + fitted.offset[:, fold] - fitted.shift[:, fold]
