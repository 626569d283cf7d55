"""Make the table of an experiment in one cell from the products of the cell's jobs."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from anchorscope.config.settings import Bootstrap
from anchorscope.experiments.experiment import PER_SAMPLE, Experiment
from anchorscope.experiments.measured import MeasuredRows
from anchorscope.statistics.analysis import Analysis, analyses, stacked
from anchorscope.statistics.scores import Scores

PER_SAMPLE_COLUMNS = (PER_SAMPLE[0], "site", "position", "layer", *PER_SAMPLE[1:])


@dataclass(frozen=True)
class Products:
    """Inputs of an experiment's table in one cell."""

    scores: Scores  # scores of the main run, which form the groups
    answers: pd.DataFrame  # answers without scores are left out
    rows: pd.DataFrame  # rows that the experiment measured, see `measured.COLUMNS`

    def readouts(self, bootstrap: Bootstrap, seed: int) -> Iterator[tuple[Analysis, MeasuredRows]]:
        """Yield (analysis, measured rows) for each read-out that the experiment measured."""
        for analysis in analyses(self.scores, self.answers, seed=seed, **bootstrap.model_dump()):
            rows = self.rows[self.rows["readout"] == analysis.readout.name]
            if len(rows):
                yield analysis, MeasuredRows(rows, analysis.answers)


def of_cell(
    experiment: Experiment, products: Products, bootstrap: Bootstrap, seed: int = 0
) -> pd.DataFrame:
    """Make the table of an experiment in one cell, with the columns of its record.

    Intervals hold the probes fixed. The table is empty if nothing was measured.

    Raises:
        AnchorscopeError: The products have different samples.
    """
    columns = list(experiment.columns)
    frames = [experiment.table(*one) for one in products.readouts(bootstrap, seed)]
    return stacked(frames, columns)[columns]


def per_sample(experiment: Experiment, products: Products) -> pd.DataFrame:
    """Return an experiment's values of each sample at the headline layer of every read-out.

    The columns are `PER_SAMPLE_COLUMNS`. `value` is measured in the arm, and `control` under the
    arm's control. Both are NaN for a sample that does not count.
    """
    frames = []
    for analysis, measured in products.readouts(Bootstrap(draws=1), seed=0):
        frame = experiment.per_sample(analysis, measured)
        readout = analysis.readout
        frame = frame.assign(site=readout.site, position=readout.position, layer=readout.headline)
        frames.append(frame[list(PER_SAMPLE_COLUMNS)])
    return stacked(frames, PER_SAMPLE_COLUMNS)
