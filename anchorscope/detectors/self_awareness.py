"""Self-awareness: whether the clean states predict which pathway an answer uses.

A sample is Q-Anchored if the knockout flips its prediction at the headline layer of its outer fold.
The predictors learn from the pathways of training samples. These pathways, too, come from probes
that were not fitted to the sample: they were fitted to the other inner folds.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from anchorscope.config.readouts import Location
from anchorscope.config.settings import Bootstrap
from anchorscope.detectors.cell import DetectionCell
from anchorscope.detectors.evaluation import with_ends
from anchorscope.detectors.method import LinearScorer, Samples, Training
from anchorscope.detectors.methods import probe, text
from anchorscope.statistics import intervals, samples
from anchorscope.statistics.intervals import Estimate

PREDICTORS = ("states", "text", "score")
"""Predictors of the pathway. `states`: clean states of one layer. `text`: question and response.
`score`: the probe's logit, its absolute value and its sign, which largely decide what flips.
"""
COLUMNS = (
    "predictor", *with_ends("auc", "vs_text", "vs_score"), "n", "n_flips",
    "n_clusters", "thin", "site", "position",
)  # fmt: skip


def predictions(cell: DetectionCell) -> dict[str, np.ndarray]:
    """Predict pathways out of fold.

    Return columns to add to `out_of_fold.scores`: `flips`, and `pathway/<predictor>`, the ranks of
    each of `PREDICTORS`. Without a knockout there are none. If all training samples of a fold use
    the same pathway, all samples of this fold get equal ranks.
    """
    if cell.knockout is None:
        return {}
    fold, n = cell.design.fold, len(cell.design.ids)
    columns = {"flips": np.zeros(n, dtype=bool)}
    columns |= {f"pathway/{name}": np.zeros(n) for name in PREDICTORS}
    for number in range(len(cell.design.inner)):
        train = cell.training(number)
        here = np.flatnonzero(fold == number)
        test, scorer, limit = cell.clean.rows(here), probe.fit_probe(train), probe.threshold(train)
        (layer,) = scorer.layers
        cut = cell.knockout[layer : layer + 1][0][torch.as_tensor(here)]
        columns["flips"][here] = (scorer.score(test) > limit) != (scorer.of_states([cut]) > limit)
        for name, rank in _predicted(train, scorer, test).items():
            columns[f"pathway/{name}"][here] = rank
    return columns


def _predicted(train: Training, scorer: LinearScorer, test: Samples) -> dict[str, np.ndarray]:
    """Return predictor → ranks of the `test` samples, float64 [n]; higher means Q-Anchored."""
    pathway = probe.pathways(train)
    if not probe.fittable(pathway, train.inner):
        return dict.fromkeys(PREDICTORS, np.zeros(len(test)))
    relabelled = train.labelled(pathway)
    readout, limit = train.samples.readout, probe.threshold(train)
    logits = probe.held_out(train, readout, [*scorer.layers])[0] - limit
    of_score = probe.of_numbers(relabelled, _decided_by(logits))
    ranks = {
        "states": probe.headline(relabelled, readout).score(test),
        "text": text.fit_text(relabelled).score(test),
        "score": of_score.of_states([_decided_by(scorer.score(test) - limit)]),
    }
    return {name: rank - relabelled.prior for name, rank in ranks.items()}


def _decided_by(s: np.ndarray) -> np.ndarray:
    """Return the score, its absolute value, and the predicted class, float64 [n, 3]."""
    return np.column_stack([s, np.abs(s), s > 0])


def table(
    scores: pd.DataFrame, answers: pd.DataFrame, readout: str, bootstrap: Bootstrap, seed: int
) -> pd.DataFrame:
    """Estimate the AUC of each predictor, and the gain of `states` over `text` and over `score`.

    `scores` hold the `predictions` at this read-out, in the order of `answers`. Return a row of
    `COLUMNS` per predictor. Both gains are in the row of `states`.
    """
    if "flips" not in scores:
        return pd.DataFrame(columns=list(COLUMNS))
    resamples = samples.bootstrap(answers, bootstrap.draws, seed)
    ranks = np.stack([scores[f"pathway/{name}"] for name in PREDICTORS])
    flips = scores["flips"].to_numpy(dtype=np.int64)
    aucs = resamples.aucs(ranks, flips)  # [1 + resamples, predictors]
    clusters = min(int(resamples.clusters_in(flips == one)) for one in (0, 1))
    columns = {
        "predictor": PREDICTORS,
        **Estimate.of_resamples(aucs, bootstrap.level).columns("auc"),
        "n": len(flips),
        "n_flips": int(flips.sum()),
        "n_clusters": clusters,
        "thin": intervals.thin_class(flips, np.ones(len(flips), dtype=bool), resamples, bootstrap),
        **Location.of(readout)._asdict(),
    }
    for number, name in enumerate(PREDICTORS[1:], start=1):
        gain = Estimate.of_resamples(aucs[:, 0] - aucs[:, number], bootstrap.level)
        columns |= {
            column: [one, np.nan, np.nan] for column, one in gain.columns(f"vs_{name}").items()
        }
    return pd.DataFrame(columns)[list(COLUMNS)]
