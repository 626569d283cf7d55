"""How good probabilities of *wrong* are: AUROC, AUPRC, Brier score, accuracy at a coverage."""

from __future__ import annotations

from collections.abc import Mapping
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
    """An estimate with the ends of its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def estimates(p: np.ndarray, z: np.ndarray, drawn: Bootstrap, level: float) -> dict[str, Interval]:
    """Every one of `MEASURES` of probabilities p [n] that answers are wrong (z = 1, [n]).

    Intervals are percentiles of a clustered bootstrap, the detector held fixed.
    """
    s = logit(np.clip(p, LEAST, 1 - LEAST))
    values = metrics(p, s, z, drawn.with_all)
    return {name: interval(float(values[name][0]), values[name][1:], level) for name in MEASURES}


def interval(value: float, draws: np.ndarray, level: float) -> Interval:
    """An estimate with the percentiles of its replicates [draws]."""
    low, high = intervals.percentile(draws[:, None], level)
    return Interval(value, float(low[0]), float(high[0]))


def curve(p: np.ndarray, z: np.ndarray) -> pd.DataFrame:
    """The risk-coverage curve: the share of wrong answers among those that are kept.

    Kept are the least likely wrong, `coverage` of them, in hundredths.
    """
    p, z, coverages = np.asarray(p), np.asarray(z), np.arange(1, 101) / 100
    ordered = Ordered.by(p, z, np.ones((1, len(p))))
    risk = [1 - ordered.accuracy_at(coverage)[0] for coverage in coverages]
    return pd.DataFrame({"coverage": coverages, "risk": risk})


def text_of(measures: Mapping[str, Interval]) -> str:
    """The measures as lines of text."""
    return "\n".join(f"{MEASURES[name]:<25} {measure}" for name, measure in measures.items())
