"""Statistics of pairs that are not independent: standard error, interval, p; Holm's correction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import stdtr, stdtrit

from anchorscope.probes.intervals import ratio

ROUNDING = 1e-4
"""Logits: no standard error is smaller, since passes and scores are rounded."""


@dataclass(frozen=True)
class Estimate:
    """Statistics with Student's intervals, float64 [...] each; NaN where they cannot be known.

    p is twice the one of "not above 0", at most 1: below .05 where the interval of level .95 lies
    above 0.
    """

    value: np.ndarray
    error: np.ndarray  # standard error
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray


@dataclass(frozen=True)
class Dependence:
    """Which pairs are not independent, and how many independent ones all are worth."""

    links: tuple[sparse.csr_array, ...]
    """[pairs, pairs], 1 where two are linked: each to itself; by subject; by anything."""
    clusters: float
    n: int = 0  # pairs

    def variance(self, parts: np.ndarray) -> np.ndarray:
        """The variance of sums [...] of `parts` [..., pairs]; NaN with one cluster.

        The sum of the products of linked pairs: of all links the largest, since over pairs that
        share one thing or another it may fall short, even below 0.
        """
        if self.clusters <= 1:
            return np.full(parts.shape[:-1], np.nan)
        flat = parts.reshape(-1, parts.shape[-1])
        sums = np.max([(flat.T * (link @ flat.T)).sum(0) for link in self.links], axis=0)
        return sums.reshape(parts.shape[:-1]) * self.clusters / (self.clusters - 1)


def dependence(subjects: np.ndarray, answers: np.ndarray, *others: np.ndarray) -> Dependence:
    """Of pairs that share a subject, an answer, or one of other answers, ids int64 [2, pairs] each.

    The number of clusters is that of the pairs, of the distinct subjects, or 1/Σshare² of the
    answers, whichever is the smallest.
    """
    n = subjects.shape[1]
    if not n:
        return Dependence((), 0.0)
    own = sparse.eye_array(n, format="csr")
    links = (own, _sharing(subjects), _sharing(subjects, answers, *others))
    shares = np.unique(answers, return_counts=True)[1] / answers.size
    return Dependence(links, float(min(n, len(np.unique(subjects)), 1 / (shares**2).sum())), n)


def _sharing(*ids: np.ndarray) -> sparse.csr_array:
    """1 where two pairs share an id of one kind, [pairs, pairs]."""
    kinds = []
    for kind in ids:
        distinct, number = np.unique(kind, return_inverse=True)
        pair = np.broadcast_to(np.arange(kind.shape[1]), kind.shape)
        places, shape = (pair.ravel(), number.ravel()), (kind.shape[1], len(distinct))
        kinds.append(sparse.csr_array((np.ones(kind.size), places), shape=shape))
    has = sparse.hstack(kinds, format="csr")
    return (has @ has.T).sign()


def mean(
    values: np.ndarray, pairs: Dependence, level: float, refits: np.ndarray | None = None
) -> Estimate:
    """Means [...] of values [..., pairs], also as refits see them, [refits, ..., pairs]."""
    n = max(1, values.shape[-1])
    value = ratio(values.sum(-1), np.array(values.shape[-1]))
    seen = None if refits is None else refits.sum(-1) / n
    return estimate(value, (values - value[..., None]) / n, pairs, level, seen)


def estimate(
    value: np.ndarray,
    parts: np.ndarray,
    pairs: Dependence,
    level: float,
    refits: np.ndarray | None = None,
) -> Estimate:
    """Statistics [...] whose error is the sum of `parts` [..., pairs].

    Two variances add up, over pairs and over refits of the probes [refits, ...]; degrees of freedom
    by Welch (1947). One refit says nothing.
    """
    variance = np.maximum(pairs.variance(parts), ROUNDING**2)
    freedom = np.full_like(variance, pairs.clusters - 1)
    if refits is not None and len(refits) > 1:
        trained = refits.var(0, ddof=1)
        whole = variance + trained
        freedom = whole**2 / (variance**2 / freedom + trained**2 / (len(refits) - 1))
        variance = whole
    error = np.sqrt(variance)
    width = error * stdtrit(freedom, (1 + level) / 2)
    p = np.minimum(1.0, 2 * stdtr(freedom, -value / error))
    return Estimate(value, error, value - width, value + width, p)


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's (1979) corrected p, [n], of several claims; NaN, which is none, stays NaN."""
    p = np.asarray(p, dtype=np.float64)
    corrected = np.full(len(p), np.nan)
    order = np.argsort(p)[: np.count_nonzero(~np.isnan(p))]  # NaN is sorted to the end
    times = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(times * p[order]))
    return corrected
