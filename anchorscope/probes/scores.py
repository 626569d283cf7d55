"""Scores: what the probe of each layer says of each sample, under every condition, out of fold.

Beside the probe itself (`clean`), which scores every condition, three others tell what a flip is
made of: `refit` has seen the condition (what information is left), `offset` is the probe with its
offset fitted anew (what a mere shift does), `shuffled` has learned labels that mean nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from anchorscope.models.features import Features, Part, Reordered
from anchorscope.probes import fitting, platt, probes, solved
from anchorscope.probes.draws import Draws
from anchorscope.probes.fitting import (
    Design,
    Fitted,
    Settings,
    design,
    fit,
    out_of_fold,
    training_rows,
)
from anchorscope.probes.samples import bootstrap, in_order, kept, shuffled, sigmoid
from anchorscope.probes.solved import Scored
from anchorscope.storage.errors import AnchorscopeError

COLUMNS = (
    "id", "layer", "readout", "condition", "draw", "probe", "fold", "c", "t", "offset",
    "inner_auc", "s", "p",
)  # fmt: skip
PROBES = ("clean", "refit", "offset", "shuffled")
CLEAN = ("clean", 0)
REFITTED = (("knockout", 0), ("random", 0))
OFFSET_REFITTED = (*REFITTED, ("question", 0))

Activations = Callable[[str, int], tuple[Sequence[str], Features]]

log = logging.getLogger(__name__)


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
    draws: Draws | None = None,
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
        draws: takes the scores of probes learned from each of its draws (`fitting.refit`), under
            every condition; they are not in the table.
        device: where probes are fitted.

    Returns:
        A row for each sample, layer, condition, draw and probe, with the columns `COLUMNS`: fold,
        c, t and offset are those of the probe, `inner_auc` the AUC of the logits held out inside
        its training fold; s the score and p = σ(s), float32. Probes:
        `clean`, of every condition. `refit`: fitted to the condition's own activations, same
        folds, C of the clean probe; knockout and draw 0 of random. `offset`: see
        `platt.offset_refit`; those and question. `shuffled`: fitted to `shuffled(labels, seed)` on
        the clean pass with C of the clean probe, at balanced prior, not calibrated (p is NaN);
        not with `published`.

    Raises:
        AnchorscopeError: a probe cannot be fitted, or the ids do not match.
    """
    given = (activations, answers, readout, conditions, settings)
    found = frames(*given, extras=extras, draws=draws, device=device)
    return pd.concat(found, ignore_index=True)


def frames(
    activations: Activations,
    answers: pd.DataFrame,
    readout: str,
    conditions: Sequence[tuple[str, int]],
    settings: Settings | Mapping[str, Any],
    *,
    extras: bool = True,
    draws: Draws | None = None,
    device: str | torch.device = "cpu",
) -> Iterator[pd.DataFrame]:
    """The table of `score` in parts, one for each condition and probe, each made when asked for.

    Features are read by blocks of layers, and once: all that needs a block is done while it is
    held, see `solved`.
    """
    if not isinstance(settings, Settings):
        settings = Settings(**settings)
    cell = cell_of(answers, settings, readout)
    everyone = np.arange(len(cell.ids))
    clean = of_everyone(activations, CLEAN, cell)
    null = _null(cell.plan, settings) if extras else None
    draws = draws if draws is not None and len(draws) else None
    given = (cell, draws, settings, device)
    learned, *others = _learned(clean, null, *given)
    yield _frame(learned, everyone, cell, CLEAN)
    redrawn = None
    if draws is not None:
        said = others.pop(0)
        draws.add(readout, CLEAN, everyone, said.s)
        redrawn = said.fitted
    for other in others:
        yield _frame(other, everyone, cell, CLEAN, "shuffled").assign(p=np.float32("nan"))
    del clean, others
    for condition in dict.fromkeys(conditions):
        if condition == CLEAN:
            continue
        rows, x = _rows(activations, condition, cell)
        again = _complete(rows, x, cell, condition) if _has(condition, REFITTED, extras) else None
        moved, *refitted = _moved(learned.fitted, redrawn, x, rows, again, *given)
        yield _frame(moved, rows, cell, condition)
        if draws is not None:
            draws.add(readout, condition, rows, refitted.pop(0).s)
        if _has(condition, OFFSET_REFITTED, extras):
            yield _frame(_offset(moved, rows, cell.plan), rows, cell, condition, "offset")
        for other in refitted:
            yield _frame(other, everyone, cell, condition, "refit")


def drawn(answers: pd.DataFrame, settings: Settings | Mapping[str, Any]) -> Draws:
    """Draw clusters of the samples, `settings.refits` times, as every interval does.

    A draw that leaves a fold one class only is left out, and counted in the log.

    Args:
        answers, settings: see `score`.
    """
    if not isinstance(settings, Settings):
        settings = Settings(**settings)
    answers = kept(answers)
    ordered = in_order(answers)
    found = bootstrap(ordered, settings.refits, settings.seed)
    places = pd.Index(ordered["id"]).get_indexer(pd.Index(answers["id"]))
    weights = found.weights[:, found.clusters][:, places].astype(np.int64)
    usable = fitting.usable(fitting.outer_only(design(answers, settings)), weights)
    if not usable.all():
        log.warning("%d of %d draws leave a fold one class only", (~usable).sum(), len(usable))
    return Draws(answers["id"].astype(str).to_numpy(dtype=object), weights[usable])


def to_fit(
    answers: pd.DataFrame,
    conditions: Sequence[tuple[str, int]],
    settings: Settings | Mapping[str, Any],
    *,
    extras: bool = True,
    draws: int = 0,
) -> int:
    """How many probes `frames` fits at each layer, see there; `draws` is how many there are."""
    if not isinstance(settings, Settings):
        settings = Settings(**settings)
    plan = design(kept(answers), settings)
    clean = _clean_problems(plan, settings) + draws * settings.folds
    if not extras:
        return clean
    null = 0 if _null(plan, settings, quiet=True) is None else settings.folds
    return clean + null + len(training_rows(plan)[0]) * len({*REFITTED} & {*conditions})


def _clean_problems(plan: Design, settings: Settings) -> int:
    """How many probes of a layer it takes to fit those of the clean pass."""
    return len(training_rows(plan)[0]) * (len(settings.penalties) + (settings.penalty != 1))


def _has(condition: tuple[str, int], those: Sequence[tuple[str, int]], extras: bool) -> bool:
    return extras and condition in those


def cell_of(answers: pd.DataFrame, settings: Settings, readout: str) -> Cell:
    """The samples that count, and their folds."""
    answers = kept(answers)
    ids = answers["id"].astype(str).to_numpy(dtype=object)
    return Cell(ids, design(answers, settings, readout), readout)


def of_everyone(activations: Activations, condition: tuple[str, int], cell: Cell) -> Features:
    """The activations of all samples in the order of the cell, [layers, n, width].

    Raises:
        AnchorscopeError: some are missing, or are of samples that the cell does not know.
    """
    rows, x = _rows(activations, condition, cell)
    return _complete(rows, x, cell, condition)


def fit_and_score(
    x: Features,
    cell: Cell,
    settings: Settings,
    *,
    device: str | torch.device = "cpu",
) -> Scored:
    """The probes of the clean pass, and what they say of all samples; features are read once."""
    return _learned(x, None, cell, None, settings, device)[0]


def _of_block(
    x: Features,
    plan: Design,
    settings: Settings,
    device: str | torch.device,
    c: np.ndarray | None = None,
) -> Scored:
    fitted = fit(x, plan, settings, c=c, device=device)
    return _scored(fitted, x, plan.fold)


def _scored(fitted: Fitted, x: Features, fold: np.ndarray) -> Scored:
    return Scored(fitted, out_of_fold(fitted, x, fold))


def _learned(
    clean: Features,
    null: Design | None,
    cell: Cell,
    draws: Draws | None,
    settings: Settings,
    device: str | torch.device,
) -> list[Scored]:
    """The clean probes, those of the draws, and those of shuffled labels where there is a design.

    The last are not calibrated: a slope would have to be learned from logits that know nothing. The
    shift to balanced classes stays: folds differ in their shares of a label that they were not cut
    by, and their complements differ the other way, so that scores of all folds together would rank
    the samples backwards.
    """

    def learn(block: Part) -> list[Scored]:
        own = _of_block(block, cell.plan, settings, device)
        found = [own]
        if draws is not None:
            again = fitting.refit(block, cell.plan, settings, own.fitted.c, draws.weights, device)
            found.append(_scored(again, block, _of_draws(cell, draws, settings)))
        if null is not None:
            balanced = replace(settings, prior="balanced")
            found.append(_of_block(block, null, balanced, device, own.fitted.c))
        return found

    return solved.by_block(clean, learn, device=device)


def _of_draws(cell: Cell, draws: Draws, settings: Settings) -> np.ndarray:
    return fitting.of_draws(cell.plan.fold, settings, len(draws))


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
    redrawn: Fitted | None,
    x: Features,
    rows: np.ndarray,
    whole: Features | None,
    cell: Cell,
    draws: Draws | None,
    settings: Settings,
    device: str | torch.device,
) -> list[Scored]:
    """What the clean probes say of a condition, `x` [layers, len(rows), width].

    And what those of the draws say; and probes of its own that were fitted to `whole`, all samples
    in the order of the cell; None for none.
    """

    def say(block: Part) -> list[Scored]:
        own = fitted.at(block.layers)
        found = [_scored(own, block, cell.plan.fold[rows])]
        if draws is not None and redrawn is not None:
            where = _of_draws(cell, draws, settings)[:, rows]
            found.append(_without_probes(_scored(redrawn.at(block.layers), block, where)))
        if whole is not None:
            layers = Part(whole, block.layers)
            found.append(_of_block(layers, cell.plan, settings, device, own.c))
        return found

    return solved.by_block(x, say, device=device)


def _without_probes(scored: Scored) -> Scored:
    """The scores alone: probes of all draws are many, and kept once."""
    fitted = scored.fitted
    none = probes.part(fitted.probes, problems=slice(0))
    return replace(scored, fitted=replace(fitted, probes=none))


def _offset(moved: Scored, rows: np.ndarray, plan: Design) -> Scored:
    """The probes with an offset that was fitted anew to the other folds' logits."""
    fitted, fold = moved.fitted, plan.fold[rows]
    s = moved.s.astype(np.float32).astype(np.float64)  # as the table holds them
    more = platt.offset_refit(s + fitted.shift[:, fold], plan.z[rows], fold)
    return Scored(fitted, s + more, fitted.offset[:, fold] + more)


def _rows(
    activations: Activations, condition: tuple[str, int], cell: Cell
) -> tuple[np.ndarray, Features]:
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


def _complete(rows: np.ndarray, x: Features, cell: Cell, condition: tuple[str, int]) -> Features:
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
    return x if in_order else Reordered(x, torch.as_tensor(order))


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
        "inner_auc": fitted.inner_auc[:, fold].astype(np.float32).ravel(),
        "s": s.ravel(),
        "p": sigmoid(s).astype(np.float32).ravel(),
    }
    return pd.DataFrame(columns)[list(COLUMNS)]
