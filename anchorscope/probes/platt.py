"""Choose the penalty of a probe from held-out logits, and calibrate the probe on them."""

import numpy as np

from anchorscope.statistics.intervals import auc
from anchorscope.statistics.samples import sigmoid

LEAST_SLOPE = 1e-3


def choose(logits: np.ndarray, z: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Return int64 [layers]: the smallest C with a loss within a standard error of the least loss.

    C is given by its index. The loss is the log-loss over inner folds (Hastie, Tibshirani &
    Friedman, section 7.10). Inner out-of-fold `logits` are [layers, penalties, n], by ascending C.
    """
    loss = np.logaddexp(0, np.where(z == 1, -logits, logits))
    folds = [inner == fold for fold in np.unique(inner)]
    by_fold = np.stack([loss[..., fold].mean(-1) for fold in folds], axis=-1)
    mean = by_fold.mean(-1)
    error = by_fold.std(-1, ddof=1) / np.sqrt(by_fold.shape[-1])
    best = mean.argmin(-1)[:, None]
    limit = np.take_along_axis(mean, best, -1) + np.take_along_axis(error, best, -1)
    return (mean <= limit).argmax(-1)


def strongest(logits: np.ndarray, z: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Return the index of the C with the highest inner AUC, the first in a tie; see `choose`."""
    folds = [inner == fold for fold in np.unique(inner)]
    ranks = np.zeros(logits.shape[:2])
    for place in np.ndindex(ranks.shape):
        aucs = [auc(logits[place][rows], z[rows]) for rows in folds]
        ranks[place] = np.average(np.nan_to_num(aucs, nan=0.5), weights=[f.sum() for f in folds])
    return ranks.argmax(-1)


def calibrate(
    logits: np.ndarray, z: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (slope, offset), [layers] each, so that σ(slope · logit + offset) is a probability.

    This is maximum likelihood with Platt's targets (1999, section 2.2), which keep the slope finite
    if the logits separate the classes. The slope is at least 0.001, so that a probe that does worse
    than chance inside the training fold is not reversed. Held-out `logits` are [layers, n].
    `weights`, [n] or [layers, n], say how often each sample counts (default: once).
    """
    weights = np.broadcast_to(1.0 if weights is None else weights, logits.shape)
    wrong, right = ((weights * one).sum(-1, keepdims=True) for one in (z, 1 - z))
    target = np.where(z == 1, (wrong + 1) / (wrong + 2), 1 / (right + 2))
    spread = logits.std(-1, keepdims=True)
    spread = np.where(spread > 0, spread, 1.0)
    rows = np.stack([logits / spread, np.ones_like(logits)], axis=1)
    fitted = logistic_regressions(rows, target, weights)  # [layers, 2]
    slope = fitted[:, 0] / spread[:, 0]
    slope, floored = np.maximum(slope, LEAST_SLOPE), slope < LEAST_SLOPE
    if floored.any():
        fixed = slope[floored, None] * logits[floored]
        fitted[floored, 1:] = logistic_regressions(
            rows[floored, 1:], target[floored], weights[floored], fixed
        )
    return slope, fitted[:, 1]


def prior(wrong: np.ndarray | float, right: np.ndarray | float) -> np.ndarray:
    """Return the logit that `calibrate` gives to a score that tells nothing.

    This is the log-odds of the mean target, given the numbers of samples in both classes. It is a
    little nearer to 0 than the log-odds of the classes, by an amount that depends on the numbers.
    So subtract it, not the log-odds, before samples of several folds are compared. Otherwise, a
    score that tells nothing would rank folds by their share of wrong answers.
    """
    mean = (wrong * (wrong + 1) / (wrong + 2) + right / (right + 2)) / (wrong + right)
    return np.asarray(np.log(mean / (1 - mean)))


def logistic_regressions(
    rows: np.ndarray, target: np.ndarray, weights: np.ndarray, fixed: np.ndarray | float = 0.0
) -> np.ndarray:
    """Fit logistic regressions on `rows` [layers, k, n]; return coefficients, float64 [layers, k].

    This is Newton's method, for few features; `rows` includes the constant. Layers are independent.
    A step is halved until the loss no longer rises. `target` (0 to 1) and `weights` (how often each
    sample counts) are [n] or [layers, n]. `fixed` [layers, n] is added to the logits.
    """

    def logit(w: np.ndarray) -> np.ndarray:
        return (w[..., None, :] @ rows)[..., 0, :] + fixed

    def loss(w: np.ndarray) -> np.ndarray:
        x = logit(w)  # np.logaddexp(0, x) is several times as slow
        softplus = np.maximum(x, 0) + np.log(1 + np.exp(-np.abs(x)))
        return ((softplus - target * x) * weights).sum(-1)

    w = np.zeros(rows.shape[:2])
    least = 1e-9 * np.eye(rows.shape[1])  # keeps the Hessian regular
    now = loss(w)
    for _ in range(100):
        p = sigmoid(logit(w))
        gradient = (rows @ (weights * (p - target))[..., None])[..., 0]
        hessian = (rows * (weights * p * (1 - p))[..., None, :]) @ rows.swapaxes(-1, -2)
        hessian += least
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        if np.abs(step).max() < 1e-9:
            break
        length = np.ones(len(w))
        for _ in range(30):
            after = loss(w - length[:, None] * step)
            worse = after > now + 1e-12 * np.abs(now)
            if not worse.any():
                break
            length = np.where(worse, length / 2, length)
        w, now = w - length[:, None] * step, after
    return w
