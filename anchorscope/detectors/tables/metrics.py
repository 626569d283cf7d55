"""Metrics of detection, computed on every bootstrap draw at once."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import average_precision_score

from anchorscope.probes import intervals, platt
from anchorscope.probes.intervals import ratio
from anchorscope.probes.samples import sigmoid

Values = dict[str, np.ndarray]
"""Metric → its value in each draw, float64 [draws]; NaN if a draw has one class."""


def metrics(rank: np.ndarray, s: np.ndarray, z: np.ndarray, weights: np.ndarray) -> Values:
    """Compute every metric in every draw.

    - `auroc`: area under the ROC curve of wrong against right answers.
    - `auprc`: average precision at finding wrong answers.
    - `brier`: mean squared error of the probability.
    - `ece`: expected calibration error, ten bins of equal width.

    Args:
        rank: Values that order the answers, higher for more likely wrong, float64 [n].
        s: Logits of *wrong*, from which `brier` and `ece` are computed, float64 [n].
        z: 1 for a wrong answer, [n].
        weights: How often each answer was drawn, [draws, n].
    """
    everyone, wrong = weights.sum(1), weights @ z
    both_classes = (wrong > 0) & (wrong < everyone)
    p = sigmoid(s)
    values = {
        "auroc": intervals.aucs(rank, z, weights),
        "auprc": _average_precision(rank, z, weights, both_classes),
        "brier": ratio(weights @ (p - z) ** 2, everyone),
        "ece": platt.ece(p, z, weights),
    }
    return {name: np.where(both_classes, of_draws, np.nan) for name, of_draws in values.items()}


def _average_precision(
    rank: np.ndarray, z: np.ndarray, weights: np.ndarray, usable: np.ndarray
) -> np.ndarray:
    """Return the average precision in each draw, [draws]; NaN in draws that are not `usable`."""
    values = np.full(len(weights), np.nan)
    for draw in np.flatnonzero(usable):
        values[draw] = average_precision_score(z, rank, sample_weight=weights[draw])
    return values
