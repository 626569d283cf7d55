"""The text imitator: how much of a probe's pair terms overlap of question and answer explains."""

import numpy as np

from anchorscope.experiments.crossing.terms import PAIR, term

PENALTY = 10.0
"""Of the squared weights of standardised features: next to nothing for a hundred pairs and more."""


def pair_terms(
    scores: np.ndarray, features: np.ndarray, kind: np.ndarray, fold: np.ndarray
) -> np.ndarray:
    """What a ridge regression on the features' pair terms makes of the scores', [..., pairs].

    It learns from how the pairs of a kind differ among each other, with the same weights for all
    kinds: that all answers overlap more with their own questions, and score higher there, does not
    tell it that one comes from the other. Each fold is predicted from the others; with one fold
    there is nothing to learn from, and all are 0.

    Args:
        scores: the probe's, [4, ..., pairs], see `terms`; none is NaN.
        features: of question and answer, [4, pairs, features], see `overlap.features`.
        kind: of the answers (right, wrong, gold), numbered, int64 [pairs].
        fold: the outer fold of each pair, int64 [pairs]; no text is in two of them.
    """
    read, given = term(PAIR, features), term(PAIR, scores)
    targets = given.reshape(-1, given.shape[-1]).T  # [pairs, targets]
    found = np.zeros_like(targets)
    folds = np.unique(fold)
    for one in folds if len(folds) > 1 else ():
        train = fold != one
        x, y = (_within(values[train], kind[train]) for values in (read, targets))
        spread = x.std(0)
        spread[spread < 1e-9] = 1.0
        x /= spread
        weights = np.linalg.solve(x.T @ x + PENALTY * np.eye(x.shape[1]), x.T @ y)
        found[~train] = (read[~train] / spread) @ weights
    return found.T.reshape(given.shape)


def _within(values: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """Values [pairs, n] less the means of their kinds."""
    centred = np.empty_like(values)
    for one in np.unique(kind):
        centred[kind == one] = values[kind == one] - values[kind == one].mean(0)
    return centred
