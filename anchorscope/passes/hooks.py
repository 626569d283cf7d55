"""Hooks that record the outputs of modules, and give layers an attention mask of their own."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial

import torch
from torch import Tensor, nn

from anchorscope.models import families
from anchorscope.models.families import Loaded
from anchorscope.passes.batches import Row

Arguments = tuple[Tensor, ...]
Output = Tensor | tuple[Tensor, ...]
"""Output of a module: a tensor, or a tuple that starts with one."""


@contextmanager
def recording(
    loaded: Loaded, pairs: Sequence[tuple[str, str]], rows: Sequence[Row], *, first: int = 0
) -> Iterator[dict[str, list[Tensor]]]:
    """Record the states of `rows` at the read-outs `pairs`, while the context is open.

    The first `first` tokens of each row are in the cache. Yield site → list of states
    [rows, positions, width], one for each layer, first to last.
    """
    positions = dict.fromkeys(position for _, position in pairs)
    indices = torch.tensor([[row.place_of(name) - first for name in positions] for row in rows])
    every = torch.arange(len(rows))[:, None]
    seen: dict[str, list[Tensor]] = {site: [] for site, _ in pairs}

    @cache  # copied once per device, not in every layer
    def on(device: torch.device) -> tuple[Tensor, Tensor]:
        return families.moved(every, device), families.moved(indices, device)

    def keep(site: str, _: nn.Module, __: Arguments, output: Output) -> None:
        states = families.first_tensor(output)
        if states.ndim == 2:  # some modules flatten rows and tokens
            states = states.unflatten(0, (len(rows), -1))
        seen[site].append(states[on(states.device)])

    with ExitStack() as hooks:
        for block, site in itertools.product(families.layers(loaded), seen):
            hook = families.part(loaded, block, site).register_forward_hook(partial(keep, site))
            hooks.callback(hook.remove)
        yield seen


@contextmanager
def masked(loaded: Loaded, masks: Sequence[Tensor]) -> Iterator[None]:
    """Give each layer a mask of its own, [rows, 1, queries, keys], while the context is open."""
    with ExitStack() as hooks:
        for block, mask in zip(families.layers(loaded), masks, strict=True):

            def give(
                _: nn.Module, arguments: Arguments, named: Mapping[str, object], mask: Tensor = mask
            ) -> tuple[Arguments, dict[str, object]]:
                return arguments, {**named, "attention_mask": mask}

            attention = families.part(loaded, block, "attn")
            hooks.callback(attention.register_forward_pre_hook(give, with_kwargs=True).remove)
        yield
