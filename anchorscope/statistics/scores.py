"""Scores of a cell as arrays, from the probes to the tables.

Samples are sorted by id, as `activations.measured` returns them. Along the axis [1 + refits], the
first entry is a probe or text model fitted to all training samples. The others were refitted to
bootstrap draws of samples.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from anchorscope.config.readouts import READOUTS, Location, not_measured
from anchorscope.passes import interventions
from anchorscope.statistics.intervals import Resamples
from anchorscope.statistics.samples import (
    Effects,
    Readout,
    effects_of,
    layer_of_fold,
    median_layer,
    mismatch,
    select_rows,
    sigmoid,
)
from anchorscope.storage.files import read_arrays, write_arrays

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
    "inner_auc": "AUC on held-out data inside the training fold, which chooses the headline layer; "
    "without inner folds, the AUC of the clean scores outside the fold",
    "s": "score: the log-odds that the answer is wrong",
    "p": "σ(s), the probability that the answer is wrong",
}
"""Column of the table of scores → its content."""


@dataclass(frozen=True)
class Scores:
    """Out-of-fold scores of a cell's samples by its probes and its text models."""

    ids: np.ndarray  # ids of the samples, ascending, [n]
    z: np.ndarray  # labels, 1 for a wrong answer, int64 [n]
    fold: np.ndarray  # outer fold of each sample, int64 [n]
    stands_for: np.ndarray  # answers of the pool that each sample stands for, float64 [n]
    weights: np.ndarray  # how often each resample has each sample, int64 [refits, n]
    # `<read-out>/<condition>/<draw of the condition>` → scores s by the probes, float32
    # [1 + refits, layers, n]; NaN where a sample was not measured
    probes: dict[str, np.ndarray] = field(default_factory=dict)
    # read-out → AUC that chooses the layer of each fold, float64 [layers, folds], see `COLUMNS`
    inner_auc: dict[str, np.ndarray] = field(default_factory=dict)
    # text model → its scores, float64 [1 + refits, n]
    floors: dict[str, np.ndarray] = field(default_factory=dict)
    # read-out → clean scores by probes of shuffled labels, float32 [layers, n]; {} if not fitted
    shuffled: dict[str, np.ndarray] = field(default_factory=dict)
    shuffled_z: np.ndarray | None = None  # the shuffled labels, int64 [n]

    @property
    def readouts(self) -> list[str]:
        """Names of the scored read-outs, in the order of `READOUTS`."""
        return [name for name in READOUTS if name in self.inner_auc]

    @property
    def headlines(self) -> dict[str, int]:
        """Headline layer of each read-out."""
        return {name: median_layer(layer_of_fold(auc)) for name, auc in self.inner_auc.items()}

    @property
    def learned_from(self) -> Resamples | None:
        """The resamples that models were refitted to; None if there are none."""
        if not len(self.weights):
            return None
        return Resamples(np.arange(len(self.ids)), self.weights.astype(np.float64))

    def add(
        self, readout: str, condition: tuple[str, int], rows: np.ndarray, s: np.ndarray
    ) -> None:
        """Add the scores `s` [1 + refits, layers, len(rows)] of the samples `ids[rows]`.

        Raises:
            AnchorscopeError: A score is not finite.
        """
        name, draw = condition
        if len(strange := np.argwhere(~np.isfinite(s))):
            _, layer, row = strange[0]
            where = f"read-out {readout}, {name}, layer {layer}, id {self.ids[rows[row]]}"
            raise mismatch("a score is not finite", where, "folder of activations")
        whole = np.full((*s.shape[:-1], len(self.ids)), np.nan, dtype=np.float32)
        whole[..., rows] = s
        self.probes[f"{readout}/{name}/{draw}"] = whole

    def readout(self, name: str) -> Readout:
        """Return a read-out as scored by the probes as fitted.

        Raises:
            AnchorscopeError: The read-out was not measured.
        """
        if name not in self.inner_auc:
            raise not_measured(name, self.readouts, "the scores")
        return self._version(name, 0, interventions.REGISTRY)

    def refits(self, name: str, conditions: Collection[str]) -> list[Readout]:
        """Return a read-out as scored by each refit, with the effects of some `conditions`.

        The chosen layers and `shuffled` are those of the probes as fitted.
        """
        wanted = {"clean", *conditions}
        wanted |= {interventions.REGISTRY[one].compared_with for one in wanted}
        return [self._version(name, 1 + k, wanted) for k in range(len(self.weights))]

    def _version(self, name: str, version: int, conditions: Collection[str]) -> Readout:
        """Return a read-out as scored by the probes at index `version` of [1 + refits]."""
        s = dict[tuple[str, int], np.ndarray]()
        for key, scored in self.probes.items():
            readout, condition, draw = key.rsplit("/", 2)
            if readout == name and condition in conditions:
                s[condition, int(draw)] = scored[version].astype(np.float64)
        shuffled = None
        if self.shuffled_z is not None:
            shuffled = self.shuffled[name].astype(np.float64), self.shuffled_z
        return Readout(
            *Location.of(name),
            clean=s["clean", 0],
            fold=self.fold,
            layer_of_fold=layer_of_fold(self.inner_auc[name]),
            effects=_effects(s),
            shuffled=shuffled,
        )

    def matching(self, answers: pd.DataFrame) -> pd.DataFrame:
        """Return the answers that have scores, in the order of the scores.

        The column `stands_for` comes from the scores, because stored answers lack it.

        Raises:
            AnchorscopeError: A sample has no answer, or two.
        """
        return select_rows(answers, self.ids, "answers", "answers").assign(
            stands_for=self.stands_for
        )

    def tables(self) -> Iterator[pd.DataFrame]:
        """Yield a table with `COLUMNS` for each read-out, condition, draw and probe.

        A table has a row for each layer and measured sample, in this order. The scores are those of
        the probes as fitted. Scores by the probe `shuffled` assume balanced classes. They are not
        calibrated, so their p is NaN.
        """
        for key, s in self.probes.items():
            readout, condition, draw = key.rsplit("/", 2)
            named = {"readout": readout, "condition": condition, "draw": np.int32(draw)}
            yield self._table(named | {"probe": "clean"}, s[0], self.z)
            if condition == "clean" and self.shuffled_z is not None:
                scored = self.shuffled[readout]
                null = self._table(named | {"probe": "shuffled"}, scored, self.shuffled_z)
                yield null.assign(p=np.float32("nan"))

    def _table(self, named: dict[str, object], s: np.ndarray, z: np.ndarray) -> pd.DataFrame:
        """Return the table of the scores `s` [layers, n], by probes fitted to the labels `z`."""
        rows, layers = np.flatnonzero(~np.isnan(s[0])), len(s)
        fold, s = self.fold[rows], s[:, rows]
        columns = named | {
            "id": np.tile(self.ids[rows], layers),
            "layer": np.repeat(np.arange(layers, dtype=np.int32), len(rows)),
            "fold": np.tile(fold.astype(np.int32), layers),
            "stands_for": np.tile(self.stands_for[rows].astype(np.float32), layers),
            "label": np.tile(z[rows].astype(np.int8), layers),
            "inner_auc": self.inner_auc[str(named["readout"])][:, fold].ravel(),
            "s": s.ravel(),
            "p": sigmoid(s).astype(np.float32).ravel(),
        }
        return pd.DataFrame(columns, columns=list(COLUMNS))

    def write(self, path: str | Path) -> None:
        """Write the scores to a file that `read` can read."""
        arrays = {name: getattr(self, name) for name in PER_SAMPLE}
        if self.shuffled_z is not None:
            arrays["shuffled_z"] = self.shuffled_z
        for kind in KINDS:
            arrays |= {f"{kind}/{name}": array for name, array in getattr(self, kind).items()}
        write_arrays(path, self.ids, arrays)

    @classmethod
    def read(cls, path: str | Path) -> Scores:
        """Read the scores that `write` wrote.

        Raises:
            AnchorscopeError: The file cannot be read, or holds no scores.
        """
        ids, arrays = read_arrays(path, "scores")
        if not {*PER_SAMPLE} <= arrays.keys():
            raise mismatch("the file of scores lacks the facts of its samples", path)
        z, fold, stands_for, weights = (arrays.pop(name) for name in PER_SAMPLE)
        shuffled_z = arrays.pop("shuffled_z", None)
        scores = cls(ids, z, fold, stands_for, weights, shuffled_z=shuffled_z)
        for key, array in arrays.items():
            kind, name = key.split("/", 1)
            getattr(scores, kind)[name] = array
        return scores


PER_SAMPLE = ("z", "fold", "stands_for", "weights")
"""Arrays in every file of scores; the last axis of each holds the samples."""
KINDS = ("probes", "inner_auc", "floors", "shuffled")
"""Dicts of arrays in `Scores`."""


def _effects(scores: dict[tuple[str, int], np.ndarray]) -> dict[str, Effects]:
    """Return the effects of each measured condition, in the order of the registry."""
    effects: dict[str, Effects] = {}
    for one in interventions.REGISTRY.values():
        draws = [scores[key] for key in sorted(scores) if key[0] == one.name]
        if one.role != "clean" and draws:
            effects[one.name] = effects_of(scores[one.compared_with, 0], np.stack(draws))
    return effects
