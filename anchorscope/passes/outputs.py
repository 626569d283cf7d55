"""Token probabilities in the clean pass: of each token of an answer, or of two that may come next.

The base model is run without its LM head, from the first token that prompts do not share (see
`runner`). The head then reads the states that predict these tokens alone, some at a time: with a
large vocabulary, the logits of a whole batch take more memory than its states.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from anchorscope.models import cache
from anchorscope.models.families import Loaded, not_finite
from anchorscope.passes import runner
from anchorscope.passes.batches import Batch, Plan, Sample, arrange, by_length, narrowed
from anchorscope.passes.interventions import CLEAN
from anchorscope.storage.progress import Progress
from anchorscope.storage.room import Room

COLUMNS = ("id", "place", "exact", "logprob", "logit", "entropy")
"""Of each token of an answer up to the end of E_A, which stands at `place` in the model's input:
whether it is of E_A; its log-probability and its logit, given all tokens before it; and the entropy
of the distribution that it was taken from. In nats, before any temperature."""
LOGITS_AT_ONCE = 2**25
"""Most logits that are held at once, 128 MiB in float32."""
Wanted = Mapping[int, Sequence[int]]
"""Places of one sample → tokens of which is asked how likely each comes next."""


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
    # What stands before a token predicts it.
    wanted = [{place - 1: [one.input_ids[place]] for place in _written(one)} for one in alone]
    found = _read(loaded, alone, wanted, batch_tokens, room or Room(), "token probabilities")
    answers = [alone[number] for number in found["number"]]
    table = pd.DataFrame(
        {
            "id": [sample.id for sample in answers],
            "place": found["place"] + 1,
            "exact": found["place"] >= [one.positions["before_answer"] for one in answers],
            **{name: found[name][:, 0] for name in ("logprob", "logit", "entropy")},
        }
    )
    bad = table[~np.isfinite(table["logprob"])]
    if len(bad):
        where = f"sample {bad['id'].iloc[0]}, token {bad['place'].iloc[0]}"
        raise not_finite("a token's log-probability is not finite", where)
    return table


def _written(sample: Sample) -> range:
    """The places of the answer's tokens up to the end of E_A."""
    return range(sample.answer_start, sample.positions["last_answer"] + 1)


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
    ends = [len(ids) - 1 for ids in prompts]
    samples = [
        Sample(str(number), tuple(ids), {"prompt_end": end}, (end,), (end,), end + 1)
        for number, (ids, end) in enumerate(zip(prompts, ends, strict=True))
    ]
    wanted = [{end: pair} for end, pair in zip(ends, choices, strict=True)]
    found = _read(loaded, samples, wanted, batch_tokens, Room(), "choices")
    both = np.empty((len(prompts), 2))
    both[found["number"]] = found["logit"]
    if len(bad := np.flatnonzero(~np.isfinite(both).all(1))):
        raise not_finite("the logits of a choice are not finite", f"prompt {bad[0]}")
    return both


def _read(
    loaded: Loaded,
    samples: Sequence[Sample],
    wanted: Sequence[Wanted],
    batch_tokens: int,
    room: Room,
    desc: str,
) -> dict[str, np.ndarray]:
    """What the LM head says of the tokens wanted of each sample, in the order of the passes.

    Args:
        wanted: none before `prompt_end`, and as many tokens at every place.
        desc: of the progress.

    Returns:
        `number` of the sample and `place`, int64 [n]; of the tokens `logprob` and `logit`, float64
        [n, tokens], and `entropy`, [n, 1].
    """
    plan = arrange(samples, [(CLEAN, 0)], batch_tokens=batch_tokens)
    head = cache.pass_head(loaded.model, samples[0].input_ids[: plan.head], loaded.device)

    def of_samples(batch: Batch, numbers: Sequence[int]) -> list[dict[str, np.ndarray]]:
        chosen = narrowed(batch, numbers)
        return [_of_batch(loaded, plan, part, wanted, head) for part in by_length(plan, chosen)]

    parts: list[dict[str, np.ndarray]] = []
    with Progress(total=len(samples), desc=desc) as progress:
        for batch in plan.batches:
            for part in room.run(batch.samples, batch.tokens, partial(of_samples, batch)):
                parts += part
            progress.update(len(batch.samples))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@torch.inference_mode()
def _of_batch(
    loaded: Loaded, plan: Plan, batch: Batch, wanted: Sequence[Wanted], head: cache.Layers
) -> dict[str, np.ndarray]:
    """What `_read` gives, of the samples of a batch.

    `head`: keys and values of the tokens that all samples begin with.
    """
    states = loaded.model.base_model(**runner.inputs(loaded, plan, batch, head)).last_hidden_state
    first = runner.first_passed(plan, batch, head)
    asked = [
        (row, number, place, tokens)
        for row, number in enumerate(batch.samples)
        for place, tokens in wanted[number].items()
    ]
    rows, numbers, places, tokens = zip(*asked, strict=True)
    some = states[list(rows), [place - first for place in places]]
    said = _said(loaded, some, torch.tensor(tokens))
    return {"number": np.array(numbers), "place": np.array(places), **said}


def _said(loaded: Loaded, states: torch.Tensor, tokens: torch.Tensor) -> dict[str, np.ndarray]:
    """`logprob`, `logit` and `entropy` behind states [n, width] of tokens [n, some]."""
    head: Any = loaded.model.get_output_embeddings()
    size = max(1, LOGITS_AT_ONCE // head.weight.shape[0])
    # Some models bend their logits before the softmax.
    most = getattr(loaded.model.config, "final_logit_softcapping", None)
    parts: dict[str, list[torch.Tensor]] = {"logprob": [], "logit": [], "entropy": []}
    for some, given in zip(states.split(size), tokens.split(size), strict=True):
        logits = head(some.to(head.weight.device)).float()
        logits = logits if most is None else most * torch.tanh(logits / most)
        log_p, index = logits.log_softmax(dim=-1), given.to(logits.device)
        parts["logprob"].append(log_p.gather(-1, index).cpu())
        parts["logit"].append(logits.gather(-1, index).cpu())
        entropy = torch.special.entr(log_p.exp()).sum(dim=-1, keepdim=True)
        parts["entropy"].append(entropy.cpu())
    return {name: torch.cat(values).double().numpy() for name, values in parts.items()}
