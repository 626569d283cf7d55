"""Casts: subjects and answers of the worlds that were written without sight of the claims' rules.

Such a world draws tables of scores and log-probabilities, subjects x answers, and reads its pairs
off them. The same question with the same answer therefore always has the same score.
"""

from dataclasses import dataclass

import numpy as np

from validation.simulations.claim_worlds import Rng, Values


@dataclass(frozen=True)
class Cast:
    """Subjects, what is right (`gold`), what the model says (`own`), and the pairs."""

    gold: np.ndarray  # [subjects]
    own: np.ndarray  # [subjects]
    popularity: np.ndarray  # of each answer, in log-probability, [answers]
    right: np.ndarray  # subjects, [2, n_right]
    wrong: np.ndarray  # subjects, [2, n_wrong]
    fold: np.ndarray | None = None  # [subjects]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of subjects and of answers."""
        return len(self.gold), len(self.popularity)

    @property
    def known(self) -> np.ndarray:
        """Whether the model's answer is right, bool [subjects]."""
        return self.own == self.gold

    def at(self, answers: np.ndarray, value: float | np.ndarray) -> np.ndarray:
        """Return a table with `value` where a subject meets its entry of `answers`, else 0."""
        table = np.zeros(self.shape)
        table[np.arange(len(answers)), answers] = value
        return table

    def cells(self, table: np.ndarray, suffix: str = "", prefix: str = "") -> Values:
        """Read the pairs of each role off a table, in the order of `crossing.terms`, [4, n]."""
        roles = {
            "right": (self.right, self.own),
            "wrong": (self.wrong, self.own),
            "gold": (self.wrong, self.gold),
        }
        return {
            f"{prefix}{role}{suffix}": table[pairs[[0, 1, 0, 1]], answers[pairs[[0, 0, 1, 1]]]]
            for role, (pairs, answers) in roles.items()
        }

    def ids(self) -> Values:
        """Return the ids of the pairs' subjects and answers, [2, n] each."""
        return {
            "subjects_right": self.right,
            "subjects_wrong": self.wrong,
            "answers_right": self.own[self.right],
            "answers_wrong": self.own[self.wrong],
            "golds": self.gold[self.wrong],
        }


def draw_pairs(
    rng: Rng, a: np.ndarray, b: np.ndarray, n: int, gold: np.ndarray, own: np.ndarray
) -> np.ndarray:
    """Draw `n` of the pairs (a, b) whose questions share no answer, in random order, [2, n]."""
    fits = (own[a] != own[b]) & (gold[a] != gold[b]) & (own[a] != gold[b]) & (own[b] != gold[a])
    picked = rng.choice(np.flatnonzero(fits), n, replace=False)
    pairs = np.stack([a[picked], b[picked]])
    return np.where(rng.random(n) < 0.5, pairs, pairs[::-1])
