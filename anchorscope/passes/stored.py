"""Activations that stay on disk: some layers of all samples at a time come to memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from anchorscope.storage import partial
from anchorscope.storage.errors import AnchorscopeError

BLOCK_BYTES = 512 << 20
"""At most so much of one read-out and condition is held between two readings."""


@dataclass(frozen=True)
class Rows:
    """Samples of one batch file.

    Attributes:
        path: the file.
        rows: which of its rows.
        places: where they belong among all samples.
        samples: signature of all samples of the file, see `partial.signature`.
    """

    path: Path
    rows: list[int]
    places: list[int]
    samples: str


class Stored:
    """One read-out under one condition, float [layers, samples, width]; takes slices of layers.

    Every file is held against its samples, once. Where all layers of all samples take more than
    `block_bytes`, as many layers as do not are read and held, until others are asked for.

    Args:
        name: of the tensor in the files, each [rows, layers, width].
        batches: which rows of which files.
        samples: the ids of all.
        block_bytes: how much to hold.

    Attributes:
        layers_at_once: how many layers that is.

    Raises:
        AnchorscopeError: a file is not there, cannot be read or is of other samples; or, once they
            are read, layers hold what is no number, with layer and sample.
        KeyError: a file does not hold the tensor.
    """

    def __init__(
        self,
        name: str,
        batches: Sequence[Rows],
        samples: Sequence[str],
        *,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self.name, self.batches, self.samples = name, batches, samples
        self._held = range(0)
        self._block: torch.Tensor | None = None
        layers, width = {self._shape(batch) for batch in batches}.pop()
        self.shape = (layers, len(samples), width)
        self.layers_at_once = max(1, block_bytes // (4 * width * max(1, len(samples))))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, layers: slice) -> torch.Tensor:
        wanted = range(len(self))[layers]
        if len(wanted) > self.layers_at_once:
            return self._read(wanted.start, wanted.stop)
        if self._block is None or not {*wanted} <= {*self._held}:
            self._block = None  # let go first
            self._held = range(len(self))[wanted.start : wanted.start + self.layers_at_once]
            self._block = self._read(self._held.start, self._held.stop)
        first = wanted.start - self._held.start
        return self._block[first : first + len(wanted)]

    def _read(self, start: int, stop: int) -> torch.Tensor:
        out = torch.empty((stop - start, *self.shape[1:]))
        for batch in self.batches:
            with partial.opened(batch.path) as file:
                states = file.get_slice(self.name)[:, start:stop][batch.rows]
            if not torch.isfinite(states).all():
                # Measuring refuses such states, so somebody else has put them there.
                row, layer = (~states.isfinite()).any(dim=2).nonzero()[0].tolist()
                sample = self.samples[batch.places[row]]
                raise _broken(
                    f"{self.name} of sample {sample} is not finite at layer {start + layer}", batch
                )
            out[:, batch.places] = states.transpose(0, 1).float()
        return out

    def _shape(self, batch: Rows) -> tuple[int, int]:
        """Layers and width of a file, by its head."""
        if not partial.finished(batch.path, batch.samples):
            raise _broken(
                "the batch is not there, or not of the samples that the index says", batch
            )
        with partial.opened(batch.path) as file:
            if self.name not in file.keys():  # noqa: SIM118
                raise KeyError(self.name)
            _, layers, width = file.get_slice(self.name).get_shape()
        return layers, width


def _broken(what: str, batch: Rows) -> AnchorscopeError:
    return AnchorscopeError(
        what, batch.path, "delete its folder and run snakemake again", see="unreadable-product"
    )
