"""The budget of tokens a batch: whether it holds one sample at all, said before the first pass."""

from __future__ import annotations

from collections.abc import Sequence

from anchorscope.storage.errors import AnchorscopeError

LEAST_PROMPT = 8
"""Tokens that any prompt has, as a bound that holds before one is made."""


def least(max_new_tokens: int) -> int:
    """The smallest budget with which an answer can be asked for."""
    return LEAST_PROMPT + max_new_tokens


def check(
    ids: Sequence[str], prompts: Sequence[int], max_new_tokens: int, batch_tokens: int
) -> None:
    """Refuse a budget that one prompt and its answer exceed.

    Under all its conditions a sample may take more: it is passed by itself then, whatever it takes.

    `prompts` are the tokens of each prompt, `ids` their samples, a batch has `batch_tokens`.

    Raises:
        AnchorscopeError: names the longest sample, what it takes, and the value to set.
    """
    if not prompts:
        return
    longest = max(range(len(prompts)), key=prompts.__getitem__)
    need = prompts[longest] + max_new_tokens
    if need <= batch_tokens:
        return
    over = sum(length + max_new_tokens > batch_tokens for length in prompts)
    raise AnchorscopeError(
        f"batch_tokens: {batch_tokens} is too small for {over} of {len(prompts)} samples: the "
        f"longest takes {need} tokens, {prompts[longest]} of its prompt and {max_new_tokens} of "
        "its answer",
        f"sample {ids[longest]}",
        f"set batch_tokens to {need} or more, or max_prompt_tokens to "
        f"{max(1, batch_tokens - max_new_tokens)}, which leaves longer prompts out",
        see="small-budget",
    )
