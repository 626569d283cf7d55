"""Products of features with the weights and residuals of few probes: where solving spends its time.

Features are added layer by layer and multiplied all together.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

import torch
from torch import Tensor

SMALL = 1 << 18
"""Numbers in a layer's features below which packing them wins nothing."""
HINT = 16
"""Probes that the packing is laid out for; from 5 to 180 it is the same."""


class Matrices(Protocol):
    """Features [layers, n, width] that can be multiplied from both sides."""

    def add(self, features: Tensor) -> None:
        """One more layer's, float32 [n, width]; the tensor may be overwritten afterwards."""

    def logits(self, weights: Tensor) -> Tensor:
        """weights · xᵀ, [layers, problems, n], of weights [layers, problems, width]."""

    def sums(self, residuals: Tensor) -> Tensor:
        """residuals · x, [layers, problems, width], of residuals [layers, problems, n]."""

    def at(self, layers: Tensor) -> Matrices:
        """Of some layers, in rising order."""


@dataclass
class Plain:
    """Features as they come.

    Attributes:
        x: float32 [layers, n, width].
        added: layers that are there.
    """

    x: Tensor
    added: int = 0

    def add(self, features: Tensor) -> None:
        self.x[self.added] = features
        self.added += 1

    def logits(self, weights: Tensor) -> Tensor:
        return weights @ self.x.mT

    def sums(self, residuals: Tensor) -> Tensor:
        return residuals @ self.x

    def at(self, layers: Tensor) -> Plain:
        return self if len(layers) == len(self.x) else Plain(self.x[layers])


@dataclass
class Packed:
    """Features packed once in the order in which oneDNN's kernel reads them.

    The usual product packs a factor at every call, or lets most of its kernel idle: with five
    columns it takes three times as long.

    Attributes:
        rows: packed x of each layer.
        columns: packed xᵀ of each layer.
    """

    rows: list[Tensor] = field(default_factory=list)
    columns: list[Tensor] = field(default_factory=list)

    def add(self, features: Tensor) -> None:
        pack = torch.ops.mkldnn._reorder_linear_weight
        self.rows.append(pack(features, HINT))
        self.columns.append(pack(features.T, HINT))

    def logits(self, weights: Tensor) -> Tensor:
        return _each(weights, self.rows)

    def sums(self, residuals: Tensor) -> Tensor:
        return _each(residuals, self.columns)

    def at(self, layers: Tensor) -> Packed:
        some = layers.tolist()
        return Packed([self.rows[n] for n in some], [self.columns[n] for n in some])


def _each(left: Tensor, packed: Sequence[Tensor]) -> Tensor:
    linear = torch.ops.mkldnn._linear_pointwise
    return torch.stack(
        [linear(one, right, None, "none", [], "") for one, right in zip(left, packed, strict=True)]
    )


def empty(shape: Sequence[int], device: torch.device) -> Matrices:
    """No layer yet of features [layers, n, width]."""
    if _packed(shape, device):
        return Packed()
    return Plain(torch.empty(*shape, device=device))


def layer_bytes(shape: Sequence[int], device: torch.device) -> int:
    """What a layer of features [layers, n, width] takes."""
    return (2 if _packed(shape, device) else 1) * 4 * math.prod(shape[1:])


def _packed(shape: Sequence[int], device: torch.device) -> bool:
    """Whether that is faster."""
    return device.type == "cpu" and math.prod(shape[1:]) >= SMALL and packs()


@cache
def packs() -> bool:
    """Whether this torch can pack: by operators that torch itself compiles to, tried once."""
    if platform.machine() not in ("x86_64", "AMD64") or not torch.backends.mkldnn.is_available():
        return False
    x, w = (torch.arange(rows * 80.0).sin().view(1, rows, 80) for rows in (64, 2))
    tried = Packed()
    try:
        tried.add(x[0])
        found = tried.logits(w)
    except (AttributeError, RuntimeError, TypeError):
        return False
    return torch.allclose(found, Plain(x).logits(w), atol=1e-3)
