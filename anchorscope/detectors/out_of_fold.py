"""Out-of-fold scores: no method was fitted to a sample it scores, or to one of the same subject.

The folds are those of the stored probes. Scores are a table with one row per sample, in the order
of `activations.measured`, and one column per score: `<kind>/<detector>`, see `KINDS`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pandas as pd

from anchorscope.detectors.cell import DetectionCell
from anchorscope.detectors.method import Unsupervised
from anchorscope.detectors.registry import Method
from anchorscope.statistics.samples import mismatch
from anchorscope.storage.progress import Progress

KINDS = ("s", "rank", "crossed")
"""Kinds of scores. `s` is the log-odds of *wrong*, given the share of wrong answers in the training
fold. `rank` is `s` minus the `s` of a score that tells nothing (`platt.prior`), so that samples of
all folds can be compared. For methods that learn only their calibration, `rank` is the uncalibrated
score. `crossed` is `s` if the answer follows the partner's question.
"""

log = logging.getLogger(__name__)


def scores(cell: DetectionCell, methods: Sequence[Method]) -> pd.DataFrame:
    """Fit each method to every outer training fold, and score the samples outside of it.

    Methods whose needs were not measured are left out and named in the log. The columns are `id`,
    `readout`, `fold`, and `KINDS` of each method; a score is NaN if it was not measured.
    """
    design, crossed = cell.design, cell.crossed_places
    found = dict[str, np.ndarray]()
    able = [method for method in methods if not cell.lacks(method)]
    for method in methods:
        if missing := cell.lacks(method):
            log.warning("%s is left out: %s was not measured", method.name, missing[0])
        else:
            found |= {f"{kind}/{method.name}": np.full(len(design.ids), np.nan) for kind in KINDS}
    for fold in Progress(range(len(design.inner)), unit="folds"):
        train = cell.training(fold)
        here, moved = np.flatnonzero(design.fold == fold), design.fold[crossed] == fold
        own, behind = cell.clean.rows(here), cell.crossed.rows(np.flatnonzero(moved))
        for method in able:
            scorer = method.fit(train)
            s = scorer.score(own)
            raw = scorer.raw(own) if isinstance(scorer, Unsupervised) else s - train.prior
            after_partner = scorer.score(behind) if len(behind) else np.empty(0)
            if not np.isfinite(np.concatenate([s + raw, after_partner])).all():
                raise mismatch("a detector's score is not finite", method.name)
            found[f"s/{method.name}"][here] = s
            # equal scores may differ by rounding errors
            found[f"rank/{method.name}"][here] = raw.round(6)
            found[f"crossed/{method.name}"][crossed[moved]] = after_partner
    about = {"id": design.ids, "readout": cell.clean.readout, "fold": design.fold}
    return pd.DataFrame(about | found)


def by_readout(scores: pd.DataFrame, answers: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return read-out → its rows of `scores`, whose samples are those of `answers`, in their order.

    Raises:
        AnchorscopeError: Scores and answers have different samples.
    """
    found = {str(readout): rows for readout, rows in scores.groupby("readout", sort=False)}
    for readout, rows in found.items():
        if not np.array_equal(rows["id"], answers["id"]):
            raise mismatch("scores and answers have different samples", readout, "detection")
    return found


def of_kind(scores: pd.DataFrame, kind: str) -> dict[str, np.ndarray]:
    """Return detector → its scores of a kind, float64 [n], if it has any."""
    found = scores.filter(regex=f"^{kind}/").dropna(axis=1, how="all")
    return {str(name).removeprefix(f"{kind}/"): found[name].to_numpy() for name in found}
