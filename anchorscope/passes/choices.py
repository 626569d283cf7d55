"""Logits of two candidates for the next token, such as the letters of a choice.

The base model runs without its LM head, from the first token that prompts do not share (see
`runner`). The LM head then reads only one state per row.
"""

import itertools
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch

from anchorscope.models import cache
from anchorscope.models.families import Loaded, not_finite
from anchorscope.passes import runner
from anchorscope.passes.batches import Batch, Plan, Row, Sample, arrange, by_length, narrowed
from anchorscope.passes.interventions import CLEAN
from anchorscope.storage.progress import Progress
from anchorscope.storage.room import Room


def choices(
    loaded: Loaded, prompts: Sequence[Sequence[int]], tokens: Sequence[tuple[int, int]]
) -> np.ndarray:
    """Return the logits of two candidate next tokens for each prompt, float64 [n, 2].

    `prompts` and `tokens` are token ids.

    Raises:
        AnchorscopeError: See `of_plan`.
    """
    if not len(prompts):
        return np.zeros((0, 2))
    ends = [len(ids) - 1 for ids in prompts]
    samples = [
        Sample(str(number), tuple(ids), {"prompt_end": end}, (end,), (end,), end + 1)
        for number, (ids, end) in enumerate(zip(prompts, ends, strict=True))
    ]
    plan = arrange(samples, [(CLEAN, 0)], batch_tokens=loaded.batch_tokens)
    both = np.empty((len(prompts), 2))
    for row, logits in of_plan(loaded, plan, "prompt_end", tokens):
        both[row.sample] = logits
    return both


def of_plan(
    loaded: Loaded,
    plan: Plan,
    position: str,
    tokens: Sequence[tuple[int, int]],
    room: Room | None = None,
) -> Iterator[tuple[Row, np.ndarray]]:
    """Yield each planned row with the logits of its two candidate tokens, float64 [2].

    Args:
        loaded: The model.
        plan: The rows to pass.
        position: Name of the position whose next token is predicted.
        tokens: Ids of the two candidates for each sample.
        room: Counts the batches that were halved.

    Raises:
        AnchorscopeError: A logit is not finite, or one sample alone does not fit in memory.
    """
    room, head = room or Room(), runner.head_of(loaded, plan)

    def passed(batch: Batch, numbers: Sequence[int]) -> list[tuple[Row, np.ndarray]]:
        parts = by_length(narrowed(batch, numbers))
        return [row for one in parts for row in _of_batch(loaded, one, position, tokens, head)]

    total = sum(len(batch.rows) for batch in plan.batches)
    with Progress(total=total, unit="choices") as progress:
        for batch in plan.batches:
            for part in room.run(batch.samples, batch.tokens, partial(passed, batch)):
                yield from part
            progress.update(len(batch.rows))


@torch.inference_mode()
def _of_batch(
    loaded: Loaded,
    batch: Batch,
    position: str,
    tokens: Sequence[tuple[int, int]],
    head: cache.Layers,
) -> list[tuple[Row, np.ndarray]]:
    """Return the rows of one batch with the logits of their two candidates, float64 [2]."""
    states = loaded.model.base_model(**runner.inputs(loaded, batch, head)).last_hidden_state
    first = runner.first_passed(batch, head)
    places = [row.passed.positions[position] - first for row in batch.rows]
    pairs = torch.tensor([tokens[row.sample] for row in batch.rows])
    parts = [
        logits.gather(-1, some.to(logits.device)).cpu()
        for logits, some in runner.logits_of(loaded, states[range(len(places)), places], pairs)
    ]
    both = torch.cat(parts).double().numpy()
    for row in itertools.compress(batch.rows, ~np.isfinite(both).all(1)):
        raise not_finite("the logits of a choice are not finite", str(row))
    return list(zip(batch.rows, both, strict=True))
