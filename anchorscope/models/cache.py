"""Reuse keys and values of tokens that were passed earlier, and batch rows with little padding."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any

import torch

from anchorscope.models.families import moved

Layers = list[tuple[torch.Tensor, torch.Tensor]]
"""(Keys, values) for each layer, both [rows, key-value heads, slots, head width].
Each token has one slot."""

WORTH_A_CALL, WORTH_A_GPU_CALL = 40, 1000
"""One more call of the model costs as much as this many padding tokens, on a CPU and on a GPU."""


@dataclass
class Cache:
    """Replacement for transformers' cache (`past_key_values`) during one pass.

    `head` holds the keys and values of the tokens that all prompts begin with. `update` puts them
    before the keys and values of this pass, one layer at a time to save memory.
    """

    head: Layers  # one row; empty in the head's own pass, which fills it

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> Sequence[torch.Tensor]:
        """Return the keys and values to attend to. Called by every attention module."""
        if layer_idx == len(self.head):
            self.head.append((keys, values))
            return keys, values
        before = (states.expand(len(keys), -1, -1, -1) for states in self.head[layer_idx])
        return [torch.cat(both, dim=-2) for both in zip(before, (keys, values), strict=True)]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of tokens in the common head. The model calls this method."""
        return self.head[0][0].shape[2] if self.head else 0


def common(rows: Iterable[Sequence[int]]) -> int:
    """Return the length, in tokens, of the beginning that all rows share."""
    return sum(1 for _ in takewhile(lambda tokens: len({*tokens}) == 1, zip(*rows, strict=False)))


def split(widths: Sequence[int], price: float = WORTH_A_CALL) -> list[slice]:
    """Split rows into runs of consecutive rows, one call each, at the least total cost.

    `widths` holds each row's number of tokens. A run is padded to its widest row. The run costs
    (number of rows) × (width of the widest row) + `price` tokens.
    """
    # best[end]: the least cost of passing the rows before `end`, and where their last run starts
    best: list[tuple[float, int]] = [(0, 0)]
    for end in range(1, len(widths) + 1):
        widest = 0
        candidates = []
        for start in reversed(range(end)):
            widest = max(widest, widths[start])
            candidates.append((best[start][0] + widest * (end - start) + price, start))
        best.append(min(candidates))
    ends = [len(widths)]
    while ends[-1]:
        ends.append(best[ends[-1]][1])
    return [slice(start, end) for start, end in pairwise(reversed(ends))]


def pass_head(model: Any, ids: Sequence[int], device: torch.device) -> Layers:
    """Pass the head's tokens `ids` as one row. Return their keys and values; [] without `ids`."""
    cache = Cache([])
    if ids:
        blocked = torch.full((len(ids), len(ids)), torch.finfo(model.dtype).min, dtype=model.dtype)
        arguments = padded([ids], len(ids), device)
        arguments["attention_mask"] = blocked.triu(1)[None, None].to(device)
        with torch.inference_mode():
            model.base_model(**arguments, past_key_values=cache, use_cache=True)
    return cache.head


def padded(
    rows: Sequence[Sequence[int]], length: int, device: torch.device, first: int = 0
) -> dict[str, torch.Tensor]:
    """Return `input_ids` and `position_ids`, both int64 [rows, length − first].

    Each row is padded on the right to `length` tokens. Tokens before index `first` are left out.
    """
    ids = torch.tensor([[*row[first:], *[0] * (length - len(row))] for row in rows])
    # Padding repeats the row's last position, since some models scale by the last position.
    last = torch.tensor([[len(row) - 1] for row in rows])
    places = torch.arange(first, length).minimum(last)
    return {"input_ids": moved(ids, device), "position_ids": moved(places, device)}


def grouped(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Group items by size. Return the indices of the items of each group.

    In a group, (number of items) × (largest size) is at most `most`. An item larger than `most` is
    a group by itself. Large items come first, so that what does not fit in memory fails at once.
    """
    groups: list[list[int]] = []
    for number in sorted(range(len(sizes)), key=lambda n: (-sizes[n], n)):
        if groups and (len(groups[-1]) + 1) * sizes[groups[-1][0]] <= most:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups
