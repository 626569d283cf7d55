"""Solved: probes, and what they say of some samples, block of layers by block of layers.

A block is a batch of the stages that fit probes: with a place to wait (`Keep`), a job that dies
loses the one in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from anchorscope.models import features
from anchorscope.models.features import Features, Part
from anchorscope.probes import fitting, probes
from anchorscope.storage import partial

BLOCK_BYTES = 32 << 20
"""Features of a block on a CPU, or one layer where that is more: some seconds to minutes of work.
On a GPU all layers that are held at once are a block, since its size shows in the last digits."""
TENSORS = ("weights", "bias", "centre")


@dataclass(frozen=True)
class Scored:
    """Probes, and what they say of some samples.

    Attributes:
        fitted: the probes.
        s: scores by the probe of each sample's own fold, float64 [layers, n]; of the probes of
            several draws [layers, draws, n].
        offset: of each sample, float64 [layers, n]; None for that of the probes.
    """

    fitted: fitting.Fitted
    s: np.ndarray
    offset: np.ndarray | None = None

    @classmethod
    def joined(cls, parts: Sequence[Scored]) -> Scored:
        """Of several blocks of layers, one after the other."""
        if len(parts) == 1:
            return parts[0]
        fitted = [part.fitted for part in parts]
        whole = {
            name: np.concatenate([getattr(one, name) for one in fitted]) for name in fitting.ARRAYS
        }
        solved = probes.joined([one.probes for one in fitted])
        return cls(fitting.Fitted(solved, **whole), np.concatenate([part.s for part in parts]))


@dataclass(frozen=True)
class Keep:
    """Where the blocks of a pass wait.

    Attributes:
        folder: see `partial.kept`.
        name: of the pass, another for each in the folder.
        ids: of its samples, in order.
    """

    folder: Path
    name: str
    ids: Sequence[str]

    def file(self, layers: range) -> Path:
        """Of a block, named by its first layer."""
        return partial.named(self.folder, f"{self.name}-{layers.start:04d}")

    def signature(self, layers: range) -> str:
        """Of what a block's file must be of."""
        return partial.signature([self.name, str(layers), *self.ids])


def by_block(
    x: Features,
    work: Callable[[Part], Sequence[Scored]],
    *,
    device: str | torch.device,
    keep: Keep | None = None,
    each: int = 0,
) -> list[Scored]:
    """What some work gives for all layers, done block by block; those that waited are taken over.

    Args:
        x: features; read only by the work.
        work: features of a block → what was solved there, as many for every block.
        device: where it is solved.
        keep: where blocks wait; None keeps none.
        each: how many probes it fits at a layer.
    """
    found = [_block(block, work, device, keep, each) for block in blocks(x, device)]
    return [Scored.joined(parts) for parts in zip(*found, strict=True)]


def blocks(x: Features, device: str | torch.device) -> Iterator[Part]:
    """All layers, as many at a time as are one batch; never more than are held at once."""
    _, n, width = x.shape
    most = len(x) if torch.device(device).type != "cpu" else BLOCK_BYTES // (4 * n * width or 1)
    for held in features.blocks(x):
        for start in range(0, len(held), max(1, most)):
            yield Part(held.x, held.layers[start : start + max(1, most)])


def _block(
    block: Part,
    work: Callable[[Part], Sequence[Scored]],
    device: str | torch.device,
    keep: Keep | None,
    each: int,
) -> Sequence[Scored]:
    if keep is None:
        return work(block)
    path, signed = keep.file(block.layers), keep.signature(block.layers)
    if (waited := partial.finished(path, samples=signed)) is not None:
        return _unpacked(waited, device)
    solved = work(block)
    partial.save(_packed(solved), path, samples=signed, probes=str(each * len(block)))
    return solved


def waiting(folder: Path) -> int:
    """How many probes are not to be fitted again: those of the blocks that wait in a folder."""
    found = 0
    for path in folder.glob("batch-*"):
        with suppress(partial.Damaged):  # it is made anew
            found += int(partial.notes(path).get("probes", 0))
    return found


def _packed(solved: Sequence[Scored]) -> dict[str, torch.Tensor]:
    """All of it as tensors, where a file can hold them."""
    return {
        f"{number}.{name}": tensor
        for number, one in enumerate(solved)
        for name, tensor in _tensors(one).items()
    }


def _tensors(one: Scored) -> dict[str, torch.Tensor]:
    solver = one.fitted.probes
    found = {name: getattr(solver, name).cpu().contiguous() for name in TENSORS}
    arrays = {name: getattr(one.fitted, name) for name in fitting.ARRAYS}
    found |= {name: torch.tensor(array).contiguous() for name, array in arrays.items()}
    steps = torch.tensor([solver.iterations, solver.unconverged])
    return found | {"s": torch.tensor(one.s), "steps": steps}


def _unpacked(tensors: Mapping[str, torch.Tensor], device: str | torch.device) -> list[Scored]:
    numbers = sorted({int(name.partition(".")[0]) for name in tensors})
    return [
        _scored(
            {n.partition(".")[2]: t for n, t in tensors.items() if n.startswith(f"{k}.")}, device
        )
        for k in numbers
    ]


def _scored(tensors: Mapping[str, torch.Tensor], device: str | torch.device) -> Scored:
    weights, bias, centre = (tensors[name].to(device) for name in TENSORS)
    iterations, unconverged = tensors["steps"].tolist()
    arrays = {name: tensors[name].numpy() for name in fitting.ARRAYS}
    solver = probes.Probes(weights, bias, centre, iterations, unconverged)
    return Scored(fitting.Fitted(solver, **arrays), tensors["s"].numpy())
