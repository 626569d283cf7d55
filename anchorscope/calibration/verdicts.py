"""The model's own verdict on an answer: what it would say after the closing full stop.

Only models trained on graded answers have one (`curriculum`). The base model is run
without its LM head, of which two rows are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from anchorscope.anchors import tokens
from anchorscope.calibration.curriculum import RIGHT, WRONG
from anchorscope.passes import planning, runner
from anchorscope.passes.batches import Batch, Plan, Sample, narrowed
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.progress import Progress
from anchorscope.storage.room import Room

if TYPE_CHECKING:
    import torch

    from anchorscope.models.families import Loaded
    from anchorscope.passes.batches import Row

Result = TypeVar("Result")
Ids = tuple[int, ...]

CUTTING = ("knockout", "random")
SEALED_SAMPLES = 64

Conditions = Mapping[str, Mapping[str, Any] | None]


@dataclass(frozen=True)
class Head:
    """The part of the LM head that decides the verdict.

    Attributes:
        weights: row of `wrong` minus row of `right`, [width].
        bias: likewise, 0 where the head has none.
    """

    weights: torch.Tensor
    bias: float

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Logit of `wrong` minus logit of `right`, float32 [n], of states [n, width]."""
        weights = self.weights.to(states.device)
        return (states @ weights).float() + self.bias


def verdict_tokens(loaded: Loaded) -> tuple[int, int]:
    """The token ids of the verdicts `right` and `wrong`.

    Raises:
        AnchorscopeError: a verdict is more than one token, or both are the same.
    """
    found = [tokens.continuation(loaded.tokenizer, word) for word in (RIGHT, WRONG)]
    if any(len(ids) != 1 for ids in found) or found[0] == found[1]:
        raise AnchorscopeError(
            f"the verdicts {RIGHT!r} and {WRONG!r} are no tokens of their own ({found})",
            "the model's tokenizer",
            "take a model that was trained on graded answers; its tokenizer has seen the verdicts",
            see="tokenizer",
        )
    return found[0][0], found[1][0]


def head(loaded: Loaded) -> Head:
    """The difference of two rows of the LM head.

    Raises:
        AnchorscopeError: no such tokens, or no LM head.
    """
    right, wrong = verdict_tokens(loaded)
    layer: Any = loaded.model.get_output_embeddings()
    if layer is None:
        raise AnchorscopeError(
            "the model has no LM head to give a verdict with",
            type(loaded.model).__name__,
            "load it as a causal language model",
            see="tokenizer",
        )
    bias = getattr(layer, "bias", None)
    difference = 0.0 if bias is None else float(bias[wrong] - bias[right])
    return Head((layer.weight[wrong] - layer.weight[right]).detach(), difference)


def of_texts(
    loaded: Loaded, rows: Sequence[Ids], *, batch_tokens: int, room: Room | None = None
) -> dict[Ids, float]:
    """The verdict's logit (wrong minus right) after the last token of each row; nothing is cut.

    Rows of one length share a pass, so that none is padded; equal rows are passed once.

    Args:
        loaded: the model.
        rows: token ids, each row up to and including the closing full stop.
        batch_tokens: most rows × length of a pass.
        room: counts the batches halved.

    Raises:
        AnchorscopeError: a verdict that is not finite; one row alone does not fit in memory.
    """
    deciding, room = head(loaded), room or Room()
    found: dict[Ids, float] = {}
    with Progress(desc="swapped questions", total=len(set(rows))) as progress:
        for batch in _of_equal_length(rows, batch_tokens):
            found |= _in_parts(loaded, deciding, batch, room)
            progress.update(len(batch))
    return found


def _in_parts(loaded: Loaded, deciding: Head, rows: Sequence[Ids], room: Room) -> dict[Ids, float]:
    """`_of_rows`, in as many parts as it takes to fit in memory."""
    parts = room.run(
        range(len(rows)),
        lambda some: len(some) * len(rows[0]),
        lambda some: _of_rows(loaded, deciding, [rows[number] for number in some]),
    )
    return {row: logit for part in parts for row, logit in part.items()}


def _of_equal_length(rows: Sequence[Ids], batch_tokens: int) -> Iterator[list[Ids]]:
    by_length: dict[int, list[Ids]] = {}
    for row in dict.fromkeys(rows):
        by_length.setdefault(len(row), []).append(row)
    for length in sorted(by_length, reverse=True):
        alike, size = by_length[length], max(1, batch_tokens // length)
        yield from (alike[start : start + size] for start in range(0, len(alike), size))


def _of_rows(loaded: Loaded, deciding: Head, rows: Sequence[Ids]) -> dict[Ids, float]:
    """The verdict's logit of rows of one length, in one pass."""
    import torch

    ids = torch.tensor(rows, device=loaded.device)
    with torch.inference_mode():
        states = loaded.model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        logits = deciding.logits(states[:, -1]).tolist()
    _check(logits, lambda bad: f"the text {loaded.tokenizer.decode(list(rows[bad]))!r}")
    return dict(zip(rows, logits, strict=True))


def _check(logits: Sequence[float], where: Callable[[int], str]) -> None:
    """Refuse a verdict that is not finite: compared with 0 it would count as `right`."""
    bad = next((at for at, logit in enumerate(logits) if not np.isfinite(logit)), None)
    if bad is not None:
        raise _not_finite("the model's own verdict is not finite", where(bad))


def _not_finite(what: str, where: str) -> AnchorscopeError:
    do = "try dtype: float32 for this model; if it stays, the checkpoint is broken"
    return AnchorscopeError(what, where, do, see="not-finite")


def plan(
    loaded: Loaded,
    answers: pd.DataFrame,
    *,
    conditions: Conditions,
    batch_tokens: int,
    blocks: str = "after",
    seed: int = 0,
) -> Plan:
    """The passes of a cell as `planning.plan` makes them: clean, knockout and random only."""
    return planning.plan(
        answers,
        conditions={name: conditions.get(name) for name in CUTTING},
        batch_tokens=batch_tokens,
        window=loaded.window,
        blocks=blocks,
        seed=seed,
    )


def of_samples(loaded: Loaded, planned: Plan, *, room: Room | None = None) -> pd.DataFrame:
    """The verdict on every sample in every planned pass.

    Args:
        loaded: the model.
        planned: the passes.
        room: counts the batches halved.

    Returns:
        Columns id, condition, draw, logit (wrong minus right, float64); a row for each pass.

    Raises:
        AnchorscopeError: a verdict that is not finite; one sample alone does not fit in memory.
    """
    deciding, room = head(loaded), room or Room()
    records: list[tuple[str, str, int, float]] = []
    one_pass = partial(_of_batch, loaded, deciding, planned)
    with Progress(desc="own verdicts", total=len(planned.batches), unit="passes") as progress:
        for batch in planned.batches:
            found = {key: logit for part in _fitting(room, batch, one_pass) for key, logit in part}
            records += [(*key, found[key]) for key in (_key(planned, row) for row in batch.rows)]
            progress.update()
    return pd.DataFrame(records, columns=["id", "condition", "draw", "logit"])


def _key(planned: Plan, row: Row) -> tuple[str, str, int]:
    """Id, condition and draw of a row."""
    return planned.passed(row).id, row.condition, row.draw


def _fitting(room: Room, batch: Batch, work: Callable[[Batch], Result]) -> list[Result]:
    """What each part of a batch gave, passed in as many parts as it takes to fit in memory."""
    return room.run(
        batch.samples,
        lambda some: len(some) * len(batch.columns) * batch.length,
        lambda some: work(narrowed(batch, some)),
    )


def _of_batch(
    loaded: Loaded, deciding: Head, planned: Plan, batch: Batch
) -> list[tuple[tuple[str, str, int], float]]:
    """The logit of each row of one pass, by its key."""
    import torch

    samples = [planned.passed(row) for row in batch.rows]
    finals = [sample.positions["final"] for sample in samples]
    with torch.inference_mode():
        fed = runner.inputs(loaded, planned, batch)
        states = loaded.model.base_model(**fed, use_cache=False).last_hidden_state
        logits = deciding.logits(states[range(len(finals)), finals]).tolist()
    _check(logits, lambda bad: _named(samples[bad], batch.rows[bad]))
    return [(_key(planned, row), logit) for row, logit in zip(batch.rows, logits, strict=True)]


def _named(sample: Sample, row: Row) -> str:
    return f"sample {sample.id}, condition {row.condition}, draw {row.draw}"


def seal(
    loaded: Loaded,
    answers: pd.DataFrame,
    *,
    batch_tokens: int,
    blocks: str = "after",
    seed: int = 0,
    samples: int = SEALED_SAMPLES,
    room: Room | None = None,
) -> float:
    """How much of the knocked-out E_Q still reaches a later token; exactly 0 where it is sealed.

    Random other ids take the place of E_Q's tokens; the hidden states of all layers under knockout
    are compared at every later token outside E_Q.

    Args:
        loaded: the model.
        answers: the answers table.
        batch_tokens: most rows × padded length of a pass.
        blocks: `after`, which seals, or `answer`, which leaks.
        seed: of the other ids.
        samples: how many samples are looked at, the first of the table.
        room: counts the batches halved.

    Returns:
        The largest absolute difference.

    Raises:
        AnchorscopeError: no sample to look at; a state that is not finite; one sample alone does
            not fit in memory.
    """
    room = room or Room()
    usable = answers[answers["dropped"].isna()] if "dropped" in answers else answers
    asked = usable[usable["eq_tokens"].map(len) > 0].head(samples)
    passes: dict[str, Any] = {"batch_tokens": batch_tokens, "blocks": blocks, "seed": seed}
    planned = plan(loaded, asked, conditions={"knockout": {}}, **passes)
    vocabulary = loaded.tokenizer.get_vocab().values()
    ids = sorted(set(vocabulary) - set(loaded.tokenizer.all_special_ids))
    others = [_with_other_ids(sample, ids, seed) for sample in planned.samples]
    changed = replace(planned, samples=tuple(others))
    apart = partial(_difference, loaded, planned, changed)
    return max(one for batch in planned.batches for one in _fitting(room, batch, apart))


def _with_other_ids(sample: Any, ids: Sequence[int], seed: int) -> Any:
    draws = Random(f"seal {seed} {sample.id}")
    new = list(sample.input_ids)
    for place in sample.eq_tokens:
        new[place] = draws.choice([token for token in ids if token != new[place]])
    return replace(sample, input_ids=tuple(new))


def _difference(
    loaded: Loaded,
    planned: Plan,
    changed: Plan,
    batch: Batch,
) -> float:
    """Largest difference at the tokens that must not see E_Q, in one pass with either ids."""
    import torch

    places = np.zeros((len(batch.rows), batch.length), dtype=bool)
    for number, row in enumerate(batch.rows):
        if row.condition == "knockout":
            sample = planned.passed(row)
            places[number, min(sample.eq_tokens) : len(sample.input_ids)] = True
            places[number, list(sample.eq_tokens)] = False
    largest = 0.0
    chosen = torch.from_numpy(places)
    both = (_states(loaded, plan_, batch) for plan_ in (planned, changed))
    for layer, (before, after) in enumerate(zip(*both, strict=True)):
        where = chosen.to(before.device)
        apart = (before[where] - after[where]).abs().amax(dim=-1)
        if not bool(apart.isfinite().all()):
            # `max` would keep what it has beside NaN: a broken model would look sealed.
            at = batch.rows[int(chosen.nonzero()[int((~apart.isfinite()).nonzero()[0, 0]), 0])]
            layer_ = f"layer {layer - 1}" if layer else "the embeddings"
            what = f"the hidden states are not finite at {layer_}"
            raise _not_finite(what, _named(planned.passed(at), at))
        largest = max(largest, float(apart.max()))
    return largest


def _states(loaded: Loaded, planned: Plan, batch: Batch) -> Sequence[torch.Tensor]:
    """Hidden states [rows, length, width] after each block, the last one after the final norm."""
    import torch

    with torch.inference_mode():
        fed = runner.inputs(loaded, planned, batch)
        out = loaded.model.base_model(**fed, use_cache=False, output_hidden_states=True)
    found: Sequence[torch.Tensor] = out.hidden_states
    return found
