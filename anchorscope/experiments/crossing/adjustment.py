"""Means over pairs, other things equal: intercepts of regressions.

The columns of `at_equal`, float64 [..., pairs, columns], are a difference, that in the mean score,
and those in other things, at least one. Difference and mean are contrasts of the same scores, whose
noise is as large in both, and uncorrelated. Least squares would take the mean's noise for variation
and make its slope too small, so the slope is that of the orthogonal regression (Deming 1943); at
most half of what the other things leave of the mean's variance is taken for noise. They have none
themselves.
"""

import numpy as np


def at_equal(columns: np.ndarray) -> np.ndarray:
    """The difference where the mean and the other things do not differ, [...]."""
    rows, size = _scaled(columns)
    return size * _intercept(np.swapaxes(rows, -1, -2) @ rows)


def parts(columns: np.ndarray) -> np.ndarray:
    """What each pair adds to the error of `at_equal`, [..., pairs], by the jackknife."""
    rows, size = _scaled(columns)
    moments = np.swapaxes(rows, -1, -2) @ rows
    without = _intercept(moments[..., None, :, :] - rows[..., :, None] * rows[..., None, :])
    n = rows.shape[-2]
    return size[..., None] * (_intercept(moments)[..., None] - without) * (n - 1) / n


def _scaled(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns of like size and a column of 1, and what one unit of the first two is, [...]."""
    size = columns.std(-2, keepdims=True)
    same = size < 1e-9
    size = np.where(same, np.inf, size)  # a thing that is the same for all has no say
    size[..., :2] = np.where(same, 1.0, size)[..., :1]
    ones = np.ones((*columns.shape[:-1], 1))
    return np.concatenate([columns / size, ones], axis=-1), size[..., 0, 0]


def _intercept(moments: np.ndarray) -> np.ndarray:
    """[...], of sums of products of `_scaled` columns, [..., columns, columns]."""
    exact = moments[..., 2:, 2:] + 1e-9 * np.eye(moments.shape[-1] - 2)
    slopes = np.linalg.solve(exact, moments[..., 2:, :2])
    rest = moments[..., :2, :2] - moments[..., :2, 2:] @ slopes
    y, x, both = rest[..., 0, 0], rest[..., 1, 1], rest[..., 0, 1]
    noise = np.minimum((x + y) / 2 - np.hypot((x - y) / 2, both), x / 2)
    slope = both / np.maximum(x - noise, 1e-9)
    return slopes[..., -1, 0] - slope * slopes[..., -1, 1]


def unexplained(y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What is left of y [..., pairs] where all x [pairs, columns] are 0, by least squares.

    Returns the intercept, [...], and what each pair adds to its error, [..., pairs], by the
    jackknife.
    """
    size = x.std(0)
    rows = np.column_stack([np.ones(len(x)), x / np.where(size < 1e-9, 1.0, size)])
    inverse = np.linalg.inv(rows.T @ rows + 1e-9 * np.eye(rows.shape[1]))
    weights = y @ rows @ inverse
    left = y - weights @ rows.T
    leverage = np.einsum("ni,ij,nj->n", rows, inverse, rows)
    return weights[..., 0], left * (rows @ inverse[0]) / np.fmax(1 - leverage, 1e-2)
