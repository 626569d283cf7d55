"""Features that probes are fitted to, in memory or read from files a block of layers at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from anchorscope.storage import partial
from anchorscope.storage.errors import AnchorscopeError

BLOCK_BYTES = 512 << 20
"""A `StoredStates` holds as many layers in memory as fit into this number of bytes."""


class Features(Protocol):
    """Features [layers, samples, width]: a tensor, or an object whose slices are tensors."""

    @property
    def shape(self) -> Sequence[int]:
        """Layers, samples and width."""
        ...

    def __len__(self) -> int:
        """Return the number of layers."""
        ...

    def __getitem__(self, layers: slice, /) -> Tensor:
        """Return the features of some consecutive layers."""
        ...


@dataclass(frozen=True)
class Selection:
    """A selection of features: some consecutive layers, and some samples in a given order."""

    x: Features
    layers: range
    order: Tensor | slice  # indices of the samples, int64 [samples]; or a slice of all

    @property
    def shape(self) -> Sequence[int]:
        """Layers, samples and width of the selection."""
        _, n, width = self.x.shape
        samples = n if isinstance(self.order, slice) else len(self.order)
        return (len(self.layers), samples, width)

    @property
    def layers_at_once(self) -> int:
        """Number of layers that are held in memory at a time; all layers for a tensor."""
        return max(1, getattr(self.x, "layers_at_once", len(self.x)))

    def __len__(self) -> int:
        """Return the number of layers of the selection."""
        return len(self.layers)

    def __getitem__(self, layers: slice) -> Tensor:
        """Return the features of some consecutive layers, counted from the first one chosen."""
        chosen = self.layers[layers]
        return self.x[chosen.start : chosen.stop][:, self.order]


def selection_of(x: Features) -> Selection:
    """Return a selection of all layers and samples; a selection is returned unchanged."""
    return x if isinstance(x, Selection) else Selection(x, range(len(x)), slice(None))


def reordered(x: Features, order: np.ndarray) -> Selection:
    """Return a selection whose sample i is sample `order[i]` of `x`; `order` is int64 [samples]."""
    return Selection(x, range(len(x)), torch.as_tensor(order))


def blocks(x: Features) -> Iterator[Selection]:
    """Yield selections of `layers_at_once` consecutive layers each; the last may have fewer."""
    whole = selection_of(x)
    for start in range(0, len(whole), whole.layers_at_once):
        yield replace(whole, layers=whole.layers[start : start + whole.layers_at_once])


def at(x: Features, layers: Sequence[int]) -> Tensor:
    """Return the features of some layers, [len(layers), samples, width]."""
    return torch.cat([x[layer : layer + 1] for layer in layers])


@dataclass
class StoredStates:
    """States in files: one read-out under one condition, float32 [layers, samples, width]."""

    name: str  # name of the tensor in each file, [rows, layers, width]
    # file → the rows of its tensor that are used, and their indices among the samples
    files: dict[Path, tuple[list[int], list[int]]]
    shape: tuple[int, int, int]  # layers, samples, width
    layers_at_once: int  # number of layers that are read together and then held in memory
    _held_layers: range = range(0)
    _held: Tensor = field(default_factory=lambda: torch.empty(0))

    @classmethod
    def find(
        cls, folder: Path, name: str, ids: list[str], block_bytes: int = BLOCK_BYTES
    ) -> StoredStates:
        """Find the states of these samples in the files of a folder, without reading them.

        Raises:
            AnchorscopeError: No file has the tensor, a file cannot be read, or samples are missing.
        """
        missing = {id_: place for place, id_ in enumerate(ids)}
        files, shape = {}, [0, 0, 0]
        for path in sorted(folder.glob("batch-*.safetensors")):
            with partial.opened(path) as file:
                if name not in {*file.keys()}:
                    continue
                ids_in_file = json.loads(file.metadata()["ids"])
                shape = file.get_slice(name).get_shape()
            used = [row for row, id_ in enumerate(ids_in_file) if id_ in missing]
            files[path] = used, [missing.pop(ids_in_file[row]) for row in used]
        if not files:
            do = "add the read-out or the condition to config.yaml and run snakemake again"
            raise AnchorscopeError(f"{name} was not measured", folder, do, see="not-measured")
        if missing:
            what = f"no batch holds the states of {len(missing)} samples, such as {min(missing)}"
            do = "delete this folder and run snakemake again"
            raise AnchorscopeError(what, folder, do, see="unreadable-product")
        _, layers, width = shape
        at_once = max(1, block_bytes // (4 * width * len(ids)))
        return cls(name, files, (layers, len(ids), width), at_once)

    def __len__(self) -> int:
        """Return the number of layers."""
        return self.shape[0]

    def __getitem__(self, layers: slice) -> Tensor:
        """Return the states of some consecutive layers, read from the files unless in memory."""
        wanted = range(len(self))[layers]
        if len(wanted) > self.layers_at_once:
            return self._read(wanted)
        if not {*wanted} <= {*self._held_layers}:
            self._held = torch.empty(0)  # freed before the next block is read
            stop = wanted.start + self.layers_at_once
            self._held_layers = range(len(self))[wanted.start : stop]
            self._held = self._read(self._held_layers)
        first = wanted.start - self._held_layers.start
        return self._held[first : first + len(wanted)]

    def _read(self, layers: range) -> Tensor:
        features = torch.empty((len(layers), *self.shape[1:]))
        for path, (used, places) in self.files.items():
            with partial.opened(path) as file:
                states = file.get_slice(self.name)[:, layers.start : layers.stop][used]
            features[:, places] = states.transpose(0, 1).float()
        return features
