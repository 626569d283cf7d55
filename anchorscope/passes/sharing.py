"""Sharing: tokens that rows have in common are passed once, and kept as keys and values.

Both kinds of sharing in the measured passes are exact in arithmetic. All prompts of a cell begin
with the same *head* (worked examples, or a chat template's first lines): it is passed once a cell.
And a row with a cut equals the row without it up to the first token that no longer sees all it saw:
it goes on from there. A row behind another prompt shares with the others what it truly does, the
head.

In half precision the shape of a call alone changes results, by more than a small effect: there all
rows of a batch are passed in one call, and only the head is shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from anchorscope.models.cache import WORTH_A_CALL, Earlier, Layers, padded, split
from anchorscope.models.families import Loaded
from anchorscope.passes.batches import Batch, Plan, Row, narrowed
from anchorscope.passes.interventions import uncut
from anchorscope.passes.mask import mask_between


@dataclass(frozen=True)
class Step:
    """One call of the model within a batch.

    Attributes:
        rows: numbers of the rows passed, in `batch.rows`.
        starts: first token of each that is passed; those before are in the cache.
        bases: for each row the place, among the rows of the first step, of the one that it goes on
            from; None in the first step.
        width: padded number of tokens passed a row.
    """

    rows: tuple[int, ...]
    starts: tuple[int, ...]
    bases: tuple[int, ...] | None
    width: int


def steps(planned: Plan, batch: Batch, *, forked: bool = True) -> list[Step]:
    """The calls that pass a batch: its rows without a cut, then the others by what they lack.

    Depends on the plan alone, and on `forked`: if not, all rows are passed in one call. Rows that
    lack unlike numbers of tokens go to different steps where that saves enough padding.
    """
    if not forked:
        starts = {n: planned.shared(planned.passed(row)) for n, row in enumerate(batch.rows)}
        return [_step(planned, batch, starts, None)]
    bases = {
        (row.sample, row.condition): number
        for number, row in enumerate(batch.rows)
        if _base(row) is None
    }
    whole = list(bases.values())
    places = {number: place for place, number in enumerate(whole)}
    heads = {number: planned.shared(planned.passed(batch.rows[number])) for number in whole}
    found = [_step(planned, batch, heads, None)]
    forks = {n: fork(planned, row) for n, row in enumerate(batch.rows) if n not in places}
    lacking = {n: len(planned.passed(batch.rows[n]).input_ids) - forks[n] for n in forks}
    for rows in _alike(lacking):
        on = [places[bases[batch.rows[n].sample, str(_base(batch.rows[n]))]] for n in rows]
        found.append(_step(planned, batch, {n: forks[n] for n in rows}, on))
    return found


def _base(row: Row) -> str | None:
    """The condition, nothing cut, of the row that a row with a cut equals at first."""
    one = uncut(row.intervention)
    return None if one is None else one.name


def fork(planned: Plan, row: Row) -> int:
    """The first token at which a row with a cut may differ from the same row without.

    The tokens of the first run that is cut still see each other and all before them. A read-out
    before that (`prompt_end`, where only the answer is blocked) is passed too.
    """
    sample = planned.passed(row)
    cut = set(row.cut.tokens)
    place = min(cut, default=len(sample.input_ids))
    while place in cut:
        place += 1
    if planned.blocks == "answer":
        place = max(place, sample.answer_start)
    return min(place, *sample.positions.values())


def _alike(lacking: Mapping[int, int]) -> list[list[int]]:
    """Row numbers in steps of like numbers of tokens to pass, the longest first."""
    ordered = sorted(lacking, key=lambda number: (-lacking[number], number))
    runs = split([lacking[number] for number in ordered], [1] * len(ordered), WORTH_A_CALL)
    return [ordered[start:end] for start, end in runs]


def parts(planned: Plan, batch: Batch, *, forked: bool = True) -> list[tuple[int, ...]]:
    """The samples of a batch in runs of like length, each passed by itself where that pays.

    A batch is as large as memory allows, and its longest sample pads all others. A sample's rows
    stay together; all rows do where they must be one call (`forked` is False).
    """
    if not (forked and batch.masked):
        return [batch.samples]
    lacking: dict[int, int] = {}
    rows = dict.fromkeys(batch.samples, 0)
    for row in batch.rows:
        if _base(row) is None:
            passed = planned.passed(row)
            length = len(passed.input_ids) - planned.shared(passed)
            lacking[row.sample] = max(length, lacking.get(row.sample, 0))
            rows[row.sample] += 1
    sizes = [lacking[sample] for sample in batch.samples]
    counts = [rows[sample] for sample in batch.samples]
    calls = 1 + any(_base(row) is not None for row in batch.rows)
    return [batch.samples[i:j] for i, j in split(sizes, counts, calls * WORTH_A_CALL)]


def _step(
    planned: Plan, batch: Batch, starts: Mapping[int, int], bases: Sequence[int] | None
) -> Step:
    lengths = [len(planned.passed(batch.rows[number]).input_ids) for number in starts]
    width = max(length - start for length, start in zip(lengths, starts.values(), strict=True))
    on = None if bases is None else tuple(bases)
    return Step(tuple(starts), tuple(starts.values()), on, width)


def tokens_passed(planned: Plan, batch: Batch, *, forked: bool = True) -> int:
    """Rows × padded tokens of all calls for a batch, the heads left out."""
    if not batch.masked:
        return len(batch.rows) * batch.length
    return sum(
        len(step.rows) * step.width
        for some in parts(planned, batch, forked=forked)
        for step in steps(planned, narrowed(batch, some), forked=forked)
    )


def head_rows(planned: Plan) -> list[tuple[int, ...]]:
    """The token ids of the heads, one or two; none where nothing is shared."""
    own, second = planned.heads
    rows = [planned.samples[0].input_ids[:own]]
    if second:
        others = (other for sample in planned.samples for other in sample.others.values())
        found = next(other for other in others if planned.head(other) == 1)
        rows.append(found.input_ids[:second])
    return rows if own or second else []


def earlier(planned: Plan, batch: Batch, step: Step, heads: Layers, first: Layers) -> list[Earlier]:
    """What stands before the tokens of a step: heads, and rows of the batch's first step.

    `heads` and `first` are their keys and values; empty where there are none, `first` in that step.
    """
    samples = [planned.passed(batch.rows[number]) for number in step.rows]
    shared = torch.tensor([planned.shared(sample) for sample in samples])
    found = []
    if heads:
        which = torch.tensor([planned.head(sample) for sample in samples])
        found.append(Earlier(heads, which, torch.zeros_like(shared), shared))
    if step.bases is not None:
        counts = torch.tensor(step.starts) - shared
        found.append(Earlier(first, torch.tensor(step.bases), shared, counts))
    return [part for part in found if part.slots]


def inputs(
    loaded: Loaded, planned: Plan, batch: Batch, step: Step, before: Sequence[Earlier]
) -> dict[str, torch.Tensor]:
    """What one step is called with, beside the cache.

    Returns:
        Right-padded `input_ids` and `position_ids`, int64 [rows, width]; `attention_mask` [rows, 1,
        width, slots + width] in the model's dtype, the slots those of `before` in turn.
    """
    rows = [batch.rows[number] for number in step.rows]
    samples = [planned.passed(row) for row in rows]
    own = torch.tensor(step.starts)[:, None] + torch.arange(step.width)
    additive = mask_between(
        own,
        torch.cat([*(part.tokens for part in before), own], dim=1),
        [len(sample.input_ids) for sample in samples],
        [row.cut for row in rows],
        dtype=loaded.model.dtype,
        device=loaded.device,
        first_query=[s.answer_start for s in samples] if planned.blocks == "answer" else None,
    )
    ids = [sample.input_ids for sample in samples]
    return padded(ids, step.starts, step.width, loaded.device) | {"attention_mask": additive}
