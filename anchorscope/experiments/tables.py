"""Tables of the main run and of experiments: of one cell, and joined for a figure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from anchorscope.config.settings import Bootstrap
from anchorscope.experiments.analysis import Analysis, analyses, stacked
from anchorscope.experiments.crossing import table as crossing
from anchorscope.experiments.experiment import PER_SAMPLE, Experiment
from anchorscope.experiments.knockout import controls, curve
from anchorscope.experiments.measured import MeasuredRows
from anchorscope.probes.bands import Draws
from anchorscope.storage.errors import stale

PER_SAMPLE_COLUMNS = (PER_SAMPLE[0], "site", "position", "layer", *PER_SAMPLE[1:])


def columns() -> dict[str, Mapping[str, str]]:
    """Return the columns of each table of the main run, with what they hold."""
    return {
        "curve": curve.CURVE,
        "contrasts": controls.CONTRASTS,
        "controls": controls.columns(),
        "crossing": crossing.CROSSING,
        "claims": crossing.CLAIMS,
    }


def of_main_run(
    scores: pd.DataFrame,
    floors: pd.DataFrame,
    answers: pd.DataFrame,
    refits: Draws,
    *,
    bootstrap: Mapping[str, Any],
    seed: int,
) -> dict[str, pd.DataFrame]:
    """Make the tables of `columns` for a cell, from scores of its probes and of refitted probes.

    `bootstrap` is the section of the config, and `seed` the seed of its draws.
    """
    made: dict[str, list[pd.DataFrame]] = {name: [] for name in columns()}
    given = {"floors": floors, "refits": refits, **bootstrap, "seed": seed}
    for analysis in analyses(scores, answers, **given):
        made["curve"].append(curve.curve(analysis))
        made["contrasts"].append(controls.contrasts(analysis))
        made["controls"].append(controls.controls(analysis, scores, refits.ids))
        for name, frame in crossing.tables(analysis).items():
            made[name].append(frame)
    return {name: stacked(frames, columns()[name]) for name, frames in made.items()}


@dataclass(frozen=True)
class Products:
    """Inputs of an experiment's table in one cell."""

    scores: pd.DataFrame  # scores of the main run, which form the groups
    answers: pd.DataFrame  # answers without scores are left out
    rows: pd.DataFrame  # rows that the experiment measured, see `measured.COLUMNS`
    floors: pd.DataFrame | None = None  # scores of the text floors, if the experiment needs them
    draws: Draws | None = None  # refits of probes and floors, together with `floors`

    def readouts(self, bootstrap: Bootstrap, seed: int) -> Iterator[tuple[Analysis, MeasuredRows]]:
        """Yield analysis and measured rows of each read-out that the experiment measured."""
        answers = self.answers[self.answers["id"].isin(self.scores["id"].unique())]
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
            yield analysis, MeasuredRows(rows, analysis.answers)


def of_cell(
    experiment: Experiment, products: Products, bootstrap: Bootstrap, seed: int = 0
) -> pd.DataFrame:
    """Make the table of an experiment in one cell, with the columns of its record.

    Intervals hold the probes fixed. The table is empty if nothing was measured.

    Raises:
        AnchorscopeError: The products are not of the same samples.
    """
    columns = list(experiment.columns)
    frames = [experiment.table(*one) for one in products.readouts(bootstrap, seed)]
    return stacked(frames, columns)[columns]


def per_sample(experiment: Experiment, products: Products) -> pd.DataFrame:
    """Return an experiment's values of each sample at the headline layer of every read-out.

    `value` is measured in an arm and `control` in its control, NaN if the sample does not count.
    The columns are `PER_SAMPLE_COLUMNS`.
    """
    frames = []
    for analysis, measured in products.readouts(Bootstrap(draws=1), seed=0):
        frame = experiment.per_sample(analysis, measured)
        readout = analysis.readout
        frame = frame.assign(site=readout.site, position=readout.position, layer=readout.headline)
        frames.append(frame[list(PER_SAMPLE_COLUMNS)])
    return stacked(frames, PER_SAMPLE_COLUMNS)


def join(cells: Sequence[Sequence[str]], frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate the tables of several cells, with the columns `model` and `dataset` first.

    Rows and columns keep their order. A cell may have no rows. `cells` are the keys of model and
    dataset of each cell, or of the model alone if the tables have the column `dataset`.

    Raises:
        AnchorscopeError: The tables' columns differ.
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
    """Return the rows that have these values."""
    return rows[rows[list(values)].eq(pd.Series(values)).all(axis=1)]
