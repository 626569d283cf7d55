"""Token probabilities in the clean pass: of each token of an answer, or of two that may come next.

The base model is run without its LM head, from the first token that prompts do not share (see
`runner`). The head then reads the states that predict these tokens alone, some at a time: with a
large vocabulary, the logits of a whole batch take more memory than its states.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
import pandas as pd
import torch

from anchorscope.models import cache
from anchorscope.models.families import Loaded, not_finite
from anchorscope.passes import runner
from anchorscope.passes.batches import Batch, Plan, Sample, arrange, by_length, narrowed
from anchorscope.passes.interventions import CLEAN
from anchorscope.passes.lm_head import QUANTITIES, logits_of, probabilities
from anchorscope.storage.progress import Progress
from anchorscope.storage.room import Room

COLUMNS = ("id", "place", "exact", *QUANTITIES)
"""Of each token of an answer up to the end of E_A, which stands at `place` in the model's input:
whether it is of E_A; its log-probability and its logit, given all tokens before it; and the entropy
of the distribution that it was taken from. In nats, before any temperature."""
Place = tuple[int, int]
"""The number of a sample, and of one of its tokens."""
Result = TypeVar("Result")


def of_answers(
    loaded: Loaded, samples: Sequence[Sample], *, room: Room | None = None
) -> pd.DataFrame:
    """A row for each token of each sample's answer: `COLUMNS`.

    Args:
        room: counts the batches that were halved.

    Raises:
        AnchorscopeError: a log-probability is not finite; one sample alone does not fit in memory.
    """
    if not samples:
        return pd.DataFrame(columns=list(COLUMNS))
    alone = [replace(sample, others={}) for sample in samples]
    # What stands before a token predicts it.
    read = [range(one.answer_start - 1, one.positions["last_answer"]) for one in alone]

    def rows(places: Sequence[Place], states: torch.Tensor) -> pd.DataFrame:
        """The rows of the tokens that follow some places."""
        tokens = [(alone[number], before + 1) for number, before in places]
        written = torch.tensor([sample.input_ids[place] for sample, place in tokens])
        values = probabilities(loaded, states, written).double().numpy().T
        return pd.DataFrame(
            {
                "id": [sample.id for sample, _ in tokens],
                "place": [place for _, place in tokens],
                "exact": [place > sample.positions["before_answer"] for sample, place in tokens],
                **dict(zip(QUANTITIES, values, strict=True)),
            }
        )

    frames = _passed(loaded, alone, read, rows, room=room or Room(), desc="token probabilities")
    table = pd.concat(frames, ignore_index=True)
    _check_finite(table)
    return table


def _check_finite(table: pd.DataFrame) -> None:
    """Refuse a log-probability that is not finite, naming the first."""
    bad = table[~np.isfinite(table["logprob"])]
    if len(bad):
        first = bad.iloc[0]
        where = f"sample {first['id']}, token {first['place']}"
        raise not_finite("a token's log-probability is not finite", where)


def of_choices(
    loaded: Loaded, prompts: Sequence[Sequence[int]], choices: Sequence[tuple[int, int]]
) -> np.ndarray:
    """The logits of two tokens that may follow each prompt, float64 [n, 2].

    Args:
        prompts: token ids.
        choices: two tokens for each.

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
    both = np.full((len(prompts), 2), np.nan)

    def fill(places: Sequence[Place], states: torch.Tensor) -> None:
        """Write the logits of some prompts' choices into `both`."""
        numbers = [number for number, _ in places]
        pairs = torch.tensor([choices[number] for number in numbers])
        parts = [
            logits.gather(-1, some.to(logits.device)).cpu()
            for logits, some in logits_of(loaded, states, pairs)
        ]
        both[numbers] = torch.cat(parts).double().numpy()

    read = [range(end, end + 1) for end in ends]
    _passed(loaded, samples, read, fill, room=Room(), desc="choices")
    if len(bad := np.flatnonzero(~np.isfinite(both).all(1))):
        raise not_finite("the logits of a choice are not finite", f"prompt {bad[0]}")
    return both


def _passed(
    loaded: Loaded,
    samples: Sequence[Sample],
    read: Sequence[range],
    work: Callable[[Sequence[Place], torch.Tensor], Result],
    *,
    room: Room,
    desc: str,
) -> list[Result]:
    """Pass all samples, and do the work for what the LM head reads of some at a time.

    Args:
        read: of each sample, the tokens whose states are wanted; none before `prompt_end`.
        work: takes places and their states [places, width].
        desc: of the progress.
    """
    plan = arrange(samples, [(CLEAN, 0)], batch_tokens=loaded.batch_tokens)
    head = cache.pass_head(loaded.model, samples[0].input_ids[: plan.head], loaded.device)

    def of_samples(batch: Batch, numbers: Sequence[int]) -> list[Result]:
        """The results of some samples of a batch."""
        chosen = narrowed(batch, numbers)
        return [work(*_states(loaded, plan, part, read, head)) for part in by_length(plan, chosen)]

    results: list[Result] = []
    with Progress(total=len(samples), desc=desc) as progress:
        for batch in plan.batches:
            for part in room.run(batch.samples, batch.tokens, partial(of_samples, batch)):
                results += part
            progress.update(len(batch.samples))
    return results


@torch.inference_mode()
def _states(
    loaded: Loaded, plan: Plan, batch: Batch, read: Sequence[range], head: cache.Layers
) -> tuple[list[Place], torch.Tensor]:
    """Places of the samples of a batch, and what the LM head reads there, [places, width].

    Args:
        read: see `_passed`.
        head: keys and values of the tokens that all samples begin with.
    """
    out = loaded.model.base_model(**runner.inputs(loaded, plan, batch, head))
    states, first = out.last_hidden_state, runner.first_passed(plan, batch, head)
    places, rows, columns = [], [], []
    for row, number in enumerate(batch.samples):
        for place in read[number]:
            places.append((number, place))
            rows.append(row)
            columns.append(place - first)
    return places, states[rows, columns]
