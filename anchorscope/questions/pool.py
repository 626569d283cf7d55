"""Pool: ask many questions, and choose the answers that are measured.

Answers are chosen by a hash of their id, class by class. So a lost answer is replaced by the next
one of its class, and no other answer moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from anchorscope.questions.fields import digest

CHUNK = 500
"""Questions asked before the answers are counted. It does not depend on any setting, so that a run
with a larger pool or sample asks the same chunks."""
MOST = 2
"""At most this many answers of one class are measured for each answer of the rarer class."""
LEAST = 2
"""Least answers of a class with which probes can be fitted: one to learn from, one to score."""


@dataclass(frozen=True)
class Choice:
    """The number of answers to measure in a cell, and whether to balance the classes."""

    size: int  # most answers to measure
    balance: bool  # whether to measure as many right as wrong answers

    def enough(self, right: int, wrong: int) -> bool:
        """Return whether no further question need be asked, given the answers so far."""
        if self.balance:
            return min(right, wrong) >= (self.size + 1) // 2
        return right + wrong >= self.size

    def of_classes(self, right: int, wrong: int) -> tuple[int, int]:
        """Return how many right and how many wrong answers are measured.

        Half of `size` are of the rarer class. If there are fewer, all of them are measured, with at
        most `MOST` times as many answers of the other class.
        """
        fewer = min(right, wrong, self.size // 2)
        other = min(max(right, wrong), self.size - fewer, MOST * fewer)
        # If both classes have enough, `other` is one larger for an odd `size`.
        return (fewer, other) if right <= wrong else (other, fewer)


def choose(answers: pd.DataFrame, choice: Choice) -> np.ndarray:
    """Return how many answers each row stands for, float64 [n]; 0 for a row that is not measured.

    `answers` has `id` and `label`, in the order in which the questions were asked. If classes are
    balanced, a measured answer stands for (answers of its class) / (measured answers of its class).
    """
    label = answers["label"].to_numpy(dtype=np.int64)
    if not choice.balance:
        return (np.arange(len(label)) < choice.size).astype(np.float64)
    order = np.array([digest("measured", str(name)) for name in answers["id"]], dtype=object)
    stands_for = np.zeros(len(label))
    totals = np.bincount(label, minlength=2)
    for value, most in enumerate(choice.of_classes(*map(int, totals))):
        rows = np.flatnonzero(label == value)
        chosen = rows[np.argsort(order[rows])][:most]
        stands_for[chosen] = totals[value] / max(most, 1)
    return stands_for
