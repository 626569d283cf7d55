"""Measurements of an experiment at one read-out, as arrays in the order of the answers."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from anchorscope.statistics.samples import mismatch

COLUMNS = ("id", "condition", "draw", "readout", "layer", "s", "n_tokens")
"""Columns of an experiment's rows: one row per sample, condition, draw, read-out and layer.

`s` is the calibrated logit from the probe of the sample's own fold. `n_tokens` is the number of
question tokens that the condition acted on, blank for `clean`. An experiment adds columns.
"""


@dataclass(frozen=True)
class MeasuredRows:
    """The rows that an experiment measured at one read-out, as arrays."""

    rows: pd.DataFrame  # see `COLUMNS`
    answers: pd.DataFrame  # the samples, see `Scores.matching`

    @cached_property
    def ids(self) -> pd.Index:
        """Ids of the samples, [n]."""
        return pd.Index(self.answers["id"])

    @cached_property
    def conditions(self) -> frozenset[str]:
        """Conditions under which some sample was measured."""
        return frozenset(self.rows["condition"])

    def values(self, condition: str, column: str = "s") -> np.ndarray:
        """Return a column under a condition, float64 [draws, layers, n]; NaN where not measured.

        Raises:
            AnchorscopeError: A sample has no answer, or was measured twice.
        """
        rows = self.rows[self.rows["condition"] == condition]
        draws, layers = (rows[name].to_numpy(dtype=np.int64) for name in ("draw", "layer"))
        places = self.ids.get_indexer(pd.Index(rows["id"]))
        if (places < 0).any():
            unknown = rows["id"][places < 0].iloc[0]
            raise mismatch("a sample has no answer", f"rows of {condition}, id {unknown}", "rows")
        if rows.duplicated(["id", "draw", "layer"]).any():
            raise mismatch("a sample is measured twice", f"rows of {condition}", "rows")
        depth = int(self.rows["layer"].max()) + 1 if len(self.rows) else 0
        values = np.full((max(draws, default=0) + 1, depth, len(self.ids)), np.nan)
        values[draws, layers, places] = rows[column].to_numpy(dtype=np.float64)
        return values

    def facts(self, condition: str, column: str) -> pd.Series:
        """Return each sample's value of `column` under `condition`, by id; null if unknown."""
        rows = self.rows[self.rows["condition"] == condition].drop_duplicates("id")
        return rows.set_index("id")[column].reindex(self.ids)

    def control_is_complete(self, control: str) -> np.ndarray:
        """Return whether every draw of a control acted on as many tokens as E_Q has, bool [n].

        False for samples without the control.
        """
        if control not in self.conditions:
            return np.zeros(len(self.ids), dtype=bool)
        n_tokens = self.values(control, "n_tokens")[:, 0]
        n_exact = np.array([len({*tokens}) for tokens in self.answers["eq_tokens"]])
        return np.asarray((n_tokens >= n_exact).all(axis=0))
