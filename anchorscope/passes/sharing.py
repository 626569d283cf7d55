"""Sharing: tokens that several rows have in common are passed once; their keys and values are kept.

Two things are shared, and both are exact but for rounding. All prompts of a cell begin with the
same *head* (worked examples, or a chat template's first lines), which is passed once a cell. And a
row with a cut equals the clean row up to the first token that no longer sees everything before it:
it is passed from there on, behind the clean row's keys and values.

In half precision the shape of a call changes results by more than a small effect. There all rows
of a batch are passed in one call (`forked` is False), and only the head is shared.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from anchorscope.models.cache import WORTH_A_CALL, Earlier, Layers, split
from anchorscope.passes.batches import Batch, Plan, Row
from anchorscope.passes.interventions import Intervention, runs, uncut


@dataclass(frozen=True)
class Step:
    """One call of the model, for some rows of a batch."""

    rows: Sequence[int]  # their numbers in `batch.rows`
    starts: Sequence[int]  # first token of each that is passed; those before are in the cache
    width: int  # padded number of tokens passed a row
    # for each row the clean row that it continues, as a place in the first step's rows; empty in
    # the first step
    bases: Sequence[int] = ()


def whole(batch: Batch) -> Step:
    """The step that passes all rows of a batch in full."""
    return Step(range(len(batch.rows)), [0] * len(batch.rows), batch.length)


def steps(planned: Plan, batch: Batch, *, forked: bool = True) -> list[Step]:
    """The calls that pass a batch: first its rows without a cut, then the others.

    Rows with a cut continue those without. They are divided by how many tokens they have left,
    where that saves more padding than a call costs. Depends on the plan and `forked` alone.
    """
    if not batch.masked:
        return [whole(batch)]
    lengths = [len(planned.passed(row).input_ids) for row in batch.rows]
    # row with a cut → the intervention whose row of the same sample it continues
    continued: dict[int, Intervention] = {}
    for number, row in enumerate(batch.rows):
        clean = uncut(row.intervention)
        if forked and clean is not None:
            continued[number] = clean
    first = [number for number in range(len(batch.rows)) if number not in continued]
    heads = [planned.shared(planned.passed(batch.rows[number])) for number in first]
    width = max(lengths[number] - head for number, head in zip(first, heads, strict=True))
    calls = [Step(first, heads, width)]
    places = {
        (batch.rows[number].sample, batch.rows[number].intervention): place
        for place, number in enumerate(first)
    }
    bases = {number: places[batch.rows[number].sample, one] for number, one in continued.items()}
    starts = {number: fork(planned, batch.rows[number]) for number in continued}
    left = {number: lengths[number] - start for number, start in starts.items()}
    ordered = sorted(left, key=lambda number: (-left[number], number))
    for part in split([left[number] for number in ordered]):
        rows = ordered[part]
        width = max(left[number] for number in rows)
        calls.append(Step(rows, [starts[n] for n in rows], width, [bases[n] for n in rows]))
    return calls


def fork(planned: Plan, row: Row) -> int:
    """The first token from which a row with a cut is passed.

    It is the first that may differ from the same row without a cut: the one after the first run of
    cut tokens, which still see each other and everything before them. A read-out token before that
    (`prompt_end`, where only the answer is blocked) has to be passed to be read.
    """
    sample = planned.passed(row)
    differs = runs(row.tokens)[0][-1] + 1 if row.tokens else len(sample.input_ids)
    return min(differs, *sample.positions.values())


def parts(planned: Plan, batch: Batch) -> list[Sequence[int]]:
    """The samples of a batch in groups of similar length that are passed one after the other.

    A batch is as large as memory allows, and its longest sample pads all others; groups save
    padding, where that is worth the calls they cost.
    """
    without_cut = [one for one, _ in batch.columns if uncut(one) is None]
    widths = []
    for number in batch.samples:
        passed = [planned.samples[number].under(one) for one in without_cut]
        widths.append(max(len(one.input_ids) - planned.shared(one) for one in passed))
    calls = 1 if len(without_cut) == len(batch.columns) else 2
    # A token of a sample is padded in each of its rows.
    price = calls * WORTH_A_CALL / len(without_cut)
    return [batch.samples[group] for group in split(widths, price)]


def earlier(planned: Plan, batch: Batch, step: Step, head: Layers, first: Layers) -> list[Earlier]:
    """What the tokens of a step attend to from the cache: the head, and rows of the first step.

    `head` and `first` are the keys and values of these; `first` is empty in the first step.
    """
    if not batch.masked:
        return []
    shared = torch.tensor([planned.shared(planned.passed(batch.rows[n])) for n in step.rows])
    zeros = torch.zeros_like(shared)
    parts = [Earlier(head, zeros, zeros, shared)] if head else []
    if step.bases:
        bases, counts = torch.tensor(step.bases), torch.tensor(step.starts) - shared
        parts.append(Earlier(first, bases, shared, counts))
    return [part for part in parts if part.slots]
