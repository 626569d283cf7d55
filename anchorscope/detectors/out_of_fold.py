"""Scores out of fold: each sample by a method that has learned neither from it nor its subject.

The folds are those of the stored probes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pandas as pd

from anchorscope.detectors.cell import DetectionCell
from anchorscope.detectors.method import Method, Samples, Scorer, Training, Unsupervised
from anchorscope.detectors.methods.probe import with_probes
from anchorscope.probes.samples import mismatch
from anchorscope.storage.progress import Progress

COLUMNS = ("id", "readout", "detector", "condition", "fold", "s", "rank", "partner", "source")
"""`s` is a logit of *wrong* at the share of wrong answers in the training fold. `rank` orders the
samples of all folds: `s` less the log-odds of that share, so that folds are alike; of methods that
learn nothing but their calibration the score before it. `condition` is `clean`, or `crossed` for
the same answer behind the question of `partner`, an id; `source` tells what partners have in
common, see `passes.partners.Crossing`."""

log = logging.getLogger(__name__)


def scores(cell: DetectionCell, methods: Sequence[Method]) -> pd.DataFrame:
    """Fit each method to every outer training fold, and score the samples outside of it.

    Methods that need what was not measured are left out, and named in the log.

    Returns:
        A row for each sample, method and condition: `COLUMNS`.
    """
    able = []
    for method in methods:
        if why := cell.lacks(method):
            log.warning("%s is left out: %s", method.name, why)
        else:
            able.append(method)
    everyone = np.arange(len(cell))
    by_condition = {"clean": (cell.clean, everyone), "crossed": (cell.crossed, cell.crossed_rows)}
    values = {
        condition: np.full((2, len(able), len(places)), np.nan)
        for condition, (_, places) in by_condition.items()
    }
    for fold in Progress(range(len(cell.design.inner)), unit="folds"):
        train = with_probes(cell.training(fold))
        scorers = [method.fit(train) for method in able]
        for condition, (every, places) in by_condition.items():
            here = np.flatnonzero(cell.design.fold[places] == fold)
            for number, scorer in enumerate(scorers if len(here) else ()):
                values[condition][:, number, here] = _scored(scorer, every.rows(here), train)
    names = [method.name for method in able]
    frames = [
        _rows(cell, names, condition, places, values[condition])
        for condition, (_, places) in by_condition.items()
    ]
    return pd.concat(frames, ignore_index=True)


def _scored(scorer: Scorer, samples: Samples, train: Training) -> np.ndarray:
    """`s` and `rank` of some samples, float64 [2, n]."""
    s = scorer.score(samples)
    rank = scorer.raw(samples) if isinstance(scorer, Unsupervised) else s - train.log_odds
    return np.stack([s, rank])


def _rows(
    cell: DetectionCell,
    names: Sequence[str],
    condition: str,
    places: np.ndarray,
    values: np.ndarray,
) -> pd.DataFrame:
    """Rows of `s` and `rank`, [2, methods, places].

    Raises AnchorscopeError: a score is not finite.
    """
    strange = np.argwhere(~np.isfinite(values).all(0))
    if len(strange):
        number, place = strange[0]
        where = f"{names[number]}, {condition}, id {cell.design.ids[places[place]]}"
        raise mismatch("a detector's score is not finite", where, "scores")
    partners, source = cell.partners[places], cell.partner_source
    if condition == "clean":
        partners, source = np.full(len(places), None), None
    return pd.DataFrame(
        {
            "id": np.tile(cell.design.ids[places], len(names)),
            "readout": cell.clean.readout,
            "detector": np.repeat(np.array(names, dtype=object), len(places)),
            "condition": condition,
            "fold": np.tile(cell.design.fold[places], len(names)),
            "s": values[0].ravel(),
            "rank": values[1].ravel(),
            "partner": np.tile(partners, len(names)),
            "source": source,
        },
        columns=list(COLUMNS),
    )
