"""Transfer: detectors fitted to one dataset and tested on another dataset of the same model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from anchorscope.config.readouts import Pair
from anchorscope.config.settings import Bootstrap
from anchorscope.detectors import evaluation
from anchorscope.detectors.cell import DetectionCell
from anchorscope.detectors.evaluation import DetectionScores, with_ends
from anchorscope.detectors.method import Scorer
from anchorscope.detectors.methods.probe import with_probes
from anchorscope.detectors.registry import METHODS
from anchorscope.probes import intervals, samples
from anchorscope.probes.intervals import ClusterDraws
from anchorscope.questions import folds

DETECTORS = ("text", "probe", "mass-mean")
COLUMNS = (
    "dataset", "trained_on", "detector", *with_ends("auroc", "vs_own"), "n", "n_shared",
    "n_clusters", "thin", "site", "position",
)  # fmt: skip


def table(
    cells: Mapping[str, DetectionCell],
    out_of_fold: Mapping[str, pd.DataFrame],
    bootstrap: Bootstrap,
    seed: int,
) -> pd.DataFrame:
    """Fit every detector to each dataset, and test it on every dataset.

    Layer, penalty and calibration are learned from the training dataset. Tested samples that share
    their question or subject with the training dataset are left out and counted. `vs_own` is
    the AUC minus the out-of-fold AUC of the tested dataset's own detector, on the same samples.

    `cells` maps datasets to cells. `out_of_fold` maps datasets to rows of `out_of_fold.scores`.
    All share a model and read-out. Return a row of `COLUMNS` per training dataset, tested dataset
    and detector.
    """
    fitted, rows = dict[str, dict[str, Scorer]](), []
    for name, cell in cells.items():
        train = with_probes(cell.whole())
        fitted[name] = {detector: METHODS[detector].fit(train) for detector in DETECTORS}
    for tested, target in cells.items():
        scored = evaluation.scored(out_of_fold[tested], target.answers)
        drawn = samples.bootstrap(scored.answers, bootstrap.draws, seed)
        order = pd.Index(target.design.ids).get_indexer(scored.answers["id"].astype(str))
        for source, scorers in fitted.items():
            shared, ranks = np.zeros(len(order), dtype=bool), scored.rank
            if source != tested:
                shared = folds.linked(scored.answers, cells[source].answers)
                ranks = {name: one.score(target.clean)[order] for name, one in scorers.items()}
            for row in _rows(scored, ranks, ~shared, drawn, bootstrap):
                names = {"dataset": tested, "trained_on": source}
                rows.append(names | row | {"n_shared": int(shared.sum())})
    readout = next(iter(cells.values())).clean.readout
    return pd.DataFrame(rows).assign(**Pair.of(readout)._asdict())[list(COLUMNS)]


def _rows(
    scored: DetectionScores,
    ranks: Mapping[str, np.ndarray],
    counted: np.ndarray,
    drawn: ClusterDraws,
    bootstrap: Bootstrap,
) -> Iterator[dict[str, object]]:
    """Yield a row per detector. `counted`, bool [n], is a mask of the samples to use."""
    n_clusters = int(drawn.clusters_in(counted))
    for name in DETECTORS:
        both = np.where(counted, [ranks[name], scored.rank[name]], np.nan)
        aucs, out_of_fold = drawn.aucs(both, scored.z).T
        yield {
            "detector": name,
            "n": int(counted.sum()),
            "n_clusters": n_clusters,
            "thin": intervals.thin_class(scored.z, counted, drawn, bootstrap),
            **intervals.estimate("auroc", aucs, bootstrap.level),
            **intervals.estimate("vs_own", aucs - out_of_fold, bootstrap.level),
        }
