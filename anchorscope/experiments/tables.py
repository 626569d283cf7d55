"""Tables of experiments: of one cell, read-out by read-out; and the cells of a figure in one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from anchorscope.config.settings import Bootstrap
from anchorscope.experiments.analysis import Analysis, analyses, stacked
from anchorscope.experiments.experiment import PER_SAMPLE, Experiment
from anchorscope.experiments.measured import Measured
from anchorscope.probes.bands import Draws
from anchorscope.storage.errors import stale

PER_SAMPLE_COLUMNS = (PER_SAMPLE[0], "site", "position", "layer", *PER_SAMPLE[1:])


@dataclass(frozen=True)
class Products:
    """What the table of an experiment in one cell is made from."""

    scores: pd.DataFrame  # of the main run, which form the groups
    answers: pd.DataFrame  # those without scores were not measured
    rows: pd.DataFrame  # what the experiment measured, see `measured.COLUMNS`
    floors: pd.DataFrame | None = None  # what text alone tells, where the experiment needs it
    truth: pd.DataFrame | None = None  # likewise, see `calibration.truth`
    draws: Draws | None = None  # with `floors`: both learned anew

    def readouts(self, bootstrap: Bootstrap, seed: int) -> Iterator[tuple[Analysis, Measured]]:
        """The read-outs that the experiment measured."""
        answers = self.answers[self.answers["id"].isin(self.scores["id"].unique())]
        if self.truth is not None:
            answers = answers.merge(self.truth[["id", "truth"]], on="id", how="left")
        measured = self.scores["readout"].isin(self.rows["readout"].unique())
        for analysis in analyses(
            self.scores[measured],
            answers,
            seed=seed,
            floors=self.floors,
            refits=self.draws,
            **bootstrap.model_dump(),
        ):
            rows = self.rows[self.rows["readout"] == analysis.readout.name]
            yield analysis, Measured(rows, analysis.answers)


def of_cell(
    experiment: Experiment, products: Products, bootstrap: Bootstrap, seed: int = 0
) -> pd.DataFrame:
    """The table of an experiment in one cell, with the columns of its record.

    Intervals hold the probes fixed. Nothing was measured: no rows. Raises AnchorscopeError: the
    products are not of the same samples.
    """
    columns = list(experiment.columns)
    frames = [experiment.table(*one) for one in products.readouts(bootstrap, seed)]
    return stacked(frames, columns)[columns]


def per_sample(experiment: Experiment, products: Products) -> pd.DataFrame:
    """What an experiment measured of each sample at the headline layer of every read-out.

    `PER_SAMPLE_COLUMNS`: `value` in an arm and of its control, NaN where the sample does not count.
    """
    frames = []
    for analysis, measured in products.readouts(Bootstrap(draws=1), seed=0):
        frame = experiment.per_sample(analysis, measured)
        readout = analysis.readout
        frame = frame.assign(site=readout.site, position=readout.position, layer=readout.headline)
        frames.append(frame[list(PER_SAMPLE_COLUMNS)])
    return stacked(frames, PER_SAMPLE_COLUMNS)


def join(cells: Sequence[Sequence[str]], frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Put a kind of table of several cells below one another, `model` and `dataset` first.

    `cells` holds the model's and the dataset's key of each, or the model's alone where the tables
    name their datasets; rows and columns keep their order, and a cell may have no rows.
    Raises AnchorscopeError: the tables' columns differ.
    """
    columns, named = list(frames[0]), []
    for cell, frame in zip(cells, frames, strict=True):
        if list(frame) != columns:
            differing = sorted(map(str, {*frame} ^ {*columns})) or ["their order"]
            what = f"the cells' tables have different columns: {', '.join(differing)}"
            raise stale(what, " on ".join(cell), "the tables under delta_p/")
        keys = dict(zip(("model", "dataset"), cell, strict=False))
        named.append(frame.assign(**keys)[list(dict.fromkeys([*keys, *columns]))])
    return stacked(named)


def rows_where(rows: pd.DataFrame, **values: object) -> pd.DataFrame:
    """The rows that have these values."""
    return rows[rows[list(values)].eq(pd.Series(values)).all(axis=1)]
