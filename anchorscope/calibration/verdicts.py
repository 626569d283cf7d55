"""The model's own verdict on an answer: `right` or `wrong`, whichever it finds likelier next.

It is read at the closing full stop. Only models trained on graded answers have one (`curriculum`).
The base model is run without its LM head, since only two rows of that are needed.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch

from anchorscope.anchors import tokens
from anchorscope.calibration.curriculum import RIGHT, WRONG
from anchorscope.models.families import Loaded, not_finite
from anchorscope.passes import planning, runner
from anchorscope.passes.batches import Batch, Plan, Sample, narrowed
from anchorscope.passes.choices import choices
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.progress import Progress
from anchorscope.storage.room import Room

Result = TypeVar("Result")
Ids = tuple[int, ...]


def verdict_tokens(loaded: Loaded) -> tuple[int, int]:
    """The token ids of the verdicts `right` and `wrong`.

    Raises AnchorscopeError: a verdict is more than one token, or both are the same.
    """
    right, wrong = (tokens.continuation(loaded.tokenizer, word) for word in (RIGHT, WRONG))
    if len(right) != 1 or len(wrong) != 1 or right == wrong:
        ids = f"{[right, wrong]}"
        what = f"the verdicts {RIGHT!r} and {WRONG!r} are no tokens of their own ({ids})"
        do = "take a model that was trained on graded answers; its tokenizer has seen the verdicts"
        raise AnchorscopeError(what, "the model's tokenizer", do, see="tokenizer")
    return right[0], wrong[0]


def of_samples(loaded: Loaded, planned: Plan, *, room: Room | None = None) -> pd.DataFrame:
    """The verdict on every sample in every planned pass, a row for each.

    The columns are id, condition, draw and logit (of `wrong` minus that of `right`, float64), above
    0 where the verdict is `wrong`. Raises AnchorscopeError: a verdict that is not finite; one
    sample alone does not fit in memory.
    """
    right, wrong = verdict_tokens(loaded)
    head: Any = loaded.model.get_output_embeddings()
    weight = (head.weight[wrong] - head.weight[right]).detach()
    bias = getattr(head, "bias", None)
    offset = 0.0 if bias is None else float(bias[wrong] - bias[right])

    def records_of(batch: Batch) -> list[tuple[str, str, int, float]]:
        samples = [planned.passed(row) for row in batch.rows]
        states = _states(loaded, planned, batch)[-1]
        finals = states[range(len(samples)), [sample.positions["final"] for sample in samples]]
        logits = ((finals @ weight.to(finals.device)).float() + offset).tolist()
        return [
            (sample.id, row.condition, row.draw, logit)
            for sample, row, logit in zip(samples, batch.rows, logits, strict=True)
        ]

    parts = _passed(planned, records_of, room, "own verdicts")
    records = [record for part in parts for record in part]
    table = pd.DataFrame(records, columns=["id", "condition", "draw", "logit"])
    bad = table[~np.isfinite(table["logit"])]
    if len(bad):  # compared with 0 it would count as `right`
        first = bad.iloc[0]
        where = f"sample {first['id']}, condition {first['condition']}, draw {first['draw']}"
        raise not_finite("the model's own verdict is not finite", where)
    return table


def of_texts(loaded: Loaded, rows: Sequence[Ids]) -> dict[Ids, float]:
    """The verdict's logit after each row of token ids, the last one the closing full stop.

    Raises AnchorscopeError: see `of_samples`.
    """
    texts = list(dict.fromkeys(rows))
    both = choices(loaded, texts, [verdict_tokens(loaded)] * len(texts))
    return dict(zip(texts, (both[:, 1] - both[:, 0]).tolist(), strict=True))


def seal(
    loaded: Loaded, answers: pd.DataFrame, *, seed: int = 0, room: Room | None = None
) -> float:
    """How much of the knocked-out E_Q still reaches later tokens; exactly 0 if it is sealed.

    In the first 64 samples E_Q's tokens are replaced by random others (by the seed), and the passes
    under the knockout are repeated. Returned is the largest absolute change of a hidden state, of
    any layer, at any later token outside E_Q. Raises AnchorscopeError: no sample to measure; a
    state that is not finite; one sample alone does not fit in memory.
    """
    usable = answers[answers["dropped"].isna() & (answers["eq_tokens"].map(len) > 0)]
    planned = planning.plan(
        usable.head(64),
        conditions={"knockout": {}},
        batch_tokens=loaded.batch_tokens,
        window=loaded.window,
        seed=seed,
    )
    vocabulary = loaded.tokenizer.get_vocab().values()
    ids = sorted(set(vocabulary) - set(loaded.tokenizer.all_special_ids))
    changed = replace(planned, samples=tuple(_changed(one, ids, seed) for one in planned.samples))

    def leak(batch: Batch) -> float:
        later = _later_than_cut(planned, batch)
        before, after = _states(loaded, planned, batch), _states(loaded, changed, batch)
        leaks = [(a - b)[later].abs().max().item() for a, b in zip(before, after, strict=True)]
        return float(np.max(leaks))

    largest = float(np.max(_passed(planned, leak, room, "seal")))
    if not np.isfinite(largest):  # a broken model would look sealed
        raise not_finite("the hidden states are not finite", "seal of the knockout")
    return largest


def _changed(sample: Sample, ids: Sequence[int], seed: int) -> Sample:
    """The sample with every token of E_Q replaced by another of `ids`."""
    draws, new_ids = Random(f"seal {seed} {sample.id}"), list(sample.input_ids)
    for place in sample.eq_tokens:
        new_ids[place] = draws.choice([token for token in ids if token != new_ids[place]])
    return replace(sample, input_ids=tuple(new_ids))


def _later_than_cut(planned: Plan, batch: Batch) -> np.ndarray:
    """The tokens that must not see E_Q, bool [rows, length]."""
    later = np.zeros((len(batch.rows), batch.length), dtype=bool)
    for number, row in enumerate(batch.rows):
        if row.condition == "knockout":
            sample = planned.passed(row)
            later[number, min(sample.eq_tokens) : len(sample.input_ids)] = True
            later[number, list(sample.eq_tokens)] = False
    return later


def _passed(
    planned: Plan, work: Callable[[Batch], Result], room: Room | None, what: str
) -> list[Result]:
    """The results of some work on each planned pass; a batch that does not fit gives several."""
    room = room or Room()
    results: list[Result] = []
    progress = Progress(desc=what, total=len(planned.batches), unit="passes")
    with progress, torch.inference_mode():
        for batch in planned.batches:
            results += _fitting(room, batch, work)
            progress.update()
    return results


def _fitting(room: Room, batch: Batch, work: Callable[[Batch], Result]) -> list[Result]:
    return room.run(batch.samples, batch.tokens, lambda samples: work(narrowed(batch, samples)))


def _states(loaded: Loaded, planned: Plan, batch: Batch) -> Sequence[torch.Tensor]:
    """Hidden states [rows, length, width] after each block, the last one after the final norm."""
    arguments: dict[str, Any] = {
        **runner.inputs(loaded, planned, batch),
        "use_cache": False,
        "output_hidden_states": True,
    }
    return loaded.model.base_model(**arguments).hidden_states
