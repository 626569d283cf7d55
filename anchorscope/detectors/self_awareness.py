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
from anchorscope.statistics.analysis import stacked
from anchorscope.statistics.intervals import Estimate

PREDICTORS = ("states", "text", "score")
"""Predictors of the pathway. `states`: clean states of one layer. `text`: question and response.
`score`: the probe's logit, its absolute value and its sign, which largely decide what flips.
"""
SCORES = ("id", "readout", "predictor", "fold", "flips", "rank")
"""Columns of `predictions`."""
COLUMNS = (
    "predictor", *with_ends("auc", "vs_text", "vs_score"), "n", "n_flips",
    "n_clusters", "thin", "site", "position",
)  # fmt: skip


def predictions(cell: DetectionCell) -> pd.DataFrame:
    """Predict pathways out of fold; return a row of `SCORES` per sample and predictor.

    Without a knockout there are no rows. If all training samples of a fold use the same pathway,
    all samples of this fold get equal ranks.
    """
    if cell.knockout is None:
        return pd.DataFrame(columns=list(SCORES))
    frames = []
    for fold in range(len(cell.design.inner)):
        train = probe.with_probes(cell.training(fold))
        here = np.flatnonzero(cell.design.fold == fold)
        test, scorer, limit = cell.clean.rows(here), probe.fit_probe(train), probe.threshold(train)
        (layer,) = scorer.layers
        cut = cell.knockout[layer : layer + 1][0][torch.as_tensor(here)]
        flips = (scorer.score(test) > limit) != (scorer.of_states([cut]) > limit)
        for name, rank in _predicted(train, scorer, test).items():
            columns = {
                "id": cell.design.ids[here],
                "readout": cell.clean.readout,
                "predictor": name,
                "fold": fold,
                "flips": flips,
                "rank": rank,
            }
            frames.append(pd.DataFrame(columns))
    return stacked(frames, SCORES)


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
    rows: pd.DataFrame, answers: pd.DataFrame, readout: str, bootstrap: Bootstrap, seed: int
) -> pd.DataFrame:
    """Estimate the AUC of each predictor, and the gain of `states` over `text` and over `score`.

    `rows` come from `predictions` at this read-out. Return a row of `COLUMNS` per predictor. Both
    gains are in the row of `states`.

    Raises:
        AnchorscopeError: Rows and answers have different samples.
    """
    if not len(rows):
        return pd.DataFrame(columns=list(COLUMNS))
    where = f"pathways at {readout}"
    if rows.duplicated(["predictor", "id"]).any():
        raise samples.mismatch("a sample has two ranks of one predictor", where, "detection")
    wide = rows.pivot(index="predictor", columns="id", values=["rank", "flips"])
    if wide.isna().any(axis=None):
        raise samples.mismatch("a sample has no rank by some predictor", where, "detection")
    measured = samples.select_rows(answers, wide["rank"].columns, where, "detection")
    resamples = samples.bootstrap(measured, bootstrap.draws, seed)
    ranks = wide["rank"].loc[[*PREDICTORS]].to_numpy(dtype=np.float64)
    flips = wide["flips"].loc["states"].to_numpy(dtype=np.int64)
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
