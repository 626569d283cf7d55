"""Sharing: tokens that rows have in common are passed once, and kept as keys and values.

Both kinds of sharing are exact in arithmetic. All prompts of a cell begin with the same *head*
(worked examples, or a chat template's first lines): it is passed once a cell. And a row with a cut
equals the row without it up to the first token that no longer sees all it saw: it goes on from
there.

In half precision the shape of a call alone changes results, by more than a small effect: there all
rows of a batch are passed in one call (`forked` is False), and only the head is shared.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from anchorscope.models.cache import WORTH_A_CALL, Earlier, Layers, split
from anchorscope.passes.batches import Batch, Plan, Row
from anchorscope.passes.interventions import runs, uncut


@dataclass(frozen=True)
class Step:
    """One call of the model within a batch."""

    rows: Sequence[int]  # numbers of the rows passed, in `batch.rows`
    starts: Sequence[int]  # first token of each that is passed; those before are in the cache
    width: int  # padded number of tokens passed a row
    # for each row the place, among the rows of the first step, of the one that it goes on from;
    # empty in the first step
    bases: Sequence[int] = ()


def whole(batch: Batch) -> Step:
    """All rows of a batch in full."""
    return Step(range(len(batch.rows)), [0] * len(batch.rows), batch.length)


def steps(planned: Plan, batch: Batch, *, forked: bool = True) -> list[Step]:
    """The calls that pass a batch: its rows without a cut, then the others by what they lack.

    Depends on the plan and `forked` alone. Rows that lack unlike numbers of tokens go to different
    steps where that saves enough padding.
    """
    if not batch.masked:
        return [whole(batch)]
    rows = [planned.passed(row) for row in batch.rows]

    def step(some: Sequence[int], starts: Sequence[int], bases: Sequence[int] = ()) -> Step:
        width = max(len(rows[n].input_ids) - at for n, at in zip(some, starts, strict=True))
        return Step(some, starts, width, bases)

    wholes = [uncut(row.intervention) if forked else None for row in batch.rows]
    first = [n for n, one in enumerate(wholes) if one is None]
    found = [step(first, [planned.shared(rows[n]) for n in first])]
    places = {(batch.rows[n].sample, batch.rows[n].intervention): at for at, n in enumerate(first)}
    bases = {n: places[batch.rows[n].sample, one] for n, one in enumerate(wholes) if one}
    forks = {n: fork(planned, batch.rows[n]) for n in bases}
    lacking = {n: len(rows[n].input_ids) - start for n, start in forks.items()}
    ordered = sorted(lacking, key=lambda n: (-lacking[n], n))
    for run in split([lacking[n] for n in ordered]):
        some = ordered[run]
        found.append(step(some, [forks[n] for n in some], [bases[n] for n in some]))
    return found


def fork(planned: Plan, row: Row) -> int:
    """The first token at which a row with a cut may differ from the same row without.

    The tokens of the first run that is cut still see each other and all before them. A read-out
    before that (`prompt_end`, where only the answer is blocked) is passed too.
    """
    sample = planned.passed(row)
    place = runs(row.tokens)[0][-1] + 1 if row.tokens else len(sample.input_ids)
    if planned.blocks == "answer":
        place = max(place, sample.answer_start)
    return min(place, *sample.positions.values())


def parts(planned: Plan, batch: Batch) -> list[Sequence[int]]:
    """The samples of a batch in runs of like length, each passed by itself where that pays.

    A batch is as large as memory allows, and its longest sample pads all others.
    """
    whole_ones = [one for one, _ in batch.columns if uncut(one) is None]
    widths = []
    for number in batch.samples:
        passed = [planned.samples[number].under(one) for one in whole_ones]
        widths.append(max(len(one.input_ids) - planned.shared(one) for one in passed))
    calls = 1 + (len(whole_ones) < len(batch.columns))
    return [batch.samples[run] for run in split(widths, calls * WORTH_A_CALL / len(whole_ones))]


def earlier(planned: Plan, batch: Batch, step: Step, head: Layers, first: Layers) -> list[Earlier]:
    """What stands before the tokens of a step: the head, and rows of the batch's first step.

    `head` and `first` are their keys and values; empty where there are none, `first` in that step.
    """
    if not batch.masked:
        return []
    shared = torch.tensor([planned.shared(planned.passed(batch.rows[n])) for n in step.rows])
    zeros = torch.zeros_like(shared)
    found = [Earlier(head, zeros, zeros, shared)] if head else []
    if step.bases:
        bases, counts = torch.tensor(step.bases), torch.tensor(step.starts) - shared
        found.append(Earlier(first, bases, shared, counts))
    return [part for part in found if part.slots]
