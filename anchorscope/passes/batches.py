"""Passes: which rows go through the model together, all planned before the first."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from anchorscope.models.cache import common
from anchorscope.passes.interventions import Cut, Intervention, cut
from anchorscope.storage.counts import Counts

POSITIONS = ("final", "before_answer", "last_answer", "prompt_end")
BLOCKS = ("after", "answer")
FEW_SHOT = "few-shot"
"""Stands for a partner's id where the second prompt shows other worked examples."""

Drawn = tuple[Intervention, int]
"""An intervention and the number of its draw."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sample:
    """What a pass needs of one sample; all numbers are token indices in `input_ids`.

    Attributes:
        partner: id of the sample whose prompt the answer stands behind, `FEW_SHOT`, or None for
            the prompt that it was given to.
        others: the same answer behind other prompts, by `Intervention.prompt`.
    """

    id: str
    input_ids: tuple[int, ...]
    positions: Mapping[str, int]
    question_tokens: tuple[int, ...]
    eq_tokens: tuple[int, ...]
    answer_start: int
    partner: str | None = None
    others: Mapping[str, Sample] = field(default_factory=dict)

    def under(self, one: Intervention) -> Sample:
        """The answer behind the prompt that an intervention wants."""
        return self if one.prompt is None else self.others[one.prompt]


@dataclass(frozen=True)
class Row:
    """One row of a pass: a sample (by number) under one intervention and draw."""

    sample: int
    intervention: Intervention
    draw: int
    cut: Cut

    @property
    def condition(self) -> str:
        """The intervention's name."""
        return self.intervention.name


@dataclass(frozen=True)
class Batch:
    """One pass.

    Attributes:
        samples: numbers of its samples, longest first.
        columns: (condition, draw) pairs; `rows` holds all samples of the first, then of the next.
        rows: the rows in the order they are passed.
        length: padded length in tokens.
    """

    samples: tuple[int, ...]
    columns: tuple[tuple[str, int], ...]
    rows: tuple[Row, ...]
    length: int

    @property
    def masked(self) -> bool:
        """Whether the pass takes our mask; else it takes the model's ordinary path."""
        return not self.rows[0].intervention.own_batch


@dataclass(frozen=True)
class Plan:
    """All passes of a cell, fixed before the first; depends on the cell and the budget only.

    Attributes:
        samples: the samples measured, in the order of the answers.
        batches: the passes in running order, longest first, `noop` last.
        counts: samples in, kept and dropped by reason; `notes` say how many have a second prompt.
        blocks: `after`, or `answer` (only queries from the answer on; this leaks).
        prompts: the other prompts asked for (see `Sample.others`), whether or not there are any.
        heads: how many tokens all prompts of the cell begin with, before the first token of any
            question; and those behind other worked examples, which share a head of their own. 0
            shares none.
        partner_source: where the partners of the interchange come from, see
            `anchorscope.passes.partners.Interchange`.
    """

    samples: tuple[Sample, ...]
    batches: tuple[Batch, ...]
    counts: Counts
    blocks: str = "after"
    prompts: tuple[str, ...] = ()
    heads: tuple[int, int] = (0, 0)
    partner_source: str | None = None

    def passed(self, row: Row) -> Sample:
        """What a row passes through the model."""
        return self.samples[row.sample].under(row.intervention)

    def head(self, sample: Sample) -> int:
        """Which head a sample's prompt begins with: 0, or 1 behind other worked examples."""
        return int(sample.partner == FEW_SHOT)

    def shared(self, sample: Sample) -> int:
        """How many tokens of a sample are its head."""
        return self.heads[self.head(sample)]


def arrange(
    samples: Sequence[Sample],
    chosen: Sequence[Drawn],
    counts: Counts,
    *,
    batch_tokens: int,
    blocks: str = "after",
    seed: int = 0,
    noop: int = 64,
    prompts: Collection[str] = (),
    partner_source: str | None = None,
) -> Plan:
    """Put the passes of some samples into batches.

    A batch holds all rows of its samples, so that they share one padded shape: the shape alone
    changes bfloat16 results. Hence samples with unlike other prompts are passed in different
    batches, and a sample is passed under the interventions whose prompt it has.

    Args:
        samples: with their answers behind the other prompts where there are such.
        chosen: the interventions, each with its draws in turn; `clean` among them.
        counts: samples in, measured and dropped.
        batch_tokens: most rows × padded length of a pass; one sample is passed whatever its size.
        blocks, prompts, partner_source: see `Plan`.
        seed: of the random control.
        noop: how many samples are measured under interventions with a batch of their own.
    """
    alike: dict[frozenset[str], list[int]] = {}
    for number, sample in enumerate(samples):
        alike.setdefault(frozenset(sample.others), []).append(number)
    batches = []
    for had, group in alike.items():
        columns = [
            (one, draw)
            for one, draw in chosen
            if not one.own_batch and (one.prompt is None or one.prompt in had)
        ]
        batches += _batches(samples, group, columns, batch_tokens, seed)
    batches.sort(key=lambda batch: -batch.length)
    some = range(min(len(samples), noop))
    for one in chosen:
        if one[0].own_batch:
            batches += _batches(samples, some, [one], batch_tokens, seed)
    _warn_of_budget(samples, batches, batch_tokens)
    heads = _heads(samples)
    return Plan(
        tuple(samples), tuple(batches), counts, blocks, tuple(prompts), heads, partner_source
    )


def _warn_of_budget(samples: Sequence[Sample], batches: Sequence[Batch], batch_tokens: int) -> None:
    """Say it if single samples are larger than a batch should be: they are passed whole."""
    over = [b for b in batches if len(b.rows) * b.length > batch_tokens]
    if over:
        largest = max(over, key=lambda batch: len(batch.rows) * batch.length)
        log.warning(
            "batch_tokens: %d is too small for %d samples, which are passed one by one; the "
            "largest, %s, takes %d tokens under all its conditions",
            *(batch_tokens, len(over), samples[largest.samples[0]].id),
            len(largest.rows) * largest.length,
        )


def _heads(samples: Sequence[Sample]) -> tuple[int, int]:
    """How many tokens the prompts share, and those behind other worked examples."""
    every = [prompt for sample in samples for prompt in (sample, *sample.others.values())]
    second = [prompt for prompt in every if prompt.partner == FEW_SHOT]
    return _head([prompt for prompt in every if prompt.partner != FEW_SHOT]), _head(second)


def _head(prompts: Sequence[Sample]) -> int:
    """How many tokens all begin with, before the first of any question and of any read-out."""
    firsts = (
        min(*prompt.question_tokens, *prompt.eq_tokens, *prompt.positions.values())
        for prompt in prompts
    )
    return min([common([prompt.input_ids for prompt in prompts]), *firsts])


def narrowed(batch: Batch, samples: Sequence[int]) -> Batch:
    """A batch with some of its samples only, in the same columns and of the same length."""
    chosen = frozenset(samples)
    rows = tuple(row for row in batch.rows if row.sample in chosen)
    return replace(batch, samples=tuple(samples), rows=rows)


def _batches(
    samples: Sequence[Sample],
    chosen: Iterable[int],
    columns: Sequence[Drawn],
    batch_tokens: int,
    seed: int,
) -> list[Batch]:
    """Batches of samples of like length. Longest first: what does not fit fails at once."""
    lengths = {
        number: max(len(samples[number].under(one).input_ids) for one, _ in columns)
        for number in chosen
    }
    groups: list[list[int]] = []
    for number in sorted(lengths, key=lambda number: (-lengths[number], number)):
        longest = lengths[groups[-1][0]] if groups else 0
        if groups and (len(groups[-1]) + 1) * len(columns) * longest <= batch_tokens:
            groups[-1].append(number)
        else:
            groups.append([number])
    return [_batch(samples, group, columns, lengths[group[0]], seed) for group in groups]


def _batch(
    samples: Sequence[Sample],
    group: Sequence[int],
    columns: Sequence[Drawn],
    length: int,
    seed: int,
) -> Batch:
    rows = []
    for (one, draw), number in itertools.product(columns, group):
        passed, key = samples[number].under(one), f"{seed}/{samples[number].id}"
        acts = cut(one, passed.question_tokens, passed.eq_tokens, key=key, draw=draw)
        rows.append(Row(number, one, draw, acts))
    names = tuple((one.name, draw) for one, draw in columns)
    return Batch(tuple(group), names, tuple(rows), length)
