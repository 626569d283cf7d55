"""How many samples came in, stayed, and were dropped for which reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

BEYOND_LIMIT = "beyond the limit of this run"
OUTSIDE_SAMPLE = "outside the sample"
NO_PARTNER = "no partner or no control"
NO_ANSWER = "no answer"  # an outcome, and the beginning of reasons to drop
UNSURE = "E_A not sure"  # note: kept answers of which the finder is not sure
COPIED = "an example's answer again"  # note: kept answers that are that of a worked example
THOUGHT = "opens with thoughts"  # note: replies that do, which are no answers
BY_CHOICE = frozenset((
    BEYOND_LIMIT, OUTSIDE_SAMPLE, "held back for few-shot examples", "equal question folded",
    NO_PARTNER,
))  # fmt: skip
"""Reasons for leaving rows out on purpose; they do not count as losses."""


@dataclass(frozen=True)
class Counts:
    """Samples in, kept and dropped by reason.

    Raises:
        ValueError: kept and dropped samples do not add up to the total.
    """

    total: int
    kept: int
    dropped: Mapping[str, int] = field(default_factory=dict)  # reason → samples
    # Counts that drop nothing, such as folded duplicates or rebuilt spans.
    notes: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.total != self.kept + sum(self.dropped.values()):
            raise ValueError(f"counts do not add up: {self}")

    def among(self, total: int) -> Counts:
        """The same counts for `total` samples: those beyond these lie beyond the run's limit."""
        beyond = {BEYOND_LIMIT: total - self.total} if total > self.total else {}
        return Counts(total, self.kept, {**beyond, **self.dropped}, self.notes)

    def noted(self, what: str, n: int) -> Counts:
        """The same counts with one more note."""
        return Counts(self.total, self.kept, self.dropped, {**self.notes, what: n})

    def as_dict(self) -> dict[str, int | dict[str, int]]:
        """The counts as a product's record holds them."""
        return {
            "in": self.total,
            "kept": self.kept,
            "dropped": dict(self.dropped),
            "notes": dict(self.notes),
        }


def in_words(dropped: Mapping[str, int]) -> str:
    """What was dropped, by reason: `3 no answers, 1 prompt too long`; empty if nothing was."""
    return ", ".join(f"{count:,} {reason}" for reason, count in dropped.items() if count)
