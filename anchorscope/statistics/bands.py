"""Intervals of means, widened by the variance of the probes themselves.

A percentile bootstrap that holds the probes fixed is too narrow: a resample changes which samples
are averaged, but not which samples the probes were fitted to. So probes are also fitted to some
resamples (`Scores.weights`). Let a be the standard deviation of a quantity over these resamples
with refitted probes, and b with fixed probes. The *inflation* a / b, at least 1, stretches the
interval about the estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TypeVar

import numpy as np
import pandas as pd

from anchorscope.statistics import intervals
from anchorscope.statistics.intervals import Estimate, Resamples

ANY = (-np.inf, np.inf)  # bounds of an unbounded quantity
Version = TypeVar("Version")


@dataclass(frozen=True)
class Means:
    """The mean over a group of samples, averaged over all ways in which the group is formed."""

    values: np.ndarray  # float64 [ways, layers, n], or broadcastable to the members
    members: np.ndarray  # which samples each way puts into the group, bool [ways, layers, n]
    placements: int = 1  # draws of the random control among the ways, see `of_placements`
    weights: np.ndarray | None = None  # weight of each sample, float64 [n]; None: equal weights
    bounds: tuple[float, float] = ANY  # range of one sample's value, and so of the interval

    @property
    def counted(self) -> np.ndarray:
        """The members, each as often as its weight says, [ways, layers, n]."""
        return self.members if self.weights is None else self.members * self.weights

    def mean(self) -> np.ndarray:
        """Return the means, [layers]; NaN where the group is empty."""
        sums = (self.counted * np.where(self.members, self.values, 0.0)).sum(-1)
        return intervals.mean_known(intervals.ratio(sums, self.counted.sum(-1)), axis=0)

    def replicates(self, resamples: Resamples) -> np.ndarray:
        """Return the means of each resample, [resamples, layers]; see `Resamples.of_placements`."""
        each = resamples.means(self.values, self.members, self.weights)
        return resamples.of_placements(each, self.placements)

    def estimate(self, values: np.ndarray, resamples: Resamples, level: float) -> Estimate:
        """Return the estimate of the means, given their `values` [1 + resamples, layers]."""
        found = Estimate.of_resamples(values, level)
        clusters = effective_clusters(resamples.sums(self.members)).mean(0)
        ends = with_edges(found.low, found.high, clusters, level, self.bounds)
        low, high = np.where(np.isnan(found.value), np.nan, np.clip(ends, *self.bounds))
        return replace(found, low=low, high=high)


def effective_clusters(sizes: np.ndarray) -> np.ndarray:
    """Return Kish's effective number of clusters, (Σ size)² / Σ size²; 0 if all sizes are 0.

    `sizes` are [..., clusters]. Members of one cluster count as identical. How similar they really
    are cannot be estimated if all values are equal.
    """
    sizes = np.asarray(sizes, dtype=np.float64)
    squares = (sizes**2).sum(-1)
    return np.divide(sizes.sum(-1) ** 2, squares, out=np.zeros(squares.shape), where=squares > 0)


def with_edges(
    low: np.ndarray,
    high: np.ndarray,
    clusters: np.ndarray,
    level: float,
    bounds: tuple[float, float],
) -> tuple[np.ndarray, np.ndarray]:
    """Widen bootstrap intervals of zero width, because unseen clusters may have other values.

    If no sample flips, every resample is 0, whether there are six samples or six hundred. But
    clusters that were not sampled may have other values. With z the normal quantile, the share of
    clusters with other values is at most z² / (clusters + z²): the upper end of Wilson's interval
    (J. Am. Stat. Assoc. 22, 1927) for an observed share of 0. A value may lie anywhere in `bounds`.
    Infinite bounds widen nothing. `clusters` are effective numbers of clusters.
    """
    least, most = bounds
    if not np.isfinite(bounds).all():
        return low, high
    z = NormalDist().inv_cdf((1 + level) / 2)
    unseen = z**2 / (np.asarray(clusters, dtype=np.float64) + z**2)
    flat = np.isclose(low, high, rtol=1e-9, atol=1e-9)
    wider_low, wider_high = low - unseen * (low - least), low + unseen * (most - low)
    return np.where(flat, wider_low, low), np.where(flat, wider_high, high)


def widened(
    value: np.ndarray,
    replicates: Callable[[Version, Resamples], np.ndarray],
    versions: Sequence[Version],
    resamples: Resamples,
    learned_from: Resamples | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return (values, factor): a statistic in all resamples, stretched by the variance of refits.

    `value` [...] is the statistic over all samples, and `replicates(version, resamples)` its values
    [resamples, ...]. The first of the `versions` comes from the probes, and each other one from the
    probes refitted to one of `learned_from`. `values` are [1 + resamples, ...], first `value`.
    """
    found, factor = replicates(versions[0], resamples), np.ones(value.shape)
    if len(versions) > 1 and learned_from is not None:
        each = [replace(learned_from, weights=one[None]) for one in learned_from.weights]
        anew = [replicates(*one)[0] for one in zip(versions[1:], each, strict=True)]
        factor = inflation(replicates(versions[0], learned_from), np.array(anew))
    return np.concatenate([value[None], value + factor * (found - value)]), factor


def inflation(fixed: np.ndarray, refitted: np.ndarray) -> np.ndarray:
    """Return the standard deviation of `refitted` divided by that of `fixed`, at least 1.

    Both are [resamples, ...]. A value that is NaN in one of them is left out of both.
    """
    both = ~np.isnan(fixed) & ~np.isnan(refitted)
    known = (np.where(both, values, np.nan).reshape(len(both), -1) for values in (fixed, refitted))
    sds = (pd.DataFrame(values).std().to_numpy() for values in known)  # NaN of fewer than two
    sd_fixed, sd_refit = (sd.reshape(both.shape[1:]) for sd in sds)
    size = np.abs(np.where(both, fixed, 0.0)).max(0, initial=0.0)
    varies = sd_fixed > 1e-9 * size  # a mean over one sample varies by rounding alone
    ratio = np.divide(sd_refit, sd_fixed, out=np.ones_like(sd_fixed), where=varies)
    return np.fmax(1.0, ratio)
