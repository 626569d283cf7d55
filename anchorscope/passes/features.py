"""Features of probes: hidden states, a tensor or what reads layers when they are asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from anchorscope.storage import partial
from anchorscope.storage.errors import AnchorscopeError

BLOCK_BYTES = 512 << 20
"""At most so much of one read-out and condition is held between two readings."""


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


@dataclass
class StoredStates:
    """Features on disk: one read-out under one condition, float32 [layers, samples, width].

    Raises AnchorscopeError: layers that are read hold what is no number, with layer and sample.
    """

    name: str  # of the tensor in the files, each [rows, layers, width]
    samples: list[str]  # the ids of all
    # path → rows of the file, and where they belong among all samples
    files: dict[Path, tuple[list[int], list[int]]]
    shape: tuple[int, int, int]  # layers, samples, width
    layers_at_once: int  # how many are read and held, until others are asked for
    _held: range = range(0)
    _block: Tensor = field(default_factory=lambda: torch.empty(0))

    @classmethod
    def find(
        cls, folder: Path, name: str, samples: list[str], block_bytes: int = BLOCK_BYTES
    ) -> StoredStates:
        """What the files of a folder hold under this name of these samples.

        Raises AnchorscopeError: no file has it, one cannot be read, or some samples are in none.
        """
        places, files, shape = {id_: place for place, id_ in enumerate(samples)}, {}, [0, 0, 0]
        for path in sorted(folder.glob("batch-*.safetensors")):
            with partial.opened(path) as file:
                if name not in file.keys():  # noqa: SIM118
                    continue
                ids, shape = json.loads(file.metadata()["ids"]), file.get_slice(name).get_shape()
            rows = [row for row, id_ in enumerate(ids) if id_ in places]
            files[path] = (rows, [places.pop(ids[row]) for row in rows])
        if not files:
            do = "add the read-out or the condition to config.yaml and run snakemake again"
            raise AnchorscopeError(f"{name} was not measured", folder, do, see="not-measured")
        if places:
            what = f"the states of {len(places)} samples are in no batch: {min(places)}"
            raise _broken(what, folder)
        _, layers, width = shape
        at_once = max(1, block_bytes // (4 * width * len(samples)))
        return cls(name, samples, files, (layers, len(samples), width), at_once)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, layers: slice) -> Tensor:
        wanted = range(len(self))[layers]
        if len(wanted) > self.layers_at_once:
            return self._read(wanted)
        if not {*wanted} <= {*self._held}:
            self._block = torch.empty(0)  # let go first
            self._held = range(len(self))[wanted.start : wanted.start + self.layers_at_once]
            self._block = self._read(self._held)
        first = wanted.start - self._held.start
        return self._block[first : first + len(wanted)]

    def _read(self, layers: range) -> Tensor:
        out = torch.empty((len(layers), *self.shape[1:]))
        for path, (rows, places) in self.files.items():
            with partial.opened(path) as file:
                states = file.get_slice(self.name)[:, layers.start : layers.stop][rows]
            if not torch.isfinite(states).all():
                # Measuring refuses such states, so somebody else has put them there.
                row, layer = (~states.isfinite()).any(dim=2).nonzero()[0].tolist()
                sample, at = self.samples[places[row]], layers[layer]
                raise _broken(f"{self.name} of sample {sample} is not finite at layer {at}", path)
            out[:, places] = states.transpose(0, 1).float()
        return out


def _broken(what: str, where: Path) -> AnchorscopeError:
    do = "delete its folder and run snakemake again"
    return AnchorscopeError(what, where, do, see="unreadable-product")
