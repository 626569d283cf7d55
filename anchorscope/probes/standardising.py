"""Features standardised for the probes, layer after layer."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from anchorscope.passes.features import Features
from anchorscope.probes.lbfgs import Block

CONSTANT = 1e-12
"""Variance among a problem's rows, beside that among all, of a feature that tells it nothing."""
FAR = 8.0
"""Standard deviations from which on a row has no say in where its feature is centred; of few rows
less, since one of n is never √n away."""


def standardise(
    features: Features, z: Tensor, masks: Tensor, c: Tensor
) -> tuple[Block, Tensor, Tensor]:
    """The problems on standardised features, whose centre and scale [layers, width] come after.

    Of features [layers, n, width], one layer asked for after the other, for problems that weigh
    their rows by masks [problems, n]; penalties c are [layers, problems].
    """
    different, same = torch.unique(masks, dim=0, return_inverse=True)
    x = masks.new_empty(tuple(features.shape))
    found = []
    for layer, out in enumerate(x):
        rows = features[layer : layer + 1][0].to(masks.device)
        out[:], *statistics = _statistics(rows.double(), different)
        found.append([*(one.float() for one in statistics), *_eigen(out)])
    centre, scale, mean, inv_std, vectors, values = map(torch.stack, zip(*found, strict=True))
    of_problems = mean[:, same], inv_std[:, same]
    return Block(x, z, masks, c[..., None], *of_problems, vectors, values[:, None]), centre, scale


def _statistics(x: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
    """Features [n, width], float64, less their centre and by their scale; and what these are.

    A row far off draws the mean away from all others, and leaves few digits to tell them apart:
    features that have one are centred by their other rows alone. A constant feature is its own
    centre, to the last bit. One that is constant among a problem's rows gets weight 0 by way of an
    infinite std: that is what the penalty would make of it.

    Returns the features, centre and scale [width], and the mean and 1 / std of each problem's rows,
    weighed by `weights` [problems, n], in units of these features, [problems, width].
    """
    x, first = x - x[0], x[0]
    centre, flat = x.mean(0), ~x.any(0)
    away = x - centre
    scale = away.square().mean(0).sqrt()
    scale = torch.where(flat | (scale == 0), 1.0, scale)
    near = away.abs() <= min(FAR, math.sqrt(len(x)) / 2) * scale
    if not bool(near.all()):
        centre = (x * near).sum(0) / near.sum(0).clamp(min=1)
    x = (x - centre) / scale
    share = weights.double() / weights.double().sum(-1, keepdim=True)
    mean = share @ x
    variance = share @ x.square() - mean.square()
    inv_std = torch.where(variance > CONSTANT, variance.clamp(min=CONSTANT).rsqrt(), 0.0)
    return x, first + centre, scale, mean, inv_std


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
