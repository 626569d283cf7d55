"""The four scores of a pair: their terms, their swap share, and estimates of means over pairs.

Scores [4, ...] are in the order s(q, y), s(q′, y), s(q, y′), s(q′, y′), where y is the answer to q
and y′ the answer to q′. Each score is a sum: `MEAN` ± `QUESTION` ± `ANSWER` ± `PAIR`. The swap
share counts in how many of the two swaps an answer scores higher after its own question.

Pairs that share a subject or answer are dependent. `Pairs` accounts for this in errors and p.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd
from scipy import sparse

from anchorscope.statistics.intervals import Estimate, ratio

MEAN, QUESTION, ANSWER, PAIR = (
    np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 4
)
ROUNDING = 1e-4
"""Passes and scores are rounded: the least standard error, and the least difference that is no tie,
in logits."""
HALF = 0.5
"""The swap share of a score that is an increasing curve of a question part and an answer part."""


def term(which: np.ndarray, four: np.ndarray) -> np.ndarray:
    """Return a term of the scores `four` [4, ...]. `which` is one of `MEAN` to `PAIR`."""
    return np.tensordot(which, four, 1)


@dataclass(frozen=True)
class Pairs:
    """Dependence between pairs. Standard errors and p-values account for it.

    `mean` takes `values` [1 + refits, ..., pairs]: the probe's first, then those of each refit.
    """

    links: tuple[sparse.csr_array, ...]
    """Matrices [pairs, pairs]. A 1 means, in order: same pair; shared subject; any shared id."""
    clusters: float  # effective number of independent pairs
    n: int
    level: float

    @classmethod
    def of(
        cls, subjects: np.ndarray, answers: np.ndarray, *others: np.ndarray, level: float
    ) -> Pairs:
        """Link pairs that share a subject, an answer, or an id in one of the `others`.

        All ids are int64 [2, pairs]. `clusters` is the smallest of three numbers: pairs, distinct
        subjects, and effective answers (1 / Σf², where f is each answer's relative frequency).
        """
        n = subjects.shape[1]
        if not n:
            return cls((), 0.0, 0, level)
        own = sparse.eye_array(n, format="csr")
        links = (own, _sharing(subjects), _sharing(subjects, answers, *others))
        shares = np.unique(answers, return_counts=True)[1] / answers.size
        clusters = float(min(n, len(np.unique(subjects)), 1 / (shares**2).sum()))
        return cls(links, clusters, n, level)

    def variance(self, parts: np.ndarray) -> np.ndarray:
        """Return the variance of the sum of `parts` [..., pairs] over pairs; NaN with one cluster.

        Each matrix of `links` gives a variance: multiply the parts of two linked pairs, and sum
        over all linked pairs. The largest of the three is returned, because the last matrix may
        give a variance that is too small, or even negative.
        """
        if self.clusters <= 1:
            return np.full(parts.shape[:-1], np.nan)
        flat = parts.reshape(-1, parts.shape[-1])
        sums = np.max([(flat.T * (link @ flat.T)).sum(0) for link in self.links], axis=0)
        return sums.reshape(parts.shape[:-1]) * self.clusters / (self.clusters - 1)

    def mean(self, values: np.ndarray) -> Estimate:
        """Estimate the means of values over pairs, [...]."""
        means = ratio(values.sum(-1), np.array(self.n))
        return self.estimate(means, (values[0] - means[0][..., None]) / max(1, self.n))

    def mean_share(self, shares: np.ndarray) -> Estimate:
        """Estimate the mean of swap shares over pairs; p tests whether it is above ½.

        The interval is cut off at 0 and 1.
        """
        above = self.mean(shares - HALF)
        low, high = np.clip((above.low + HALF, above.high + HALF), 0, 1)
        return replace(above, value=above.value + HALF, low=low, high=high)

    def estimate(self, values: np.ndarray, parts: np.ndarray) -> Estimate:
        """Return an estimate of `values` [1 + refits, ...].

        `parts` [..., pairs] add up to the error over pairs. This error's variance and the variance
        over refits are added, with degrees of freedom by Welch (1947). A single refit is ignored.
        """
        value, refits = values[0], values[1:]
        variance = np.maximum(self.variance(parts), ROUNDING**2)
        freedom = np.full_like(variance, self.clusters - 1)
        if len(refits) > 1:
            trained = refits.var(0, ddof=1)
            whole = variance + trained
            freedom = whole**2 / (variance**2 / freedom + trained**2 / (len(refits) - 1))
            variance = whole
        return Estimate.by_t(value, np.sqrt(variance), freedom, self.level, self.n)


def _sharing(*ids: np.ndarray) -> sparse.csr_array:
    """Return a matrix [pairs, pairs], 1 if two pairs share an id within one array of `ids`."""
    kinds = []
    for kind in ids:
        distinct, number = np.unique(kind, return_inverse=True)
        pair = np.broadcast_to(np.arange(kind.shape[1]), kind.shape)
        places, shape = (pair.ravel(), number.ravel()), (kind.shape[1], len(distinct))
        kinds.append(sparse.csr_array((np.ones(kind.size), places), shape=shape))
    has = sparse.hstack(kinds, format="csr")
    return (has @ has.T).sign()


@dataclass(frozen=True)
class Answers:
    """The four scores of each pair: both answers after both questions.

    Scores are calibrated logits towards *right*: first by the probe, then by each refit. The axis
    `...` holds all layers. Answers from the method `at` lack it.
    """

    scores: np.ndarray  # float64 [4, 1 + refits, ..., pairs]; NaN where not measured
    subjects: np.ndarray  # ids of the questions' subjects, int64 [2, pairs]
    texts: np.ndarray  # ids of the answers, int64 [2, pairs]; equal texts share an id
    fold: np.ndarray  # outer fold of the probes, int64 [pairs]
    imitated: np.ndarray  # pair terms of the text imitator, float64 [..., pairs]
    bound: np.ndarray  # whether P is 0 or cancels by design if E_Q is blocked, bool [pairs]

    @property
    def known(self) -> np.ndarray:
        """Whether all scores of each pair were measured, bool [pairs]."""
        return np.isfinite(self.scores).all(tuple(range(self.scores.ndim - 1)))

    def of(self, rows: np.ndarray) -> Answers:
        """Return the answers of some pairs."""
        columns = {one.name: getattr(self, one.name)[..., rows] for one in fields(self)}
        return Answers(**columns)

    def at(self, layer: np.ndarray | int) -> Answers:
        """Return the answers at one `layer`. An array [pairs] gives each pair its own layer."""
        place = layer, np.arange(len(self.fold))
        scores, imitated = self.scores[..., *place], self.imitated[..., *place]
        return replace(self, scores=scores, imitated=imitated)

    def pairs(self, level: float, *others: np.ndarray) -> Pairs:
        """Return the pairs. Subjects, answers and `others` (ids, [2, pairs]) link them."""
        return Pairs.of(self.subjects, self.texts, *others, level=level)

    def term(self, which: np.ndarray) -> np.ndarray:
        """Return a term of the scores, [1 + refits, ..., pairs]."""
        return term(which, np.ascontiguousarray(self.scores))

    def share(self, *, beyond_text: bool = False) -> np.ndarray:
        """Return each pair's swap share, [1 + refits, ..., pairs]; NaN where not measured.

        It is the share of the two swaps in which an answer scores higher after its own question. A
        tie counts one half. `beyond_text` takes the text imitator's pair term off each swap.
        """
        first, second, third, fourth = self.scores
        gains = np.stack([first - second, fourth - third])
        if beyond_text:
            gains = gains - 2 * self.imitated
        higher = HALF * (1 + np.sign(np.where(np.abs(gains) > ROUNDING, gains, 0)))
        return np.where(np.isfinite(gains).all(0), higher.mean(0), np.nan)


def holm(p: pd.Series) -> pd.Series:
    """Correct several p-values by the method of Holm (1979); NaN stays and does not count."""
    ordered = p.dropna().sort_values()
    times = np.arange(len(ordered), 0, -1)
    return (times * ordered).cummax().clip(upper=1.0).reindex(p.index)
