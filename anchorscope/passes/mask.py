"""The attention mask that cuts tokens, or weighs attention to them."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def mask(
    queries: Tensor,
    keys: Tensor,
    lengths: Sequence[int],
    cuts: Sequence[Sequence[int]],
    *,
    weights: Sequence[float] = (),
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
) -> Tensor:
    """The additive mask [rows, 1, queries, keys], for queries and keys in any order.

    It is causal and closed to padding. Attention to a row's cut tokens, from every later token
    that is not cut itself, is multiplied by the row's weight; the softmax then renormalises what
    each query attends to. The diagonal stays open: a row with nothing to attend to would be NaN.

    Args:
        queries: token numbers, int64 [rows, queries], in CPU memory.
        keys: likewise, int64 [rows, keys]; -1 is a slot that holds no token of its row.
        lengths: tokens of each row without padding.
        cuts: numbers of the tokens cut in each row.
        weights: one a row; 0, the default, cuts.
        dtype, device: of the mask; closed is the dtype's `finfo.min`, open is 0.
    """
    is_cut = torch.zeros((len(cuts), int(max(queries.max(), keys.max())) + 1), dtype=torch.bool)
    for row, tokens in enumerate(cuts):
        is_cut[row, list(tokens)] = True
    query_affected = (~is_cut.gather(1, queries)).to(device)[:, :, None]
    key_exists = ((keys >= 0) & (keys < torch.tensor(lengths)[:, None])).to(device)[:, None]
    key_is_cut = is_cut.gather(1, keys.clamp(min=0)).to(device)[:, None]
    query, key = queries.to(device)[:, :, None], keys.to(device)[:, None]
    weighed = key_is_cut & query_affected & (query != key)
    is_open = ((key <= query) & key_exists) | (query == key)
    closed = torch.finfo(dtype).min
    additive = torch.zeros(is_open.shape, dtype=dtype, device=device)
    additive.masked_fill_(~is_open | weighed, closed)
    if any(weights):
        logs = torch.tensor([math.log(weight) if weight else closed for weight in weights])
        additive = torch.where(weighed & is_open, logs.to(additive)[:, None, None], additive)
    return additive[:, None]
