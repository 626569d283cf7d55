"""How far each sample's pair speaks for the truth of its answer."""

import numpy as np
import pandas as pd

from anchorscope.experiments.analysis import Analysis, analyses, stacked
from anchorscope.experiments.crossing.table import partners_of, terms_of

COLUMNS = ("site", "position", "layer", "id", "pair", "truth")


def per_sample(scores: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """A row for each sample in a pair, at the headline layer of every read-out.

    `pair` numbers the pairs of a read-out. `truth` is the pair term in logits: towards *right* of a
    right answer, towards *wrong* of a wrong one. No rows where crossing was not run.

    Args:
        scores: the table of `anchorscope.probes.scores.score`.
        answers: the measured ones, see `passes.activations.measured`.

    Raises:
        AnchorscopeError: scores, answers and partners are not of the same samples.
    """
    if "crossed" not in set(scores["condition"]):
        return pd.DataFrame(columns=list(COLUMNS))
    return stacked([_of_readout(one) for one in analyses(scores, answers, draws=1)], COLUMNS)


def _of_readout(analysis: Analysis) -> pd.DataFrame:
    readout, partner = analysis.readout, partners_of(analysis)
    towards_right = terms_of(readout, partner).pair[readout.headline]
    rows = np.flatnonzero(~np.isnan(towards_right))
    columns = {
        **readout.key,
        "layer": readout.headline,
        "id": analysis.answers["id"].iloc[rows].to_numpy(),
        "pair": np.minimum(rows, partner[rows]),
        "truth": (np.where(analysis.z == 0, 1, -1) * towards_right)[rows],
    }
    return pd.DataFrame(columns)[list(COLUMNS)]
