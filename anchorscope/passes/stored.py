"""Activations that stay on disk: some layers of all samples at a time come to memory."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import torch

from anchorscope.storage import partial
from anchorscope.storage.errors import AnchorscopeError

BLOCK_BYTES = 512 << 20
"""At most so much of one read-out and condition is held between two readings."""


@dataclass
class Stored:
    """One read-out under one condition, float32 [layers, samples, width]; takes slices of layers.

    Raises:
        AnchorscopeError: layers that are read hold what is no number, with layer and sample.
    """

    name: str  # of the tensor in the files, each [rows, layers, width]
    samples: list[str]  # the ids of all
    # path → rows of the file, and where they belong among all samples
    files: dict[Path, tuple[list[int], list[int]]]
    shape: tuple[int, int, int]  # layers, samples, width
    layers_at_once: int  # how many are read and held, until others are asked for
    _held: range = range(0)
    _block: torch.Tensor = field(default_factory=lambda: torch.empty(0))

    @classmethod
    def find(
        cls, folder: Path, name: str, samples: list[str], block_bytes: int = BLOCK_BYTES
    ) -> Stored:
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

    def __getitem__(self, layers: slice) -> torch.Tensor:
        wanted = range(len(self))[layers]
        if len(wanted) > self.layers_at_once:
            return self._read(wanted)
        if not {*wanted} <= {*self._held}:
            self._block = torch.empty(0)  # let go first
            self._held = range(len(self))[wanted.start : wanted.start + self.layers_at_once]
            self._block = self._read(self._held)
        first = wanted.start - self._held.start
        return self._block[first : first + len(wanted)]

    def _read(self, layers: range) -> torch.Tensor:
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
