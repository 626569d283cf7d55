"""Out-of-fold scores: no method was fitted to a sample it scores, or to one of the same subject.

The folds are those of the stored probes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from anchorscope.detectors.cell import DetectionCell
from anchorscope.detectors.method import Training, Unsupervised
from anchorscope.detectors.methods.probe import with_probes
from anchorscope.detectors.registry import Method
from anchorscope.statistics.analysis import stacked
from anchorscope.statistics.samples import mismatch
from anchorscope.storage.progress import Progress

COLUMNS = ("id", "readout", "detector", "condition", "fold", "s", "rank", "partner", "source")
"""`s` is the log-odds of *wrong*, given the share of wrong answers in the training fold. `rank` is
`s` minus the `s` of a score that tells nothing (`platt.prior`), so that samples of all folds can be
compared. For methods that learn only their calibration, `rank` is the uncalibrated score. The
`condition` is `clean` or `crossed`. In `crossed`, the answer follows the question of another
sample, whose id is `partner`. `source` says where the partners' relations come from, see
`passes.partners.Crossing`.
"""

log = logging.getLogger(__name__)


def scores(cell: DetectionCell, methods: Sequence[Method]) -> pd.DataFrame:
    """Fit each method to every outer training fold, and score the samples outside of it.

    Methods whose needs were not measured are left out and named in the log. Return a row of
    `COLUMNS` per sample, method and condition, in the order of the samples.
    """
    for method in methods:
        if missing := cell.lacks(method):
            log.warning("%s is left out: %s was not measured", method.name, missing[0])
    frames: list[pd.DataFrame] = []
    for fold in Progress(range(len(cell.design.inner)), unit="folds"):
        train = with_probes(cell.training(fold))
        for method in methods:
            if not cell.lacks(method):
                frames += _scored(cell, fold, method, train)
    table = stacked(frames, COLUMNS).sort_values("id", kind="stable", ignore_index=True)
    partners = cell.answers.set_index("id")[["crossed_partner", "partner_source"]]
    of_row = partners.reindex(table["id"]).to_numpy(dtype=object)
    of_row[(table["condition"] == "clean").to_numpy()] = None
    return table.assign(partner=of_row[:, 0], source=of_row[:, 1])[list(COLUMNS)]


def _scored(
    cell: DetectionCell, fold: int, method: Method, train: Training
) -> Iterator[pd.DataFrame]:
    """Yield one table per condition, with the scores that a method gives to a fold's samples."""
    scorer = method.fit(train)
    of_fold = cell.design.ids[cell.design.fold == fold]
    for condition, every in (("clean", cell.clean), ("crossed", cell.crossed)):
        samples = every.rows(np.flatnonzero(every.answers["id"].isin(of_fold)))
        if not len(samples):
            continue
        s = scorer.score(samples)
        rank = scorer.raw(samples) if isinstance(scorer, Unsupervised) else s - train.prior
        columns = {
            "id": samples.answers["id"],
            "readout": cell.clean.readout,
            "detector": method.name,
            "condition": condition,
            "fold": fold,
            "s": s,
            "rank": rank.round(6),  # equal scores may differ by rounding errors
        }
        if not np.isfinite(s + rank).all():
            what, where = "a detector's score is not finite", f"{method.name}, {condition}"
            raise mismatch(what, where)
        yield pd.DataFrame(columns)
