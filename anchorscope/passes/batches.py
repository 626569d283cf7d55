"""Passes: which rows go through the model together, all planned before the first."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from anchorscope.models.cache import common, grouped
from anchorscope.passes.interventions import Intervention, cut
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
    others: dict[str, Sample] = field(default_factory=dict)

    def under(self, one: Intervention) -> Sample:
        """The answer behind the prompt that an intervention wants."""
        return self if one.prompt is None else self.others[one.prompt]


@dataclass(frozen=True)
class Row:
    """One row of a pass: a sample (by number) under one intervention and draw.

    Attributes:
        tokens: those that the intervention acts on.
        complete: False if `random` found fewer than E_Q has.
    """

    sample: int
    intervention: Intervention
    draw: int
    tokens: tuple[int, ...]
    complete: bool

    @property
    def condition(self) -> str:
        """The intervention's name."""
        return self.intervention.name


@dataclass(frozen=True)
class Batch:
    """One pass.

    Attributes:
        samples: numbers of its samples, longest first.
        columns: what each sample is passed under.
        rows: all samples under the first column, then under the next, in the order passed.
        length: padded length in tokens.
    """

    samples: tuple[int, ...]
    columns: tuple[Drawn, ...]
    rows: tuple[Row, ...]
    length: int

    @property
    def masked(self) -> bool:
        """Whether the pass takes our mask; else it takes the model's ordinary path."""
        return not self.columns[0][0].own_batch


@dataclass(frozen=True)
class Plan:
    """All passes of a cell, fixed before the first; depends on the cell and the budget only.

    Attributes:
        samples: the samples measured, in the order of the answers.
        batches: the passes in running order, longest first, `noop` last.
        counts: samples in, kept and dropped by reason; `notes` say how many have a second prompt.
        blocks: `after`, or `answer` (only queries from the answer on; this leaks).
        prompts: the other prompts asked for (see `Sample.others`), whether or not there are any.
        head: how many tokens all prompts of the cell begin with, before the first token of any
            question; those behind other worked examples share nothing.
        partner_source: where the partners of the interchange come from, see
            `anchorscope.passes.partners.Interchange`.
    """

    samples: tuple[Sample, ...]
    batches: tuple[Batch, ...]
    counts: Counts
    blocks: str = "after"
    prompts: tuple[str, ...] = ()
    head: int = 0
    partner_source: str | None = None

    def passed(self, row: Row) -> Sample:
        """What a row passes through the model."""
        return self.samples[row.sample].under(row.intervention)

    def shared(self, sample: Sample) -> int:
        """How many tokens of a sample are the head."""
        return 0 if sample.partner == FEW_SHOT else self.head


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
        samples, counts, blocks, prompts, partner_source: see `Plan`.
        chosen: the interventions, each with its draws in turn; `clean` among them.
        batch_tokens: most rows × padded length of a pass; one sample is passed whatever its size.
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
    every, all_of = tuple(samples), tuple(batches)
    return Plan(every, all_of, counts, blocks, tuple(prompts), _head(samples), partner_source)


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


def _head(samples: Sequence[Sample]) -> int:
    """How many tokens all prompts begin with, before the first of any question and read-out."""
    every = [prompt for sample in samples for prompt in (sample, *sample.others.values())]
    alike = [prompt for prompt in every if prompt.partner != FEW_SHOT]
    firsts = (
        min(*prompt.question_tokens, *prompt.eq_tokens, *prompt.positions.values())
        for prompt in alike
    )
    return min([common([prompt.input_ids for prompt in alike]), *firsts])


def narrowed(batch: Batch, samples: Sequence[int]) -> Batch:
    """A batch with some of its samples only, in the same columns and of the same length."""
    chosen = frozenset(samples)
    rows = tuple(row for row in batch.rows if row.sample in chosen)
    return replace(batch, samples=tuple(samples), rows=rows)


def _batches(
    samples: Sequence[Sample],
    chosen: Sequence[int],
    columns: Sequence[Drawn],
    batch_tokens: int,
    seed: int,
) -> list[Batch]:
    """Batches of samples of like length, the longest first."""
    lengths = [max(len(samples[n].under(one).input_ids) for one, _ in columns) for n in chosen]
    found = []
    for group in grouped(lengths, batch_tokens // len(columns)):
        rows = []
        for (one, draw), place in itertools.product(columns, group):
            sample = samples[chosen[place]]
            passed, key = sample.under(one), f"{seed}/{sample.id}"
            acts = cut(one, passed.question_tokens, passed.eq_tokens, key=key, draw=draw)
            rows.append(Row(chosen[place], one, draw, *acts))
        numbers = tuple(chosen[place] for place in group)
        found.append(Batch(numbers, tuple(columns), tuple(rows), lengths[group[0]]))
    return found
