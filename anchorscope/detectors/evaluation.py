"""The table of detection: metrics of each detector on every bootstrap draw, and differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score

from anchorscope.config.readouts import Pair
from anchorscope.config.settings import Bootstrap
from anchorscope.probes import intervals, platt, samples
from anchorscope.probes.intervals import ratio
from anchorscope.probes.samples import sigmoid

REFERENCES = ("probe", "text", "output", "question", "answer", "response", "before")
"""Detectors that the others are compared with, in pairs."""
ESTIMATE = ("estimate", "ci_low", "ci_high")
Values = dict[str, np.ndarray]
"""Metric → its value in each draw, float64 [draws]; NaN if a draw has one class."""


def ends(name: str) -> tuple[str, str, str]:
    """Return the columns of a paired difference."""
    return f"vs_{name}", f"vs_{name}_low", f"vs_{name}_high"


COLUMNS = (
    "detector", "metric", *ESTIMATE, *ends("probe"), *ends("text"), *ends("output"), "n",
    *(column for name in REFERENCES[3:] for column in ends(name)),
    "n_wrong", "n_clusters", "thin", "site", "position",
)  # fmt: skip


@dataclass(frozen=True)
class DetectionScores:
    """Scores of a cell's samples by its detectors, at one read-out."""

    answers: pd.DataFrame  # the samples, see `samples.in_order`
    rank: Mapping[str, np.ndarray]  # detector → values that order the samples, float64 [n]
    s: Mapping[str, np.ndarray]  # detector → logits, float64 [n]; NaN where it gave no score

    @property
    def z(self) -> np.ndarray:
        """Labels, int64 [n]."""
        return self.answers["label"].to_numpy(dtype=np.int64)

    def scored_by(self, detector: str) -> np.ndarray:
        """Return which samples a detector has scored, bool [n]."""
        return ~np.isnan(self.s[detector])


def scored(rows: pd.DataFrame, answers: pd.DataFrame) -> DetectionScores:
    """Return the clean scores of one read-out, in the order of `samples.in_order`.

    Args:
        rows: Rows of one read-out, see `out_of_fold.COLUMNS`.
        answers: Answers of the cell. Answers without scores were not measured.

    Raises:
        AnchorscopeError: The rows have other samples than the answers.
    """
    ordered = samples.in_order(answers[answers["id"].isin(rows["id"].unique())])
    clean = rows[rows["condition"] == "clean"].astype({"detector": str})
    if len(ordered) < rows["id"].nunique() or clean.duplicated(["detector", "id"]).any():
        raise samples.mismatch("a sample is scored without answer, or twice", "detection")
    wide = clean.pivot(index="id", columns="detector", values=["rank", "s"]).loc[ordered["id"]]
    rank, s = (
        {name: wide[column, name].to_numpy(np.float64) for name in clean["detector"].unique()}
        for column in ("rank", "s")
    )
    return DetectionScores(ordered, rank, s)


def table(cell: DetectionScores, readout: str, bootstrap: Bootstrap, seed: int) -> pd.DataFrame:
    """Compute every metric of every detector, with clustered intervals.

    Differences between detectors are paired, on the samples that both have scored. A `vs_probe`
    above 0 means that the metric is larger than the probe's.

    Returns:
        One row per detector and metric: `COLUMNS`.
    """
    drawn = samples.bootstrap(cell.answers, bootstrap.draws, seed)
    computed: dict[tuple[str, bytes], Values] = {}

    def of(detector: str, counted: np.ndarray) -> Values:
        """Return the metrics of a detector on some samples; row 0 is the estimate."""
        key = detector, counted.tobytes()
        if key not in computed:
            computed[key] = metrics(
                cell.rank[detector][counted],
                cell.s[detector][counted],
                cell.z[counted],
                drawn.with_all[:, counted],
            )
        return computed[key]

    frames = []
    for detector in cell.s:
        counted = cell.scored_by(detector)
        n, clusters = int(counted.sum()), int(drawn.clusters_in(counted))
        values = of(detector, counted)
        columns = _with_interval(values, ESTIMATE, bootstrap.level)
        columns |= _differences(cell, detector, of, bootstrap.level)
        frames.append(
            pd.DataFrame(
                columns
                | {
                    "detector": detector,
                    "metric": list(values),
                    "n": n,
                    "n_wrong": int(cell.z[counted].sum()),
                    "n_clusters": clusters,
                    "thin": intervals.thin(n, clusters, bootstrap),
                    **Pair.of(readout)._asdict(),
                }
            )
        )
    return pd.concat(frames, ignore_index=True).reindex(columns=list(COLUMNS))


def _differences(
    cell: DetectionScores, detector: str, of: Callable[[str, np.ndarray], Values], level: float
) -> dict[str, np.ndarray]:
    """Return the paired differences of all metrics from each other reference, [metrics] each.

    `of` returns the metrics of a detector on some samples.
    """
    columns: dict[str, np.ndarray] = {}
    for reference in [name for name in REFERENCES if name in cell.s and name != detector]:
        both = cell.scored_by(detector) & cell.scored_by(reference)
        values, others = of(detector, both), of(reference, both)
        differences = {name: values[name] - others[name] for name in values}
        columns |= _with_interval(differences, ends(reference), level)
    return columns


def _with_interval(values: Values, names: Sequence[str], level: float) -> dict[str, np.ndarray]:
    """Return estimate and interval ends of every metric, [metrics] each."""
    every = np.stack([*values.values()], axis=1)
    return dict(zip(names, intervals.estimate("metric", every, level).values(), strict=True))


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
