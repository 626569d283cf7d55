"""Token probabilities in the clean pass: of each token of an answer, or of two that may come next.

The base model is run without its LM head. The head then reads the states that predict these tokens
alone, some at a time: with a large vocabulary, the logits of a whole batch take more memory than
its states.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from anchorscope.models.families import Loaded, not_finite
from anchorscope.passes import runner
from anchorscope.passes.batches import Batch, Plan, Sample, arrange, narrowed
from anchorscope.passes.interventions import CLEAN
from anchorscope.storage.progress import Progress
from anchorscope.storage.room import Room

COLUMNS = ("id", "place", "exact", "logprob", "logit", "entropy")
"""Of each token of an answer up to the end of E_A, which stands at `place` in the model's input:
whether it is of E_A; its log-probability and its logit, given all tokens before it; and the entropy
of the distribution that it was taken from. In nats, before any temperature."""
LOGITS_AT_ONCE = 2**25
"""Most logits that are held at once, 128 MiB in float32."""


def of_answers(
    loaded: Loaded, samples: Sequence[Sample], *, batch_tokens: int, room: Room | None = None
) -> pd.DataFrame:
    """A row for each token of each sample's answer: `COLUMNS`.

    Args:
        batch_tokens: see `batches.arrange`.
        room: counts the batches that were halved.

    Raises:
        AnchorscopeError: a log-probability is not finite; one sample alone does not fit in memory.
    """
    if not samples:
        return pd.DataFrame(columns=list(COLUMNS))
    alone = [replace(sample, others={}) for sample in samples]
    plan = arrange(alone, [(CLEAN, 0)], batch_tokens=batch_tokens)
    room, frames = room or Room(), []
    with Progress(total=len(samples), desc="token probabilities") as progress:
        for batch in plan.batches:
            work = partial(_of_batch, loaded, plan, batch)
            frames += room.run(batch.samples, batch.tokens, work)
            progress.update(len(batch.samples))
    table = pd.concat(frames, ignore_index=True)
    if len(bad := table[~np.isfinite(table["logprob"])]):
        first = bad.iloc[0]
        where = f"sample {first['id']}, token {first['place']}"
        raise not_finite("a token's log-probability is not finite", where)
    return table


def of_choices(
    loaded: Loaded,
    prompts: Sequence[Sequence[int]],
    choices: Sequence[tuple[int, int]],
    *,
    batch_tokens: int,
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
    samples = []
    for number, ids in enumerate(prompts):
        last = len(ids) - 1
        positions = {"prompt_end": last}
        samples.append(Sample(str(number), tuple(ids), positions, (last,), (last,), last + 1))
    plan = arrange(samples, [(CLEAN, 0)], batch_tokens=batch_tokens)
    room, found = Room(), np.full((len(prompts), 2), np.nan)

    def passed(batch: Batch, numbers: Sequence[int]) -> torch.Tensor:
        batch = narrowed(batch, numbers)
        ends = torch.tensor([plan.passed(row).positions["prompt_end"] for row in batch.rows])
        last = _states(loaded, plan, batch, torch.arange(len(ends)), ends)
        pairs = torch.tensor([choices[row.sample] for row in batch.rows])
        parts = [
            logits.gather(-1, some.to(logits.device)).cpu()
            for logits, some in _logits(loaded, last, pairs)
        ]
        return torch.cat(parts).double()

    with Progress(total=len(prompts), desc="choices") as progress:
        for batch in plan.batches:
            parts = room.run(batch.samples, batch.tokens, partial(passed, batch))
            found[list(batch.samples)] = torch.cat(list(parts)).numpy()
            progress.update(len(batch.samples))
    if len(bad := np.flatnonzero(~np.isfinite(found).all(1))):
        raise not_finite("the logits of a choice are not finite", f"prompt {bad[0]}")
    return found


def _of_batch(loaded: Loaded, plan: Plan, batch: Batch, numbers: Sequence[int]) -> pd.DataFrame:
    """The rows of some samples of a batch."""
    batch = narrowed(batch, numbers)
    samples = [plan.passed(row) for row in batch.rows]
    places = [
        (row, place)
        for row, sample in enumerate(samples)
        for place in range(sample.answer_start, sample.positions["last_answer"] + 1)
    ]
    rows, at = torch.tensor(places).T
    tokens = torch.tensor([samples[row].input_ids[place] for row, place in places])
    # What stands before a token predicts it.
    numbers_of_tokens = _numbers(loaded, _states(loaded, plan, batch, rows, at - 1), tokens)
    return pd.DataFrame(
        {
            "id": [samples[row].id for row, _ in places],
            "place": at.numpy(),
            "exact": [place > samples[row].positions["before_answer"] for row, place in places],
            **{name: values.numpy() for name, values in numbers_of_tokens.items()},
        }
    )


def _numbers(loaded: Loaded, states: torch.Tensor, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    """`logprob`, `logit` and `entropy` of tokens [n], predicted from states [n, width]."""
    parts: dict[str, list[torch.Tensor]] = {"logprob": [], "logit": [], "entropy": []}
    for logits, given in _logits(loaded, states, tokens):
        log_p = logits.log_softmax(dim=-1)
        index = given.to(logits.device)[:, None]
        parts["logprob"].append(log_p.gather(-1, index)[:, 0].cpu())
        parts["logit"].append(logits.gather(-1, index)[:, 0].cpu())
        parts["entropy"].append(torch.special.entr(log_p.exp()).sum(dim=-1).cpu())
    return {name: torch.cat(values).double() for name, values in parts.items()}


@torch.inference_mode()
def _states(
    loaded: Loaded, plan: Plan, batch: Batch, rows: torch.Tensor, at: torch.Tensor
) -> torch.Tensor:
    """What the LM head reads at some tokens of some rows of a batch, [n, width]."""
    arguments: dict[str, Any] = {**runner.inputs(loaded, plan, batch)}
    states = loaded.model.base_model(**arguments, use_cache=False).last_hidden_state
    return states[rows.to(states.device), at.to(states.device)]


@torch.inference_mode()
def _logits(
    loaded: Loaded, states: torch.Tensor, beside: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Logits of states [n, width] in parts, float32 [some, vocabulary], with rows of `beside`."""
    head: Any = loaded.model.get_output_embeddings()
    size = max(1, LOGITS_AT_ONCE // head.weight.shape[0])
    # Some models bend their logits before the softmax.
    most = getattr(loaded.model.config, "final_logit_softcapping", None)
    for some, given in zip(states.split(size), beside.split(size), strict=True):
        logits = head(some.to(head.weight.device)).float()
        yield logits if most is None else most * torch.tanh(logits / most), given
