"""The bootstrap against a slow loop, and whether its intervals cover."""

import numpy as np
import pytest

from anchorscope.statistics import intervals


def slow_means(
    resamples: intervals.Resamples, values: np.ndarray, members: np.ndarray
) -> list[float]:
    """Copy the rows of each cluster as often as it was drawn, and average the members."""
    means = []
    for weights in resamples.weights:
        copies = np.repeat(np.arange(len(values)), weights[resamples.clusters].astype(int))
        inside = [values[row] for row in copies if members[row]]
        means.append(float(np.mean(inside)) if inside else float("nan"))
    return means


def test_means_are_those_of_a_slow_loop_over_copied_rows() -> None:
    random = np.random.default_rng(0)
    resamples = intervals.bootstrap(random.integers(0, 9, 30) * 7, draws=40, seed=3)
    values, members = random.normal(size=(2, 30)), random.random((2, 30)) < 0.15
    found = resamples.means(values, members)
    for row in range(2):
        expected = slow_means(resamples, values[row], members[row])
        assert np.allclose(found[:, row], expected, equal_nan=True)
    assert np.isnan(found).any()


def slow_auc(s: np.ndarray, z: np.ndarray) -> float:
    """Every wrong sample against every right one; NaN where there is no pair."""
    pairs = [(a > b) + (a == b) / 2 for a in s[z == 1] for b in s[z == 0]]
    return float(np.mean(pairs)) if pairs else float("nan")


def test_aucs_are_those_of_a_slow_loop_over_copied_rows() -> None:
    random = np.random.default_rng(1)
    resamples = intervals.bootstrap(random.integers(0, 6, 24), draws=60, seed=2)
    z = (resamples.clusters < 2).astype(int)
    s = random.normal(size=(3, 24)).round(1) + 0.4 * z
    s[1] = s[1].round()  # many ties
    s[2, :9] = np.nan  # not measured
    found = resamples.aucs(s, z)
    assert found.shape == (61, 3)
    for weights, row in zip(resamples.with_all, found, strict=True):
        copies = np.repeat(np.arange(24), weights.astype(int))
        for layer in range(3):
            inside = copies[~np.isnan(s[layer, copies])]
            expected = slow_auc(s[layer, inside], z[inside])
            assert row[layer] == pytest.approx(expected, nan_ok=True)
    assert np.isnan(found).any()


def test_each_draw_draws_among_the_placements_of_the_control() -> None:
    resamples = intervals.bootstrap(np.arange(9), draws=4000, seed=0)
    by_way = np.broadcast_to(np.array([0.0, 1.0, 5.0])[None, :, None], (4000, 3, 1))
    found = resamples.of_placements(by_way, 3)[:, 0]
    assert found.mean() == pytest.approx(2, abs=0.1)
    assert found.var() == pytest.approx(np.var([0, 1, 5]) / 3, rel=0.1)
    assert set(resamples.of_placements(by_way, 1)[:, 0]) == {2.0}, "ways that are no placements"
    # Ways of one placement are drawn together, and empty ones left out.
    crossed = np.broadcast_to(np.array([0.0, 1.0, 10.0, 11.0])[None, :, None], (4000, 4, 1))
    assert set(resamples.of_placements(crossed, 2)[:, 0]) == {5.0, 5.5, 6.0}
    lost = np.where(crossed == 11, np.nan, crossed)
    assert set(resamples.of_placements(lost, 2)[:, 0]) == {5.0, 11 / 3, 1.0}


def test_percentiles_leave_empty_draws_out_and_bands_unused_layers_blank() -> None:
    replicates = np.array([[0.0, np.nan], [1.0, np.nan], [np.nan, np.nan], [2.0, np.nan]])
    low, high = intervals.percentile(replicates, 0.5)
    assert [low[0], high[0]] == pytest.approx([0.5, 1.5]) and np.isnan([low[1], high[1]]).all()
