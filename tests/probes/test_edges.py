"""Means that did not vary have intervals that know how many samples said so."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from anchorscope.probes import bands


@pytest.mark.parametrize(("n", "level"), [(1, 0.95), (6, 0.9), (300, 0.95)])
def test_a_share_at_its_edge_has_wilsons_interval(n: int, level: float) -> None:
    for successes in (0, n):
        share = np.array(successes / n)
        low, high = bands.with_edges(share, share, n, level, (0.0, 1.0))
        expected = binomtest(successes, n).proportion_ci(level, method="wilson")
        assert (low, high) == pytest.approx((expected.low, expected.high))


def test_clusters_of_unequal_size_count_as_fewer() -> None:
    sizes = np.array([[1, 1, 1, 1], [3, 3, 3, 3], [9, 1, 1, 1], [4, 0, 0, 0], [0, 0, 0, 0]])
    counted = bands.effective_clusters(sizes)
    assert counted[[0, 1, 3, 4]].tolist() == [4, 4, 1, 0]
    assert 1 < counted[2] < 2


def test_intervals_with_a_width_or_without_bounds_stay() -> None:
    low, high = np.array([0.0, 0.2, 1.0, np.nan]), np.array([0.0, 0.4, 1.0, np.nan])
    clusters = np.full(4, 10.0)
    found = np.array(bands.with_edges(low, high, clusters, 0.95, (0.0, 1.0)))
    assert found[:, 1].tolist() == [0.2, 0.4] and np.isnan(found[:, 3]).all()
    assert found[0, 0] == 0 and found[1, 0] == pytest.approx(0.278, abs=1e-3)
    assert found[1, 2] == 1 and found[0, 2] == pytest.approx(0.722, abs=1e-3)
    kept = bands.with_edges(low, high, clusters, 0.95, (-np.inf, np.inf))
    assert kept[0] is low and kept[1] is high


def covered(share: float, n: int, *, at_edge: bool) -> float:
    """Exactly: how often the percentile bootstrap of n samples of a class holds its share."""
    successes = np.arange(n + 1)
    # A draw of n from k of n successes is binomial: so are its percentiles.
    low, high = (binom.ppf(tail, n, successes / n) / n for tail in (0.025, 0.975))
    if at_edge:
        low, high = bands.with_edges(low, high, np.full(n + 1, n), 0.95, (0.0, 1.0))
    return float(binom.pmf(successes, n, share)[(low <= share) & (share <= high)].sum())


@pytest.mark.parametrize("n", [20, 300])
def test_a_rare_share_is_covered_where_the_bootstrap_alone_covers_almost_never(n: int) -> None:
    rare = [0.2 / n, 1 / n, 2 / n]
    alone, both = ([covered(share, n, at_edge=at) for share in rare] for at in (False, True))
    assert alone[0] < 0.2 and alone[1] < 0.65
    assert min(both) > 0.92
    # Where the edge is out of sight nothing changes.
    assert covered(0.4, n, at_edge=True) == pytest.approx(covered(0.4, n, at_edge=False), abs=1e-3)
