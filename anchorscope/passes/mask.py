"""The attention mask that cuts tokens, or weighs attention to them."""

import math
from collections.abc import Sequence

import torch


def mask(
    queries: torch.Tensor,
    keys: torch.Tensor,
    lengths: Sequence[int],
    cuts: Sequence[Sequence[int]],
    *,
    weights: Sequence[float] = (),
    first_query: Sequence[int] = (),
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
) -> torch.Tensor:
    """The additive mask, [rows, 1, queries, keys], of queries and keys of each row in any order.

    Causal; no attention to padding; and attention from any later token outside a row's cut tokens
    to these weighs so many times as much, nothing for 0. The diagonal stays open: a row with
    nothing to attend to would become NaN. The softmax renormalises a query's weights to one.

    Args:
        queries: token numbers, int64 [rows, queries], in CPU memory.
        keys: likewise, int64 [rows, keys]; -1 is a slot that holds no token of its row.
        lengths: tokens of each row without padding.
        weights: what attention to each row's cut tokens is multiplied by; 0 if not given.
        first_query: in each row, the first token that the cut applies to; all if not given. A cut
            that starts after E_Q's neighbours leaks: they pass on what they read.
        dtype, device: of the mask; closed is the dtype's `finfo.min`, open is 0.
    """
    is_cut = torch.zeros((len(cuts), int(max(queries.max(), keys.max())) + 1), dtype=torch.bool)
    for row, found in enumerate(cuts):
        is_cut[row, list(found)] = True
    starts = torch.tensor(first_query or [0] * len(lengths))[:, None]
    affected = (~is_cut.gather(1, queries) & (queries >= starts)).to(device)[:, :, None]
    there = ((keys >= 0) & (keys < torch.tensor(lengths)[:, None])).to(device)[:, None]
    cut = is_cut.gather(1, keys.clamp(min=0)).to(device)[:, None]
    query, key = queries.to(device)[:, :, None], keys.to(device)[:, None]
    closed, weighed = torch.finfo(dtype).min, cut & affected & (query != key)
    is_open = ((key <= query) & there) | (query == key)
    additive = torch.zeros(is_open.shape, dtype=dtype, device=device)
    additive.masked_fill_(~is_open | weighed, closed)
    if any(weights):
        logs = torch.tensor([math.log(one) if one else closed for one in weights])
        additive = torch.where(weighed & is_open, logs.to(additive)[:, None, None], additive)
    return additive[:, None]
