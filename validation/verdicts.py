"""The model's own verdict on an answer: `right` or `wrong`, whichever it finds likelier next.

It is read at the closing full stop. Only models trained on graded answers give one (`curriculum`).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import torch

from anchorscope.anchors import tokens
from anchorscope.models.families import Loaded
from anchorscope.passes import planning, runner
from anchorscope.passes.batches import Batch, Plan, Sample, narrowed
from anchorscope.passes.choices import choices
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.progress import Progress
from anchorscope.storage.room import Room
from validation.curriculum import RIGHT, WRONG

Ids = tuple[int, ...]


def verdict_tokens(loaded: Loaded) -> tuple[int, int]:
    """Return the token ids of the verdicts `right` and `wrong`.

    Raises:
        AnchorscopeError: A verdict is more than one token, or both are the same.
    """
    right, wrong = (tokens.continuation(loaded.tokenizer, word) for word in (RIGHT, WRONG))
    if len(right) != 1 or len(wrong) != 1 or right == wrong:
        ids = f"{[right, wrong]}"
        what = f"the verdicts {RIGHT!r} and {WRONG!r} are no tokens of their own ({ids})"
        do = "take a model that was trained on graded answers; its tokenizer has seen the verdicts"
        raise AnchorscopeError(what, "the model's tokenizer", do, see="tokenizer")
    return right[0], wrong[0]


def of_texts(loaded: Loaded, rows: Sequence[Ids]) -> dict[Ids, float]:
    """Return the verdict's logit after each row of token ids, which ends with the full stop.

    It is the logit of `wrong` minus the logit of `right`, float64, above 0 for the verdict `wrong`.

    Raises:
        AnchorscopeError: A verdict is not finite, so that it would count as `right`; or one text
            alone does not fit in memory.
    """
    texts = list(dict.fromkeys(rows))
    both = choices(loaded, texts, [verdict_tokens(loaded)] * len(texts))
    return dict(zip(texts, (both[:, 1] - both[:, 0]).tolist(), strict=True))


def seal(
    loaded: Loaded, answers: pd.DataFrame, *, seed: int = 0, room: Room | None = None
) -> float:
    """Measure how much of the knocked-out E_Q still reaches later tokens: 0 if it is sealed.

    In the first 64 samples, random tokens replace the tokens of E_Q, and the passes under the
    knockout are repeated. The result is the largest absolute change of a hidden state, of any
    layer, at any later token outside E_Q, or NaN if the model is broken.

    Raises:
        AnchorscopeError: There is no sample to measure, or one sample alone does not fit in memory.
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

    def leak(whole: Batch, numbers: Sequence[int]) -> float:
        batch = narrowed(whole, numbers)
        later = _later_than_cut(planned, batch)
        before, after = _states(loaded, planned, batch), _states(loaded, changed, batch)
        leaks = [(a - b)[later].abs().max().item() for a, b in zip(before, after, strict=True)]
        return float(np.max(leaks))

    room, leaks = room or Room(), []
    with Progress(desc="seal", total=len(planned.batches), unit="passes") as progress:
        for batch in planned.batches:
            leaks += room.run(batch.samples, batch.tokens, partial(leak, batch))
            progress.update()
    return float(np.max(leaks))


def _changed(sample: Sample, ids: Sequence[int], seed: int) -> Sample:
    """Replace every token of E_Q by another of `ids`."""
    draws, new_ids = Random(f"seal {seed} {sample.id}"), list(sample.input_ids)
    for place in sample.eq_tokens:
        new_ids[place] = draws.choice([token for token in ids if token != new_ids[place]])
    return replace(sample, input_ids=tuple(new_ids))


def _later_than_cut(planned: Plan, batch: Batch) -> np.ndarray:
    """Return the tokens that must not see E_Q, bool [rows, length]."""
    later = np.zeros((len(batch.rows), batch.length), dtype=bool)
    for number, row in enumerate(batch.rows):
        if row.condition == "knockout":
            sample = planned.passed(row)
            later[number, min(sample.eq_tokens) : len(sample.input_ids)] = True
            later[number, list(sample.eq_tokens)] = False
    return later


@torch.inference_mode()
def _states(loaded: Loaded, planned: Plan, batch: Batch) -> Sequence[torch.Tensor]:
    """Return hidden states [rows, length, width] after each block, the last after the norm."""
    given: dict[str, Any] = runner.inputs(loaded, planned, batch)
    return loaded.model.base_model(
        **given, use_cache=False, output_hidden_states=True
    ).hidden_states
