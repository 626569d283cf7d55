"""Metrics, against definitions written out and scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from anchorscope.detectors.evaluation import METRICS, metrics
from anchorscope.statistics.samples import sigmoid

RNG = np.random.default_rng(0)
Z = RNG.integers(0, 2, 60)
S = np.round(RNG.normal(size=60) + Z, 1)  # with ties
P = sigmoid(S)


def ece(z: np.ndarray, p: np.ndarray, sample_weight: np.ndarray) -> float:
    """The mean gap of ten bins of equal width, weighted by their size."""
    bins = np.minimum((10 * p).astype(int), 9)
    gaps = [abs((sample_weight * (z - p))[bins == one].sum()) for one in range(10)]
    return float(sum(gaps) / sample_weight.sum())


def test_metrics_are_those_of_scikit_learn_in_every_draw() -> None:
    """Draws of one class are blank."""
    weights = np.stack([np.ones(60), *RNG.multinomial(60, np.full(60, 1 / 60), size=5)])
    assert np.isnan(metrics(S, S, Z, Z[None].astype(float))).all()
    found = dict(zip(METRICS, metrics(S, S, Z, weights).T, strict=True))
    familiar = {
        "auroc": (roc_auc_score, S),
        "auprc": (average_precision_score, S),
        "brier": (brier_score_loss, P),
        "ece": (ece, P),
    }
    for name, (of_one, values) in familiar.items():
        assert found[name] == pytest.approx([of_one(Z, values, sample_weight=w) for w in weights])
