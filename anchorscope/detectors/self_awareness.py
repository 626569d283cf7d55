"""Self-awareness: whether the clean states tell which pathway an answer uses.

A sample's pathway is whether the knockout flips what its own outer fold's probe says at that fold's
headline layer. What predicts it has learned from the pathways of the training samples, which
probes of other inner folds tell.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from anchorscope.config.readouts import Pair
from anchorscope.config.settings import Bootstrap
from anchorscope.detectors.cell import DetectionCell
from anchorscope.detectors.linear import LinearScorer
from anchorscope.detectors.method import Samples, Training
from anchorscope.detectors.methods import probe, text
from anchorscope.experiments.analysis import stacked
from anchorscope.probes import intervals, samples

PREDICTORS = ("states", "text", "score")
"""What predicts the pathway: the clean states of any layer; question and response as text; and the
probe's logit, its size and the class it names, which decide much of what flips."""
SCORES = ("id", "readout", "predictor", "fold", "flips", "rank")
"""Columns of `predictions`."""
COLUMNS = (
    "predictor", "auc", "auc_low", "auc_high",
    *(f"vs_{name}{end}" for name in ("text", "score") for end in ("", "_low", "_high")),
    "n", "n_flips", "n_clusters", "thin", "site", "position",
)  # fmt: skip


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


def table(
    rows: pd.DataFrame, answers: pd.DataFrame, readout: str, bootstrap: Bootstrap, seed: int
) -> pd.DataFrame:
    """How well each predictor tells the pathway, and the states better than the others: `COLUMNS`.

    Args:
        rows: of `predictions`, of one read-out.
        answers: of the cell.

    Raises:
        AnchorscopeError: rows and answers are not of the same samples.
    """
    if not len(rows):
        return pd.DataFrame(columns=list(COLUMNS))
    ordered = samples.in_order(answers[answers["id"].isin(rows["id"].unique())])
    drawn = samples.bootstrap(ordered, bootstrap.draws, seed)
    by_name = {str(name): part for name, part in rows.groupby("predictor", sort=False)}
    where = f"pathways at {readout}"
    ranks = np.stack(
        [samples.aligned(by_name[name], ordered, "rank", where) for name in PREDICTORS]
    )
    flips = samples.aligned(by_name["states"], ordered, "flips", where).astype(np.int64)
    aucs = drawn.aucs(ranks, flips)
    few = min(flips.sum(), (1 - flips).sum())
    clusters = min(int(drawn.clusters_in(flips == one)) for one in (0, 1))
    return pd.DataFrame(
        {
            "predictor": PREDICTORS,
            **intervals.estimate("auc", aucs, bootstrap.level),
            **_gains(aucs, bootstrap.level),
            "n": len(flips),
            "n_flips": int(flips.sum()),
            "n_clusters": clusters,
            "thin": intervals.thin(few, clusters, bootstrap),
            **Pair.of(readout)._asdict(),
        }
    )[list(COLUMNS)]


def _gains(aucs: np.ndarray, level: float) -> dict[str, object]:
    """How far the states are ahead of text and score; blank in the rows of these two.

    `aucs` are those of `PREDICTORS`, [1 + draws, predictors].
    """
    columns: dict[str, object] = {}
    for name in ("text", "score"):
        gains = aucs[:, 0] - aucs[:, PREDICTORS.index(name)]
        for column, value in intervals.estimate(f"vs_{name}", gains, level).items():
            columns[column] = [value, np.nan, np.nan]
    return columns
