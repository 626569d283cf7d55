"""Power: which cells are too small to be called a signal, and how often one is called."""

import re

import numpy as np
import pytest
from scipy.stats import norm

from anchorscope import statements
from anchorscope.statistics import intervals, power
from validation.simulations.power import TOWARDS, called


def test_a_signal_is_hardly_ever_called_where_the_text_knows_as_much() -> None:
    """Both trained, on a few of the data sets of `validation/simulations/power.py`."""
    assert 57 in TOWARDS
    found = called(57, 900, 0.0, tries=8)
    assert found["rule"].sum() <= 1
    assert (found["factor"] >= 1).all() and found["factor"].median() > 1.3


def test_the_error_of_an_auc_is_that_of_worlds_drawn_anew() -> None:
    auc, right, wrong, random = 0.8, 60, 240, np.random.default_rng(0)
    z = np.repeat([0, 1], [right, wrong])
    worlds = np.sqrt(2) * norm.ppf(auc) * z + random.normal(size=(2000, right + wrong))
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


@pytest.mark.parametrize(
    ("gain", "right", "n", "called_in"),
    [
        (0.05, 57, 900, 0.03),
        (0.1, 130, 900, 0.80),
        (0.05, 400, 900, 0.59),
        (0.055, 500, 1000, 0.79),
    ],
)
def test_the_formula_is_within_a_fifth_of_how_often_a_signal_was_called(
    gain: float, right: int, n: int, called_in: float
) -> None:
    assert power.chance(gain, n, 1 - right / n) == pytest.approx(called_in, abs=0.2)


def test_a_cell_too_small_for_any_probe_or_for_most_is_told_so_and_a_larger_one_is_not() -> None:
    assert "4 rows are too few to detect a signal" in (statements.too_small(4) or "")
    assert re.search(
        r"half of the 300 .* \.11 above .* About 860 right and 860 wrong answers are needed",
        statements.too_small(300) or "",
    )
    assert statements.too_small(900) is None
    said = statements.hopeless([0] * 30 + [1] * 270)
    assert said and said.startswith(
        "30 of 300 measured answers are right. With 300 answers, a signal"
    )
    assert "About 480 right and 4,300 wrong answers are needed" in said
    assert statements.hopeless([0, 1] * 450) is None
    assert statements.hopeless([1] * 300) is statements.hopeless([]) is None
