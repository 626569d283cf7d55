"""Reuse keys and values of tokens that were passed earlier."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from anchorscope.models.families import Loaded, base, moved

Layers = list[tuple[torch.Tensor, torch.Tensor]]
"""(Keys, values) for each layer, both [rows, key-value heads, slots, head width].
Each token has one slot."""


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
