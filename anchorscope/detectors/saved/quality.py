"""How good probabilities of *wrong* are: AUROC, AUPRC, Brier score, accuracy at a coverage."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logit

from anchorscope.detectors.tables.metrics import Ordered, metrics
from anchorscope.probes import intervals
from anchorscope.probes.intervals import Bootstrap

MEASURES = {
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "brier": "Brier score",
    "accuracy_90": "accuracy at 90% coverage",
    "accuracy_80": "accuracy at 80% coverage",
}
"""Those of `metrics.METRICS` that are told of a saved detector → their names in text."""
LEAST = 1e-15
"""Least probability that has a finite logit."""


class Interval(NamedTuple):
    """An estimate with the ends of its interval; NaN where there is none."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """With a real minus sign, and none before a zero."""
        if np.isnan(self.value):
            return "not known"
        value, low, high = (f"{one:.3f}".replace("nan", "?") for one in self)
        return f"{value} [{low}, {high}]".replace("-0.000", "0.000").replace("-", "−")


def estimates(p: np.ndarray, z: np.ndarray, drawn: Bootstrap, level: float) -> dict[str, Interval]:
    """Every one of `MEASURES` of probabilities p [n] that answers are wrong (z = 1, [n]).

    Intervals are percentiles of a clustered bootstrap, the detector held fixed.
    """
    s = logit(np.clip(p, LEAST, 1 - LEAST))
    values = metrics(p, s, z, drawn.with_all)
    columns = {name: intervals.estimate(name, values[name], level) for name in MEASURES}
    return {name: Interval(*map(float, ends.values())) for name, ends in columns.items()}


def curve(p: np.ndarray, z: np.ndarray) -> pd.DataFrame:
    """The risk-coverage curve: the share of wrong answers among those that are kept.

    Kept are the least likely wrong, `coverage` of them, in hundredths.
    """
    p, z, coverages = np.asarray(p), np.asarray(z), np.arange(1, 101) / 100
    ordered = Ordered.by(p, z, np.ones((1, len(p))))
    risk = [1 - ordered.accuracy_at(coverage)[0] for coverage in coverages]
    return pd.DataFrame({"coverage": coverages, "risk": risk})
