"""Out-of-fold scores of each sample by the probe of each layer, under every condition.

The probe `clean` scores every condition. The probe `shuffled`, fitted to shuffled labels, scores
only the clean pass. Hidden states are read once, in blocks of layers.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import pandas as pd
import torch

from anchorscope.passes.features import Features, View, blocks, reordered
from anchorscope.passes.interventions import REGISTRY
from anchorscope.probes import fitting
from anchorscope.probes.fitting import Design, Fitted, out_of_fold
from anchorscope.statistics.bands import Draws
from anchorscope.statistics.samples import bootstrap, in_order, mismatch, places, sigmoid
from anchorscope.storage.progress import Progress

COLUMNS = {
    "id": "the sample's id",
    "layer": "the layer",
    "readout": "such as `mlp/final`",
    "condition": "what was blocked or swapped",
    "draw": "number of the random draw",
    "probe": "`clean`, or `shuffled`: fitted to shuffled labels",
    "fold": "the sample's outer fold",
    "stands_for": "answers of the [pool](method.md#pool) that the sample stands for",
    "label": "label that the probe was fitted to: 0 right, 1 wrong",
    "inner_auc": "AUC on held-out data inside the training fold, which chooses the headline layer",
    "s": "score: the log-odds that the answer is wrong",
    "p": "σ(s), the probability that the answer is wrong",
}
"""Column of the table → its content."""

Condition = tuple[str, int]
"""The name of a condition, and the number of its draw."""
CLEAN: Condition = ("clean", 0)
Activations = Callable[[str, str, int], tuple[Sequence[str], Features]]
"""(read-out, condition, draw) → (sample ids, their hidden states [layers, len(ids), width])."""

FITTING = 50
"""Fitting the probes of a layer takes about as long as scoring the layer this many times."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScoredProbes:
    """Probes that were fitted to the clean pass, with the scores that they give to that pass."""

    fitted: Fitted
    s: np.ndarray  # out of fold, float64 [layers, n], or [layers, draws, n] for several draws


_Probes = dict[str, ScoredProbes]
"""Name → probes: `clean`, `draws` (fitted to each draw), `shuffled` (fitted to shuffled labels)."""


@dataclass(frozen=True)
class CellScores:
    """Fits a cell's probes and scores its conditions. `tables()` fills `fitted` and `draws`."""

    activations: Activations
    design: Design
    draws: Draws  # from `drawn`; receives the scores of the probes of each draw
    readouts: Sequence[str]  # such as `mlp/final`
    conditions: Sequence[Condition]  # scored in addition to the clean pass
    device: str | torch.device = "cpu"  # where probes are fitted
    fitted: dict[str, Fitted] = field(default_factory=dict)  # the clean probes, by read-out

    def tables(self) -> Iterator[pd.DataFrame]:
        """Yield a table of out-of-fold scores for every read-out, condition and probe.

        A table has one row per sample and layer, with `COLUMNS`. Scores by the probe `shuffled`
        assume balanced classes. They are not calibrated, so their p is NaN.

        Raises:
            AnchorscopeError: A probe cannot be fitted, or activations do not match the answers.
        """
        others = [one for one in dict.fromkeys(self.conditions) if one != CLEAN]
        layers = [len(self._measured(readout, CLEAN)[1]) for readout in self.readouts]
        with Progress(total=sum(layers) * (FITTING + len(others)), unit="steps") as progress:
            for readout, n in zip(self.readouts, layers, strict=True):
                probes = self._fit(readout, lambda n: progress.update(FITTING * n))
                self.fitted[readout] = probes["clean"].fitted
                yield from self._clean(readout, probes)
                for condition in others:
                    yield self._scored(readout, condition, probes)
                    progress.update(n)

    @cached_property
    def _shuffled(self) -> Design | None:
        return _shuffled_design(self.design)

    def _measured(self, readout: str, condition: Condition) -> tuple[np.ndarray, Features]:
        """Return (places, states): the samples' indices in the design, and their hidden states."""
        ids, x = self.activations(readout, *condition)
        wanted, n = pd.Index([str(id_) for id_ in ids], dtype=object), len(self.design.ids)
        places = pd.Index(self.design.ids).get_indexer(wanted)
        if (strange := wanted[places < 0]).size:
            what = f"id {strange[0]} has no answer"
        elif len(places) < n and not REGISTRY[condition[0]].partial:
            what = f"{n - len(places)} of {n} samples have no {condition[0]} activations"
        else:
            return places, x
        what = f"activations and answers have different samples: {what}"
        where = f"read-out {readout}, condition {condition[0]}"
        raise mismatch(what, where, "folder of activations")

    def _fit(self, readout: str, report: Callable[[int], object]) -> _Probes:
        """Fit a read-out's probes. After each block of layers, call `report(its size)`."""
        design, device, null = self.design, self.device, self._shuffled
        places, x = self._measured(readout, CLEAN)
        order = np.argsort(places)
        if (order != np.arange(len(order))).any():
            x = reordered(x, order)

        def learn(x: View) -> _Probes:
            clean = fitting.fit(x, design, device=device)
            learned = {"clean": ScoredProbes(clean, out_of_fold(clean, x, design.fold))}
            if self.draws:
                again = fitting.refit(x, design, clean.c, self.draws.weights, device=device)
                s = out_of_fold(again, x, design.of_draws(len(self.draws)))
                learned["draws"] = ScoredProbes(again, s)
            if null is not None:
                other = fitting.fit(x, null, clean.c, device=device)
                learned["shuffled"] = ScoredProbes(other, out_of_fold(other, x, design.fold))
            report(len(x))
            return learned

        parts = [learn(block) for block in blocks(x)]
        return {name: _joined([part[name] for part in parts]) for name in parts[0]}

    def _clean(self, readout: str, probes: _Probes) -> Iterator[pd.DataFrame]:
        """Yield the tables of the clean pass. Its scores are already in `probes`."""
        places = np.arange(len(self.design.ids))
        table = partial(_table, readout, CLEAN, places)
        if "draws" in probes:
            self.draws.add(readout, CLEAN, places, probes["draws"].s)
        yield table("clean", self.design, probes["clean"])
        if self._shuffled is not None:
            null = table("shuffled", self._shuffled, probes["shuffled"])
            yield null.assign(p=np.float32("nan"))

    def _scored(self, readout: str, condition: Condition, probes: _Probes) -> pd.DataFrame:
        """Score the states of a condition with the probes; return the table of scores."""
        design, clean = self.design, probes["clean"].fitted
        places, measured = self._measured(readout, condition)
        fold, of_draw = design.fold[places], design.of_draws(len(self.draws))[:, places]
        s_parts, draw_parts = [], []
        for x in blocks(measured):
            here = clean.part(list(x.layers))
            s_parts.append(out_of_fold(here, x, fold))
            if "draws" in probes:
                draw_parts.append(
                    out_of_fold(probes["draws"].fitted.part(list(x.layers)), x, of_draw)
                )
        if draw_parts:
            self.draws.add(readout, condition, places, np.concatenate(draw_parts))
        scored = ScoredProbes(clean, np.concatenate(s_parts))
        return _table(readout, condition, places, "clean", design, scored)


def drawn(answers: pd.DataFrame, design: Design) -> Draws:
    """Draw whole clusters of samples, `design.settings.refits` times, as `samples.bootstrap` does.

    A draw is dropped if it leaves only one class in a training fold. The log counts dropped draws.
    """
    ordered = in_order(answers)
    found = bootstrap(ordered, design.settings.refits, design.settings.seed)
    rows = places(design.ids, ordered["id"], design.where)
    weights = np.empty((len(found.weights), len(rows)), dtype=np.int64)
    weights[:, rows] = found.weights[:, found.clusters]
    usable = fitting.usable(design, weights)
    if not usable.all():
        log.warning("%d of %d draws dropped: a fold has one class", (~usable).sum(), len(usable))
    return Draws(design.ids, weights[usable])


def _joined(parts: Sequence[ScoredProbes]) -> ScoredProbes:
    fitted = fitting.join([part.fitted for part in parts])
    return ScoredProbes(fitted, np.concatenate([part.s for part in parts]))


def _shuffled_design(design: Design) -> Design | None:
    """Return `design` with shuffled labels, for the probe `shuffled`.

    Return None if scoring is `published` or a training fold lacks a class. The probes are not
    calibrated, since a slope would be fitted to uninformative logits. But logits are shifted to
    balanced classes. Without the shift, a fold with many wrong labels would get low scores, as few
    wrong labels are left to train on. Over all folds, scores would then rank labels in reverse.
    """
    if design.settings.scoring != "calibrated":
        return None
    z = np.random.default_rng(design.settings.seed).permutation(design.z)
    if any(len(np.unique(z[rows])) < 2 for rows in design.outer):
        log.warning("no probe is fitted to shuffled labels: they leave a fold with one class")
        return None
    settings = design.settings.model_copy(update={"prior": "balanced"})
    return replace(design, z=z, inner=np.full_like(design.inner, -1), settings=settings)


def _table(
    readout: str,
    condition: Condition,
    places: np.ndarray,
    probe: str,
    design: Design,
    scored: ScoredProbes,
) -> pd.DataFrame:
    """Return the table of one condition and probe. `scored.s[:, i]` scores sample `places[i]`."""
    fold, s, layers = design.fold[places], scored.s.astype(np.float32), len(scored.s)
    each = np.ones(len(design.ids)) if design.stands_for is None else design.stands_for
    stands_for = each[places]
    columns = {
        "id": np.tile(design.ids[places], layers),
        "layer": np.repeat(np.arange(layers, dtype=np.int32), len(fold)),
        "readout": readout,
        "condition": condition[0],
        "draw": np.int32(condition[1]),
        "probe": probe,
        "fold": np.tile(fold.astype(np.int32), layers),
        "stands_for": np.tile(stands_for.astype(np.float32), layers),
        "label": np.tile(design.z[places].astype(np.int8), layers),
        "inner_auc": scored.fitted.inner_auc[:, fold].astype(np.float32).ravel(),
        "s": s.ravel(),
        "p": sigmoid(s).astype(np.float32).ravel(),
    }
    return pd.DataFrame(columns, columns=list(COLUMNS))
