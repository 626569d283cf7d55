"""Hooks that read the outputs of modules, and the masks of layers that block tokens."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from anchorscope.models import families
from anchorscope.models.families import Loaded

Arguments = tuple[Tensor, ...]
Output = Tensor | tuple[Tensor, ...]
"""Output of a module: a tensor, or a tuple that starts with one."""


@contextmanager
def reading(
    loaded: Loaded, sites: Sequence[str], rows: int, keep: Callable[[str, Tensor], None]
) -> Iterator[None]:
    """Call `keep` for the output of every block's `sites` in passes of `rows` rows.

    While the context is open, `keep` is called with the site and its states
    [rows, tokens, width], block after block.
    """

    def hook(site: str, _: nn.Module, __: Arguments, output: Output) -> None:
        states = families.first_tensor(output)
        # some modules flatten rows and tokens
        keep(site, states if states.ndim == 3 else states.unflatten(0, (rows, -1)))

    with ExitStack() as hooks:
        for block in families.layers(loaded):
            for site in sites:
                module = families.part(loaded, block, site)
                hooks.callback(module.register_forward_hook(partial(hook, site)).remove)
        yield


def mask(cuts: Sequence[Sequence[int]], length: int, dtype: torch.dtype, first: int = 0) -> Tensor:
    """Return the additive causal mask [rows, 1, length − first, length] that blocks some tokens.

    `cuts` holds the indices of each row's blocked tokens. They can attend to each other, but no
    other token can attend to them. Every token can attend to itself: a token whose keys are all
    hidden would attend to all of them equally. Hidden entries are `finfo(dtype).min`, all others
    are 0. Tokens before `first` are keys but not queries.
    """
    is_cut = torch.zeros(len(cuts), length, dtype=torch.bool)
    for row, tokens in enumerate(cuts):
        is_cut[row, list(tokens)] = True
    key = torch.arange(length)
    query = key[first:, None]
    hidden = is_cut[:, None] & ~is_cut[:, first:, None] | (key > query)
    additive = torch.zeros(hidden.shape, dtype=dtype)
    return additive.masked_fill_(hidden & (key != query), torch.finfo(dtype).min)[:, None]


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
