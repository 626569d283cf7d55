"""Intervals: percentile bootstrap over clusters, probes held fixed (see `bands`); Student's t."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit


@dataclass(frozen=True)
class Estimate:
    """Statistics with their intervals, float64 [...] each, NaN if unknown.

    `p` tests the null hypothesis "not above 0". It is twice the one-sided p, but never above 1. It
    is below .05 if the interval of level .95 lies above 0.
    """

    value: Any = np.nan
    error: Any = np.nan  # standard error
    low: Any = np.nan
    high: Any = np.nan
    p: Any = np.nan
    n: int = 0  # samples or pairs, if counted

    @classmethod
    def by_t(cls, value: Any, error: Any, freedom: Any, level: float, n: int = 0) -> "Estimate":
        """Return the estimate by Student's t with `freedom` degrees of freedom."""
        width = error * stdtrit(freedom, (1 + level) / 2)
        p = np.minimum(1.0, 2 * stdtr(freedom, -value / error))
        return cls(value, error, value - width, value + width, p, n)

    @classmethod
    def of_resamples(cls, values: np.ndarray, level: float) -> "Estimate":
        """Return the percentile interval of `values` [1 + resamples, ...], see `percentile`."""
        low, high = percentile(values[1:], level)
        return cls(values[0], low=low, high=high)

    def columns(self, name: str, ends: str = "") -> dict[str, Any]:
        """Return the columns `name`, `<ends>_low` and `<ends>_high`. `ends` defaults to `name`."""
        ends = ends or name
        return {name: self.value, f"{ends}_low": self.low, f"{ends}_high": self.high}


@dataclass(frozen=True)
class Resamples:
    """Bootstrap resamples of clusters. All statistics share them, so differences are paired."""

    clusters: np.ndarray  # cluster of each sample, numbered from 0, int64 [n]
    weights: np.ndarray  # how often each cluster was drawn, float64 [resamples, clusters]
    # seed for resampling the random control's draws; None: they are not resampled
    seed: int | None = None

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return [..., clusters]: the sum of `values` [..., n] over each cluster."""
        order, starts = self._by_cluster
        return np.add.reduceat(np.asarray(values, dtype=np.float64)[..., order], starts, axis=-1)

    @cached_property
    def _by_cluster(self) -> tuple[np.ndarray, np.ndarray]:
        """(order, starts): sample indices sorted by cluster; where each cluster starts in them."""
        order = np.argsort(self.clusters, kind="stable")
        return order, np.searchsorted(self.clusters[order], np.arange(self.weights.shape[1]))

    def totals(self, values: np.ndarray) -> np.ndarray:
        """Return [resamples, ...]: the sum of `values` [..., n] over each resample."""
        flat = self.with_all[1:] @ np.reshape(values, (-1, np.shape(values)[-1])).T
        return flat.reshape(len(self.weights), *np.shape(values)[:-1])

    def means(
        self, values: np.ndarray, members: np.ndarray, weights: np.ndarray | None = None
    ) -> np.ndarray:
        """Return [resamples, ...]: mean of `values` over `members` [..., n], NaN without members.

        `weights` [n] are the weights of the samples in the mean; None for equal weights.
        """
        counted = members if weights is None else members * weights
        sums = np.where(members, values, 0.0)
        sums = sums if weights is None else sums * weights
        return ratio(self.totals(sums), self.totals(counted))

    def of_placements(self, each: np.ndarray, placements: int) -> np.ndarray:
        """Average `each` [resamples, ways, layers] over the ways to form a group, ignoring NaN.

        The random control chose tokens `placements` times. Ways use these choices in turn:
        with two choices, four ways use 0, 1, 0, 1. Each resample draws among the choices, too.
        """
        if placements == 1 or self.seed is None:
            return mean_known(each, 1)
        equal = np.full(placements, 1 / placements)
        generator = np.random.default_rng(self.seed)
        counts = generator.multinomial(placements, equal, size=len(self.weights))
        weights = np.tile(counts, (1, each.shape[1] // placements))[..., None]
        exists = ~np.isnan(each)
        return ratio(np.where(exists, weights * each, 0.0).sum(1), (weights * exists).sum(1))

    def aucs(self, s: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return [1 + resamples, layers]: AUCs of `s` [layers, n], first of all samples.

        The AUC is NaN if one class is missing. Each layer leaves out the samples whose s is NaN.
        """
        weights = np.concatenate([np.ones((1, self.weights.shape[1])), self.weights])
        return np.stack([_aucs(layer, z, weights, self.clusters) for layer in s], axis=1)

    @cached_property
    def with_all(self) -> np.ndarray:
        """Weights of the samples, [1 + resamples, n]: first all 1, then their counts."""
        n = len(self.clusters)
        return np.concatenate([np.ones((1, n)), self.weights[:, self.clusters]])

    def clusters_in(self, members: np.ndarray) -> np.ndarray:
        """Return [...]: how many clusters hold at least one of the `members` [..., n]."""
        return (self.sums(members) > 0).sum(-1)


def bootstrap(clusters: np.ndarray, draws: int, seed: int) -> Resamples:
    """Draw as many clusters as there are, with replacement, `draws` times."""
    _, numbered = np.unique(clusters, return_inverse=True)
    count = int(numbered.max()) + 1
    generator = np.random.default_rng(seed)
    weights = generator.multinomial(count, np.full(count, 1 / count), size=draws)
    return Resamples(numbered, weights.astype(np.float64), seed)


def ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Divide `part` by `whole`; NaN where whole is 0."""
    part, whole = np.broadcast_arrays(np.asarray(part, dtype=np.float64), whole)
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole != 0)


def mean_known(values: np.ndarray, axis: int) -> np.ndarray:
    """Average values along an axis, ignoring NaN; NaN if all are NaN."""
    exists = ~np.isnan(values)
    return ratio(np.where(exists, values, 0.0).sum(axis), exists.sum(axis))


def thin(n: Any, n_clusters: Any, least: Any) -> Any:
    """Return whether `n` is below `least.min_n`, or `n_clusters` is below `least.min_clusters`.

    `least` is the config's `bootstrap`, or an `Analysis`. `n` and `n_clusters` may be arrays.
    """
    return (n < least.min_n) | (n_clusters < least.min_clusters)


def thin_class(z: np.ndarray, counted: np.ndarray, resamples: Resamples, least: Any) -> bool:
    """Return whether a class of `z` [n] is `thin` among the `counted` samples, bool [n].

    An AUC rests on both classes, so the smaller class decides how far it can be relied on.
    """
    classes = [counted & (z == one) for one in (0, 1)]
    return any(bool(thin(some.sum(), resamples.clusters_in(some), least)) for some in classes)


def percentile(replicates: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (low, high), percentiles of `replicates` over the axis of resamples; ignore NaN."""
    tails = [(1 - level) / 2, (1 + level) / 2]
    never = np.isnan(replicates).all(0)
    usable = np.where(never, 0.0, replicates)
    find = np.nanquantile if np.isnan(usable).any() else np.quantile
    low, high = np.where(never, np.nan, find(usable, tails, axis=0))
    return low, high


def auc(s: np.ndarray, z: np.ndarray) -> float:
    """Return the area under the ROC curve of `s` [n]. Ties count half. NaN if a class is absent."""
    return float(aucs(s, z, np.ones((1, len(s))))[0])


def aucs(s: np.ndarray, z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the AUC in each resample. `weights` [resamples, n] count each sample."""
    return _aucs(s, z, weights, np.arange(len(s)))


def _aucs(s: np.ndarray, z: np.ndarray, weights: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """Return the AUC in each resample, [resamples].

    `weights` [resamples, clusters] are whole numbers, so the sums are exact.
    """
    low, high = (np.flatnonzero(~np.isnan(s) & (z == of_class)) for of_class in (0, 1))
    low = low[np.argsort(s[low], kind="stable")]
    below = np.zeros((len(weights), len(low) + 1))
    np.cumsum(weights.take(clusters[low], axis=1), axis=1, out=below[:, 1:])
    counts = weights.take(clusters[high], axis=1)
    left, right = (np.searchsorted(s[low], s[high], side=side) for side in ("left", "right"))
    beaten = np.einsum("dn,dn->d", counts, below.take(left, axis=1))
    if (left != right).any():
        beaten = (beaten + np.einsum("dn,dn->d", counts, below.take(right, axis=1))) / 2
    return ratio(beaten, counts.sum(1) * below[:, -1])
