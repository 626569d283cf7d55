"""Estimate which share of the pair term is lost, beyond general damage, when tokens are blocked.

The answer term is the part of the score that depends on the answer alone. Blocking question tokens
takes no information from this term, so any loss is damage. λ is the share of the term that remains.
If blocking did nothing but damage, the pair term P would shrink by the same factor, to λP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from anchorscope.claims.estimates import ANSWER, PAIR, Answers, Pairs
from anchorscope.statistics.intervals import Estimate, ratio

LEAST_PART = 0.2
"""The claim `through_eq` requires that blocking takes more than this share of λP."""
LEAST_LEFT = 0.1
"""If the mean λ is smaller, the score no longer reads the answer, and P is not judged."""


@dataclass(frozen=True)
class Damaged:
    """Pair terms of the same pairs, clean and with tokens blocked.

    An axis [1 + refits] holds the probe's values first, then those of each refit.
    """

    pairs: Pairs
    clean: np.ndarray  # pair terms, float64 [1 + refits, ..., pairs]
    blocked: np.ndarray  # pair terms with tokens blocked, in the same shape
    left: np.ndarray  # λ of each pair's fold, [1 + refits, ..., pairs]
    # influence of each pair on its fold's λ, times the number of pairs in the fold; same shape
    moves: np.ndarray
    fold: np.ndarray  # outer fold of each pair, int64 [pairs]

    @classmethod
    def of(cls, clean: Answers, blocked: Answers, pairs: Pairs) -> Damaged:
        """Fit λ to the answer terms.

        In each fold, λ is the slope of a line through the origin. The line predicts the blocked
        answer term from the clean one. A slope above 1 counts as 1. There is no intercept, because
        the arbitrary order of the two answers sets the sign of the answer term.
        """
        x, y, fold = clean.term(ANSWER), blocked.term(ANSWER), clean.fold
        squares = _of_fold(x * x, fold)
        slope = np.nan_to_num(ratio(_of_fold(x * y, fold), squares))
        left = np.minimum(slope, 1.0)
        moves = np.nan_to_num(ratio((y - slope * x) * x, squares)) * (slope < 1)
        moves = moves * np.bincount(fold)[fold]
        return cls(pairs, clean.term(PAIR), blocked.term(PAIR), left, moves, fold)

    @property
    def readable(self) -> np.ndarray:
        """Whether the score still reads the answer, bool [...]."""
        return np.asarray(self.left[0].mean(-1) >= LEAST_LEFT)

    def corrected(self) -> Estimate:
        """Estimate P_blocked / λ, where both are means over pairs."""
        left = self.left.mean(-1)
        value = ratio(self.blocked.mean(-1), left)
        of_left = value[0][..., None] * self._errors(self.left, 1.0)
        parts = ratio(self._errors(self.blocked, 0.0) - of_left, left[0][..., None])
        return self.pairs.estimate(np.where(self.readable, value, np.nan), parts)

    def mean_left(self) -> Estimate:
        """Estimate the mean λ, [...]."""
        return self.pairs.estimate(self.left.mean(-1), self._errors(self.left, 1.0))

    def whole(self) -> Estimate:
        """Estimate the mean pair term that damage alone would leave, λP."""
        kept = self.left * self.clean
        return self.pairs.estimate(kept.mean(-1), self._errors(kept, self.clean[0]))

    def beyond(self, share: float) -> Estimate:
        """Estimate (1 - share) λP minus the blocked pair term.

        The estimate is above 0 if blocking takes more than this share.
        """
        kept, part = self.left * self.clean, 1 - share
        errors = part * self._errors(kept, self.clean[0]) - self._errors(self.blocked, 0.0)
        return self.pairs.estimate((part * kept - self.blocked).mean(-1), errors)

    def taken(self) -> Estimate:
        """Estimate the share of the pair term that blocking takes, 1 - P_blocked / (λP).

        A share is in the interval if the interval of `beyond(share)` includes 0 (Fieller 1954).
        The estimate is NaN unless λP is significantly above 0 and the score still reads the answer.
        """
        kept = self.whole()
        if not (self.readable and kept.low > 0):
            return Estimate()
        share = float(1 - self.blocked[0].mean(-1) / kept.value)
        step = float(self.beyond(share).error / kept.value)
        low = _root(lambda one: float(self.beyond(one).low), share, -step)
        high = _root(lambda one: float(self.beyond(one).high), share, step)
        return Estimate(np.array(share), low=np.array(low), high=np.array(high))

    def _errors(self, values: np.ndarray, slope_of: np.ndarray | float) -> np.ndarray:
        """Return each pair's part of the error of the mean. `slope_of` is ∂`values`/∂λ."""
        by_probe = values[0]
        slopes = _of_fold(np.broadcast_to(slope_of, by_probe.shape), self.fold)
        through_left = slopes / np.bincount(self.fold)[self.fold] * self.moves[0]
        return (by_probe - by_probe.mean(-1, keepdims=True) + through_left) / by_probe.shape[-1]


def _root(function: Callable[[float], float], start: float, step: float) -> float:
    """Search for a root from `start` in doubling steps. If none is found, return the last point."""
    sign, end = np.sign(function(start)), start
    for _ in range(60):
        begin, end = end, end + step
        if np.sign(function(end)) != sign:
            return float(brentq(function, begin, end))
        step *= 2
    return end


def _of_fold(values: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Give each pair the sum of `values` [..., pairs] over all pairs of its fold."""
    member = fold[:, None] == np.arange(fold.max() + 1)
    return (values @ member)[..., fold]
