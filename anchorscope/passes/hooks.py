"""Hooks that record the outputs of modules and set the attention mask of each layer."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial

import torch
from torch import Tensor, nn

from anchorscope.models import families
from anchorscope.models.families import Loaded
from anchorscope.passes.batches import Sample

Arguments = tuple[Tensor, ...]
Output = Tensor | tuple[Tensor, ...]
"""Output of a module: a tensor, or a tuple that starts with one."""


@contextmanager
def recording(
    loaded: Loaded, pairs: Sequence[tuple[str, str]], rows: Sequence[Sample], *, first: int = 0
) -> Iterator[dict[str, list[Tensor]]]:
    """Record the states of `rows` at the read-outs `pairs`, while the context is open.

    `first` is the index of the first token that is passed. Yield site → list of states
    [rows, positions, width], one for each layer, first to last.
    """
    positions = dict.fromkeys(position for _, position in pairs)
    indices = torch.tensor([[row.positions[name] - first for name in positions] for row in rows])
    every = torch.arange(len(rows))[:, None]
    seen: dict[str, list[Tensor]] = {site: [] for site, _ in pairs}

    @cache  # copied once per device, not in every layer
    def on(device: torch.device) -> tuple[Tensor, Tensor]:
        return families.moved(every, device), families.moved(indices, device)

    def keep(site: str, _: nn.Module, __: Arguments, output: Output) -> None:
        states = families.first_tensor(output)
        seen[site].append(states[on(states.device)])

    with ExitStack() as hooks:
        for block, site in itertools.product(families.layers(loaded), seen):
            hook = families.part(loaded, block, site).register_forward_hook(partial(keep, site))
            hooks.callback(hook.remove)
        yield seen


def mask(
    lengths: Sequence[int],
    cuts: Sequence[Sequence[int]],
    length: int,
    *,
    first: int = 0,
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    """Return the additive mask [rows, 1, length − first, length] of rows padded on the right.

    The mask is causal and hides padding. The blocked tokens can attend to each other, but no other
    token can attend to them. Every token can attend to itself: a token whose keys are all hidden
    would attend to all of them equally. Hidden entries are `finfo(dtype).min`, all others are 0.

    `lengths` holds each row's number of tokens without padding, `length` is the padded length.
    `cuts` holds the indices of each row's blocked tokens. Tokens before `first` are keys but not
    queries.
    """
    is_cut = torch.zeros((len(cuts), 1, length), dtype=torch.bool)
    rows = [row for row, tokens in enumerate(cuts) for _ in tokens]
    is_cut[rows, 0, list(itertools.chain(*cuts))] = True
    is_cut, key = families.moved(is_cut, device), torch.arange(length, device=device)
    query = key[first:, None]
    exists = key < families.moved(torch.tensor(lengths), device)[:, None, None]
    hidden = is_cut & ~is_cut[:, 0, first:, None] & (query != key)
    is_open = ((key <= query) & exists) | (query == key)
    additive = torch.zeros(is_open.shape, dtype=dtype, device=device)
    return additive.masked_fill_(~is_open | hidden, torch.finfo(dtype).min)[:, None]


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
