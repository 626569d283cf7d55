"""Small logistic regressions, many at once, by Newton's method.

For a few columns; the probes themselves, with a column for each unit of a hidden state, are solved
by `anchorscope.probes.lbfgs`.
"""

import numpy as np

from anchorscope.probes.samples import sigmoid


def logistic_regressions(
    rows: np.ndarray, target: np.ndarray, weights: np.ndarray, fixed: np.ndarray | float = 0.0
) -> np.ndarray:
    """Weights float64 [layers, k] of logistic regressions on `rows` [layers, k, n].

    Each layer's is fitted by itself. The loss is Σ weights · log-loss. A step is halved until the
    loss no longer rises.

    Args:
        rows: a row for each feature; the constant is one, too.
        target: between 0 and 1, [n], or [layers, n] where each layer has its own.
        weights: how often each sample counts, like `target`.
        fixed: added to the logits, [layers, n].
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
