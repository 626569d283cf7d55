"""Measurements of an experiment in a cell, as arrays, and the tables made from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from anchorscope.config.settings import Bootstrap
from anchorscope.experiments.experiment import Experiment
from anchorscope.statistics.analysis import Analysis, analyses, stacked
from anchorscope.statistics.samples import mismatch
from anchorscope.statistics.scores import Scores
from anchorscope.storage.files import read_arrays, write_arrays

PER_SAMPLE = ("id", "site", "position", "layer", "arm", "measure", "value", "control")
"""Columns of `per_sample`."""
Arrays = Mapping[str, np.ndarray]
"""Name of a condition or fact → its array, at one read-out, see `Measurements`."""
PerSample = dict[tuple[str, str], tuple[np.ndarray, np.ndarray]]
"""(arm, measure) → (values, values of the control), [n]; NaN for samples that do not count."""


@dataclass(frozen=True)
class Measurements:
    """Measurements of a cell's samples, in the order of the cell's scores."""

    ids: np.ndarray  # ids of all samples of the cell, ascending, [n]
    # `<read-out>/<condition>` → the scores s, or whatever else the experiment measures, float64
    # [draws, layers, n]; NaN where a sample was not measured. `<fact>` → a fact that `measure` adds
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def rows(self) -> dict[str, int]:
        """Id → index of the sample in the arrays."""
        return {id_: row for row, id_ in enumerate(self.ids)}

    def add(self, readout: str, condition: str, ids: Sequence[str], values: np.ndarray) -> None:
        """Add `values` [draws, layers, len(ids)] of some samples under a condition."""
        name = f"{readout}/{condition}"
        if name not in self.arrays:
            self.arrays[name] = np.full((*values.shape[:-1], len(self.ids)), np.nan)
        self.arrays[name][..., [self.rows[id_] for id_ in ids]] = values

    def at(self, readout: str) -> Arrays:
        """Return the arrays at one read-out, by condition, and all others by their full names."""
        return {name.removeprefix(f"{readout}/"): array for name, array in self.arrays.items()}

    def write(self, path: str | Path) -> None:
        """Write the measurements to a file that `read` can read."""
        write_arrays(path, self.ids, self.arrays)

    @classmethod
    def read(cls, path: str | Path) -> Measurements:
        """Read the measurements that `write` wrote.

        Raises:
            AnchorscopeError: The file cannot be read.
        """
        return cls(*read_arrays(path, "measurements"))


def of_cell(
    experiment: Experiment,
    measured: Measurements,
    scores: Scores,
    answers: pd.DataFrame,
    bootstrap: Bootstrap,
    seed: int = 0,
) -> pd.DataFrame:
    """Make the table of an experiment in one cell, with the columns of its record.

    The main run's `scores` form the groups. Answers without scores are left out. Intervals hold the
    probes fixed. The table is empty if nothing was measured.

    Raises:
        AnchorscopeError: Scores, answers and measurements have different samples.
    """
    made = experiment.module("results")
    given = _readouts(measured, scores, answers, bootstrap, seed)
    return stacked([made.table(*one) for one in given], experiment.columns)


def per_sample(
    experiment: Experiment, measured: Measurements, scores: Scores, answers: pd.DataFrame
) -> pd.DataFrame:
    """Return an experiment's values of each sample at the headline layer of every read-out.

    The columns are `PER_SAMPLE`. `value` is measured in the arm, and `control` under the arm's
    control. Both are NaN for a sample that does not count.
    """
    made, frames = experiment.module("results"), []
    for analysis, arrays in _readouts(measured, scores, answers, Bootstrap(draws=1), seed=0):
        readout = analysis.readout
        key = {"id": measured.ids, **readout.key, "layer": readout.headline}
        for (arm, measure), (value, control) in made.per_sample(analysis, arrays).items():
            columns = {"arm": arm, "measure": measure, "value": value, "control": control}
            frames.append(pd.DataFrame(key | columns))
    return stacked(frames, PER_SAMPLE)


def _readouts(
    measured: Measurements, scores: Scores, answers: pd.DataFrame, bootstrap: Bootstrap, seed: int
) -> Iterator[tuple[Analysis, Arrays]]:
    """Yield (analysis, arrays) for each read-out that the experiment measured."""
    if not np.array_equal(measured.ids, scores.ids):
        what = f"{len(measured.ids)} measured samples do not match {len(scores.ids)} scored ones"
        raise mismatch(what, "measurements of an experiment", "experiments")
    for analysis in analyses(scores, answers, seed=seed, **bootstrap.model_dump()):
        arrays = measured.at(analysis.readout.name)
        if "clean" in arrays:
            yield analysis, arrays
