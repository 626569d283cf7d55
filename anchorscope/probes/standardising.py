"""Standardising: centre and scale the features of each layer before its probes are fitted."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from anchorscope.passes.features import Selection
from anchorscope.storage.errors import AnchorscopeError

CONSTANT = 1e-12
"""A feature is constant if its variance over training rows is at most this share of the total."""
FAR = 8.0
"""Rows more than this many standard deviations from a feature's mean do not count when the feature
is centred. With n rows, the limit is at most √n / 2, because no row can be √n away.
"""
COLUMNS = 64  # number of features processed together in float64, so that they fit in the cache


@dataclass(frozen=True)
class Standardised:
    """Features of some layers, (features − centre) / scale, and their statistics."""

    x: Tensor  # float32 [layers, n, width]
    centre: Tensor  # [layers, width]
    scale: Tensor  # [layers, width]
    # Problems with equal masks share a row of `mean` and `inv_std`, [layers, unique masks, width],
    # in units of x. `same`, int64 [problems], is the row of each problem.
    mean: Tensor
    inv_std: Tensor
    same: Tensor
    # Eigenvectors [layers, width, rank] and eigenvalues [layers, rank] of the correlation matrices.
    # With rank 0, features are uncorrelated, and `values` [layers, width] holds their variances.
    vectors: Tensor
    values: Tensor


def standardise(features: Selection, masks: Tensor) -> Standardised:
    """Standardise `features` [layers, n, width]. `masks` [problems, n] are row weights.

    Raises:
        AnchorscopeError: Features are not finite.
    """
    different, same = torch.unique(masks, dim=0, return_inverse=True)
    layers, n, width = features.shape
    x = masks.new_empty((layers, n, width))
    by_layer = []
    for layer, out in enumerate(x):
        rows = features[layer : layer + 1][0].to(masks.device)
        statistics = _standardise_layer(rows, different, out)
        if not bool(torch.isfinite(statistics[0]).all()):
            what = "activations are not finite, so no probe can be fitted"
            do = "measure them again, with dtype: float32 for this model"
            raise AnchorscopeError(what, f"layer {features.layers[layer]}", do, see="not-finite")
        by_layer.append((*statistics, *_eigen(out)))
    centre, scale, mean, inv_std, *eigen = map(torch.stack, zip(*by_layer, strict=True))
    return Standardised(x, centre, scale, mean, inv_std, same, *eigen)


def as_they_are(features: Selection, masks: Tensor) -> Standardised:
    """Return unchanged features with their variances. Features must be uncorrelated with mean 0."""
    x = features[:].to(masks)
    layers, _, width = x.shape
    zeros, ones = x.new_zeros((layers, 1, width)), x.new_ones((layers, 1, width))
    same = torch.zeros(len(masks), dtype=torch.int64, device=masks.device)
    uncorrelated = x.new_empty((layers, width, 0)), x.square().mean(1)
    return Standardised(x, zeros[:, 0], ones[:, 0], zeros, ones, same, *uncorrelated)


def _standardise_layer(rows: Tensor, weights: Tensor, out: Tensor) -> list[Tensor]:
    """Write standardised `rows` to `out`. Return float32 centre, scale, mean and 1 / std."""
    starts = range(0, rows.shape[1], COLUMNS)
    parts = [_standardise_columns(rows, weights, out, slice(k, k + COLUMNS)) for k in starts]
    return [torch.cat(statistic, dim=-1).float() for statistic in zip(*parts, strict=True)]


def _standardise_columns(
    rows: Tensor, weights: Tensor, out: Tensor, columns: slice
) -> tuple[Tensor, ...]:
    """Do the work of `_standardise_layer` for some columns; return their statistics in float64.

    An outlier would move the mean far from all other rows and leave few digits to tell these apart.
    So outliers do not count for the centre. A feature that is constant among a problem's rows gets
    1 / std = 0. So its weight is 0, as the penalty would make it anyway.
    """
    x = rows[:, columns].double()
    x, first = x - x[0], x[0]
    centre, flat = x.mean(0), ~x.any(0)
    distance = x - centre
    scale = distance.square().mean(0).sqrt()
    scale = torch.where(flat | (scale == 0), 1.0, scale)
    near = distance.abs() <= min(FAR, math.sqrt(len(x)) / 2) * scale
    if not bool(near.all()):
        centre = (x * near).sum(0) / near.sum(0).clamp(min=1)
    x = (x - centre) / scale
    out[:, columns] = x
    share = weights.double() / weights.double().sum(-1, keepdim=True)
    mean = share @ x
    variance = share @ x.square() - mean.square()
    inv_std = torch.where(variance > CONSTANT, variance.clamp(min=CONSTANT).rsqrt(), 0.0)
    return first + centre, scale, mean, inv_std


def _eigen(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvectors [width, rank] and eigenvalues [rank] of xᵀx / n, given x [n, width].

    If there are more features than rows, directions of little variance get the eigenvector 0.
    """
    n, width = x.shape
    if width <= n:
        values, vectors = torch.linalg.eigh(x.T @ x / n)
        return vectors, values.clamp(min=0)
    values, rows = torch.linalg.eigh(x @ x.T / n)
    varies = values > 1e-5 * values[-1:].clamp(min=1e-30)
    values = torch.where(varies, values, 1.0)
    vectors = x.T @ rows / (n * values).sqrt()
    return vectors * varies, values * varies
