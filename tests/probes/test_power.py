"""Power: the formula agrees with the tool's own rule, and says which cells are too small."""

import numpy as np
import pytest
from scipy.stats import norm

from anchorscope.probes import intervals, power
from benchmarks.power import FLOOR, called, separation


@pytest.mark.parametrize(("n", "gain"), [(300, 0.10), (300, 0.04), (100, 0.15)])
def test_the_formula_is_about_how_often_the_rule_calls_a_signal(n: int, gain: float) -> None:
    (share,) = called(n, 0.5, (gain,), tries=80, draws=200)
    assert power.chance(gain, n, 0.5, FLOOR) == pytest.approx(share, abs=0.16)


def test_a_probe_without_a_gain_is_hardly_ever_called() -> None:
    (share,) = called(200, 0.5, (0.0,), tries=100, draws=200)
    assert share <= 0.06


@pytest.mark.parametrize(("auc", "right", "wrong"), [(0.7, 150, 150), (0.8, 60, 240)])
def test_the_error_of_an_auc_is_that_of_worlds_drawn_anew(
    auc: float, right: int, wrong: int
) -> None:
    random = np.random.default_rng(0)
    z = np.repeat([0, 1], [right, wrong])
    worlds = separation(auc) * z + random.normal(size=(2000, right + wrong))
    found = [intervals.auc(s, z) for s in worlds]
    assert np.mean(found) == pytest.approx(auc, abs=0.005)
    assert power.auc_error(auc, right, wrong) == pytest.approx(np.std(found), rel=0.12)


@pytest.mark.parametrize("wrong", [0.2, 0.5])
def test_least_n_and_least_gain_are_each_others_inverse(wrong: float) -> None:
    for gain in (0.03, 0.06, 0.1, 0.2):
        n = power.least_n(gain, wrong)
        assert power.chance(gain, n, wrong) >= power.POWER > power.chance(gain, n - 1, wrong)
        least = power.least_gain(n, wrong)
        assert least is not None and least == pytest.approx(gain, rel=0.02)
    assert power.least_n(0.06, 0.5) < power.least_n(0.06, 0.8)
    assert abs(power.least_n(0.06, 0.8) - power.least_n(0.06, 0.2)) <= 1


def test_a_cell_too_small_for_any_probe_or_for_most_is_told_so_and_a_larger_one_is_not() -> None:
    assert power.least_gain(4) is None
    assert power.too_small(4) == (
        "With 4 samples no probe is called a signal in 8 of 10 cells; a gain of .05 takes about "
        "1,100."
    )
    assert power.too_small(100) == (
        "With 100 samples a probe is called a signal in 8 of 10 cells only if its AUC is .15 above "
        "the hardest text floor; a gain of .05 takes about 1,100."
    )
    assert power.too_small(300) is None
    assert power.too_small(300, 0.95) is not None


def test_chance_grows_from_the_tail_of_the_interval_to_certainty() -> None:
    assert power.chance(0.0, 300) == pytest.approx(norm.cdf(norm.ppf(0.025)))
    assert power.chance(0.2, 3000) > 0.999
