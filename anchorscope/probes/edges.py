"""Edges: intervals of means that did not vary, where a bootstrap finds no width at all.

If none of n samples flips, each draw of the bootstrap says 0, and so does its interval: from 0 to
0, for six samples as for six hundred. What was not seen may still be there, in a share of the
samples that their number bounds.
"""

from statistics import NormalDist

import numpy as np


def effective_clusters(sizes: np.ndarray) -> np.ndarray:
    """As how many clusters of equal size clusters count, [...], of their sizes [..., clusters].

    Kish's (Σ size)² / Σ size²: the members of a cluster are taken to be all alike, since where
    nothing varies nothing tells how alike they are. 0 without members.
    """
    sizes = np.asarray(sizes, dtype=np.float64)
    squares = (sizes**2).sum(-1)
    return np.divide(sizes.sum(-1) ** 2, squares, out=np.zeros(squares.shape), where=squares > 0)


def unseen(clusters: np.ndarray, level: float) -> np.ndarray:
    """The largest share that may be there and was seen in none of so many clusters.

    The upper end of Wilson's interval (J. Am. Stat. Assoc. 22, 1927) at 0 of n: z² / (n + z²).
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    return z**2 / (np.asarray(clusters, dtype=np.float64) + z**2)


def interval(
    value: np.ndarray, clusters: np.ndarray, level: float, bounds: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Low and high of means that did not vary over so many clusters (`effective_clusters`).

    What the `unseen` share of the clusters might hold lies anywhere within the bounds of one
    sample's value; so for a share of 0 this is Wilson's interval, and for a difference of shares
    of 0 it is as wide to both sides. Bounds must be finite.
    """
    share = unseen(clusters, level)
    least, most = bounds
    return value - share * (value - least), value + share * (most - value)


def with_edges(
    low: np.ndarray,
    high: np.ndarray,
    clusters: np.ndarray,
    level: float,
    bounds: tuple[float, float],
) -> tuple[np.ndarray, np.ndarray]:
    """Intervals of a bootstrap; where one has no width, `interval` of its value in its place.

    Low and high have the shape of `clusters`. Without finite bounds nothing is known of what was
    not seen, and they stay.
    """
    if not np.isfinite(bounds).all():
        return low, high
    wider_low, wider_high = interval(low, clusters, level, bounds)
    flat = np.isclose(low, high, rtol=1e-9, atol=1e-9)
    return np.where(flat, wider_low, low), np.where(flat, wider_high, high)
