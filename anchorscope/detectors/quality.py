"""How good probabilities of *wrong* are: AUROC, AUPRC, Brier score, accuracy at a coverage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from anchorscope.probes import intervals
from anchorscope.probes.intervals import Bootstrap

COVERAGES = (0.9, 0.8)
"""Shares of the answers that are kept, the least likely wrong first."""


class Interval(NamedTuple):
    """An estimate with the ends of its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def estimates(p: np.ndarray, z: np.ndarray, drawn: Bootstrap, level: float) -> dict[str, Interval]:
    """Every measure of probabilities p [n] that answers are wrong (z = 1, [n]).

    Intervals are percentiles of a clustered bootstrap, the detector held fixed: `auroc`, `auprc`
    (of wrong answers), `brier`, and `accuracy_90`, `accuracy_80`: the share of right answers among
    those 90 or 80 % that are the least likely wrong.
    """
    errors = (p - z) ** 2
    everyone = np.ones(len(p), dtype=bool)
    one = np.ones((1, len(p)))
    weights = drawn.weights[:, drawn.clusters]
    measures = {
        "auroc": (intervals.auc(p, z), drawn.aucs(p[None], z)[:, 0]),
        "auprc": (average_precision(p, z, one)[0], average_precision(p, z, weights)),
        "brier": (float(errors.mean()), drawn.means(errors, everyone)),
    }
    for coverage in COVERAGES:
        value, draws = (accuracy_at(p, z, coverage, of) for of in (one, weights))
        measures[f"accuracy_{coverage * 100:.0f}"] = (value[0], draws)
    return {name: interval(float(value), draws, level) for name, (value, draws) in measures.items()}


def interval(value: float, draws: np.ndarray, level: float) -> Interval:
    """An estimate with the percentiles of its replicates [draws]."""
    low, high = intervals.percentile(draws[:, None], level)
    return Interval(value, float(low[0]), float(high[0]))


def average_precision(s: np.ndarray, z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Average precision of scores s [n] for z = 1, under each row of weights [draws, n].

    The sum over thresholds of precision × gain in recall; tied scores share a threshold.
    """
    found, ends = _by_threshold(weights * z, -s), _by_threshold(weights, -s)
    precision = intervals.ratio(found.cumsum(1), ends.cumsum(1))
    gain = intervals.ratio(found, found.sum(1, keepdims=True))
    return np.where(gain > 0, precision * gain, 0.0).sum(1)


def accuracy_at(p: np.ndarray, z: np.ndarray, coverage: float, weights: np.ndarray) -> np.ndarray:
    """Share of right answers among the least likely wrong that make up `coverage`.

    Under weights [draws, n]; of answers with equal p at the border, each counts by the same part.
    """
    size, right = _by_threshold(weights, p), _by_threshold(weights * (z == 0), p)
    wanted = coverage * size.sum(1, keepdims=True)
    before = size.cumsum(1) - size
    part = np.clip(intervals.ratio(wanted - before, size), 0.0, 1.0)
    return (np.nan_to_num(part) * right).sum(1) / wanted[:, 0]


def curve(p: np.ndarray, z: np.ndarray) -> pd.DataFrame:
    """The risk-coverage curve: the share of wrong answers among those that are kept.

    Kept are the least likely wrong, `coverage` of them, in hundredths.
    """
    p, z, coverages = np.asarray(p), np.asarray(z), np.arange(1, 101) / 100
    one = np.ones((1, len(p)))
    risk = [1 - accuracy_at(p, z, coverage, one)[0] for coverage in coverages]
    return pd.DataFrame({"coverage": coverages, "risk": risk})


def text_of(measures: Mapping[str, Interval]) -> str:
    """The measures as lines of text."""
    names = {
        "auroc": "AUROC",
        "auprc": "AUPRC",
        "brier": "Brier score",
        **{f"accuracy_{c * 100:.0f}": f"accuracy at {c:.0%} coverage" for c in COVERAGES},
    }
    return "\n".join(f"{names[name]:<25} {measure}" for name, measure in measures.items())


def _by_threshold(weights: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Sums of weights [draws, n] over equal values of `order` [n], smallest first."""
    _, groups = np.unique(order, return_inverse=True)
    sorting = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[sorting], np.arange(groups.max() + 1))
    return np.add.reduceat(weights[:, sorting], starts, axis=1)
