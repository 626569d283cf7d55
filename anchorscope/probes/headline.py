"""The headline layer: the one layer that speaks for a read-out, chosen on training folds."""

from __future__ import annotations

import numpy as np

MARGIN = 0.01


def deepest(auc: np.ndarray) -> int:
    """The deepest layer with an AUC [layers] within 0.01 of the best; the last if none is known."""
    known = np.nan_to_num(auc, nan=0.0)
    return int(np.flatnonzero(known >= known.max() - MARGIN)[-1])


def layer_of_fold(inner_auc: np.ndarray) -> np.ndarray:
    """Each outer fold's own choice, int64 [folds], of inner out-of-fold AUCs [layers, folds]."""
    return np.array([deepest(auc) for auc in inner_auc.T])


def median(layers: np.ndarray) -> int:
    """The layer of pictures and contrasts: the median of the folds' choices, rounded down."""
    return int(np.floor(np.median(layers)))
