"""Metrics, against definitions written out and scikit-learn's."""

from itertools import permutations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from anchorscope.detectors.tables.metrics import metrics
from anchorscope.probes.samples import sigmoid

RNG = np.random.default_rng(0)
Z = RNG.integers(0, 2, 60)
S = np.round(RNG.normal(size=60) + Z, 1)  # with ties


def of(s: np.ndarray, z: np.ndarray, weights: np.ndarray | None = None) -> dict[str, float]:
    weights = np.ones((1, len(z))) if weights is None else weights
    return {name: float(value[-1]) for name, value in metrics(s, s, z, weights).items()}


def test_metrics_are_the_familiar_ones() -> None:
    found, p = of(S, Z), sigmoid(S)
    assert found["auroc"] == pytest.approx(roc_auc_score(Z, S))
    assert found["auprc"] == pytest.approx(average_precision_score(Z, S))
    assert found["brier"] == pytest.approx(brier_score_loss(Z, p))
    bins = np.minimum((10 * p).astype(int), 9)
    gaps = [abs((Z - p)[bins == one].sum()) for one in range(10)]
    assert found["ece"] == pytest.approx(sum(gaps) / len(Z))


def test_the_parts_add_up_to_the_brier_score() -> None:
    found = of(S, Z)
    parts = found["miscalibration"] - found["discrimination"] + found["uncertainty"]
    assert parts == pytest.approx(found["brier"])
    fitted = IsotonicRegression().fit_transform(S, Z)
    assert found["miscalibration"] == pytest.approx(found["brier"] - ((fitted - Z) ** 2).mean())
    assert min(found["miscalibration"], found["discrimination"]) >= 0


def mean_accuracy(right: np.ndarray) -> float:
    """Of the first k over all k."""
    return float(np.mean(right.cumsum() / np.arange(1, len(right) + 1)))


def test_the_rejection_ratio_averages_over_orders_of_ties() -> None:
    s, z = np.array([0.0, 1.0, 1.0, 1.0, 2.0]), np.array([0, 1, 0, 0, 1])
    middle = [mean_accuracy(np.array([1, *order, 0])) for order in permutations([0, 1, 1])]
    best = mean_accuracy(np.array([1, 1, 1, 0, 0]))
    wanted = (np.mean(middle) - 0.6) / (best - 0.6)
    assert of(s, z)["prr"] == pytest.approx(wanted)


def test_a_constant_score_is_worth_nothing() -> None:
    found = of(np.zeros(60), Z)
    assert found["prr"] == pytest.approx(0)
    assert found["auroc"] == 0.5
    assert found["accuracy_80"] == pytest.approx(1 - Z.mean())
    assert found["discrimination"] == pytest.approx(0)


def test_a_perfect_score_rejects_every_wrong_answer_first() -> None:
    found = of(40.0 * Z - 20, Z)
    assert found["prr"] == pytest.approx(1)
    assert found["brier"] == pytest.approx(0)


def test_accuracy_at_a_coverage_is_that_of_the_least_likely_wrong() -> None:
    s = RNG.normal(size=50)
    z = RNG.integers(0, 2, 50)
    assert of(s, z)["accuracy_80"] == pytest.approx(1 - z[np.argsort(s)][:40].mean())


def test_a_row_of_weight_two_is_two_rows() -> None:
    weights = RNG.integers(0, 3, 60)
    found = of(S, Z, weights[None].astype(float))
    assert found == pytest.approx(of(np.repeat(S, weights), np.repeat(Z, weights)))


def test_draws_of_one_class_are_blank() -> None:
    weights = np.stack([np.ones(60), Z.astype(float)])
    assert all(np.isnan(value[1]) for value in metrics(S, S, Z, weights).values())
