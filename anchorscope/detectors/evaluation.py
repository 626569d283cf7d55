"""Table `detection`: metrics of each detector with intervals, and paired differences."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score

from anchorscope.config.readouts import Location
from anchorscope.config.settings import Bootstrap
from anchorscope.detectors.out_of_fold import of_kind
from anchorscope.statistics import intervals, samples
from anchorscope.statistics.intervals import Estimate, ratio
from anchorscope.statistics.samples import sigmoid

REFERENCES = ("probe", "text", "output", "question", "answer", "response", "before")
"""Detectors with which all other detectors are compared, on the same samples."""
METRICS = ("auroc", "auprc", "brier", "ece")


def with_ends(*names: str) -> tuple[str, ...]:
    """Return names of columns, with interval ends: `auc` → `auc`, `auc_low`, `auc_high`."""
    return tuple(f"{name}{end}" for name in names for end in ("", "_low", "_high"))


VERSUS = [f"vs_{name}" for name in REFERENCES]
COLUMNS = (
    "detector", "metric", "estimate", "ci_low", "ci_high", *with_ends(*VERSUS[:3]), "n",
    *with_ends(*VERSUS[3:]), "n_wrong", "n_clusters", "thin", "site", "position",
)  # fmt: skip


def table(
    scores: pd.DataFrame, answers: pd.DataFrame, readout: str, bootstrap: Bootstrap, seed: int
) -> pd.DataFrame:
    """Return a row of `COLUMNS` per detector and metric, with clustered intervals.

    `scores` are `out_of_fold.scores` at this read-out, in the order of `answers`.

    A difference between two detectors is paired: it uses only the samples that both of them scored.
    If `vs_probe` is above 0, the detector's metric is larger than the probe's. `ece` has neither
    interval nor differences: it is above 0 even for a detector whose probabilities are right.
    """
    ranks, logits = of_kind(scores, "rank"), of_kind(scores, "s")
    z, level = answers["label"].to_numpy(dtype=np.int64), bootstrap.level
    resamples = samples.bootstrap(answers, bootstrap.draws, seed)

    @cache
    def of(detector: str, counted: bytes) -> np.ndarray:
        """Return the metrics, [1 + resamples, metrics]. `counted` is a mask as hashable bytes."""
        some = np.frombuffer(counted, dtype=bool)
        rank, s = ranks[detector][some], logits[detector][some]
        return metrics(rank, s, z[some], resamples.with_all[:, some])

    has = {name: ~np.isnan(s) for name, s in logits.items()}
    frames = []
    for detector, counted in has.items():
        values = of(detector, counted.tobytes())
        columns = Estimate.of_resamples(values, level).columns("estimate", "ci")
        for other in has.keys() & {*REFERENCES} - {detector}:
            both = (counted & has[other]).tobytes()
            difference = of(detector, both) - of(other, both)
            columns |= Estimate.of_resamples(difference, level).columns(f"vs_{other}")
        columns |= {
            "detector": detector,
            "metric": METRICS,
            "n": int(counted.sum()),
            "n_wrong": int(z[counted].sum()),
            "n_clusters": int(resamples.clusters_in(counted)),
            "thin": intervals.thin_class(z, counted, resamples, bootstrap),
            **Location.of(readout)._asdict(),
        }
        frames.append(pd.DataFrame(columns))
    found = pd.concat(frames, ignore_index=True).reindex(columns=list(COLUMNS))
    of_ece = found["metric"] == "ece"
    found.loc[of_ece, ["ci_low", "ci_high", *with_ends(*VERSUS)]] = np.nan
    return found


def metrics(rank: np.ndarray, s: np.ndarray, z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return `METRICS` of each resample, [resamples, metrics]; NaN if it has only one class.

    `rank` [n] is higher for answers that are more likely wrong. `auroc` and `auprc` (average
    precision at finding wrong answers) use `rank`. `brier` and `ece` use the logits `s` [n]. `z`
    [n] is 1 for a wrong answer. `weights` [resamples, n] count how often each answer was drawn.
    """
    everyone, wrong = weights.sum(1), weights @ z
    both_classes = (wrong > 0) & (wrong < everyone)
    p = sigmoid(s)
    precision = np.full(len(weights), np.nan)
    for draw in np.flatnonzero(both_classes):
        precision[draw] = average_precision_score(z, rank, sample_weight=weights[draw])
    brier = ratio(weights @ (p - z) ** 2, everyone)
    found = [intervals.aucs(rank, z, weights), precision, brier, ece(p, z, weights)]
    return np.where(both_classes[:, None], np.stack(found, axis=1), np.nan)


def ece(p: np.ndarray, z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the expected calibration error of each resample, [resamples] (Naeini et al., 2015).

    `p` [n], the probability that `z` is 1, falls into ten bins of equal width. The error of a bin
    is |mean `p` − share of z = 1|. The result is the mean of these errors, weighted by bin size.
    """
    bins = np.minimum((p * 10).astype(np.int64), 9)
    in_bin = (bins[:, None] == np.arange(10)) * (z - p)[:, None]
    return np.abs(weights @ in_bin).sum(1) / weights.sum(1)
