"""Checks: numbers in a table, and the bounds between which they must lie.

The requirements on the calibration and the published results are lists of checks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd


@dataclass(frozen=True, eq=False)
class Check:
    """A requirement: all values of a column, in some rows of a table, lie between two bounds.

    If `pick` is `lowest` or `highest`, only that value must lie between the bounds.
    """

    what: str
    column: str
    rows: Mapping[str, object] = field(default_factory=dict)  # column → its value in these rows
    low: float = -np.inf
    high: float = np.inf
    layers: tuple[int, int] | None = None  # first and last layer, None for every row
    pick: str = ""
    slack: float = 0.0  # how far other layers may go beyond the picked value
    factor: float = 1.0  # multiplies the values

    def chosen(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the selected rows, limited to the check's `layers` if these are given."""
        rows = rows_where(table, **self.rows)
        return rows[rows["layer"].between(*self.layers)] if self.layers else rows

    @property
    def required(self) -> str:
        """The bounds in words."""
        if np.isinf(self.high):
            return f"at least {self.low:g}"
        if np.isinf(self.low):
            return f"at most {self.high:g}"
        return f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Judged:
    """The result of a check."""

    least: float  # smallest value, NaN if nothing was measured
    most: float  # largest value
    holds: bool | None  # None if nothing was measured

    @property
    def words(self) -> str:
        """The measured values in words."""
        if np.isnan(self.least):
            return "no group"
        most = "" if self.least == self.most else f" to {self.most:.3g}"
        return f"{self.least:.3g}{most}"


def judge(check: Check, table: pd.DataFrame) -> Judged:
    """Apply a check to a table. Blank values are ignored."""
    values = check.factor * check.chosen(table)[check.column].astype(float).dropna()
    if values.empty:
        return Judged(np.nan, np.nan, None)
    least, most, beyond = values.min(), values.max(), 0.0
    if check.pick:
        extreme = pd.Series.min if check.pick == "lowest" else pd.Series.max
        every = check.factor * rows_where(table, **check.rows)[check.column].astype(float)
        least = most = extreme(values)
        beyond = abs(extreme(every) - least)
    inside = check.low <= least and most <= check.high
    return Judged(float(least), float(most), bool(inside and beyond <= check.slack))


def rows_where(rows: pd.DataFrame, **values: object) -> pd.DataFrame:
    """Return the rows whose columns have these `values`, as in `rows_where(rows, layer=3)`."""
    return rows[rows[list(values)].eq(pd.Series(values)).all(axis=1)]
