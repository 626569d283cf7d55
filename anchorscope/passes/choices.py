"""The logits of two tokens that may come next, such as the letters of a choice.

The base model is run without its LM head, from the first token that prompts do not share (see
`runner`); the head then reads the last state of each prompt alone.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from anchorscope.models import cache
from anchorscope.models.families import Loaded, not_finite
from anchorscope.passes import runner
from anchorscope.passes.batches import Batch, Plan, Sample, arrange, by_length, narrowed
from anchorscope.passes.interventions import CLEAN
from anchorscope.passes.lm_head import logits_of
from anchorscope.storage.progress import Progress
from anchorscope.storage.room import Room


def choices(
    loaded: Loaded, prompts: Sequence[Sequence[int]], tokens: Sequence[tuple[int, int]]
) -> np.ndarray:
    """The logits of two tokens that may follow each prompt, float64 [n, 2].

    Args:
        prompts: token ids.
        tokens: two for each.

    Raises:
        AnchorscopeError: a logit is not finite; one prompt alone does not fit in memory.
    """
    if not len(prompts):
        return np.zeros((0, 2))
    ends = [len(ids) - 1 for ids in prompts]
    samples = [
        Sample(str(number), tuple(ids), {"prompt_end": end}, (end,), (end,), end + 1)
        for number, (ids, end) in enumerate(zip(prompts, ends, strict=True))
    ]
    plan, room = arrange(samples, [(CLEAN, 0)], batch_tokens=loaded.batch_tokens), Room()
    head = cache.pass_head(loaded.model, samples[0].input_ids[: plan.head], loaded.device)
    both = np.empty((len(prompts), 2))

    def passed(batch: Batch, numbers: Sequence[int]) -> list[tuple[list[int], np.ndarray]]:
        parts = by_length(plan, narrowed(batch, numbers))
        return [(list(one.samples), _of_batch(loaded, plan, one, tokens, head)) for one in parts]

    with Progress(total=len(samples), desc="choices") as progress:
        for batch in plan.batches:
            for parts in room.run(batch.samples, batch.tokens, partial(passed, batch)):
                for places, logits in parts:
                    both[places] = logits
            progress.update(len(batch.samples))
    if len(bad := np.flatnonzero(~np.isfinite(both).all(1))):
        raise not_finite("the logits of a choice are not finite", f"prompt {bad[0]}")
    return both


@torch.inference_mode()
def _of_batch(
    loaded: Loaded, plan: Plan, batch: Batch, tokens: Sequence[tuple[int, int]], head: cache.Layers
) -> np.ndarray:
    """The logits of the samples of a batch, float64 [samples, 2].

    `head`: keys and values of the tokens that all prompts begin with.
    """
    states = loaded.model.base_model(**runner.inputs(loaded, plan, batch, head)).last_hidden_state
    first = runner.first_passed(plan, batch, head)
    ends = [plan.samples[number].positions["prompt_end"] - first for number in batch.samples]
    pairs = torch.tensor([tokens[number] for number in batch.samples])
    parts = [
        logits.gather(-1, some.to(logits.device)).cpu()
        for logits, some in logits_of(loaded, states[range(len(ends)), ends], pairs)
    ]
    return torch.cat(parts).double().numpy()
