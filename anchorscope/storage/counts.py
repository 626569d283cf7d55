"""Counts: how many samples came in, stayed, and were dropped, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

BEYOND_LIMIT = "beyond the limit of this run"
NO_PARTNER = "no partner or no control"
BY_CHOICE = frozenset((
    BEYOND_LIMIT, "outside the sample", "held back for few-shot examples", "equal question folded",
    NO_PARTNER,
))  # fmt: skip
"""Rows left out on purpose: they do not count as losses."""


@dataclass(frozen=True)
class Counts:
    """Samples in, kept and dropped by reason. Raises ValueError where these do not add up."""

    total: int
    kept: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    # what is worth knowing but drops nothing (folded duplicates, rebuilt spans)
    notes: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.total != self.kept + sum(self.dropped.values()):
            raise ValueError(f"counts do not add up: {self}")

    def among(self, total: int) -> Counts:
        """The counts where these were the first of `total`, the others beyond a run's limit."""
        beyond = {BEYOND_LIMIT: total - self.total} if total > self.total else {}
        return Counts(total, self.kept, {**beyond, **self.dropped}, self.notes)

    def noted(self, what: str, n: int) -> Counts:
        """The counts with one more note."""
        return Counts(self.total, self.kept, self.dropped, {**self.notes, what: n})

    def as_dict(self) -> dict[str, Any]:
        dropped, notes = dict(self.dropped), dict(self.notes)
        return {"in": self.total, "kept": self.kept, "dropped": dropped, "notes": notes}
