"""Record the hidden states of a batch at its read-outs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

from anchorscope.models import families
from anchorscope.models.families import Loaded
from anchorscope.models.hooks import reading
from anchorscope.passes.batches import Row


@contextmanager
def recording(
    loaded: Loaded, locations: Sequence[tuple[str, str]], rows: Sequence[Row], *, first: int = 0
) -> Iterator[dict[str, list[Tensor]]]:
    """Record the states of `rows` at the read-outs `locations`, while the context is open.

    The first `first` tokens of each row are in the cache. Yield site → list of states
    [rows, positions, width], one for each layer, first to last.
    """
    positions = dict.fromkeys(position for _, position in locations)
    indices = torch.tensor([[row.place_of(name) - first for name in positions] for row in rows])
    every = torch.arange(len(rows))[:, None]
    seen: dict[str, list[Tensor]] = {site: [] for site, _ in locations}

    @cache  # copied once per device, not in every layer
    def on(device: torch.device) -> tuple[Tensor, Tensor]:
        return families.moved(every, device), families.moved(indices, device)

    def keep(site: str, states: Tensor) -> None:
        seen[site].append(states[on(states.device)])

    with reading(loaded, list(seen), len(rows), keep):
        yield seen
