"""Measures of a detector: equal to the obvious versions, with ties and weights."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from anchorscope.detectors.saved import quality
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


def test_the_risk_rises_with_coverage_to_the_share_of_wrong_answers():
    p = np.linspace(0.01, 0.99, 100)
    z = (np.arange(100) >= 60).astype(int)
    risk = quality.curve(p, z).set_index("coverage")["risk"]
    assert risk[0.6] == pytest.approx(0) and risk[1.0] == pytest.approx(0.4)
    assert risk.index[0] == 0.01 and (np.diff(risk) >= -1e-12).all()
