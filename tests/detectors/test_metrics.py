"""Metrics, against definitions written out and scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from anchorscope.detectors.evaluation import metrics
from anchorscope.probes.samples import sigmoid

RNG = np.random.default_rng(0)
Z = RNG.integers(0, 2, 60)
S = np.round(RNG.normal(size=60) + Z, 1)  # with ties
FAMILIAR = {
    "auroc": (roc_auc_score, S),
    "auprc": (average_precision_score, S),
    "brier": (brier_score_loss, sigmoid(S)),
}


def of(s: np.ndarray, z: np.ndarray, weights: np.ndarray | None = None) -> dict[str, float]:
    weights = np.ones((1, len(z))) if weights is None else weights
    return {name: float(value[-1]) for name, value in metrics(s, s, z, weights).items()}


@pytest.mark.parametrize("name", FAMILIAR)
def test_metrics_are_those_of_scikit_learn_in_every_draw(name: str) -> None:
    familiar, scores = FAMILIAR[name]
    weights = np.stack([np.ones(60), *RNG.multinomial(60, np.full(60, 1 / 60), size=5)])
    found = metrics(S, S, Z, weights)[name]
    assert found == pytest.approx([familiar(Z, scores, sample_weight=row) for row in weights])


def test_the_calibration_error_is_the_mean_gap_of_ten_bins() -> None:
    p = sigmoid(S)
    bins = np.minimum((10 * p).astype(int), 9)
    gaps = [abs((Z - p)[bins == one].sum()) for one in range(10)]
    assert of(S, Z)["ece"] == pytest.approx(sum(gaps) / len(Z))


def test_a_perfect_score_is_perfect_by_every_metric() -> None:
    found = of(40.0 * Z - 20, Z)
    assert found == pytest.approx({"auroc": 1, "auprc": 1, "brier": 0, "ece": 0}, abs=1e-6)


def test_a_row_of_weight_two_is_two_rows() -> None:
    weights = RNG.integers(0, 3, 60)
    found = of(S, Z, weights[None].astype(float))
    assert found == pytest.approx(of(np.repeat(S, weights), np.repeat(Z, weights)))


def test_draws_of_one_class_are_blank() -> None:
    weights = np.stack([np.ones(60), Z.astype(float)])
    assert all(np.isnan(value[1]) for value in metrics(S, S, Z, weights).values())
