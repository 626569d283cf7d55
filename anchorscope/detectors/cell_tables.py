"""The tables of detection in one cell."""

from collections.abc import Mapping

import pandas as pd

from anchorscope.config.settings import Bootstrap
from anchorscope.detectors import evaluation, reads, self_awareness
from anchorscope.experiments.analysis import stacked

COLUMNS = {
    "detection": evaluation.COLUMNS,
    "detection-reads": reads.COLUMNS,
    "self-awareness": self_awareness.COLUMNS,
}
"""Table → its columns."""


def tables(
    detection: pd.DataFrame,
    predicted: pd.DataFrame,
    answers: pd.DataFrame,
    bootstrap: Bootstrap,
    seed: int,
) -> Mapping[str, pd.DataFrame]:
    """Build the tables named in `COLUMNS`, with the rows of all read-outs.

    Args:
        detection: Rows of `out_of_fold.scores`, and given scores.
        predicted: Rows of `self_awareness.predictions`.
        answers: Answers of the cell. Answers without scores were not measured.
        bootstrap: Settings of the bootstrap.
        seed: Seed of the draws.

    Raises:
        AnchorscopeError: The tables have different samples.
    """
    parts: dict[str, list[pd.DataFrame]] = {name: [] for name in COLUMNS}
    for readout, rows in detection.groupby("readout", sort=False, observed=True):
        how = str(readout), bootstrap, seed
        pathways = predicted[predicted["readout"] == readout]
        parts["detection"].append(evaluation.table(evaluation.scored(rows, answers), *how))
        parts["detection-reads"].append(reads.table(rows, answers, *how))
        parts["self-awareness"].append(self_awareness.table(pathways, answers, *how))
    return {name: stacked(frames, COLUMNS[name]) for name, frames in parts.items()}
