"""The model's own verdict on an answer: what it would say after the closing full stop.

Only models trained on graded answers have one (`curriculum`). The base model is run
without its LM head, of which two rows are wanted.
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
from anchorscope.config.readouts import POSITIONS
from anchorscope.models.families import Loaded, not_finite
from anchorscope.passes import planning, runner
from anchorscope.passes.batches import Batch, Plan, Sample, arrange, narrowed
from anchorscope.passes.interventions import CLEAN
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.progress import Progress
from anchorscope.storage.room import Room

Result = TypeVar("Result")
Ids = tuple[int, ...]


def verdict_tokens(loaded: Loaded) -> tuple[int, int]:
    """The token ids of the verdicts `right` and `wrong`.

    Raises AnchorscopeError: a verdict is more than one token, or both are the same.
    """
    found = [tokens.continuation(loaded.tokenizer, word) for word in (RIGHT, WRONG)]
    if any(len(ids) != 1 for ids in found) or found[0] == found[1]:
        what = f"the verdicts {RIGHT!r} and {WRONG!r} are no tokens of their own ({found})"
        do = "take a model that was trained on graded answers; its tokenizer has seen the verdicts"
        raise AnchorscopeError(what, "the model's tokenizer", do, see="tokenizer")
    return found[0][0], found[1][0]


def of_samples(loaded: Loaded, planned: Plan, *, room: Room | None = None) -> pd.DataFrame:
    """The verdict on every sample in every planned pass, a row for each.

    Columns id, condition, draw, logit (`wrong` minus `right`, float64). Raises AnchorscopeError: a
    verdict that is not finite; one sample alone does not fit in memory.
    """
    right, wrong = verdict_tokens(loaded)
    head: Any = loaded.model.get_output_embeddings()
    weight = (head.weight[wrong] - head.weight[right]).detach()
    bias = getattr(head, "bias", None)
    offset = 0.0 if bias is None else float(bias[wrong] - bias[right])

    def logits(batch: Batch) -> list[tuple[str, str, int, float]]:
        samples = [planned.passed(row) for row in batch.rows]
        states = _states(loaded, planned, batch)[-1]
        finals = states[range(len(samples)), [sample.positions["final"] for sample in samples]]
        found = ((finals @ weight.to(finals.device)).float() + offset).tolist()
        named = zip(samples, batch.rows, found, strict=True)
        return [(one.id, row.condition, row.draw, logit) for one, row, logit in named]

    records = [row for part in _passed(planned, logits, room, "own verdicts") for row in part]
    table = pd.DataFrame(records, columns=["id", "condition", "draw", "logit"])
    bad = table[~np.isfinite(table["logit"])]
    if len(bad):  # compared with 0 it would count as `right`
        first = bad.iloc[0]
        where = f"sample {first['id']}, condition {first['condition']}, draw {first['draw']}"
        raise not_finite("the model's own verdict is not finite", where)
    return table


def of_texts(
    loaded: Loaded, rows: Sequence[Ids], *, batch_tokens: int, room: Room | None = None
) -> dict[Ids, float]:
    """The verdict's logit after each row of token ids, the last one the closing full stop.

    Raises AnchorscopeError: see `of_samples`.
    """
    if not rows:
        return {}
    samples = [
        Sample(f"swap {number}", ids, dict.fromkeys(POSITIONS, len(ids) - 1), (), (), 0)
        for number, ids in enumerate(dict.fromkeys(rows))
    ]
    planned = arrange(samples, [(CLEAN, 0)], batch_tokens=batch_tokens)
    logits = of_samples(loaded, planned, room=room).set_index("id")["logit"]
    return {one.input_ids: float(logits[one.id]) for one in samples}


def seal(
    loaded: Loaded,
    answers: pd.DataFrame,
    *,
    batch_tokens: int,
    blocks: str = "after",
    seed: int = 0,
    room: Room | None = None,
) -> float:
    """How much of the knocked-out E_Q still reaches a later token; exactly 0 where it is sealed.

    Random other ids, by the seed, take the place of E_Q's tokens in the table's first 64 samples.
    Returned is the largest absolute difference of the hidden states under knockout, of all layers,
    at every later token outside E_Q. `blocks` is `after`, which seals, or `answer`, which leaks.
    Raises AnchorscopeError: no sample to look at; a state that is not finite; one sample alone does
    not fit in memory.
    """
    usable = answers[answers["dropped"].isna() & (answers["eq_tokens"].map(len) > 0)]
    planned = planning.plan(
        usable.head(64),
        conditions={"knockout": {}},
        batch_tokens=batch_tokens,
        window=loaded.window,
        blocks=blocks,
        seed=seed,
    )
    vocabulary = loaded.tokenizer.get_vocab().values()
    ids = sorted(set(vocabulary) - set(loaded.tokenizer.all_special_ids))
    changed = replace(planned, samples=tuple(_changed(one, ids, seed) for one in planned.samples))

    def leak(batch: Batch) -> float:
        later = _later_than_cut(planned, batch)
        both = (_states(loaded, one, batch) for one in (planned, changed))
        leaks = [(a - b)[later].abs().max().item() for a, b in zip(*both, strict=True)]
        return float(np.max(leaks))

    largest = float(np.max(_passed(planned, leak, room, "seal")))
    if not np.isfinite(largest):  # a broken model would look sealed
        raise not_finite("the hidden states are not finite", "seal of the knockout")
    return largest


def _changed(sample: Sample, ids: Sequence[int], seed: int) -> Sample:
    """The sample with other ids in the place of E_Q's."""
    draws, new = Random(f"seal {seed} {sample.id}"), list(sample.input_ids)
    for place in sample.eq_tokens:
        new[place] = draws.choice([token for token in ids if token != new[place]])
    return replace(sample, input_ids=tuple(new))


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
    """What each planned pass gave, in as many parts as it takes to fit in memory."""
    room, found = room or Room(), []
    progress = Progress(desc=what, total=len(planned.batches), unit="passes")
    with progress, torch.inference_mode():
        for batch in planned.batches:
            found += _fitting(room, batch, work)
            progress.update()
    return found


def _fitting(room: Room, batch: Batch, work: Callable[[Batch], Result]) -> list[Result]:
    return room.run(batch.samples, batch.tokens, lambda some: work(narrowed(batch, some)))


def _states(loaded: Loaded, planned: Plan, batch: Batch) -> Sequence[torch.Tensor]:
    """Hidden states [rows, length, width] after each block, the last one after the final norm."""
    fed: dict[str, Any] = runner.inputs(loaded, planned, batch)
    return loaded.model.base_model(**fed, use_cache=False, output_hidden_states=True).hidden_states
