"""Solved: probes, and what they say of some samples, block of layers by block of layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from anchorscope.models import features
from anchorscope.models.features import Features, Part
from anchorscope.probes import fitting, probes

BLOCK_BYTES = 32 << 20
"""Features of a block on a CPU, or one layer where that is more: some seconds to minutes of work.
On a GPU all layers that are held at once are a block, since its size shows in the last digits."""


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


def by_block(
    x: Features,
    work: Callable[[Part], Sequence[Scored]],
    *,
    device: str | torch.device,
) -> list[Scored]:
    """What some work gives for all layers, done block by block.

    Args:
        x: features; read only by the work.
        work: features of a block → what was solved there, as many for every block.
        device: where it is solved.
    """
    found = [work(block) for block in blocks(x, device)]
    return [Scored.joined(parts) for parts in zip(*found, strict=True)]


def blocks(x: Features, device: str | torch.device) -> Iterator[Part]:
    """All layers, as many at a time as are one batch; never more than are held at once."""
    _, n, width = x.shape
    most = len(x) if torch.device(device).type != "cpu" else BLOCK_BYTES // (4 * n * width or 1)
    for held in features.blocks(x):
        for start in range(0, len(held), max(1, most)):
            yield Part(held.x, held.layers[start : start + max(1, most)])
