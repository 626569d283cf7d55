"""Means over pairs at equal covariates, as intercepts of regressions.

The columns of `at_equal`, float64 [..., pairs, columns], are a difference of interest, the
difference in the mean score, and the differences in at least one covariate. The first two are
contrasts of the same scores, so that their noise is equally large and uncorrelated. Least squares
would take noise of the mean score for variation, and its slope would be too small. The slope is
therefore from an orthogonal regression (Deming 1943). At most half of the mean score's variance
that the covariates leave is taken for noise. Covariates have no noise.
"""

import numpy as np


def at_equal(columns: np.ndarray) -> np.ndarray:
    """Estimate the difference at equal mean score and equal covariates, [...]."""
    rows, size = _scaled(columns)
    return size * _intercept(np.swapaxes(rows, -1, -2) @ rows)


def parts(columns: np.ndarray) -> np.ndarray:
    """Return each pair's part of the error of `at_equal`, by the jackknife, [..., pairs]."""
    rows, size = _scaled(columns)
    moments = np.swapaxes(rows, -1, -2) @ rows
    without = _intercept(moments[..., None, :, :] - rows[..., :, None] * rows[..., None, :])
    n = rows.shape[-2]
    return size[..., None] * (_intercept(moments)[..., None] - without) * (n - 1) / n


def _scaled(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale the columns and append a column of 1; return also the first two's unit, [...]."""
    size = columns.std(-2, keepdims=True)
    same = size < 1e-9
    size = np.where(same, np.inf, size)  # a constant column has no effect
    size[..., :2] = np.where(same, 1.0, size)[..., :1]
    ones = np.ones((*columns.shape[:-1], 1))
    return np.concatenate([columns / size, ones], axis=-1), size[..., 0, 0]


def _intercept(moments: np.ndarray) -> np.ndarray:
    """Return the intercept [...], from moments of scaled columns, [..., columns, columns]."""
    exact = moments[..., 2:, 2:] + 1e-9 * np.eye(moments.shape[-1] - 2)
    slopes = np.linalg.solve(exact, moments[..., 2:, :2])
    rest = moments[..., :2, :2] - moments[..., :2, 2:] @ slopes
    y, x, both = rest[..., 0, 0], rest[..., 1, 1], rest[..., 0, 1]
    noise = np.minimum((x + y) / 2 - np.hypot((x - y) / 2, both), x / 2)
    slope = both / np.maximum(x - noise, 1e-9)
    return slopes[..., -1, 0] - slope * slopes[..., -1, 1]


def unexplained(y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Estimate y [..., pairs] where all x [pairs, columns] are 0, by least squares.

    Returns:
        The intercept, [...], and each pair's part of its error, by the jackknife, [..., pairs].
    """
    size = x.std(0)
    rows = np.column_stack([np.ones(len(x)), x / np.where(size < 1e-9, 1.0, size)])
    inverse = np.linalg.inv(rows.T @ rows + 1e-9 * np.eye(rows.shape[1]))
    weights = y @ rows @ inverse
    left = y - weights @ rows.T
    leverage = np.einsum("ni,ij,nj->n", rows, inverse, rows)
    return weights[..., 0], left * (rows @ inverse[0]) / np.fmax(1 - leverage, 1e-2)
