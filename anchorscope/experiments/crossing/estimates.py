"""Standard errors, intervals and p of pairs that are not independent, and Holm's correction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import stdtr, stdtrit

from anchorscope.probes.intervals import ratio

ROUNDING = 1e-4
"""Minimum standard error in logits, since passes and scores are rounded."""


@dataclass(frozen=True)
class Estimate:
    """Statistics with Student's intervals, float64 [...] each; NaN if they cannot be known.

    `p` is twice the p of "not above 0", at most 1. It is below .05 if the interval of level .95
    lies above 0.
    """

    value: np.ndarray
    error: np.ndarray  # standard error
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray


@dataclass(frozen=True)
class Dependence:
    """Links between dependent pairs, and the effective number of independent pairs."""

    links: tuple[sparse.csr_array, ...]
    """Links [pairs, pairs], 1 if linked: each pair to itself; by subject; by anything shared."""
    clusters: float
    n: int = 0  # pairs

    def variance(self, parts: np.ndarray) -> np.ndarray:
        """Return the variance of sums [...] of `parts` [..., pairs]; NaN with one cluster.

        The variance is the sum of the products of linked pairs. The largest over all `links` is
        taken, because the sum over pairs that share one thing or another may be too small, or even
        negative.
        """
        if self.clusters <= 1:
            return np.full(parts.shape[:-1], np.nan)
        flat = parts.reshape(-1, parts.shape[-1])
        sums = np.max([(flat.T * (link @ flat.T)).sum(0) for link in self.links], axis=0)
        return sums.reshape(parts.shape[:-1]) * self.clusters / (self.clusters - 1)


def dependence(subjects: np.ndarray, answers: np.ndarray, *others: np.ndarray) -> Dependence:
    """Link pairs that share a subject, an answer, or one of other answers.

    All arguments are ids, int64 [2, pairs]. The number of clusters is the smallest of three: the
    number of pairs, the number of distinct subjects, and 1/Σshare² of the answers.
    """
    n = subjects.shape[1]
    if not n:
        return Dependence((), 0.0)
    own = sparse.eye_array(n, format="csr")
    links = (own, _sharing(subjects), _sharing(subjects, answers, *others))
    shares = np.unique(answers, return_counts=True)[1] / answers.size
    return Dependence(links, float(min(n, len(np.unique(subjects)), 1 / (shares**2).sum())), n)


def _sharing(*ids: np.ndarray) -> sparse.csr_array:
    """Return a matrix [pairs, pairs], 1 if two pairs share an id of one kind."""
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
    """Estimate means [...] of values [..., pairs]; `refits` are [refits, ..., pairs]."""
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
    """Estimate statistics [...] whose error is the sum of `parts` [..., pairs].

    The variances over pairs and over refits of the probes, [refits, ...], add up, with degrees of
    freedom by Welch (1947). A single refit is ignored.
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
    """Correct the p of several claims, [n], by Holm (1979); NaN stays NaN and does not count."""
    p = np.asarray(p, dtype=np.float64)
    corrected = np.full(len(p), np.nan)
    order = np.argsort(p)[: np.count_nonzero(~np.isnan(p))]  # NaN is sorted to the end
    times = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(times * p[order]))
    return corrected
