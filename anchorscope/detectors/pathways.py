"""Self-awareness: whether the clean states tell which pathway an answer uses.

A sample's pathway is whether the knockout flips what its own outer fold's probe says at that fold's
headline layer. What predicts it has learned from the pathways of the training samples, which
probes of other inner folds tell.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from anchorscope.detectors.cell import DetectionCell
from anchorscope.detectors.linear import LinearScorer
from anchorscope.detectors.method import Samples, Training
from anchorscope.detectors.methods import probe, text
from anchorscope.detectors.tables.self_awareness import PREDICTORS, SCORES
from anchorscope.experiments.analysis import stacked


def predictions(cell: DetectionCell) -> pd.DataFrame:
    """Predict each sample's pathway out of fold; a row for each sample and predictor: `SCORES`.

    No rows without a knockout. In a fold whose training samples use one pathway only, all are
    predicted alike.
    """
    if cell.knockout is None:
        return pd.DataFrame(columns=list(SCORES))
    frames = []
    for fold in range(len(cell.design.inner)):
        train = probe.with_probes(cell.training(fold))
        here = np.flatnonzero(cell.design.fold == fold)
        test = cell.clean.rows(here)
        scorer = probe.fit_probe(train)
        limit = probe.threshold(train)
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
    """What each of `PREDICTORS` says of the test samples, higher for Q-Anchored, float64 [n]."""
    pathway = probe.pathways(train)
    if not probe.fittable(pathway, train.inner):
        return dict.fromkeys(PREDICTORS, np.zeros(len(test)))
    relabelled = train.labelled(pathway)
    readout = train.samples.readout
    limit = probe.threshold(train)
    logits = probe.held_out(train, readout, [*scorer.layers])[0] - limit
    of_score = probe.of_numbers(relabelled, _decided_by(logits))
    ranks = {
        "states": probe.headline(relabelled, readout).score(test),
        "text": text.fit_text(relabelled).score(test),
        "score": of_score.of_states([_decided_by(scorer.score(test) - limit)]),
    }
    return {name: rank - relabelled.log_odds for name, rank in ranks.items()}


def _decided_by(s: np.ndarray) -> np.ndarray:
    """A score, its size, and the class it names, float64 [n, 3]."""
    return np.column_stack([s, np.abs(s), s > 0])
