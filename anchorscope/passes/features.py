"""Features of probes: hidden states, a tensor or what reads layers when they are asked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Features(Protocol):
    """Features [layers, n, width]; `layers_at_once` says how many are held, all where it lacks."""

    @property
    def shape(self) -> Sequence[int]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, layers: slice, /) -> Tensor: ...


@dataclass(frozen=True)
class Reordered:
    """Features whose rows come in another order; `order`, int64 [n], says which of them."""

    x: Features
    order: Tensor

    @property
    def shape(self) -> Sequence[int]:
        return (len(self.x), len(self.order), self.x.shape[2])

    @property
    def layers_at_once(self) -> int:
        return getattr(self.x, "layers_at_once", len(self.x))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, layers: slice) -> Tensor:
        return self.x[layers][:, self.order]


@dataclass(frozen=True)
class Part:
    """Some layers of features, one after another."""

    x: Features
    layers: range

    @property
    def shape(self) -> Sequence[int]:
        return (len(self.layers), *self.x.shape[1:])

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, layers: slice) -> Tensor:
        some = self.layers[layers]
        return self.x[some.start : some.stop]


def blocks(x: Features) -> Iterator[Part]:
    """All layers, as many at a time as are held at once.

    Who does all that a block needs before the next makes the features be read once.
    """
    every, at_once = range(len(x)), max(1, getattr(x, "layers_at_once", len(x)))
    return (Part(x, every[start : start + at_once]) for start in range(0, len(x), at_once))


def at(x: Features, layers: Sequence[int]) -> Tensor:
    """The features of some layers, [len(layers), n, width]."""
    return torch.cat([x[layer : layer + 1] for layer in layers])
