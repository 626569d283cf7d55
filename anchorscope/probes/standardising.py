"""Standardising: features are centred and scaled once a layer, for all problems together.

Each problem has a mean and a standard deviation of its own, of the rows it learns from. These stay
beside the features (`Standardised.mean`, `.inv_std`) and are applied to the weights, so that all
problems share one array of features.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from anchorscope.passes.features import Part
from anchorscope.storage.errors import AnchorscopeError

FEW = 16
"""At most so many problems a layer cost less than taking its correlation matrix apart."""
MILD = 2.0
"""Mean square eigenvalue of a correlation matrix up to which it may be taken for the identity."""
CONSTANT = 1e-12
"""Variance among a problem's rows, beside that among all, of a feature that tells it nothing."""
FAR = 8.0
"""Standard deviations from which on a row has no say in where its feature is centred; of few rows
less, since one of n is never √n away."""
COLUMNS = 64
"""Features whose statistics are taken at once, in float64: few enough to stay in a cache."""


@dataclass(frozen=True)
class Standardised:
    """Standardised features of some layers.

    Attributes:
        x: (features − centre) / scale, float32 [layers, n, width].
        centre, scale: float32 [layers, width].
        mean, inv_std: mean and 1 / std of the training rows, in units of x, float32 [layers, sets,
            width]; problems with the same training rows share a set.
        same: the set of each problem, int64 [problems].
        eigen: for each layer the eigenvectors [width, rank] and eigenvalues [rank] of its
            correlation matrix; rank 0 where that is taken for the identity.
    """

    x: Tensor
    centre: Tensor
    scale: Tensor
    mean: Tensor
    inv_std: Tensor
    same: Tensor
    eigen: tuple[tuple[Tensor, Tensor], ...]


def standardise(features: Part, masks: Tensor) -> Standardised:
    """Standardise features [layers, n, width], reading one layer after another.

    Args:
        features: the layers to standardise.
        masks: how much each problem weighs each row, 0 for those it does not learn from,
            [problems, n]. Where problems are few and a layer nearly uncorrelated, its correlation
            matrix is taken for the identity.

    Raises:
        AnchorscopeError: features that are not finite.
    """
    different, same = torch.unique(masks, dim=0, return_inverse=True)
    layers, n, width = features.shape
    x = masks.new_empty((layers, n, width))
    statistics, eigen = [], []
    for layer, out in enumerate(x):
        rows = features[layer : layer + 1][0].to(masks.device)
        columns = range(0, width, COLUMNS)
        parts = [_columns(rows, different, out, slice(k, k + COLUMNS)) for k in columns]
        of_layer = [torch.cat(part, dim=-1).float() for part in zip(*parts, strict=True)]
        statistics.append(of_layer)
        if not bool(torch.isfinite(of_layer[0]).all()):
            what = "activations are not finite, no probe can be fitted"
            do = "measure them again, with dtype: float32 for this model"
            raise AnchorscopeError(what, f"layer {features.layers[layer]}", do, see="not-finite")
        mild = len(masks) <= FEW and _spread(out) <= MILD
        eigen.append((out.new_empty((width, 0)), out.new_empty(0)) if mild else _eigen(out))
    centre, scale, mean, inv_std = map(torch.stack, zip(*statistics, strict=True))
    return Standardised(x, centre, scale, mean, inv_std, same, tuple(eigen))


def _columns(
    rows: Tensor, weights: Tensor, out: Tensor, columns: slice
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Standardise some features of `rows` [n, width] and write them to `out`.

    A row far off would draw the mean away from all others, and leave few digits to tell them apart:
    a feature that has such rows is centred by its other rows. A constant feature is its own centre,
    to the last bit. One that is constant among a set's rows gets 1 / std = 0, and so weight 0,
    which is what the penalty would make of it.

    Args:
        weights: how much each set of training rows weighs each row, [sets, n].
        columns: which features.

    Returns:
        Centre and scale, float64 [features], and mean and 1 / std of each set's rows in units of
        `out`, float64 [sets, features].
    """
    x = rows[:, columns].double()
    x, first = x - x[0], x[0]
    centre, flat = x.mean(0), ~x.any(0)
    away = x - centre
    scale = away.square().mean(0).sqrt()
    scale = torch.where(flat | (scale == 0), 1.0, scale)
    near = away.abs() <= min(FAR, math.sqrt(len(x)) / 2) * scale
    if not bool(near.all()):
        centre = (x * near).sum(0) / near.sum(0).clamp(min=1)
    x = (x - centre) / scale
    out[:, columns] = x
    share = weights.double() / weights.double().sum(-1, keepdim=True)
    mean = share @ x
    variance = share @ x.square() - mean.square()
    inv_std = torch.where(variance > CONSTANT, variance.clamp(min=CONSTANT).rsqrt(), 0.0)
    return first + centre, scale, mean, inv_std


def _spread(x: Tensor) -> float:
    """Mean square eigenvalue of xᵀx / n, at least 1; by random directions."""
    draws = torch.Generator(x.device).manual_seed(0)
    signs = torch.randint(0, 2, (4, x.shape[1]), generator=draws, device=x.device) * 2.0 - 1
    seen = (signs @ x.T) @ x / len(x)
    return float(seen.square().mean())


def _eigen(x: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvectors [width, rank] and eigenvalues [rank] of xᵀx / n, x [n, width].

    By way of the smaller of xᵀx and xxᵀ. Directions that hardly vary are left to the identity.
    """
    n, width = x.shape
    if width <= n:
        values, vectors = torch.linalg.eigh(x.T @ x / n)
        return vectors, values.clamp(min=0)
    values, rows = torch.linalg.eigh(x @ x.T / n)
    there = values > 1e-5 * values[-1:].clamp(min=1e-30)
    values = torch.where(there, values, 1.0)
    vectors = x.T @ rows / (n * values).sqrt()
    return vectors * there, values * there
