"""The text imitator: what overlap of question and answer alone can tell of a probe's scores."""

import numpy as np

from anchorscope.experiments.crossing.terms import PAIR, term

PENALTIES = (10000.0, 1000.0, 100.0, 10.0, 1.0)
"""Of the squared weights of standardised features."""


def pair_terms(scores: np.ndarray, features: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """The pair terms of a ridge regression of the probe's own scores, [..., pairs].

    Each fold is predicted from the pairs of the others; one penalty, the best one out of fold,
    serves all folds. With one fold only there is nothing to learn from, and all are 0.

    Args:
        scores: of all pairs that the imitator may learn from, [4, ..., pairs]; none is NaN.
        features: of the four texts, [4, pairs, features], see `overlap.features`.
        fold: the outer fold of each pair, int64 [pairs]; a text is in one fold.
    """
    targets = np.moveaxis(scores.reshape(4, -1, scores.shape[-1]), 1, -1)  # [4, pairs, targets]
    predicted = np.zeros((len(PENALTIES), *targets.shape))
    folds = np.unique(fold)
    for one in folds if len(folds) > 1 else ():
        train = fold != one
        predicted[:, :, ~train] = _ridge(features[:, train], targets[:, train], features[:, ~train])
    best = ((predicted - targets) ** 2).sum((1, 2)).argmin(0)
    pair = term(PAIR, np.moveaxis(predicted, 1, 0))[best, :, np.arange(len(best))]
    return pair.reshape(scores.shape[1:])


def _ridge(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Predictions [penalties, 4, n, targets] at `new` [4, n, features]."""
    x, y = x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])
    mean, spread = x.mean(0), x.std(0)
    spread[spread < 1e-9] = 1.0
    squares, axes = np.linalg.eigh(((x - mean) / spread).T @ ((x - mean) / spread))
    along = axes.T @ ((x - mean) / spread).T @ (y - y.mean(0))
    rows = ((new - mean) / spread) @ axes
    shrunk = [along / (np.fmax(squares, 0) + penalty)[:, None] for penalty in PENALTIES]
    return np.stack([rows @ weights + y.mean(0) for weights in shrunk])
