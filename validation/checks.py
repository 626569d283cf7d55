"""Checks: a number of a table, and the bounds between which it must lie.

All that is required of the instrument, and all that was published, is a list of these.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from anchorscope.experiments.tables import rows_where


@dataclass(frozen=True, eq=False)
class Check:
    """All values of a column, in some rows of a table, must lie between two bounds."""

    what: str
    table: str
    column: str
    rows: Mapping[str, object] = field(default_factory=dict)  # column → the value that it has
    low: float = -np.inf
    high: float = np.inf
    layers: tuple[int, int] | None = None  # first and last; None: every row counts
    pick: str = ""  # `lowest` or `highest`: this value alone must lie between the bounds
    slack: float = 0.0  # how far beyond the picked value other layers may go
    factor: float = 1.0  # what values are multiplied by

    def of_table(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of a table that it is about, at every layer."""
        return rows_where(table, **self.rows)

    def chosen(self, table: pd.DataFrame) -> pd.DataFrame:
        """Those of them that count."""
        rows = self.of_table(table)
        return rows[rows["layer"].between(*self.layers)] if self.layers else rows

    @property
    def required(self) -> str:
        """The bounds in words."""
        if np.isinf(self.high):
            return f"at least {self.low:g}"
        if np.isinf(self.low):
            return f"at most {self.high:g}"
        if self.low == self.high:
            return f"exactly {self.low:g}"
        return f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Judged:
    """What a check found."""

    least: float  # of the values; NaN where nothing was measured
    most: float
    holds: bool | None  # None: nothing was measured

    @property
    def words(self) -> str:
        """What was measured."""
        if np.isnan(self.least):
            return "no group"
        if self.least == self.most:
            return f"{self.least:.3g}"
        return f"{self.least:.3g} to {self.most:.3g}"


def judge(check: Check, table: pd.DataFrame) -> Judged:
    """Hold a table against a check; values that are not known do not count."""
    values = check.factor * check.chosen(table)[check.column].astype(float).dropna()
    if values.empty:
        return Judged(np.nan, np.nan, None)
    least, most, beyond = values.min(), values.max(), 0.0
    if check.pick:
        every = check.factor * check.of_table(table)[check.column].astype(float)
        picked, extreme = (
            one.min() if check.pick == "lowest" else one.max() for one in (values, every)
        )
        least, most, beyond = picked, picked, abs(extreme - picked)
    inside = check.low <= least and most <= check.high
    return Judged(float(least), float(most), bool(inside and beyond <= check.slack))
