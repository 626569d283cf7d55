"""The attention mask that cuts tokens, or weighs attention to them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from anchorscope.passes.interventions import Cut


def mask(
    lengths: Sequence[int],
    cuts: Sequence[Cut],
    *,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
    first_query: Sequence[int] | None = None,
    width: int | None = None,
) -> torch.Tensor:
    """The additive attention mask of right-padded rows, with some of their tokens cut.

    Causal; no attention to padding; and attention from any later token outside a row's cut tokens
    to these weighs `Cut.weight` times as much, nothing for 0. The diagonal stays open: a row with
    nothing to attend to would become NaN. The softmax renormalises a query's weights to one.

    Args:
        lengths: tokens of each row without padding.
        cuts: what is cut in each row; `in_layer` picks those of one layer.
        dtype, device: of the mask; closed is the dtype's `finfo.min`, open is 0.
        first_query: in each row, the first token that the cut applies to (all when None). A cut
            that starts after E_Q's neighbours leaks: they pass on what they read.
        width: padded length; the longest row when None.

    Returns:
        [rows, 1, width, width]: queries along dimension 2, keys along dimension 3.
    """
    index = torch.arange(max(lengths) if width is None else width).expand(len(lengths), -1)
    return mask_between(
        index, index, lengths, cuts, dtype=dtype, device=device, first_query=first_query
    )


def mask_between(
    queries: torch.Tensor,
    keys: torch.Tensor,
    lengths: Sequence[int],
    cuts: Sequence[Cut],
    *,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
    first_query: Sequence[int] | None = None,
) -> torch.Tensor:
    """`mask` for some queries and keys of each row, in any order.

    Args:
        queries: token numbers, int64 [rows, queries], in CPU memory.
        keys: likewise, int64 [rows, keys]; -1 is a slot that holds no token of its row.
        lengths: see `mask`, as are the others.

    Returns:
        [rows, 1, queries, keys].
    """
    width = int(max(queries.max(), keys.max())) + 1
    is_cut = _indicator([cut.tokens for cut in cuts], width)
    starts = torch.tensor(first_query or [0] * len(lengths))[:, None]
    affected = (~is_cut.gather(1, queries) & (queries >= starts)).to(device)[:, :, None]
    there = ((keys >= 0) & (keys < torch.tensor(lengths)[:, None])).to(device)[:, None]
    cut = is_cut.gather(1, keys.clamp(min=0)).to(device)[:, None]
    query, key = queries.to(device)[:, :, None], keys.to(device)[:, None]
    closed = torch.finfo(dtype).min
    is_open = ((key <= query) & there) | (query == key)
    weighed = cut & affected & (query != key)
    additive = torch.zeros(is_open.shape, dtype=dtype, device=device)
    additive.masked_fill_(~is_open | weighed, closed)
    if any(one.weight for one in cuts):
        logs = torch.tensor([math.log(one.weight) if one.weight else closed for one in cuts])
        logs = logs.to(dtype).to(device)[:, None, None]
        additive = torch.where(weighed & is_open, logs, additive)
    return additive[:, None]


def in_layer(cuts: Sequence[Cut], layer: int) -> list[Cut]:
    """The cuts as they stand in one layer: none in a row whose cut is of other layers."""
    none = Cut(())
    return [
        cut if cut.layers is None or cut.layers[0] <= layer < cut.layers[1] else none
        for cut in cuts
    ]


def _indicator(tokens: Sequence[Sequence[int]], width: int) -> torch.Tensor:
    """bool [rows, width]: whether a token is among its row's tokens."""
    indicator = torch.zeros((len(tokens), width), dtype=torch.bool)
    for row, found in enumerate(tokens):
        indicator[row, list(found)] = True
    return indicator
