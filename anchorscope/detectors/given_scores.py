"""Scores in a user's file, such as semantic entropy: read them, and match them to samples by id."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from anchorscope.detectors.cell import DetectionCell
from anchorscope.detectors.out_of_fold import COLUMNS
from anchorscope.detectors.registry import METHODS
from anchorscope.probes import platt
from anchorscope.questions.reading import file_rows
from anchorscope.storage.errors import AnchorscopeError

FIELDS = ("id", "detector", "score")


def read(path: str) -> pd.DataFrame:
    """Read the user's scores, with `FIELDS`. The file may have any format that datasets may have.

    Higher scores mean that an answer is more likely wrong.

    Raises:
        AnchorscopeError: The file cannot be read, a field is missing, a score is not a finite
            number, an answer has two scores of one detector, or a detector has a method's name.
    """
    rows = pd.DataFrame(file_rows(Path(path)), dtype=object)
    if missing := [name for name in FIELDS if name not in rows]:
        raise _broken(f"the rows have no field `{missing[0]}`", path)
    rows = rows[list(FIELDS)].astype({"id": str, "detector": str})
    score = pd.to_numeric(rows["score"], errors="coerce").astype(np.float64)
    for what, bad in (
        ("a score is not a finite number", ~np.isfinite(score)),
        ("an answer has two scores", rows.duplicated(["id", "detector"])),
        ("a detector has the name of a method", rows["detector"].isin(METHODS)),
    ):
        if bad.any():
            line = int(bad.argmax())
            raise _broken(f"{what}: {rows['detector'][line]}", f"{path}, row {line + 1}")
    return rows.assign(score=score)


def scores(
    cell: DetectionCell, rows: pd.DataFrame, where: str
) -> tuple[pd.DataFrame, Mapping[str, int]]:
    """Calibrate the user's scores of a cell. Each fold is calibrated on the other folds.

    Returns:
        The scores with `out_of_fold.COLUMNS`, and two counts: all given rows, and those that
        matched no sample.

    Raises:
        AnchorscopeError: No row matches, or outside a fold all scored answers have the same label.
    """
    places = pd.Index(cell.design.ids).get_indexer(pd.Index(rows["id"]))
    matching = rows.assign(place=places)[places >= 0]
    if matching.empty:
        raise _broken(f"none of the {len(rows)} ids is the id of a sample", where)
    frames = [
        _calibrated(cell, str(detector), of_detector, where)
        for detector, of_detector in matching.groupby("detector", sort=False)
    ]
    counts = {"given scores": len(rows), "given scores, of no sample": int((places < 0).sum())}
    return pd.concat(frames, ignore_index=True), counts


def _calibrated(cell: DetectionCell, detector: str, rows: pd.DataFrame, where: str) -> pd.DataFrame:
    """Calibrate the scores of one detector. `place` in `rows` is an index into `cell.design`."""
    places, score = rows["place"].to_numpy(), rows["score"].to_numpy(dtype=np.float64)
    fold, z = cell.design.fold[places], cell.design.z[places]
    s = np.empty(len(score))
    for number in np.unique(fold):
        train = fold != number
        if len({*z[train]}) < 2:
            what = f"outside fold {number}, all answers scored by {detector} have the same label"
            raise _broken(what, where)
        slope, offset = platt.calibrate(score[None, train], z[train])
        s[~train] = slope * score[~train] + offset
    columns = {
        "id": cell.design.ids[places],
        "readout": cell.clean.readout,
        "detector": detector,
        "condition": "clean",
        "fold": fold,
        "s": s,
        "rank": score,
    }
    return pd.DataFrame(columns).reindex(columns=list(COLUMNS))


def _broken(what: str, where: str) -> AnchorscopeError:
    do = "correct the file, or take it out of `detection.scores`"
    return AnchorscopeError(what, where, do, see="given-scores")
