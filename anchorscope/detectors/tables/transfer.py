"""Transfer: fitted to the answers on one dataset, tried on another of the same model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from anchorscope.config.settings import Bootstrap
from anchorscope.detectors import overlap
from anchorscope.detectors.cell import Cell, inner_folds
from anchorscope.detectors.method import Scorer
from anchorscope.detectors.methods.probe import with_probes
from anchorscope.detectors.registry import METHODS
from anchorscope.detectors.tables import evaluation
from anchorscope.detectors.tables.metrics import Ordered
from anchorscope.probes import intervals, samples
from anchorscope.probes.samples import kept

DETECTORS = ("text", "probe", "mass-mean")
COLUMNS = (
    "dataset", "trained_on", "detector", "auroc", "auroc_low", "auroc_high",
    "vs_own", "vs_own_low", "vs_own_high", "n", "n_shared", "n_clusters", "thin",
    "site", "position",
)  # fmt: skip


@dataclass(frozen=True)
class Dataset:
    """A cell, and its answers with their labels."""

    cell: Cell
    answers: pd.DataFrame  # see `activations.measured`


def table(
    cells: Mapping[str, Dataset],
    out_of_fold: Mapping[str, pd.DataFrame],
    bootstrap: Bootstrap,
    seed: int,
) -> pd.DataFrame:
    """A row for each pair of datasets and detector: `COLUMNS`.

    Layer, penalty and calibration are learned from the dataset that a detector is fitted to. Tested
    samples that share their question or subject with it are left out and counted. `vs_own` is the
    AUC less that of the detector of the tested dataset itself, out of fold, on the same samples.

    Args:
        cells: of one model and read-out, by dataset.
        out_of_fold: the rows of `out_of_fold.scores` of each dataset, at that read-out.
    """
    fitted = {name: _fitted(one) for name, one in cells.items()}
    own = {name: evaluation.scored(out_of_fold[name], one.answers) for name, one in cells.items()}
    rows = []
    for tested, target in cells.items():
        answers, ranks = own[tested].answers, own[tested].rank
        drawn = samples.bootstrap(answers, bootstrap.draws, seed)
        weights = evaluation.with_estimate(drawn)
        order = pd.Index(target.cell.design.ids).get_indexer(
            pd.Index(answers["id"].astype(str), dtype=object)
        )
        for source, scorers in fitted.items():
            shared = overlap.shared(answers, overlap.keys(cells[source].answers))
            counted = np.ones(len(answers), dtype=bool) if source == tested else ~shared
            for name, scorer in scorers.items():
                rank = ranks[name]
                if source != tested:
                    rank = scorer.score(target.cell.clean)[order]
                own_auc, auc = (
                    _aucs(some, own[tested].z, weights, counted) for some in (ranks[name], rank)
                )
                row = {
                    "dataset": tested,
                    "trained_on": source,
                    "detector": name,
                    "n": int(counted.sum()),
                    "n_shared": 0 if source == tested else int(shared.sum()),
                    **_facts(own[tested].z, counted, drawn.clusters, bootstrap),
                    **_ends("auroc", auc, bootstrap.level),
                    **_ends("vs_own", auc - own_auc, bootstrap.level),
                }
                rows.append(row)
    site, _, position = next(iter(cells.values())).cell.clean.readout.partition("/")
    frame = pd.DataFrame(rows).assign(site=site, position=position)
    return frame[list(COLUMNS)]


def _fitted(dataset: Dataset) -> dict[str, Scorer]:
    """The detectors of a whole cell."""
    cell = dataset.cell
    answers = cell.design.in_order(kept(dataset.answers))
    where = f"{cell.design.where}, all samples"
    inner = inner_folds(answers, cell.design.z, cell.design.settings, where)
    train = with_probes(cell.whole(inner))
    return {name: METHODS[name].fit(train) for name in DETECTORS}


def _aucs(rank: np.ndarray, z: np.ndarray, weights: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """AUC over some samples in each draw; NaN without both classes."""
    if not counted.any():
        return np.full(len(weights), np.nan)
    return Ordered.by(rank[counted], z[counted], weights[:, counted]).auroc()


def _ends(name: str, values: np.ndarray, level: float) -> dict[str, float]:
    """Estimate and interval of a statistic [1 + draws]."""
    low, high = intervals.percentile(values[1:, None], level)
    return {name: values[0], f"{name}_low": low[0], f"{name}_high": high[0]}


def _facts(
    z: np.ndarray, counted: np.ndarray, clusters: np.ndarray, bootstrap: Bootstrap
) -> dict[str, object]:
    """How many clusters there are, and whether that is too few to rely on."""
    n_clusters = len(np.unique(clusters[counted]))
    few = min((counted & (z == one)).sum() for one in (0, 1)) < bootstrap.min_n
    return {"n_clusters": n_clusters, "thin": bool(few or n_clusters < bootstrap.min_clusters)}
