"""Intervals: percentile bootstrap over clusters of samples, the probes held fixed (see `bands`)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Bootstrap:
    """Draws of whole clusters, shared by every statistic, so that differences are paired."""

    clusters: np.ndarray  # of each sample, numbered from 0, int64 [n]
    weights: np.ndarray  # how often each cluster was drawn, float64 [draws, clusters]
    seed: int = 0  # of the draws among placements of a random control

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sums over each cluster, [..., clusters], of values [..., n]."""
        order, starts = self._by_cluster
        return np.add.reduceat(np.asarray(values, dtype=np.float64)[..., order], starts, axis=-1)

    @cached_property
    def _by_cluster(self) -> tuple[np.ndarray, np.ndarray]:
        """Samples in the order of their clusters, and where each cluster starts among them."""
        order = np.argsort(self.clusters, kind="stable")
        return order, np.searchsorted(self.clusters[order], np.arange(self.weights.shape[1]))

    def totals(self, values: np.ndarray) -> np.ndarray:
        """Sums over each draw, [draws, ...], of values [..., n]."""
        sums = self.sums(values)
        flat = self.weights @ sums.reshape(-1, sums.shape[-1]).T
        return flat.reshape(len(self.weights), *sums.shape[:-1])

    def means(self, values: np.ndarray, members: np.ndarray) -> np.ndarray:
        """Means over members [..., n] in each draw, [draws, ...]; NaN without any."""
        return ratio(self.totals(np.where(members, values, 0.0)), self.totals(members))

    def of_placements(self, each: np.ndarray, placements: int) -> np.ndarray:
        """Means [draws, layers] over the ways of `each` [draws, ways, layers] that are not NaN.

        Each draw also draws among the placements: the ways are so many, once or several times over.
        """
        if placements == 1:
            return mean_known(each, 1)
        equal = np.full(placements, 1 / placements)
        generator = np.random.default_rng(self.seed)
        drawn = generator.multinomial(placements, equal, size=len(self.weights))
        weights = np.tile(drawn, (1, each.shape[1] // placements))[..., None]
        exists = ~np.isnan(each)
        return ratio(np.where(exists, weights * each, 0.0).sum(1), (weights * exists).sum(1))

    def aucs(self, s: np.ndarray, z: np.ndarray) -> np.ndarray:
        """AUC of scores s [layers, n] in each draw, [draws, layers]; NaN without both classes.

        Ties count half; a sample that is NaN at a layer is left out of it. One layer at a time, so
        that memory grows with draws × samples only. Every sum is a whole number: exact.
        """
        return np.stack([self._aucs(layer, z == 1) for layer in s], axis=1)

    def _aucs(self, s: np.ndarray, wrong: np.ndarray) -> np.ndarray:
        low, high = (np.flatnonzero(~np.isnan(s) & of_class) for of_class in (~wrong, wrong))
        low = low[np.argsort(s[low], kind="stable")]
        below = np.zeros((len(self.weights), len(low) + 1))
        np.cumsum(self.weights.take(self.clusters[low], axis=1), axis=1, out=below[:, 1:])
        weights = self.weights.take(self.clusters[high], axis=1)
        left, right = (np.searchsorted(s[low], s[high], side=side) for side in ("left", "right"))
        beaten = np.einsum("dn,dn->d", weights, below.take(left, axis=1))
        if (left != right).any():
            beaten = (beaten + np.einsum("dn,dn->d", weights, below.take(right, axis=1))) / 2
        return ratio(beaten, weights.sum(1) * below[:, -1])

    def clusters_in(self, members: np.ndarray) -> np.ndarray:
        """Number of clusters that hold a member, [...], of members [..., n]."""
        return (self.sums(members) > 0).sum(-1)


def bootstrap(clusters: np.ndarray, draws: int, seed: int) -> Bootstrap:
    """Draw as many clusters as there are, with replacement, `draws` times."""
    _, numbered = np.unique(clusters, return_inverse=True)
    count = int(numbered.max()) + 1
    generator = np.random.default_rng(seed)
    weights = generator.multinomial(count, np.full(count, 1 / count), size=draws)
    return Bootstrap(numbered, weights.astype(np.float64), seed)


def ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole, NaN where whole is 0."""
    part, whole = np.broadcast_arrays(np.asarray(part, dtype=np.float64), whole)
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole != 0)


def mean_known(values: np.ndarray, axis: int) -> np.ndarray:
    """Mean over what is not NaN; NaN where nothing is."""
    exists = ~np.isnan(values)
    return ratio(np.where(exists, values, 0.0).sum(axis), exists.sum(axis))


def percentile(replicates: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Low and high of statistics [...], from replicates [draws, ...]; draws with NaN left out."""
    tails = [(1 - level) / 2, (1 + level) / 2]
    never = np.isnan(replicates).all(0)
    usable = np.where(never, 0.0, replicates)
    find = np.nanquantile if np.isnan(usable).any() else np.quantile
    low, high = np.where(never, np.nan, find(usable, tails, axis=0))
    return low, high


def simultaneous(
    estimate: np.ndarray, replicates: np.ndarray, level: float, used: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Max-t band, low and high: covers a whole curve [layers] at once with probability `level`.

    Replicates are [draws, layers]. It covers the layers `used`, bool; the others get NaN.
    """
    empty = np.full(len(estimate), np.nan)
    used = used & ~np.isnan(estimate) & (~np.isnan(replicates)).any(0)
    if not used.any():
        return empty, empty.copy()
    here = replicates[:, used]
    away = np.nan_to_num(np.abs(here - estimate[used]))
    error = np.nanstd(here, axis=0)
    t = np.divide(away, error, out=np.zeros_like(away), where=error > 0).max(1)
    width = empty.copy()
    width[used] = np.quantile(t, level) * error
    return estimate - width, estimate + width


def mean_members(values: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Means [layers] over members [draws, layers, n], for each draw first; NaN without any."""
    return mean_known(ratio(np.where(members, values, 0.0).sum(-1), members.sum(-1)), axis=0)


def auc(s: np.ndarray, z: np.ndarray) -> float:
    """Area under the ROC curve, ties counted half; NaN with one class."""
    wrong = int(z.sum())
    right = len(z) - wrong
    if not wrong or not right:
        return float("nan")
    ranks = pd.Series(s).rank().to_numpy()
    return float((ranks[z == 1].sum() - wrong * (wrong + 1) / 2) / (wrong * right))
