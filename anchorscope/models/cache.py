"""Keys and values passed before, in front of a pass's own; and how rows are parted to pad less."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Any

import torch

Layers = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of each layer, [rows, key heads, slots, head width]."""

WORTH_A_CALL, WORTH_A_GPU_CALL = 40, 1000
"""Padding tokens that must be saved for one more call of the model to pay on a CPU."""


@dataclass(frozen=True)
class Earlier:
    """Tokens passed before the pass at hand; all tensors but the layers are int64 [rows]."""

    layers: Layers  # their keys and values
    rows: torch.Tensor  # the row of `layers` that each row of the pass at hand looks at
    firsts: torch.Tensor  # number of the token in its first slot
    counts: torch.Tensor  # how many of its slots are looked at

    @property
    def slots(self) -> int:
        """The most slots that a row looks at."""
        return int(self.counts.max())

    @property
    def tokens(self) -> torch.Tensor:
        """Token numbers, int64 [rows, slots]; -1 in a slot that its row does not look at."""
        slots = torch.arange(self.slots)
        return (self.firsts[:, None] + slots).where(slots < self.counts[:, None], -1)

    def gathered(self, layer: int) -> list[torch.Tensor]:
        """Keys and values of one layer, a row for each row of the pass."""
        kept = [states[:, :, : self.slots] for states in self.layers[layer]]
        if len(kept[0]) == 1:
            return [states.expand(len(self.rows), -1, -1, -1) for states in kept]
        return [states.index_select(0, self.rows.to(states.device)) for states in kept]


@dataclass
class Cache:
    """Stands in for the cache of transformers (`past_key_values`) during one pass.

    Each layer sees the earlier keys and values in front of its own. They are put together layer by
    layer and not kept, so the memory is one layer's.
    """

    earlier: Sequence[Earlier] = ()  # what was passed before, in the order of the mask's columns
    keep: bool = False  # whether the pass's own keys and values are put into `own`
    own: Layers = field(default_factory=list)

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Called by every attention module; returns the keys and values to attend to."""
        if self.keep:
            self.own.append((keys, values))
        if not self.earlier:
            return keys, values
        before = [part.gathered(layer_idx) for part in self.earlier]
        keys, values = (
            torch.cat(states, dim=-2) for states in zip(*before, (keys, values), strict=True)
        )
        return keys, values

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Slots in front of the pass's own."""
        return sum(part.slots for part in self.earlier)


def common(rows: Iterable[Sequence[int]]) -> int:
    """How many tokens all rows begin with."""
    return sum(1 for _ in takewhile(lambda tokens: len({*tokens}) == 1, zip(*rows, strict=False)))


def split(widths: Sequence[int], price: float = WORTH_A_CALL) -> list[slice]:
    """Runs of rows, each padded to its widest, at the least cost in tokens.

    `widths` are the tokens of each row; a run costs rows × widest, and the price of a call.
    """
    best: list[tuple[float, int]] = [(0, 0)]  # cost up to here, and where the last run starts
    for end in range(1, len(widths) + 1):
        widest, found = 0, []
        for start in reversed(range(end)):
            widest = max(widest, widths[start])
            found.append((best[start][0] + widest * (end - start) + price, start))
        best.append(min(found))
    ends = [len(widths)]
    while ends[-1]:
        ends.append(best[ends[-1]][1])
    return [slice(start, end) for start, end in pairwise(reversed(ends))]


def pass_head(model: Any, ids: Sequence[int], device: torch.device) -> Layers:
    """Keys and values, of one row, of what all prompts begin with; empty where that is nothing."""
    cache = Cache(keep=True)
    if ids:
        shut = torch.full((len(ids), len(ids)), torch.finfo(model.dtype).min, dtype=model.dtype)
        given = padded([ids], [0], len(ids), device)
        given["attention_mask"] = shut.triu(1)[None, None].to(device)
        with torch.inference_mode():
            model.base_model(**given, past_key_values=cache, use_cache=True)
    return cache.own


def padded(
    rows: Sequence[Sequence[int]], starts: Sequence[int], width: int, device: torch.device
) -> dict[str, torch.Tensor]:
    """Ids and positions of each row from its start on, int64 [rows, width]."""
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    for number, (row, start) in enumerate(zip(rows, starts, strict=True)):
        ids[number, : len(row) - start] = torch.tensor(row[start:])
    places = torch.tensor(starts)[:, None] + torch.arange(width)
    # No token is at a place beyond its row's: some models scale by the last place they see.
    last = torch.tensor([max(len(row) - 1, 0) for row in rows])[:, None]
    return {"input_ids": ids.to(device), "position_ids": places.minimum(last).to(device)}


def grouped(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Numbers of items in groups, items × largest size at most so many; one item always fits.

    The largest come first: what does not fit in memory fails at once.
    """
    groups: list[list[int]] = []
    for number in sorted(range(len(sizes)), key=lambda n: (-sizes[n], n)):
        if groups and (len(groups[-1]) + 1) * sizes[groups[-1][0]] <= most:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups
