"""Scores out of fold: each sample by a method that has learned neither from it nor its subject.

The folds are those of the stored probes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pandas as pd

from anchorscope.detectors.cell import Cell
from anchorscope.detectors.method import Method
from anchorscope.detectors.probe import with_probes
from anchorscope.probes.samples import mismatch
from anchorscope.storage.progress import Progress

COLUMNS = ("id", "readout", "detector", "condition", "fold", "s")
"""`s` is a logit of *wrong* at the share of wrong answers in the training fold; `condition` is
`clean`, or `crossed` for the same answer behind its partner's question."""

log = logging.getLogger(__name__)


def scores(cell: Cell, methods: Sequence[Method]) -> pd.DataFrame:
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
    clean = np.full((len(able), len(cell)), np.nan)
    crossed = np.full((len(able), len(cell.crossed_rows)), np.nan)
    fold_of_crossed = cell.design.fold[cell.crossed_rows]
    for fold in Progress(range(len(cell.design.inner)), unit="folds"):
        train = with_probes(cell.training(fold))
        here = np.flatnonzero(cell.design.fold == fold)
        there = np.flatnonzero(fold_of_crossed == fold)
        test, moved = cell.clean.rows(here), cell.crossed.rows(there)
        for number, method in enumerate(able):
            scorer = method.fit(train)
            clean[number, here] = scorer.score(test)
            if len(there):
                crossed[number, there] = scorer.score(moved)
    names = [method.name for method in able]
    everyone = np.arange(len(cell))
    return pd.concat(
        [
            _rows(cell, names, "clean", everyone, clean),
            _rows(cell, names, "crossed", cell.crossed_rows, crossed),
        ],
        ignore_index=True,
    )


def _rows(
    cell: Cell, names: Sequence[str], condition: str, places: np.ndarray, s: np.ndarray
) -> pd.DataFrame:
    """Rows of scores [methods, places].

    Raises AnchorscopeError: a score is not finite.
    """
    strange = np.argwhere(~np.isfinite(s))
    if len(strange):
        number, place = strange[0]
        where = f"{names[number]}, {condition}, id {cell.design.ids[places[place]]}"
        raise mismatch("a detector's score is not finite", where, "scores")
    return pd.DataFrame(
        {
            "id": np.tile(cell.design.ids[places], len(names)),
            "readout": cell.clean.readout,
            "detector": np.repeat(np.array(names, dtype=object), len(places)),
            "condition": condition,
            "fold": np.tile(cell.design.fold[places], len(names)),
            "s": s.ravel(),
        },
        columns=list(COLUMNS),
    )
