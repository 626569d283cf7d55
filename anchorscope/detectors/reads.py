"""Split each detector's logit into question, answer and pair term, as in `crossing`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from anchorscope.claims import CLAIMS
from anchorscope.claims.claim import OWN, Evidence, Groups
from anchorscope.config.readouts import Location
from anchorscope.config.settings import Bootstrap
from anchorscope.detectors.evaluation import with_ends
from anchorscope.detectors.out_of_fold import of_kind
from anchorscope.pairs import crossing
from anchorscope.pairs.swapped import Swapped
from anchorscope.statistics import intervals
from anchorscope.statistics.analysis import Analysis, analyses
from anchorscope.statistics.intervals import Estimate
from anchorscope.statistics.scores import Scores

ESTIMATES = ("pair_right", "right_above_text", "pair_wrong", "wrong_above_text")
"""Quantities of `crossing` that are reported with their intervals."""
JUDGED = ("comparison_right", "comparison_wrong")
COLUMNS = (
    "detector", *with_ends(*(f"share_{term}" for term in crossing.TERMS)), "n_right", "n_wrong",
    *with_ends(*ESTIMATES),
    *(f"{claim}{end}" for claim in JUDGED for end in ("", "_p")),
    "n_unlike", "clusters_right", "clusters_wrong", "source", "site", "position",
)  # fmt: skip


def table(
    scores: pd.DataFrame, answers: pd.DataFrame, readout: str, bootstrap: Bootstrap, seed: int
) -> pd.DataFrame:
    """Split the logit of each detector that also scored the swapped answers.

    Each term has a mean square over the pairs of right answers. The share of a term is its part of
    the sum of these mean squares. Intervals hold the detectors fixed. `scores` are
    `out_of_fold.scores` at this read-out, in the order of `answers`. Return a row of `COLUMNS` per
    detector, if pairs exist.
    """
    detectors = [*of_kind(scores, "crossed")]
    if not detectors:
        return pd.DataFrame(columns=list(COLUMNS))
    layers = _as_layers(scores, detectors, answers, readout)
    (analysis,) = analyses(layers, answers, **bootstrap.model_dump(), seed=seed)
    pairs = Swapped.of(analysis)
    if not pairs.members.size:
        return pd.DataFrame(columns=list(COLUMNS))
    groups = pairs.groups()
    rows_by_layer = list(crossing.by_layer(groups, analysis.level))
    made = [_row(groups, rows_by_layer, number, analysis.level) for number in range(len(detectors))]
    facts = pd.DataFrame(made).assign(detector=detectors, **Location.of(readout)._asdict())
    facts["n_unlike"] = int(crossing.unlike(pairs).sum())
    facts["source"] = analysis.answers["partner_source"].iloc[0]
    return facts.assign(**_shares(groups, pairs, analysis, seed))[list(COLUMNS)]


def _row(
    groups: Groups, estimated: Sequence[crossing.Quantity], number: int, level: float
) -> dict[str, object]:
    """Return the pair terms and claims of one detector."""
    row: dict[str, object] = {}
    for quantity, one in estimated:
        if quantity in ESTIMATES:
            row |= {name: values[number] for name, values in one.columns(quantity).items()}
            if quantity in ("pair_right", "pair_wrong"):
                row[quantity.replace("pair", "n")] = one.n
    answers = {side: {OWN: of[OWN].at(number)} for side, of in groups.items()}
    for name in JUDGED:
        claim, judged = CLAIMS[name], CLAIMS[name].judge(Evidence(level, answers=answers))
        row |= {name: judged.verdict, f"{name}_p": judged.p}
        row[f"clusters_{claim.answers}"] = judged.clusters
    return row


def _as_layers(
    scores: pd.DataFrame, detectors: Sequence[str], answers: pd.DataFrame, readout: str
) -> Scores:
    """Return the logits as scores in which each detector takes the place of a layer."""
    n, fold = len(scores), scores["fold"].to_numpy()
    made = Scores(
        ids=scores["id"].to_numpy(dtype=object),
        z=answers["label"].to_numpy(dtype=np.int64),
        fold=fold,
        stands_for=np.ones(n),
        weights=np.empty((0, n), dtype=np.int64),
        inner_auc={readout: np.zeros((len(detectors), fold.max() + 1))},  # no layer is chosen
    )
    for condition, kind in (("clean", "s"), ("crossed", "crossed")):
        s = scores[[f"{kind}/{name}" for name in detectors]].to_numpy().T
        places = np.flatnonzero(~np.isnan(s[0]))
        made.add(readout, (condition, 0), places, s[None, :, places])
    return made


def _shares(groups: Groups, pairs: Swapped, analysis: Analysis, seed: int) -> dict[str, np.ndarray]:
    """Return the columns of each term's share and of its interval, float64 [detectors]."""
    right = groups["right"][OWN]
    squares = np.stack([right.term(which)[0] ** 2 for which in crossing.TERMS.values()])
    whole = squares.mean(-1)[None]
    resampled = np.full_like(whole, np.nan)
    if squares.shape[-1]:
        among = np.unique(pairs.clusters[pairs.right], return_inverse=True)[1]
        resamples = intervals.bootstrap(among, len(analysis.resamples.weights), seed)
        resampled = resamples.totals(squares)
    every = np.concatenate([whole, resampled])
    shares = intervals.ratio(every, every.sum(1, keepdims=True))
    columns: dict[str, np.ndarray] = {}
    for number, name in enumerate(crossing.TERMS):
        columns |= Estimate.of_resamples(shares[:, number], analysis.level).columns(f"share_{name}")
    return columns
