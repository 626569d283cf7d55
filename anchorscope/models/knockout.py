"""Knockout: which question tokens a condition cuts, and the attention mask that cuts them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anchorscope.storage.transfer import up

if TYPE_CHECKING:
    import torch

BLOCKING = ("knockout", "random", "question")
ARMS = ("matched", "placebo")
"""Conditions of the interchange: nothing cut, the same answer behind another question."""
CONDITIONS = ("clean", *BLOCKING, *ARMS, "noop")
REPLICATE = {f"replicate-{name}": name for name in ("clean", "knockout", "random")}
"""Conditions behind a second prompt for the same question → what they cut in it."""


@dataclass(frozen=True)
class Cut:
    """The token indices a condition cuts; `complete` is False if `random` found too few."""

    tokens: tuple[int, ...]
    complete: bool = True


def cut(
    condition: str,
    question_tokens: Sequence[int],
    eq_tokens: Sequence[int],
    *,
    key: str,
    draw: int = 0,
) -> Cut:
    """What a condition cuts in one sample.

    Args:
        condition: one of `CONDITIONS` or `REPLICATE`.
        question_tokens: indices of the question's tokens, in the model's input.
        eq_tokens: indices of the exact question tokens (E_Q).
        key: what the random placement depends on beside the draw: seed and sample id.
        draw: number of the random draw.
    """
    condition = REPLICATE.get(condition, condition)
    if condition in ("clean", *ARMS, "noop"):
        return Cut(())
    if condition == "knockout":
        return Cut(tuple(sorted(set(eq_tokens))))
    if condition == "question":
        return Cut(tuple(sorted(set(question_tokens))))
    if condition == "random":
        tokens, complete = random_tokens(question_tokens, eq_tokens, key=key, draw=draw)
        return Cut(tuple(tokens), complete)
    raise ValueError(
        f"unknown condition {condition!r}, expected one of {(*CONDITIONS, *REPLICATE)}"
    )


def random_tokens(
    question_tokens: Sequence[int], eq_tokens: Sequence[int], *, key: str, draw: int = 0
) -> tuple[list[int], bool]:
    """As many question tokens outside E_Q as E_Q has, in runs of E_Q's lengths, at random places.

    The longest run is placed first, apart from the others where there is room. One that fits
    nowhere fills the longest free stretch, and what is left of it is placed likewise. The same key
    and draw give the same tokens on any machine.

    Returns:
        The indices in rising order, and whether they are as many as E_Q's.
    """
    # hash() differs between runs of Python, so the seed is a digest.
    digest = hashlib.sha256(f"{draw}/{key}".encode()).digest()
    draws = random.Random(int.from_bytes(digest[:8], "big"))
    free = set(question_tokens) - set(eq_tokens)
    chosen: set[int] = set()
    for run in sorted((len(run) for run in runs(eq_tokens)), reverse=True):
        left = run
        while left and free:
            placed = _place(left, free, chosen, draws)
            free -= placed
            chosen |= placed
            left -= len(placed)
    return sorted(chosen), len(chosen) == len(set(eq_tokens))


def runs(tokens: Sequence[int]) -> list[list[int]]:
    """The maximal runs of consecutive indices, first to last."""
    found: list[list[int]] = []
    for token in sorted(set(tokens)):
        if found and found[-1][-1] == token - 1:
            found[-1].append(token)
        else:
            found.append([token])
    return found


def _place(length: int, free: set[int], taken: set[int], draws: random.Random) -> set[int]:
    """A random place for a run of this length, or the whole of a longest free stretch."""
    stretches = runs(sorted(free))
    fitting = [first for run in stretches for first in run[: max(0, len(run) - length + 1)]]
    apart = [first for first in fitting if not {first - 1, first + length} & taken]
    if fitting:
        first = draws.choice(apart or fitting)
        return set(range(first, first + length))
    longest = max(map(len, stretches))
    return set(draws.choice([run for run in stretches if len(run) == longest]))


def mask(
    lengths: Sequence[int],
    blocked: Sequence[Sequence[int]],
    *,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
    first_query: Sequence[int] | None = None,
    width: int | None = None,
) -> torch.Tensor:
    """The additive attention mask of right-padded rows, some of their tokens cut.

    Causal; no attention to padding; and no attention from any later token outside a row's blocked
    tokens to these. The diagonal stays open: a row with nothing to attend to would become NaN.
    After the softmax the other weights of a query renormalise to one.

    Args:
        lengths: tokens of each row without padding.
        blocked: blocked token indices of each row, may be empty.
        dtype: the model's dtype; closed is its `finfo.min`, open is 0.
        device: where the mask is made.
        first_query: in each row, the first token that the block applies to (all when None). A block
            that starts after E_Q's neighbours leaks: they pass on what they read.
        width: padded length; the longest row when None.

    Returns:
        [rows, 1, width, width]: queries along dimension 2, keys along dimension 3.
    """
    import torch

    index = torch.arange(max(lengths) if width is None else width).expand(len(lengths), -1)
    return mask_between(
        index, index, lengths, blocked, dtype=dtype, device=device, first_query=first_query
    )


def mask_between(
    queries: torch.Tensor,
    keys: torch.Tensor,
    lengths: Sequence[int],
    blocked: Sequence[Sequence[int]],
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
    import torch

    width = int(max(queries.max(), keys.max())) + 1
    is_blocked = _indicator(blocked, width)
    starts = torch.tensor(first_query or [0] * len(lengths))[:, None]
    affected = up(~is_blocked.gather(1, queries) & (queries >= starts), device)[:, :, None]
    there = up((keys >= 0) & (keys < torch.tensor(lengths)[:, None]), device)[:, None]
    cut = up(is_blocked.gather(1, keys.clamp(min=0)), device)[:, None]
    query, key = up(queries, device)[:, :, None], up(keys, device)[:, None]
    is_open = ((key <= query) & there & ~(cut & affected)) | (query == key)
    additive = torch.zeros(is_open.shape, dtype=dtype, device=device)
    return additive.masked_fill_(~is_open, torch.finfo(dtype).min)[:, None]


def _indicator(tokens: Sequence[Sequence[int]], width: int) -> torch.Tensor:
    """bool [rows, width]: whether a token is among its row's tokens."""
    import torch

    indicator = torch.zeros((len(tokens), width), dtype=torch.bool)
    for row, found in enumerate(tokens):
        indicator[row, list(found)] = True
    return indicator
