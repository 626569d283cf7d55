"""Scores in a user's file, such as semantic entropy: read them, and match them to samples by id."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from anchorscope.detectors.cell import DetectionCell
from anchorscope.detectors.registry import METHODS
from anchorscope.probes import platt
from anchorscope.questions.reading import file_rows
from anchorscope.storage.errors import AnchorscopeError

FIELDS = ("id", "detector", "score")


def read(paths: Iterable[str]) -> pd.DataFrame:
    """Read the user's scores from files in any format that datasets may have.

    The columns are `FIELDS` and `where`, which names file and row in errors.

    Higher scores mean that an answer is more likely wrong.

    Raises:
        AnchorscopeError: A file cannot be read, a field is missing, a score is not a finite
            number, an answer has two scores of one detector, or a detector has a method's name.
    """
    rows = pd.concat(map(_read, paths), ignore_index=True)
    for what, bad in (
        ("a score is not a finite number", ~np.isfinite(rows["score"])),
        ("an answer has two scores", rows.duplicated(["id", "detector"])),
        ("a detector has the name of a method", rows["detector"].isin(METHODS)),
    ):
        if bad.any():
            first = rows[bad].iloc[0]
            raise _broken(f"{what}: {first['detector']}", first["where"])
    return rows


def _read(path: str) -> pd.DataFrame:
    rows = pd.DataFrame(file_rows(Path(path)), dtype=object)
    if missing := [name for name in FIELDS if name not in rows]:
        raise _broken(f"the rows have no field `{missing[0]}`", path)
    rows = rows[list(FIELDS)].astype({"id": str, "detector": str})
    score = pd.to_numeric(rows["score"], errors="coerce").astype(np.float64)
    return rows.assign(score=score, where=[f"{path}, row {n}" for n in range(1, len(rows) + 1)])


def scores(cell: DetectionCell, rows: pd.DataFrame) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Calibrate the user's scores of a cell, see `read`. Each fold is calibrated on the others.

    Returns:
        Columns of `out_of_fold.scores`, and two counts: all given rows, and those that matched no
        sample.

    Raises:
        AnchorscopeError: No row of a detector matches, or outside a fold all its scored answers
            have the same label.
    """
    columns: dict[str, np.ndarray] = {}
    places = pd.Index(cell.design.ids).get_indexer(pd.Index(rows["id"]))
    for detector, given in rows.assign(place=places).groupby("detector", sort=False):
        where, known = f"{detector}, {given['where'].iloc[0]}", given[given["place"] >= 0]
        if known.empty:
            raise _broken(f"none of the {len(given)} ids is the id of a sample", where)
        rank = np.full(len(cell.design.ids), np.nan)
        rank[known["place"]] = known["score"]
        columns |= {f"rank/{detector}": rank, f"s/{detector}": _calibrated(cell, rank, where)}
    counts = {"given scores": len(rows), "given scores, of no sample": int((places < 0).sum())}
    return columns, counts


def _calibrated(cell: DetectionCell, score: np.ndarray, where: str) -> np.ndarray:
    """Return the logits of the scores [n], which are NaN for some samples."""
    fold, z = cell.design.fold, cell.design.z
    s, given = np.full_like(score, np.nan), ~np.isnan(score)
    for number in np.unique(fold[given]):
        train = given & (fold != number)
        if len({*z[train]}) < 2:
            what = f"outside fold {number}, all scored answers have the same label"
            raise _broken(what, where)
        slope, offset = platt.calibrate(score[None, train], z[train])
        s[fold == number] = slope * score[fold == number] + offset
    return s


def _broken(what: str, where: str) -> AnchorscopeError:
    do = "correct the file, or take it out of `detection.scores`"
    return AnchorscopeError(what, where, do, see="given-scores")
