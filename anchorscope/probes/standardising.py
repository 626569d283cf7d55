"""Features standardised for the probes, layer after layer.

Every layer is taken less its centre and by its scale. What is left for each problem is the mean and
the spread of its own rows, and for all problems of a layer its correlation matrix, taken apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from anchorscope.models.features import Features
from anchorscope.storage.errors import AnchorscopeError

FEW = 16
"""At most so many problems a layer cost less than taking its correlation matrix apart."""
MILD = 2.0
"""Mean square eigenvalue of a correlation matrix up to which it may be taken for the identity."""
CONSTANT = 1e-12
CANCELLED = 1e-3
ROUNDED = 1e-5
"""Spread of a feature beside its mean that may be nothing but the mean's rounding."""
FAR = 8.0
"""Standard deviations from which on a row has no say in where its feature is centred; of few rows
less, since one of n is never √n away."""
ROWS_AT_ONCE = 1024
"""Rows whose statistics are taken at once."""


@dataclass(frozen=True)
class Standardised:
    """Features of some layers, less their centre and by their scale.

    Attributes:
        x: float32 [layers, n, width].
        centre, scale: [layers, width].
        mean, inv_std: of the rows of problems that weigh them alike, in units of `x`; [layers,
            some, width].
        same: which of these is each problem's, int64 [problems].
        eigen: eigenvectors [width, rank] and eigenvalues [rank] of each layer's correlation matrix;
            of rank 0 where it is taken for the identity.
    """

    x: Tensor
    centre: Tensor
    scale: Tensor
    mean: Tensor
    inv_std: Tensor
    same: Tensor
    eigen: tuple[tuple[Tensor, Tensor], ...]


def standardised(features: Features, masks: Tensor, first: int) -> Standardised:
    """Features [layers, n, width], for problems that weigh their rows by `masks`.

    Few probes of a layer that is nearly uncorrelated do with eigenvectors of rank 0.

    Args:
        features: one layer is asked for after the other.
        masks: weights of the rows, float32 [problems, n], where they are to lie.
        first: number of the first layer, by which an error names it.

    Raises:
        AnchorscopeError: features that are not finite.
    """
    different, same = torch.unique(masks, dim=0, return_inverse=True)
    layers, n, width = features.shape
    x = masks.new_empty((layers, n, width))
    found, eigen = [], []
    for layer, out in enumerate(x):
        rows = features[layer : layer + 1][0].to(masks.device)
        by = _standardise(rows, out, first + layer)
        found.append((*by, *_mean_and_inv_std(out, different)))
        mild = len(masks) <= FEW and _spread(out) <= MILD
        eigen.append((out.new_empty((width, 0)), out.new_empty(0)) if mild else _eigen(out))
    centre, scale, mean, inv_std = map(torch.stack, zip(*found, strict=True))
    return Standardised(x, centre, scale, mean, inv_std, same, tuple(eigen))


def _check_finite(centre: Tensor, layer: int) -> None:
    """Refuse a layer with features that are not finite: then a mean is not."""
    if not bool(torch.isfinite(centre).all()):
        raise AnchorscopeError(
            "activations are not finite, no probe can be fitted",
            f"layer {layer}",
            "measure them again, with dtype: float32 for this model",
            see="not-finite",
        )


def _standardise(rows: Tensor, out: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    """Write a layer's features [n, width] to `out`, less their centre and by their scale, [width].

    A row far off draws the mean away from all others, and leaves few digits to tell them apart:
    features that have one are centred by their other rows alone. A constant feature is its own
    centre, to the last bit.
    """
    n = len(rows)
    total = torch.stack([rows[some].float().sum(0) for some in _rows_at_once(rows)])
    centre = (total.double().sum(0) / n).float()
    _check_finite(centre, layer)
    squares, most = torch.zeros_like(centre), torch.zeros_like(centre)
    for some in _rows_at_once(rows):
        square = torch.sub(rows[some], centre, out=out[some]).square()
        squares += square.sum(0)
        most = torch.maximum(most, square.amax(0))
    scale = (squares / n).sqrt()
    flat = ((scale > 0) & (scale <= ROUNDED * centre.abs())).nonzero()[:, 0]
    flat = flat[(rows[:, flat] == rows[0, flat]).all(0)]
    centre[flat], out[:, flat], scale[flat] = rows[0, flat].float(), 0.0, 0.0
    scale = torch.where(scale > 0, scale, 1.0)
    limit = min(FAR, math.sqrt(n) / 2) * scale
    far = (most > limit.square()).nonzero()[:, 0]
    if len(far):
        few = out[:, far]
        near = few.abs() <= limit[far]
        centre[far] += (few * near).sum(0) / near.sum(0).clamp(min=1)
        out[:, far] = rows[:, far].float() - centre[far]
    out.div_(scale)
    return centre, scale


def _mean_and_inv_std(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Of standardised features [n, width] by weights [problems, n]; float32 [problems, width].

    A feature that is constant gets weight 0 by way of an infinite std: that is what the penalty
    would make of it.
    """
    mean, variance = _mean_and_variance(x, weights)
    inv_std = torch.where(variance > CONSTANT, variance.clamp(min=CONSTANT).rsqrt(), 0.0)
    return mean.float(), inv_std.float()


def _mean_and_variance(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Of standardised features [n, width] by weights [problems, n]; float64 [problems, width].

    A float32 matrix product serves nearly all features; those of which it leaves too few digits,
    since the rows' spread is small beside their mean, are taken again in float64.
    """
    share = (weights.double() / weights.double().sum(-1, keepdim=True)).to(x.dtype)
    mean = x.new_zeros((len(share), x.shape[1]), dtype=torch.float64)
    square = torch.zeros_like(mean)
    for rows in _rows_at_once(x):
        mean += share[:, rows] @ x[rows]
        square += share[:, rows] @ x[rows].square()
    variance = square - mean.square()
    if x.dtype == torch.float32:
        few_digits = (variance < CANCELLED * square).any(0).nonzero()[:, 0]
        if len(few_digits):
            exact = _mean_and_variance(x[:, few_digits].double(), weights)
            mean[:, few_digits], variance[:, few_digits] = exact
    return mean, variance


def _rows_at_once(x: Tensor) -> list[slice]:
    starts = range(0, len(x), ROWS_AT_ONCE)
    return [slice(start, start + starts.step) for start in starts]


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
