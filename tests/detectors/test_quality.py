"""Measures of a detector: equal to the obvious versions, with ties and weights."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from anchorscope.detectors import quality
from anchorscope.probes import intervals


@pytest.fixture(scope="module")
def scored() -> tuple[np.ndarray, np.ndarray]:
    """Probabilities with many ties, and labels that follow them a little."""
    draws = np.random.default_rng(0)
    p = np.round(draws.random(300), 1)
    return p, (draws.random(300) < 0.3 + 0.4 * p).astype(int)


def test_measures_are_those_of_scikit_learn(scored):
    p, z = scored
    drawn = intervals.bootstrap(np.arange(len(z)), 50, 0)
    found = quality.estimates(p, z, drawn, 0.9)
    assert found["auroc"].value == pytest.approx(roc_auc_score(z, p))
    assert found["auprc"].value == pytest.approx(average_precision_score(z, p))
    assert found["brier"].value == pytest.approx(brier_score_loss(z, p))
    assert all(one.low < one.value < one.high for one in found.values())


def test_a_weight_counts_as_so_many_answers(scored):
    p, z = scored
    weights = np.random.default_rng(1).integers(0, 3, size=(4, len(z)))
    for row, found in zip(weights, quality.average_precision(p, z, weights), strict=True):
        again = average_precision_score(np.repeat(z, row), np.repeat(p, row))
        assert found == pytest.approx(again)
    for row, found in zip(weights, quality.accuracy_at(p, z, 0.8, weights), strict=True):
        one = np.ones((1, row.sum()))
        again = quality.accuracy_at(np.repeat(p, row), np.repeat(z, row), 0.8, one)[0]
        assert found == pytest.approx(again)


def test_accuracy_at_a_coverage_is_that_of_the_answers_least_likely_wrong():
    p, z = np.array([0.99, 0.02, 0.9, 0.4, 0.55]), np.array([1, 0, 1, 1, 0])
    one = np.ones((1, 5))
    assert quality.accuracy_at(p, z, 0.2, one)[0] == pytest.approx(1.0)
    assert quality.accuracy_at(p, z, 0.6, one)[0] == pytest.approx(2 / 3)
    assert quality.accuracy_at(p, z, 0.5, one)[0] == pytest.approx(1.5 / 2.5)
    assert quality.accuracy_at(p, z, 1.0, one)[0] == pytest.approx(0.4)


def test_answers_of_equal_probability_share_what_is_left():
    p, z, one = np.array([0.5, 0.1, 0.5, 0.1]), np.array([1, 0, 0, 0]), np.ones((1, 4))
    for order in ([0, 1, 2, 3], [3, 2, 1, 0]):
        assert quality.accuracy_at(p[order], z[order], 0.75, one)[0] == pytest.approx(2.5 / 3)


def test_the_risk_rises_with_coverage_to_the_share_of_wrong_answers():
    p = np.linspace(0.01, 0.99, 100)
    z = (np.arange(100) >= 60).astype(int)
    risk = quality.curve(p, z).set_index("coverage")["risk"]
    assert risk[0.6] == pytest.approx(0) and risk[1.0] == pytest.approx(0.4)
    assert risk.index[0] == 0.01 and (np.diff(risk) >= -1e-12).all()
