"""Bands: refitted probes against loops over repeated rows, and whether intervals cover."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from handmade import scores_of
from scipy.stats import binom, binomtest

from anchorscope.curve.curve import curve
from anchorscope.statistics import analysis, bands
from anchorscope.statistics.scores import Scores
from validation.simulations import interval_coverage

N, LAYERS, REFITS = 60, 2, 8
IDS = [f"i{i:02}" for i in range(N)]


def scores(seed: int = 0) -> dict[tuple[str, int], np.ndarray]:
    """Scores by condition and draw, [layers, n], of samples of which the knockout flips some."""
    random = np.random.default_rng(seed)
    clean = np.where(np.arange(N) % 2, 1, -1) + random.normal(size=(LAYERS, N))
    moved = -clean * (np.arange(N) // 2 % 3 == 0) + clean * (np.arange(N) // 2 % 3 != 0)
    found = {("clean", 0): clean, ("knockout", 0): moved + random.normal(size=clean.shape)}
    return found | {("random", d): clean + random.normal(size=clean.shape) for d in (0, 1)}


def answers() -> pd.DataFrame:
    subjects = [f"s{i // 2}" for i in range(N)]
    columns = {"id": IDS, "question": IDS, "subject": subjects, "label": np.arange(N) % 2}
    return pd.DataFrame(columns | {"random_complete": True})


def refitted(shift: float = 2.0) -> Scores:
    """Probes of each draw say what the clean ones say, moved by up to `shift`."""
    random = np.random.default_rng(1)
    clusters = random.multinomial(N // 2, np.full(N // 2, 2 / N), size=REFITS)
    moved = shift * random.uniform(-1, 1, size=(REFITS, 1, 1))
    found = replace(scores_of(scores(), IDS), weights=np.repeat(clusters, 2, axis=1))
    for condition, s in scores().items():
        found.add("mlp/final", condition, np.arange(N), np.concatenate([s[None], s + moved]))
    return found


def slow(clean: np.ndarray, cut: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Mean ΔP of the flippers and their share, sample by sample."""
    depths = []
    for a, b, times in zip(clean, cut, weights, strict=True):
        p, q = 1 / (1 + np.exp(-a)), 1 / (1 + np.exp(-b))
        if (a > 0) != (b > 0):
            depths += [100 * (q - p if a > 0 else p - q)] * int(times)
    return float(np.mean(depths)), len(depths) / weights.sum()


def test_intervals_grow_by_the_spread_of_refits_whose_groups_are_formed_anew() -> None:
    layer, found, s = 1, refitted(), scores()
    again = (found.probes[f"mlp/final/{name}/0"][1:, layer] for name in ("clean", "knockout"))
    fixed, moved = [], []
    for weights, *both in zip(found.weights, *again, strict=True):
        fixed.append(slow(s["clean", 0][layer], s["knockout", 0][layer], weights))
        moved.append(slow(*both, weights))
    ratio = np.maximum(1, np.std(moved, axis=0) / np.std(fixed, axis=0))
    assert ratio[0] > 1.1
    narrow, wide = (
        analysis.cell_table(curve, one, answers(), draws=100).query(
            f"condition == 'knockout' and anchor == 'Q' and layer == {layer}"
        )
        for one in (interval_coverage.fixed(found), found)
    )
    assert wide["inflation"].item() == pytest.approx(ratio[0], rel=1e-4)
    for at, by, ends in (("delta_p", ratio[0], "ci"), ("share", ratio[1], "share_ci")):
        for end in (f"{ends}_low", f"{ends}_high"):
            before = narrow[end].item() - narrow[at].item()
            assert wide[end].item() - wide[at].item() == pytest.approx(before * by, rel=1e-4)


def test_what_does_not_vary_or_exist_twice_is_left_as_it_is_and_shares_stay_shares() -> None:
    fixed = np.array([[1.0, 1.0, np.nan, 1.0, 1.0], [3.0, 1.0, 2.0, 3.0, 1.0]])
    moved = np.array([[1.0, 2.0, 5.0, 1.0, 1.0], [7.0, 4.0, 9.0, 2.0, 1.0]])
    assert bands.inflation(fixed, moved) == pytest.approx([3, 1, 1, 1, 1])
    gone = np.array([[np.nan], [0.0], [2.0]])
    assert bands.inflation(gone, np.array([[50.0], [0.0], [4.0]])) == pytest.approx([2])
    rounding = np.array([[-21.0], [-21.0 * (1 + 1e-16)], [np.nextafter(-21.0, 0)]])
    assert bands.inflation(rounding, np.array([[-20.0], [-25.0], [3.0]])) == 1.0
    wide = analysis.cell_table(curve, refitted(shift=5.0), answers(), draws=100)
    shares = wide[["share_ci_low", "share_ci_high", "flip_low", "flip_high"]]
    assert shares.min(axis=None) == 0 and shares.max(axis=None) == 1


def test_bands_of_refitted_probes_cover_where_those_of_fixed_probes_do_not() -> None:
    """The simulation's own coverage by quantity, of fewer worlds."""
    worlds = 30
    error = 3 * np.sqrt(0.95 * 0.05 / worlds)
    probe = {"grid": [0.1], "inner_folds": 3}
    each = (interval_coverage.bands(300, seed, probe, times=200) for seed in range(worlds))
    covered = interval_coverage.coverage(pd.concat(each))
    assert (covered["refitted"] > 0.95 - error).all()
    assert covered.loc["ΔP of Q", "fixed"] < 0.95 - 3 * error
    assert covered.loc["ΔP of all", "fixed"] < 0.95 - error


@pytest.mark.parametrize(("n", "level"), [(1, 0.95), (6, 0.9), (300, 0.95)])
def test_a_share_at_its_edge_has_wilsons_interval(n: int, level: float) -> None:
    for successes in (0, n):
        share = np.array(successes / n)
        low, high = bands.with_edges(share, share, n, level, (0.0, 1.0))
        expected = binomtest(successes, n).proportion_ci(level, method="wilson")
        assert (low, high) == pytest.approx((expected.low, expected.high))
    low, high = np.array([0.2, np.nan]), np.array([0.4, np.nan])
    kept = bands.with_edges(low, high, np.full(2, 10.0), level, (0.0, 1.0))
    assert np.array_equal(kept, [low, high], equal_nan=True), "others keep their own"


def test_clusters_of_unequal_size_count_as_fewer() -> None:
    sizes = np.array([[1, 1, 1, 1], [3, 3, 3, 3], [9, 1, 1, 1], [4, 0, 0, 0], [0, 0, 0, 0]])
    counted = bands.effective_clusters(sizes)
    assert counted[[0, 1, 3, 4]].tolist() == [4, 4, 1, 0]
    assert 1 < counted[2] < 2


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
