"""Share of the pair term that blocking tokens takes beyond general damage.

The answer term is the part of the score that depends on the answer alone. Blocking question tokens
removes no information from it, so any loss is damage. The share of the answer term that is left, λ,
is therefore the share of any term that would be left if the blocked tokens carried nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from anchorscope.experiments.crossing.estimates import (
    ANSWER,
    PAIR,
    Dependence,
    Estimate,
    estimate,
    term,
)
from anchorscope.probes.intervals import ratio

LEAST_PART = 0.2
"""Share of the pair term that blocking must take beyond damage for a claim."""
LEAST_LEFT = 0.1
"""Mean λ below which a score no longer reads the answer, so that nothing can be concluded."""


@dataclass(frozen=True)
class Damaged:
    """Pair terms of the same pairs, clean and with tokens blocked.

    The leading axis holds the values of the probe and then of each refit.
    """

    clean: np.ndarray  # pair terms, float64 [1 + refits, ..., pairs]
    blocked: np.ndarray  # pair terms with tokens blocked, in the same shape
    left: np.ndarray  # λ of each pair's fold, [1 + refits, ..., pairs]
    # derivative of a fold's λ by each pair, times the fold's pairs, [1 + refits, ..., pairs]
    moves: np.ndarray
    fold: np.ndarray  # outer fold of each pair, int64 [pairs]

    @classmethod
    def of(cls, clean: np.ndarray, blocked: np.ndarray, fold: np.ndarray) -> Damaged:
        """Fit λ to the answer terms of scores, float64 [4, 1 + refits, ..., pairs].

        λ is the slope of the blocked on the clean answer term, through the origin. Each fold has
        its own λ, at most 1. There is no intercept, because the order of the two answers is
        arbitrary, and so is the sign of the answer term.
        """
        x, y = term(ANSWER, clean), term(ANSWER, blocked)
        squares = _of_fold(x * x, fold)
        slope = np.nan_to_num(ratio(_of_fold(x * y, fold), squares))
        left = np.minimum(slope, 1.0)
        moves = np.nan_to_num(ratio((y - slope * x) * x, squares)) * (slope < 1)
        sizes = np.bincount(fold, minlength=1)[fold] if len(fold) else np.zeros(0)
        return cls(term(PAIR, clean), term(PAIR, blocked), left, moves * sizes, fold)

    @property
    def readable(self) -> np.ndarray:
        """Whether the score still reads the answer, bool [...]."""
        return np.asarray(self.left[0].mean(-1) >= LEAST_LEFT)

    @property
    def kept(self) -> np.ndarray:
        """Pair terms that damage alone would leave, λP, [1 + refits, ..., pairs]."""
        return self.left * self.clean

    def corrected(self, pairs: Dependence, level: float) -> Estimate:
        """Estimate the mean pair term with tokens blocked, divided by the mean λ, [...]."""
        left, blocked = self.left.mean(-1), self.blocked.mean(-1)
        value = ratio(blocked, left)
        moved = self._errors(self.blocked[0], 0.0) - value[0][..., None] * self._errors(
            self.left[0], 1.0
        )
        parts = ratio(moved, left[0][..., None])
        parts = np.where(self.readable[..., None], parts, np.nan)
        return estimate(np.where(self.readable, value[0], np.nan), parts, pairs, level, value[1:])

    def mean_left(self, pairs: Dependence, level: float) -> Estimate:
        """Estimate the mean λ, [...]."""
        value = self.left.mean(-1)
        return estimate(value[0], self._errors(self.left[0], 1.0), pairs, level, value[1:])

    def beyond(self, share: float | np.ndarray, pairs: Dependence, level: float) -> Estimate:
        """Estimate (1 - share) λP less the blocked pair term.

        It is above 0 if blocking takes more than the share. `share` is a number, or an array
        [shares] if the terms have no axis of layers.
        """
        part = np.expand_dims(1 - np.asarray(share, dtype=np.float64), -1)
        kept, blocked = self.kept, self.blocked
        if np.ndim(share):
            kept, blocked = kept[:, None], blocked[:, None]
        values = part * kept - blocked
        errors = part * self._errors(self.kept[0], self.clean[0]) - self._errors(self.blocked[0], 0)
        seen = values.mean(-1)
        return estimate(seen[0], errors, pairs, level, seen[1:])

    def whole(self, pairs: Dependence, level: float) -> Estimate:
        """Estimate the mean pair term that damage alone would leave, λP."""
        errors = self._errors(self.kept[0], self.clean[0])
        seen = self.kept.mean(-1)
        return estimate(seen[0], errors, pairs, level, seen[1:])

    def taken(self, pairs: Dependence, level: float) -> Estimate:
        """Estimate the percentage of the pair term that blocking takes, 1 - P_blocked / (λP).

        The interval holds the shares that `beyond` does not reject (Fieller 1954). The estimate is
        NaN unless λP is significantly above 0 and the score still reads the answer.
        """
        kept = self.whole(pairs, level)
        if not (self.readable and kept.low > 0):
            return Estimate(*np.full(5, np.nan))
        share = float(1 - self.blocked[0].mean(-1) / kept.value)
        step = float(self.beyond(share, pairs, level).error / kept.value)
        low = _root(lambda one: float(self.beyond(one, pairs, level).low), share, -step)
        high = _root(lambda one: float(self.beyond(one, pairs, level).high), share, step)
        unknown = np.array(np.nan)
        return Estimate(
            np.array(100 * share), unknown, np.array(100 * low), np.array(100 * high), unknown
        )

    def _errors(self, values: np.ndarray, slope_of: np.ndarray | float) -> np.ndarray:
        """Return each pair's part of the error of a mean of values [..., pairs].

        `slope_of` is the derivative of each value by λ.
        """
        n = values.shape[-1]
        through_left = self._mean_of_fold(np.broadcast_to(slope_of, values.shape)) * self.moves[0]
        return (values - values.mean(-1, keepdims=True) + through_left) / n

    def _mean_of_fold(self, values: np.ndarray) -> np.ndarray:
        sizes = np.bincount(self.fold)[self.fold]
        return _of_fold(values, self.fold) / sizes


def _root(function: Callable[[float], float], start: float, step: float) -> float:
    """Find where a function changes its sign, in steps that double.

    Returns:
        The root, or the last point tried if the sign does not change within 60 steps.
    """
    sign, end = np.sign(function(start)), start
    for _ in range(60):
        begin, end = end, end + step
        if np.sign(function(end)) != sign:
            return float(brentq(function, begin, end))
        step *= 2
    return end


def _of_fold(values: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Return the sum of values [..., pairs] over each pair's fold, [..., pairs]."""
    if not len(fold):
        return values
    member = fold[:, None] == np.arange(fold.max() + 1)
    return (values @ member)[..., fold]
