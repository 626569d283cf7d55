"""The table of self-awareness: how well a sample's pathway can be told, and from what."""

from __future__ import annotations

import numpy as np
import pandas as pd

from anchorscope.config.readouts import Pair
from anchorscope.config.settings import Bootstrap
from anchorscope.probes import intervals, samples

PREDICTORS = ("states", "text", "score")
"""What predicts the pathway: the clean states of any layer; question and response as text; and the
probe's logit, its size and the class it names, which decide much of what flips."""
SCORES = ("id", "readout", "predictor", "fold", "flips", "rank")
"""Columns of `pathways.predictions`."""
COLUMNS = (
    "predictor", "auc", "auc_low", "auc_high",
    *(f"vs_{name}{end}" for name in ("text", "score") for end in ("", "_low", "_high")),
    "n", "n_flips", "n_clusters", "thin", "site", "position",
)  # fmt: skip


def table(
    rows: pd.DataFrame, answers: pd.DataFrame, readout: str, bootstrap: Bootstrap, seed: int
) -> pd.DataFrame:
    """How well each predictor tells the pathway, and the states better than the others: `COLUMNS`.

    Args:
        rows: of `predictions`, of one read-out.
        answers: of the cell.

    Raises:
        AnchorscopeError: rows and answers are not of the same samples.
    """
    if not len(rows):
        return pd.DataFrame(columns=list(COLUMNS))
    ordered = samples.in_order(answers[answers["id"].isin(rows["id"].unique())])
    drawn = samples.bootstrap(ordered, bootstrap.draws, seed)
    by_name = {str(name): part for name, part in rows.groupby("predictor", sort=False)}
    where = f"pathways at {readout}"
    ranks = np.stack(
        [samples.aligned(by_name[name], ordered, "rank", where) for name in PREDICTORS]
    )
    flips = samples.aligned(by_name["states"], ordered, "flips", where).astype(np.int64)
    aucs = drawn.aucs(ranks, flips)
    few = min(flips.sum(), (1 - flips).sum())
    clusters = min(int(drawn.clusters_in(flips == one)) for one in (0, 1))
    return pd.DataFrame(
        {
            "predictor": PREDICTORS,
            **intervals.estimate("auc", aucs, bootstrap.level),
            **_gains(aucs, bootstrap.level),
            "n": len(flips),
            "n_flips": int(flips.sum()),
            "n_clusters": clusters,
            "thin": intervals.thin(few, clusters, bootstrap),
            **Pair.of(readout)._asdict(),
        }
    )[list(COLUMNS)]


def _gains(aucs: np.ndarray, level: float) -> dict[str, object]:
    """How far the states are ahead of text and score; blank in the rows of these two.

    `aucs` are those of `PREDICTORS`, [1 + draws, predictors].
    """
    columns: dict[str, object] = {}
    for name in ("text", "score"):
        gains = aucs[:, 0] - aucs[:, PREDICTORS.index(name)]
        for column, value in intervals.estimate(f"vs_{name}", gains, level).items():
            columns[column] = [value, np.nan, np.nan]
    return columns
