"""Products of features with the weights and residuals of few probes: where solving spends its time.

Features are added layer by layer and multiplied all together.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
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


class Plain:
    """Features as they come.

    Attributes:
        x: float32 [layers, n, width].
        added: layers that are there.
    """

    def __init__(self, shape: Sequence[int], device: torch.device) -> None:
        self.x = torch.empty(*shape, device=device)
        self.added = 0

    def add(self, features: Tensor) -> None:
        self.x[self.added] = features
        self.added += 1

    def logits(self, weights: Tensor) -> Tensor:
        return weights @ self.x.mT

    def sums(self, residuals: Tensor) -> Tensor:
        return residuals @ self.x


class Packed:
    """Features packed once in the order in which oneDNN's kernel reads them.

    The usual product packs a factor at every call, or lets most of its kernel idle: with five
    columns it takes three times as long.

    Attributes:
        rows: packed x of each layer.
        columns: packed xᵀ of each layer.
        turned: xᵀ of the last layer, [width, n]; one memory for all, since fresh memory is slow.
    """

    def __init__(self, shape: Sequence[int]) -> None:
        self.rows, self.columns = list[Tensor](), list[Tensor]()
        _, n, width = shape
        self.turned = torch.empty(width, n)

    def add(self, features: Tensor) -> None:
        self.turned.copy_(features.T)
        pack = torch.ops.mkldnn._reorder_linear_weight
        self.rows.append(pack(features, HINT))
        self.columns.append(pack(self.turned, HINT))

    def logits(self, weights: Tensor) -> Tensor:
        return _times(weights, self.rows)

    def sums(self, residuals: Tensor) -> Tensor:
        return _times(residuals, self.columns)


def _times(left: Tensor, packed: Sequence[Tensor]) -> Tensor:
    linear = torch.ops.mkldnn._linear_pointwise
    return torch.stack(
        [linear(one, right, None, "none", [], "") for one, right in zip(left, packed, strict=True)]
    )


def matrices(shape: Sequence[int], device: torch.device) -> Matrices:
    """Without a layer yet, for features [layers, n, width]: packed where that is faster."""
    _, n, width = shape
    worth = device.type == "cpu" and n * width >= SMALL
    return Packed(shape) if worth and packs() else Plain(shape, device)


def packs() -> bool:
    """Whether this torch can pack: it has oneDNN, and operators that torch itself compiles to."""
    ops = torch.ops.mkldnn
    return (
        platform.machine() in ("x86_64", "AMD64")
        and torch.backends.mkldnn.is_available()
        and hasattr(ops, "_reorder_linear_weight")
        and hasattr(ops, "_linear_pointwise")
    )
