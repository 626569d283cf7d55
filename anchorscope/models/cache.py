"""Keys and values passed before, in front of a pass's own; and how rows are parted to pad less."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch

Layers = list[tuple[torch.Tensor, torch.Tensor]]

WORTH_A_CALL = 40
"""Padding tokens that must be saved for one more call of the model to pay."""
WORTH_A_GPU_CALL = 1000
"""The same on a GPU, which a short call leaves idle. Not measured."""


@dataclass(frozen=True)
class Earlier:
    """Tokens passed before the pass at hand; all tensors but the layers are int64 [rows].

    Attributes:
        layers: keys and values of each layer, [rows, key heads, slots, head width].
        rows: the row of `layers` that each row of the pass at hand looks at.
        firsts: number of the token in its first slot.
        counts: how many of its slots are looked at.
    """

    layers: Layers
    rows: torch.Tensor
    firsts: torch.Tensor
    counts: torch.Tensor

    @property
    def slots(self) -> int:
        """The most slots that a row looks at."""
        return int(self.counts.max())

    @property
    def tokens(self) -> torch.Tensor:
        """Token numbers, int64 [rows, slots]; -1 in a slot that its row does not look at."""
        slots = torch.arange(self.slots)
        return (self.firsts[:, None] + slots).where(slots < self.counts[:, None], -1)


@dataclass
class Cache:
    """Stands in for the cache of transformers (`past_key_values`) during one pass.

    Each layer sees the earlier keys and values in front of its own. They are put together layer by
    layer and not kept, so the memory is one layer's.

    Attributes:
        earlier: what was passed before, in the order of the mask's columns.
        own: keys and values of the pass itself, filled if `keep`.
    """

    earlier: Sequence[Earlier] = ()
    keep: bool = False
    own: Layers = field(default_factory=list)

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Called by every attention module; returns the keys and values to attend to."""
        if self.keep:
            self.own.append((keys, values))
        before = [_gathered(part, layer_idx) for part in self.earlier if part.slots]
        if not before:
            return keys, values
        return (
            torch.cat([*(found[0] for found in before), keys], dim=-2),
            torch.cat([*(found[1] for found in before), values], dim=-2),
        )

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Slots in front of the pass's own."""
        return sum(part.slots for part in self.earlier)


def _gathered(part: Earlier, layer: int) -> list[torch.Tensor]:
    """The earlier keys and the values of one layer, a row for each row of the pass."""
    kept = [tensor[:, :, : part.slots] for tensor in part.layers[layer]]
    if len(kept[0]) == 1:
        return [tensor.expand(len(part.rows), -1, -1, -1) for tensor in kept]
    rows = part.rows.to(kept[0].device)
    return [tensor.index_select(0, rows) for tensor in kept]


def common(rows: Iterable[Sequence[int]]) -> int:
    """How many tokens all rows begin with."""
    ordered = [tuple(row) for row in rows]
    if not ordered:
        return 0
    first, last = min(ordered), max(ordered)  # all others lie between these two
    differ = (n for n, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return next(differ, min(len(first), len(last)))


def split(widths: Sequence[int], rows: Sequence[int], price: int) -> list[tuple[int, int]]:
    """Runs of items, each padded to its widest, at the least cost.

    Args:
        widths: tokens of each item.
        rows: how many rows of that width it stands for.
        price: of one more run, in tokens.

    Returns:
        First item of each run, and the one after its last; the costs are rows × widest and the
        price of the run.
    """
    best: list[tuple[int, int]] = [(0, 0)]
    for end in range(1, len(widths) + 1):
        found: list[tuple[int, int]] = []
        widest = several = 0
        for start in reversed(range(end)):
            widest, several = max(widest, widths[start]), several + rows[start]
            found.append((best[start][0] + widest * several + price, start))
        best.append(min(found))
    ends = [len(widths)]
    while ends[-1]:
        ends.append(best[ends[-1]][1])
    return list(pairwise(reversed(ends)))


def pass_heads(model: Any, rows: Sequence[Sequence[int]], device: torch.device) -> Layers:
    """Keys and values of what prompts begin with, a row each; empty where that is nothing."""
    cache = Cache(keep=True)
    if any(rows):
        index = torch.arange(max(map(len, rows)))
        there = index < torch.tensor([len(row) for row in rows])[:, None]
        itself = torch.eye(len(index), dtype=torch.bool)
        shut = ~((index[:, None] >= index) & there[:, None] | itself)
        mask = torch.zeros(shut.shape, dtype=model.dtype)
        mask.masked_fill_(shut, torch.finfo(model.dtype).min)
        given = padded(rows, [0] * len(rows), len(index), device)
        given["attention_mask"] = mask[:, None].to(device)
        with torch.inference_mode():
            model.base_model(**given, past_key_values=cache, use_cache=True)
    return cache.own


def padded(
    rows: Sequence[Sequence[int]], starts: Sequence[int], width: int, device: torch.device
) -> dict[str, torch.Tensor]:
    """Ids and positions of each row from its start on."""
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    for number, (row, start) in enumerate(zip(rows, starts, strict=True)):
        ids[number, : len(row) - start] = torch.tensor(row[start:])
    places = torch.tensor(starts)[:, None] + torch.arange(width)
    last = torch.tensor([max(len(row) - 1, 0) for row in rows])[:, None]
    return {
        "input_ids": ids.to(device),
        # No token is at a place beyond its row's: some models scale by the last place they see.
        "position_ids": places.minimum(last).to(device),
    }
