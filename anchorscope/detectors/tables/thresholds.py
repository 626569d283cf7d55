"""Thresholds: up to which probability of *wrong* answers are kept, for a wanted precision or share.

By learn-then-test (Angelopoulos et al., 2022; MAPIE): with the wanted confidence the answers kept
are as wanted, or no threshold is found. That holds for independent rows, so that one row of each
cluster is used.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd

from anchorscope.config.settings import Bootstrap
from anchorscope.detectors.tables.evaluation import Scored, with_estimate
from anchorscope.probes import intervals, samples

LOGITS = np.array([-10, *np.arange(-8, 8.25, 0.25), 10])
LIMITS = samples.sigmoid(LOGITS)
"""Probabilities of *wrong* that are tried, from the strictest on."""
STARTS = 9
"""Number of limits, equally spaced, from which the tests start. From each start on, limits are
tried in order until one fails; the starts share the error that the confidence leaves."""
COLUMNS = (
    "detector", "target", "wanted", "confidence", "threshold",
    *(f"{name}{end}" for name in ("precision", "coverage") for end in ("", "_low", "_high")),
    "n", "n_calibration", "site", "position",
)  # fmt: skip


@dataclass(frozen=True)
class Wanted:
    """What thresholds are to give, and with which confidence."""

    precision: float = 0.9  # share of right answers among those kept
    coverage: float = 0.8  # share of answers kept
    confidence: float = 0.9


def find(p: np.ndarray, z: np.ndarray, target: str, level: float, confidence: float) -> float:
    """The probability of *wrong* up to which answers are kept; NaN if none will do.

    Of those that will do, for `precision` the one that keeps the most, for `coverage` that which
    keeps the fewest.

    Args:
        p: probabilities of *wrong* of independent answers, [n].
        z: 1 for a wrong one, [n].
        target: `precision` or `coverage`.
        level: the precision or the coverage that is wanted.
    """
    from mapie.risk_control import (
        BinaryClassificationController,
        FWERFixedSequenceTesting,
        precision,
    )
    from mapie.risk_control.risks import BinaryRisk, predicted_positive_fraction

    coverage = BinaryRisk(
        risk_occurrence=lambda label, kept: kept == 1,
        risk_condition=lambda label, kept: np.repeat(True, len(label)),
        higher_is_better=True,
    )
    # Each in the order in which the wanted becomes harder.
    risk, best, limits = {
        "precision": (precision, coverage, LIMITS),
        "coverage": (coverage, predicted_positive_fraction, LIMITS[::-1]),
    }[target]

    def right(p_wrong: np.ndarray) -> np.ndarray:
        """The probabilities of both classes, *right* being the one that is kept."""
        return np.column_stack([p_wrong, 1 - p_wrong])

    controller = BinaryClassificationController(
        right,
        risk,
        level,
        confidence_level=confidence,
        best_predict_param_choice=best,
        list_predict_params=1 - limits,
        fwer_method=FWERFixedSequenceTesting(STARTS),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that none was found is an answer
        controller.calibrate(p, 1 - z)
    p_right = controller.best_predict_param
    return np.nan if p_right is None else float(limits[np.argmin(np.abs(1 - limits - p_right))])


def one_of_each(clusters: np.ndarray, seed: int) -> np.ndarray:
    """The place of one sample of each cluster, chosen by the seed, int64 [clusters]."""
    order = np.random.default_rng(seed).permutation(len(clusters))
    _, first = np.unique(clusters[order], return_index=True)
    return np.sort(order[first])


def table(
    cell: Scored, readout: str, bootstrap: Bootstrap, wanted: Wanted, seed: int
) -> pd.DataFrame:
    """A row for each detector and target: `COLUMNS`; a blank threshold where none was found.

    Precision and coverage are those of all samples, with clustered intervals.
    """
    drawn = samples.bootstrap(cell.answers, bootstrap.draws, seed)
    weights = with_estimate(drawn)
    site, _, position = readout.partition("/")
    rows = []
    for detector, s in cell.s.items():
        counted = np.flatnonzero(cell.scored_by(detector))
        p, z = samples.sigmoid(s[counted]), cell.z[counted]
        some = one_of_each(drawn.clusters[counted], seed)
        for target in ("precision", "coverage"):
            level = float(getattr(wanted, target))
            threshold = find(p[some], z[some], target, level, wanted.confidence)
            row: dict[str, object] = {
                "detector": detector,
                "target": target,
                "wanted": level,
                "confidence": wanted.confidence,
                "threshold": threshold,
                "n": len(counted),
                "n_calibration": len(some),
                "site": site,
                "position": position,
            }
            rows.append(row | _shares(p, z, weights[:, counted], threshold, bootstrap.level))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _shares(
    p: np.ndarray, z: np.ndarray, weights: np.ndarray, threshold: float, level: float
) -> dict[str, object]:
    """Precision and coverage of the answers up to a threshold; NaN where that is blank.

    Args:
        p, z: probabilities of *wrong*, and 1 for a wrong answer, [n].
        weights: how often each answer counts, [1 + draws, n], see `with_estimate`.
    """
    kept = (p <= threshold).astype(np.float64)
    n_all, n_kept, n_right = weights.sum(1), weights @ kept, weights @ (kept * (1 - z))
    columns: dict[str, object] = {}
    for name, part, whole in (("precision", n_right, n_kept), ("coverage", n_kept, n_all)):
        values = intervals.ratio(part, whole)
        if np.isnan(threshold):
            values = np.full_like(values, np.nan)
        low, high = intervals.percentile(values[1:, None], level)
        columns |= {name: values[0], f"{name}_low": low[0], f"{name}_high": high[0]}
    return columns
