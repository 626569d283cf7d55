"""Keys and values of tokens that were passed earlier, and batches with little padding."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Any

import torch

Layers = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of each layer, [rows, key-value heads, slots, head width]; a slot per token."""

WORTH_A_CALL, WORTH_A_GPU_CALL = 40, 1000
"""Price of one more call of the model, in tokens of padding: on a CPU, and on a GPU."""


@dataclass(frozen=True)
class Earlier:
    """Tokens of an earlier pass that the present pass attends to.

    Attributes:
        layers: keys and values of the earlier pass.
        rows: for each row of the present pass, its row in `layers`, int64 [rows].
        firsts: number of the token in that row's first slot, int64 [rows].
        counts: how many slots of that row are attended to, from the first on, int64 [rows].
    """

    layers: Layers
    rows: torch.Tensor
    firsts: torch.Tensor
    counts: torch.Tensor

    @property
    def slots(self) -> int:
        """The largest number of slots that a row attends to."""
        return int(self.counts.max())

    @property
    def tokens(self) -> torch.Tensor:
        """Number of the token in each slot, int64 [rows, slots]; -1 where a slot is not used."""
        slots = torch.arange(self.slots)
        return (self.firsts[:, None] + slots).where(slots < self.counts[:, None], -1)

    def gathered(self, layer: int) -> list[torch.Tensor]:
        """Keys and values of one layer, with a row for each row of the present pass."""
        kept = [states[:, :, : self.slots] for states in self.layers[layer]]
        if len(kept[0]) == 1:
            return [states.expand(len(self.rows), -1, -1, -1) for states in kept]
        return [states.index_select(0, self.rows.to(states.device)) for states in kept]


@dataclass
class Cache:
    """Takes the place of transformers' cache (`past_key_values`) during one pass.

    Each layer attends to the earlier keys and values followed by its own. They are joined layer by
    layer and not kept, which takes the memory of one layer.

    Attributes:
        earlier: earlier passes, in the order of the mask's columns.
        keep: whether to keep the keys and values of this pass.
        own: the keys and values of this pass, if they are kept.
    """

    earlier: Sequence[Earlier] = ()
    keep: bool = False
    own: Layers = field(default_factory=list)

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The keys and values to attend to; called by every attention module."""
        if self.keep:
            self.own.append((keys, values))
        if not self.earlier:
            return keys, values
        before = [part.gathered(layer_idx) for part in self.earlier]
        all_keys = torch.cat([*(earlier_keys for earlier_keys, _ in before), keys], dim=-2)
        all_values = torch.cat([*(earlier_values for _, earlier_values in before), values], dim=-2)
        return all_keys, all_values

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Number of earlier slots; called by the model."""
        return sum(part.slots for part in self.earlier)


def common(rows: Iterable[Sequence[int]]) -> int:
    """Length in tokens of the beginning that all rows share."""
    return sum(1 for _ in takewhile(lambda tokens: len({*tokens}) == 1, zip(*rows, strict=False)))


def split(widths: Sequence[int], price: float = WORTH_A_CALL) -> list[slice]:
    """Split rows into consecutive runs, each padded to its widest row, at the least total cost.

    Args:
        widths: tokens of each row.
        price: cost of a run, in tokens, beside its rows × widest.
    """
    # For the rows before each end: the least cost, and where the last run starts.
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
    """Keys and values (one row) of the tokens that all prompts begin with; empty for no tokens."""
    cache = Cache(keep=True)
    if ids:
        blocked = torch.full((len(ids), len(ids)), torch.finfo(model.dtype).min, dtype=model.dtype)
        arguments = padded([ids], [0], len(ids), device)
        arguments["attention_mask"] = blocked.triu(1)[None, None].to(device)
        with torch.inference_mode():
            model.base_model(**arguments, past_key_values=cache, use_cache=True)
    return cache.own


def padded(
    rows: Sequence[Sequence[int]], starts: Sequence[int], width: int, device: torch.device
) -> dict[str, torch.Tensor]:
    """Model inputs for each row from its start on, padded on the right.

    Returns:
        `input_ids` and `position_ids`, int64 [rows, width].
    """
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    for number, (row, start) in enumerate(zip(rows, starts, strict=True)):
        ids[number, : len(row) - start] = torch.tensor(row[start:])
    places = torch.tensor(starts)[:, None] + torch.arange(width)
    # Padding repeats its row's last position: some models scale by the last position they see.
    last = torch.tensor([max(len(row) - 1, 0) for row in rows])[:, None]
    return {"input_ids": ids.to(device), "position_ids": places.minimum(last).to(device)}


def grouped(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Group items so that number of items × largest size is at most `most`.

    A larger item makes a group by itself. The largest come first, so that what does not fit into
    memory fails at once.

    Returns:
        The numbers of the items of each group.
    """
    groups: list[list[int]] = []
    for number in sorted(range(len(sizes)), key=lambda n: (-sizes[n], n)):
        if groups and (len(groups[-1]) + 1) * sizes[groups[-1][0]] <= most:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups
