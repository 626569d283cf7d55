"""Split of each detector's logit into question, answer and pair, as in `crossing`."""

from __future__ import annotations

import numpy as np
import pandas as pd

from anchorscope.config.readouts import Pair
from anchorscope.config.settings import Bootstrap
from anchorscope.detectors.evaluation import with_ends
from anchorscope.experiments.analysis import Analysis, analyses
from anchorscope.experiments.crossing import table as crossing
from anchorscope.experiments.crossing.estimates import term
from anchorscope.experiments.crossing.swapped import OWN, Swapped, linked
from anchorscope.probes import intervals

ESTIMATES = ("pair_right", "right_above_text", "pair_wrong", "wrong_above_text")
"""Quantities of `crossing` that are reported with their intervals."""
JUDGED = ("interaction", "own_answer")
COLUMNS = (
    "detector", *with_ends(*(f"share_{term}" for term in crossing.TERMS)), "n_right", "n_wrong",
    *with_ends(*ESTIMATES),
    *(f"{claim}{end}" for claim in JUDGED for end in ("", "_p")),
    "n_unlike", "clusters_right", "clusters_wrong", "source", "site", "position",
)  # fmt: skip


def table(
    rows: pd.DataFrame, answers: pd.DataFrame, readout: str, bootstrap: Bootstrap, seed: int
) -> pd.DataFrame:
    """Split the logit of each detector that was scored behind both questions.

    The shares are shares of the mean squares of the terms over right answers in pairs. They add up
    to 1. Intervals hold the detectors fixed.

    `rows` are those of `out_of_fold.scores` at this read-out.

    Returns:
        One row per detector: `COLUMNS`. There are no rows without pairs.

    Raises:
        AnchorscopeError: Scores and answers have different samples.
    """
    crossed = rows[rows["condition"] == "crossed"]
    if crossed.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    detectors = list(dict.fromkeys(crossed["detector"]))
    analysis = _analysis(rows, detectors, answers, bootstrap, seed)
    pairs = Swapped.of(analysis)
    if not pairs.members.size:
        return pd.DataFrame(columns=list(COLUMNS))
    groups = crossing.groups_of(pairs)
    columns = {
        "detector": detectors,
        "n_unlike": int(crossing.unlike(pairs).sum()),
        "source": analysis.answers["partner_source"].iloc[0],
        **Pair.of(readout)._asdict(),
        **_shares(pairs, analysis),
    }
    for row in crossing.by_layer(groups, pairs, analysis.level):
        if row.quantity in ESTIMATES:
            ends = {"": row.estimate.value, "_low": row.estimate.low, "_high": row.estimate.high}
            columns |= {f"{row.quantity}{end}": values for end, values in ends.items()}
            if row.quantity.startswith("pair"):
                columns[row.quantity.replace("pair", "n")] = row.n
    found = [crossing.judge(groups, pairs, at, analysis.level) for at in range(len(detectors))]
    for claim, side in zip(JUDGED, crossing.SIDES, strict=True):
        columns[claim] = [one[claim].verdict for one in found]
        columns[f"{claim}_p"] = [one[claim].p for one in found]
        columns[f"clusters_{side}"] = [one[claim].clusters for one in found]
    return pd.DataFrame(columns)[list(COLUMNS)]


def _analysis(
    rows: pd.DataFrame, detectors: list[str], answers: pd.DataFrame, bootstrap: Bootstrap, seed: int
) -> Analysis:
    """Return an analysis for `crossing` with the detectors in place of a read-out's layers."""
    layers = {name: number for number, name in enumerate(detectors)}
    rows = rows[rows["detector"].isin(detectors)]
    as_layers = rows.assign(layer=rows["detector"].map(layers).astype(np.int64), draw=0)
    pairs = rows[rows["condition"] == "crossed"].drop_duplicates("id")
    partner = dict(zip(pairs["id"].astype(str), pairs["partner"].astype(str), strict=True))
    measured = answers[answers["id"].isin(rows["id"].unique())]
    with_partners = measured.assign(
        crossed_partner=measured["id"].astype(str).map(partner),
        partner_source=pairs["source"].iloc[0],
    )
    (analysis,) = analyses(as_layers, with_partners, **bootstrap.model_dump(), seed=seed)
    return analysis


def _shares(pairs: Swapped, analysis: Analysis) -> dict[str, np.ndarray]:
    """Return the share of each term, and the ends of its interval, [detectors] each."""
    four = pairs.scores(OWN)[:, 0][..., pairs.right]  # [4, detectors, pairs]
    squares = np.stack([term(which, four) ** 2 for which in crossing.TERMS.values()])
    # Both samples of a pair lie in one cluster.
    clusters = linked(analysis).drawn.clusters[pairs.members[0, pairs.right]]
    whole = squares.mean(-1)[None]
    drawn = np.full_like(whole, np.nan)
    if len(clusters):
        draws = intervals.bootstrap(clusters, len(analysis.drawn.weights), analysis.drawn.seed)
        drawn = draws.totals(squares)
    every = np.concatenate([whole, drawn])
    shares = intervals.ratio(every, every.sum(1, keepdims=True))
    columns: dict[str, np.ndarray] = {}
    for number, name in enumerate(crossing.TERMS):
        columns |= intervals.estimate(f"share_{name}", shares[:, number], analysis.level)
    return columns
