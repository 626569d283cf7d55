"""Counts: how many samples came in, were kept, and were dropped for each reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

BEYOND_LIMIT = "beyond the limit of this run"
OUTSIDE_SAMPLE = "outside the sample"
NOT_ASKED = "not asked, as there were enough answers"
NOT_CHOSEN = "answered, but not needed"
FOR_EXAMPLES = "held back for few-shot examples"
FOLDED = "equal question folded"
NO_PARTNER = "no partner or no control"
EXAMPLES_SHOWN = "few-shot examples shown"  # note: worked examples in the cell's prompts
NO_ANSWER = "no answer"  # an outcome of an answer, and the prefix of reasons to drop it
UNSURE = "E_A not sure"  # note: kept answers with an uncertain E_A
COPIED = "an example's answer again"  # note: kept answers that repeat a worked example's answer
THOUGHT = "opens with thoughts"  # note: replies that open with the model's thoughts
BY_CHOICE = frozenset((
    BEYOND_LIMIT, OUTSIDE_SAMPLE, NOT_ASKED, NOT_CHOSEN, FOR_EXAMPLES, FOLDED, NO_PARTNER,
))  # fmt: skip
"""Reasons to leave rows out on purpose. These rows do not count as lost."""


@dataclass(frozen=True)
class Counts:
    """Numbers of samples in total, kept, and dropped for each reason.

    Raises:
        ValueError: Kept and dropped samples do not add up to the total.
    """

    total: int
    kept: int
    dropped: Mapping[str, int] = field(default_factory=dict)  # reason → samples
    notes: Mapping[str, int] = field(default_factory=dict)  # events without a loss

    def __post_init__(self) -> None:
        """Check that the counts add up."""
        if self.total != self.kept + sum(self.dropped.values()):
            raise ValueError(f"counts do not add up: {self}")

    def among(self, total: int) -> Counts:
        """Return the counts among `total` samples. Added samples count as `BEYOND_LIMIT`."""
        beyond = {BEYOND_LIMIT: total - self.total} if total > self.total else {}
        return Counts(total, self.kept, {**beyond, **self.dropped}, self.notes)

    def as_dict(self) -> dict[str, int | dict[str, int]]:
        """Return the counts in the form of a product's record."""
        dropped, notes = dict(self.dropped), dict(self.notes)
        return {"in": self.total, "kept": self.kept, "dropped": dropped, "notes": notes}


def in_words(dropped: Mapping[str, int]) -> str:
    """Return drops by reason, such as `3 no answer, 1 prompt too long`, or "" if there are none."""
    return ", ".join(f"{count:,} {reason}" for reason, count in dropped.items() if count)
