"""Token probabilities: how likely a model finds each token of an answer, in the clean pass.

The base model is run without its LM head. The head then reads the tokens of the answers alone, some
at a time: with a large vocabulary, the logits of a whole batch take more memory than its states.
"""

from collections.abc import Sequence
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
    with torch.inference_mode():
        arguments: dict[str, Any] = {**runner.inputs(loaded, plan, batch)}
        states = loaded.model.base_model(**arguments, use_cache=False).last_hidden_state
        # What stands before a token predicts it.
        before = states[rows.to(states.device), (at - 1).to(states.device)]
        numbers_of_tokens = _numbers(loaded, before, tokens)
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
    head: Any = loaded.model.get_output_embeddings()
    size = max(1, LOGITS_AT_ONCE // head.weight.shape[0])
    # Some models bend their logits before the softmax.
    most = getattr(loaded.model.config, "final_logit_softcapping", None)
    parts: dict[str, list[torch.Tensor]] = {"logprob": [], "logit": [], "entropy": []}
    for some, given in zip(states.split(size), tokens.split(size), strict=True):
        logits = head(some.to(head.weight.device)).float()
        if most is not None:
            logits = most * torch.tanh(logits / most)
        log_p = logits.log_softmax(dim=-1)
        index = given.to(logits.device)[:, None]
        parts["logprob"].append(log_p.gather(-1, index)[:, 0].cpu())
        parts["logit"].append(logits.gather(-1, index)[:, 0].cpu())
        parts["entropy"].append(torch.special.entr(log_p.exp()).sum(dim=-1).cpu())
    return {name: torch.cat(values).double() for name, values in parts.items()}
