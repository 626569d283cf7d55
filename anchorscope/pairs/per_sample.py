"""The pair terms of a cell as a table with a row per sample."""

import numpy as np
import pandas as pd

from anchorscope.claims.claim import OWN
from anchorscope.claims.estimates import PAIR, term
from anchorscope.pairs.swapped import Swapped
from anchorscope.statistics.analysis import Analysis, analyses, stacked
from anchorscope.statistics.scores import Scores

COLUMNS = ("site", "position", "layer", "id", "pair", "term")
"""Columns of `per_sample`."""


def per_sample(scores: Scores, answers: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each sample in a pair, at the headline layer of every read-out.

    `pair` is the number of the pair. `term` is the pair term, in logits towards the sample's label.
    The table is empty if crossing was not run.

    Raises:
        AnchorscopeError: Scores, answers and partners have different samples.
    """
    every = analyses(scores, answers, draws=1)
    crossed = [one for one in every if "crossed" in one.readout.effects]
    return stacked([_of_readout(one) for one in crossed], COLUMNS)


def _of_readout(analysis: Analysis) -> pd.DataFrame:
    pairs, readout = Swapped.of(analysis), analysis.readout
    towards_right = term(PAIR, pairs.scores(OWN)[:, 0, readout.headline])
    towards_label = np.where(pairs.right, 1, -1) * towards_right
    columns = {
        **readout.key,
        "layer": readout.headline,
        "id": analysis.answers["id"].to_numpy()[pairs.members].ravel(),
        "pair": np.tile(pairs.members[0], 2),
        "term": np.tile(towards_label, 2),
    }
    return pd.DataFrame(columns)[list(COLUMNS)]
