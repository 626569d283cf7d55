"""What each detector reads: its logit split into question, answer and pair by `crossing`."""

from __future__ import annotations

import numpy as np
import pandas as pd

from anchorscope.config.readouts import Pair
from anchorscope.config.settings import Bootstrap
from anchorscope.experiments.analysis import Analysis, analyses
from anchorscope.experiments.crossing import table as crossing
from anchorscope.probes import intervals
from anchorscope.storage.errors import AnchorscopeError

CLAIMS = (
    "n_right", "n_wrong",
    *(f"{name}{end}" for name in crossing.INTERVALS for end in ("", "_low", "_high")),
    "reads", "text_pair", "text_truth", "pair_gain_low", "truth_gain_low", "n_unlike", "n_clusters",
    "source",
)  # fmt: skip
"""Columns that are those of the table of crossing."""
SHARES = tuple(f"share_{term}{end}" for term in crossing.TERMS for end in ("", "_low", "_high"))
COLUMNS = ("detector", *SHARES, *CLAIMS, "site", "position")


def table(
    rows: pd.DataFrame, answers: pd.DataFrame, readout: str, bootstrap: Bootstrap, seed: int
) -> pd.DataFrame:
    """A row for each detector that was scored behind both questions: `COLUMNS`.

    The shares are those of the mean squares of the terms over right answers in pairs, and add up to
    1. Intervals hold the detectors fixed.

    Args:
        rows: of one read-out, see `out_of_fold.COLUMNS`.
        answers: of the cell; those without scores were not measured.
        bootstrap, seed: of the intervals.

    Raises:
        AnchorscopeError: scores and answers are not of the same samples.
    """
    crossed = rows[rows["condition"] == "crossed"]
    detectors = list(dict.fromkeys(crossed["detector"]))
    if not detectors:
        return pd.DataFrame(columns=list(COLUMNS))
    analysis = _analysis(
        rows[rows["detector"].isin(detectors)], detectors, answers, bootstrap, seed
    )
    claims = crossing.report(analysis)
    if claims.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    of_terms = _shares(analysis)
    return claims.assign(
        detector=[detectors[number] for number in claims["layer"]],
        **Pair.of(readout)._asdict(),
        **of_terms,
    )[list(COLUMNS)]


def _analysis(
    rows: pd.DataFrame, detectors: list[str], answers: pd.DataFrame, bootstrap: Bootstrap, seed: int
) -> Analysis:
    """The detectors in place of the layers of a read-out, as `crossing` takes them."""
    layers = {name: number for number, name in enumerate(detectors)}
    as_layers = rows.assign(layer=rows["detector"].map(layers).astype(np.int64), draw=0)
    pairs = rows[rows["condition"] == "crossed"].drop_duplicates("id")
    partner = dict(zip(pairs["id"].astype(str), pairs["partner"].astype(str), strict=True))
    measured = answers[answers["id"].isin(rows["id"].unique())]
    with_partners = measured.assign(
        crossed_partner=measured["id"].astype(str).map(partner),
        partner_source=pairs["source"].iloc[0],
    )
    of_readouts = list(analyses(as_layers, with_partners, **bootstrap.model_dump(), seed=seed))
    if len(of_readouts) != 1:
        do = "delete the cell's detection and run again"
        raise AnchorscopeError("scores of several read-outs", "detection", do, see="stale-product")
    return of_readouts[0]


def _shares(analysis: Analysis) -> dict[str, np.ndarray]:
    """The share of each term, and the ends of its interval, [detectors] each."""
    partner = crossing.partners_of(analysis)
    terms = crossing.terms_of(analysis.readout, partner)
    pairs = crossing.pairs_of(analysis, terms, partner)
    squares = terms.terms[:, :, pairs.rows] ** 2  # [terms, detectors, rows]
    right = np.broadcast_to(pairs.right, squares.shape)
    drawn = pairs.drawn.means(squares, right)
    estimate = intervals.mean_known(np.where(right, squares, np.nan), -1)
    share = intervals.ratio(estimate, estimate.sum(0))
    of_draws = intervals.ratio(drawn, drawn.sum(1, keepdims=True))
    columns: dict[str, np.ndarray] = {}
    for number, term in enumerate(crossing.TERMS):
        columns[f"share_{term}"] = share[number]
        columns |= intervals.ends(f"share_{term}", of_draws[:, number], analysis.level)
    return columns
