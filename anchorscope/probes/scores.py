"""Scores: what the probe of each layer says of each sample, under every condition, out of fold.

Beside the probe itself (`clean`), which scores every condition, three others tell what a flip is
made of: `refit` has seen the condition (what information is left), `offset` is the probe with its
offset fitted anew (what a mere shift does), `shuffled` has learned labels that mean nothing.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from anchorscope.passes import interventions, planning
from anchorscope.passes.activations import read
from anchorscope.passes.features import Features, Part, Reordered, blocks
from anchorscope.probes import fitting, platt
from anchorscope.probes.bands import Draws
from anchorscope.probes.fitting import Design, Fitted, Settings, design, out_of_fold
from anchorscope.probes.samples import bootstrap, in_order, kept, mismatch, shuffled, sigmoid
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.progress import Progress

COLUMNS = tuple("id layer readout condition draw probe fold c t offset inner_auc s p".split())
LEARNED = ("t", "offset", "inner_auc")
PROBES = ("clean", "refit", "offset", "shuffled")
CLEAN = ("clean", 0)

Device = str | torch.device
Activations = Callable[[str, int], tuple[Sequence[str], Features]]
Found = dict[str, tuple[Fitted, np.ndarray]]
"""Probes by name, and their scores [layers, n], or of several draws [layers, draws, n]."""

log = logging.getLogger(__name__)


def has_refit(condition: str, draw: int) -> bool:
    """Whether probes are fitted anew to it: a cut that has a control, or a control."""
    return draw == 0 and condition in interventions.in_contrasts()


def has_offset_refit(condition: str, draw: int) -> bool:
    """Whether the offset of its probe is fitted anew: a cut or a control."""
    return draw == 0 and interventions.REGISTRY[condition].role in ("cut", "control")


def of_cell(
    folder: str,
    measured: pd.DataFrame,
    probe: Settings,
    readouts: Sequence[str],
    conditions: Mapping[str, Any],
    **more: Any,
) -> Iterator[pd.DataFrame]:
    """Scores of every read-out and condition, a part at a time, of the answers `measured`.

    `folder` is that of the activations; `more` are `draws`, `fitted` and `device` of `frames`.
    """
    asked = planning.conditions_of(conditions)
    for readout in Progress(readouts, unit="read-outs"):
        states = partial(read, folder, readout)
        yield from frames(states, measured, readout, asked, probe, **more)


def score(*given: Any, **more: Any) -> pd.DataFrame:
    """The table of `frames` in one piece; same arguments."""
    return pd.concat(frames(*given, **more), ignore_index=True)


def frames(
    activations: Activations,
    answers: pd.DataFrame,
    readout: str,
    conditions: Sequence[tuple[str, int]],
    settings: Settings,
    *,
    extras: bool = True,
    draws: Draws | None = None,
    fitted: dict[str, Fitted] | None = None,
    device: Device = "cpu",
) -> Iterator[pd.DataFrame]:
    """Fit the probes of one read-out on the clean pass and score every condition.

    Features are read once, by blocks of layers: all that needs a block is done while it is held.

    Args:
        activations: `(condition, draw)` → ids and features [layers, len(ids), width]; called once
            for each. A condition may cover some of the samples only, `clean` covers all.
        answers: the samples: id, question, subject, label; rows with a `dropped` reason are left.
        readout: written into the table.
        conditions: (condition, draw) to score; `clean` comes first in any case.
        extras: whether to fit the probes `refit`, `offset` and `shuffled`, too.
        draws: takes the scores of probes learned from each of its draws.
        fitted: takes the probes of the clean pass, by read-out.
        device: where probes are fitted.

    Yields:
        For each condition and probe a row for each sample and layer with the columns `COLUMNS`, see
        docs/products.md; a sample is scored by the probe of its own fold, whatever its prompt was.
        `refit` and `offset` are of draw 0, see `has_refit` and `has_offset_refit`; `shuffled` is
        at balanced prior and not calibrated (p is NaN), and not with `published`. Both are fitted
        with C of the clean probe.

    Raises:
        AnchorscopeError: a probe cannot be fitted, or the ids do not match.
    """
    plan = design(kept(answers), settings, readout)
    null = _null(plan) if extras else None
    everyone = _complete(_measured(activations, CLEAN, plan))
    own = _by_block(everyone.x, partial(_learn, plan, null, draws, device))
    clean, s = own["clean"]
    if fitted is not None:
        fitted[readout] = clean
    yield _frame(clean, s, everyone)
    if draws:
        draws.add(readout, CLEAN, everyone.places, own["draws"][1])
    if null is not None:
        yield _frame(*own["shuffled"], everyone, "shuffled").assign(p=np.float32("nan"))
    for condition in (one for one in dict.fromkeys(conditions) if one != CLEAN):
        some = _measured(activations, condition, plan)
        found = {"clean": (clean, plan.fold[some.places])}
        if draws:
            found["draws"] = own["draws"][0], plan.of_draws(len(draws))[:, some.places]
        whole = _complete(some) if extras and has_refit(*condition) else None
        moved = _by_block(some.x, partial(_say, found, whole, device))
        s = moved["clean"][1]
        yield _frame(clean, s, some)
        if draws:
            draws.add(readout, condition, some.places, moved["draws"][1])
        if extras and has_offset_refit(*condition):
            yield _offset(clean, s, some)
        if whole is not None:
            yield _frame(*moved["refit"], whole, "refit")


def drawn(answers: pd.DataFrame, settings: Settings) -> Draws:
    """Draw clusters of the samples, `settings.refits` times, as every interval does.

    A draw that leaves a fold one class only is left out, and counted in the log.
    """
    answers = kept(answers)
    ordered = in_order(answers)
    found = bootstrap(ordered, settings.refits, settings.seed)
    places = pd.Index(ordered["id"]).get_indexer(pd.Index(answers["id"]))
    weights = found.weights[:, found.clusters][:, places].astype(np.int64)
    plan = design(answers, settings).uncalibrated
    usable = fitting.usable(plan, weights)
    if not usable.all():
        log.warning("%d of %d draws leave a fold one class only", (~usable).sum(), len(usable))
    return Draws(plan.ids, weights[usable])


def of_everyone(activations: Activations, condition: tuple[str, int], plan: Design) -> Features:
    """The activations of all samples in the order of the plan, [layers, n, width]."""
    return _complete(_measured(activations, condition, plan)).x


@dataclass(frozen=True)
class _Measured:
    """What was measured under a condition."""

    condition: tuple[str, int]
    plan: Design
    places: np.ndarray  # of the samples among the plan's, int64 [rows]
    x: Features  # [layers, rows, width]

    def other_samples(self, found: str) -> AnchorscopeError:
        what = f"activations and answers are not of the same samples: {found}"
        where = f"read-out {self.plan.where}, condition {self.condition[0]}"
        return mismatch(what, where, "folder of activations")


def _measured(activations: Activations, condition: tuple[str, int], plan: Design) -> _Measured:
    ids, x = activations(*condition)
    places = pd.Index(plan.ids).get_indexer(pd.Index([str(i) for i in ids], dtype=object))
    some = _Measured(condition, plan, places, x)
    if strange := [i for i, place in zip(ids, places, strict=True) if place < 0]:
        raise some.other_samples(f"id {strange[0]} has no answer")
    return some


def _complete(some: _Measured) -> _Measured:
    """The same in the order of the plan's samples, of which none may be missing."""
    n, order = len(some.plan.ids), np.argsort(some.places)
    if missing := n - len(order):
        raise some.other_samples(
            f"{missing} of {n} samples have no {some.condition[0]} activations"
        )
    if (order == np.arange(n)).all():
        return some
    return replace(some, places=np.arange(n), x=Reordered(some.x, torch.as_tensor(order)))


def _by_block(x: Features, work: Callable[[Part], Found]) -> Found:
    """What some work finds for all layers, done while a block of them is held."""
    parts, found = [work(block) for block in blocks(x)], {}
    for name in parts[0]:
        fitted, s = zip(*(part[name] for part in parts), strict=True)
        found[name] = fitting.join(fitted), np.concatenate(s)
    return found


def _learn(
    plan: Design, null: Design | None, draws: Draws | None, device: Device, x: Part
) -> Found:
    """The clean probes, those of the draws, and those of shuffled labels if there is a design."""
    own = fitting.fit(x, plan, device=device)
    found = {"clean": (own, out_of_fold(own, x, plan.fold))}
    if draws:
        again = fitting.fit(x, plan, own.c, draws.weights, across=True, device=device)
        found["draws"] = again, out_of_fold(again, x, plan.of_draws(len(draws)))
    if null is not None:
        other = fitting.fit(x, null, own.c, device=device)
        found["shuffled"] = other, out_of_fold(other, x, plan.fold)
    return found


def _say(probes: Found, whole: _Measured | None, device: Device, x: Part) -> Found:
    """What probes say of a condition, x [layers, rows, width], and probes `refit` to it.

    Probes are of all layers, with which of them scores each row; no `whole` for no refit.
    """
    here = {name: (of.at(x.layers), fold) for name, (of, fold) in probes.items()}
    found = {name: (of, out_of_fold(of, x, fold)) for name, (of, fold) in here.items()}
    if whole is not None:
        rows, plan = Part(whole.x, x.layers), whole.plan
        again = fitting.fit(rows, plan, here["clean"][0].c, device=device)
        found["refit"] = again, out_of_fold(again, rows, plan.fold)
    return found


def _null(plan: Design) -> Design | None:
    """The design with shuffled labels; None where a fold gets one class only, or `published`.

    Its probes are not calibrated: a slope would have to be learned from logits that know nothing.
    The shift to balanced classes stays: folds differ in their shares of a label that they were not
    cut by, and their complements differ the other way, so that scores of all folds together would
    rank the samples backwards.
    """
    if plan.settings.scoring != "calibrated":
        return None
    z = shuffled(plan.z, plan.settings.seed)
    if any(len(np.unique(z[rows])) < 2 for rows in plan.outer):
        log.warning("shuffled labels leave a fold one class only: no probe is fitted to them")
        return None
    settings = plan.settings.model_copy(update={"prior": "balanced"})
    return replace(plan.uncalibrated, z=z, settings=settings)


def _offset(fitted: Fitted, s: np.ndarray, some: _Measured) -> pd.DataFrame:
    """The probes with an offset that was fitted anew to the other folds' logits."""
    fold, z = some.plan.fold[some.places], some.plan.z[some.places]
    s = s.astype(np.float32).astype(np.float64)  # as the table holds them
    more = platt.offset_refit(s + fitted.shift[:, fold], z, fold)
    frame = _frame(fitted, s + more, some, "offset")
    return frame.assign(offset=(fitted.offset[:, fold] + more).astype(np.float32).ravel())


def _frame(fitted: Fitted, s: np.ndarray, some: _Measured, probe: str = "clean") -> pd.DataFrame:
    """The table's rows of one condition and probe, of scores [layers, rows]."""
    plan, (condition, draw) = some.plan, some.condition
    fold, s, layers = plan.fold[some.places], s.astype(np.float32), len(s)
    columns = {
        "id": np.tile(plan.ids[some.places], layers),
        "layer": np.repeat(np.arange(layers, dtype=np.int32), len(fold)),
        "readout": plan.where,
        "condition": condition,
        "draw": np.int32(draw),
        "probe": probe,
        "fold": np.tile(fold.astype(np.int32), layers),
        "c": fitted.c[:, fold].ravel(),
        **{name: getattr(fitted, name)[:, fold].astype(np.float32).ravel() for name in LEARNED},
        "s": s.ravel(),
        "p": sigmoid(s).astype(np.float32).ravel(),
    }
    return pd.DataFrame(columns, columns=list(COLUMNS))
