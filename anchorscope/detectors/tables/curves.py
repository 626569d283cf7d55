"""Curves of detectors: reliability, risk against coverage, and AUC by layer."""

from __future__ import annotations

import numpy as np
import pandas as pd

from anchorscope.config.readouts import Pair
from anchorscope.config.settings import Bootstrap
from anchorscope.detectors.tables.evaluation import DetectionScores
from anchorscope.detectors.tables.metrics import Ordered
from anchorscope.experiments.analysis import Analysis, anchored
from anchorscope.probes import intervals, samples

BINS = 10
COVERAGE = np.arange(1, 21) / 20
CURVES = (
    "detector", "curve", "x", "y", "y_low", "y_high", "n", "thin", "site", "position",
)  # fmt: skip
LAYERS = (
    "anchor", "layer", "auc", "auc_low", "auc_high", "n", "n_wrong", "n_clusters", "headline",
    "thin", "site", "position",
)  # fmt: skip


def curves(cell: DetectionScores, readout: str, bootstrap: Bootstrap, seed: int) -> pd.DataFrame:
    """Reliability and risk of every detector: `CURVES`.

    `reliability`: the share of wrong answers against the mean probability, in ten bins of equal
    number. `risk`: the share of wrong answers among the least likely wrong, against their share of
    all.
    """
    drawn = samples.bootstrap(cell.answers, bootstrap.draws, seed)
    frames = []
    for detector in cell.s:
        counted = cell.scored_by(detector)
        z, mine = cell.z[counted], drawn.with_all[:, counted]
        for name, (x, values, n) in {
            "reliability": _reliability(cell.s[detector][counted], z, mine),
            "risk": _risk(cell.rank[detector][counted], z, mine),
        }.items():
            columns = {
                "detector": detector,
                "curve": name,
                "x": x,
                **intervals.estimate("y", values, bootstrap.level),
                "n": n,
                "thin": n < bootstrap.min_n,
                **Pair.of(readout)._asdict(),
            }
            frames.append(pd.DataFrame(columns)[list(CURVES)])
    return pd.concat(frames, ignore_index=True)


def _reliability(
    s: np.ndarray, z: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean probability of each bin, share of wrong answers [draws, bins], and sizes."""
    p = samples.sigmoid(s)
    edges = np.unique(np.quantile(p, np.arange(1, BINS) / BINS))
    number = np.searchsorted(edges, p, side="left")
    members = (number[:, None] == np.arange(len(edges) + 1)).astype(np.float64)
    members = members[:, members.any(0)]
    size = members.sum(0)
    share = intervals.ratio(weights @ (members * z[:, None]), weights @ members)
    return (p @ members) / size, share, size.astype(np.int64)


def _risk(
    rank: np.ndarray, z: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coverages, share of wrong answers at each [draws, coverages], and sizes."""
    ordered = Ordered.by(rank, z, weights)
    risk = np.stack([1 - ordered.accuracy_at(share) for share in COVERAGE], axis=1)
    return COVERAGE, risk, np.round(COVERAGE * len(z)).astype(np.int64)


def layers(analysis: Analysis) -> pd.DataFrame:
    """AUC of the probe of each layer among Q-Anchored, A-Anchored and all samples: `LAYERS`.

    One layer decides for all which group a sample is in: the headline layer. No rows without a
    knockout.
    """
    readout, z = analysis.readout, analysis.z
    if "knockout" not in readout.effects:
        return pd.DataFrame(columns=list(LAYERS))
    flips = readout.effects["knockout"].flip[0][readout.headline]
    numbers = np.arange(len(readout.clean))
    frames = []
    for anchor, members in anchored(flips).items():
        s = np.where(members, readout.clean, np.nan)
        few = min((members & (z == one)).sum() for one in (0, 1))
        clusters = min(int(analysis.drawn.clusters_in(members & (z == one))) for one in (0, 1))
        columns = {
            **readout.key,
            "anchor": anchor,
            "layer": numbers,
            **intervals.estimate("auc", analysis.drawn.aucs(s, z), analysis.level),
            "n": int(members.sum()),
            "n_wrong": int(z[members].sum()),
            "n_clusters": clusters,
            "headline": numbers == readout.headline,
            "thin": intervals.thin(few, clusters, analysis),
        }
        frames.append(pd.DataFrame(columns)[list(LAYERS)])
    return pd.concat(frames, ignore_index=True)
