"""Logits of two candidates for the next token, such as the letters of a choice.

The base model runs without its LM head, and passes the common beginning of all prompts only once,
see `runner`. The LM head then reads only the last state of each prompt.
"""

import itertools
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from anchorscope.models import cache
from anchorscope.models.families import Loaded, base, not_finite
from anchorscope.passes import runner
from anchorscope.passes.batches import Batch, Sample, arrange, by_length, narrowed
from anchorscope.passes.interventions import CLEAN
from anchorscope.storage.progress import Progress
from anchorscope.storage.room import Room


def choices(
    loaded: Loaded, prompts: Sequence[Sequence[int]], tokens: Sequence[tuple[int, int]]
) -> np.ndarray:
    """Return the logits of two candidate next tokens for each prompt, float64 [n, 2].

    `prompts` holds the token ids of each prompt, `tokens` the ids of its two candidates.

    Raises:
        AnchorscopeError: A logit is not finite, or one prompt alone does not fit in memory.
    """
    if not len(prompts):
        return np.zeros((0, 2))
    ends = [len(ids) - 1 for ids in prompts]
    samples = [
        Sample(str(number), tuple(ids), {"prompt_end": end}, (end,), (end,), end + 1)
        for number, (ids, end) in enumerate(zip(prompts, ends, strict=True))
    ]
    plan = arrange(samples, [(CLEAN, 0)], batch_tokens=loaded.batch_tokens)
    room, head, both = Room(), runner.head_of(loaded, plan), np.empty((len(prompts), 2))

    def pass_samples(batch: Batch, numbers: Sequence[int]) -> list[tuple[list[int], np.ndarray]]:
        parts = by_length(narrowed(batch, numbers))
        return [_of_batch(loaded, part, tokens, head) for part in parts]

    with Progress(total=len(prompts), unit="choices") as progress:
        for batch in plan.batches:
            passed = room.run(batch.samples, batch.tokens, partial(pass_samples, batch))
            for rows, logits in itertools.chain(*passed):
                both[rows] = logits
            progress.update(len(batch.rows))
    return both


@torch.inference_mode()
def _of_batch(
    loaded: Loaded, batch: Batch, tokens: Sequence[tuple[int, int]], head: cache.Layers
) -> tuple[list[int], np.ndarray]:
    """Return (indices, logits): the index of each row's prompt, and float64 logits [rows, 2]."""
    states = base(loaded.model)(**runner.inputs(loaded, batch, head)).last_hidden_state
    first = runner.in_cache(head)
    places = [row.passed.positions["prompt_end"] - first for row in batch.rows]
    pairs = torch.tensor([tokens[row.sample] for row in batch.rows])
    parts = [
        logits.gather(-1, some.to(logits.device)).cpu()
        for logits, some in runner.logits_of(loaded, states[range(len(places)), places], pairs)
    ]
    both = torch.cat(parts).double().numpy()
    for row in itertools.compress(batch.rows, ~np.isfinite(both).all(1)):
        raise not_finite("the logits of a choice are not finite", str(row))
    return [row.sample for row in batch.rows], both
