"""Reuse keys and values of tokens that were passed earlier, and batch rows with little padding."""

from collections.abc import Iterable, Sequence
from itertools import pairwise, takewhile
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from anchorscope.models.families import Loaded, base, moved

Layers = list[tuple[torch.Tensor, torch.Tensor]]
"""(Keys, values) for each layer, both [rows, key-value heads, slots, head width].
Each token has one slot."""

WORTH_A_CALL, WORTH_A_GPU_CALL = 40, 1000
"""One more call of the model costs as much as this many padding tokens, on a CPU and on a GPU."""


class _Head(DynamicLayer):
    """Keys and values of the common head in one layer. A pass reads but does not extend them."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.keys: torch.Tensor = keys
        self.values: torch.Tensor = values
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the keys and values to attend to. Called by every attention module."""
        rows = len(key_states)
        keys, values = (states.expand(rows, -1, -1, -1) for states in (self.keys, self.values))
        both = ((keys, key_states), (values, value_states))
        keys, values = (torch.cat(one, dim=-2) for one in both)
        return keys, values


def after(head: Layers) -> Cache:
    """Return a cache (`past_key_values`) for passes of tokens that follow the `head`."""
    return Cache(layers=[_Head(keys, values) for keys, values in head])


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


def pass_head(loaded: Loaded, ids: Sequence[int]) -> Layers:
    """Pass the head's tokens `ids` as one row. Return their keys and values.

    Return [] without `ids`, or if the model has recurrent layers, which keep no keys and values.
    """
    if not ids or not loaded.attends:
        return []
    found = DynamicCache()
    arguments = padded([ids], [range(len(ids))], len(ids), loaded.device)
    with torch.inference_mode():
        base(loaded.model)(**arguments, past_key_values=found, use_cache=True)
    return [(keys, values) for keys, values, *_ in found]


def padded(
    ids: Sequence[Sequence[int]],
    places: Sequence[Sequence[int]],
    length: int,
    device: torch.device,
    first: int = 0,
) -> dict[str, torch.Tensor]:
    """Return the arguments of a pass of rows that are padded on the right to `length` tokens.

    `ids` and `places` hold the token ids of each row and their positions, which may have gaps.
    The first `first` tokens of each row are left out of `input_ids` and `position_ids`.

    Returns:
        `input_ids` and `position_ids`, int64 [rows, length − first]; `attention_mask`, ones
        [rows, length].
    """
    rows = [[*row[first:], *[0] * (length - len(row))] for row in ids]
    # Padding repeats the row's last position, since some models scale by the last position.
    positions = [[*row[first:], *row[-1:] * (length - len(row))] for row in map(list, places)]
    found = {"input_ids": torch.tensor(rows), "position_ids": torch.tensor(positions)}
    # Padding needs no mask, because no earlier token attends to it. But without a mask,
    # transformers takes gaps in positions for the borders of packed texts, and cuts there.
    found["attention_mask"] = torch.ones(len(rows), length, dtype=torch.int64)
    return {name: moved(tensor, device) for name, tensor in found.items()}


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
