"""Passes: which rows go through the model together, all planned before the first."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from anchorscope.models.cache import WORTH_A_CALL, common, grouped, split
from anchorscope.passes.interventions import Intervention, cut
from anchorscope.storage.counts import Counts

NOISE_SAMPLES = 64
"""How many samples show what moves by itself, where no setting says it."""

Drawn = tuple[Intervention, int]
"""An intervention and the number of its draw."""


@dataclass(frozen=True)
class Sample:
    """What a pass needs of one sample; all numbers are token indices in `input_ids`."""

    id: str
    input_ids: tuple[int, ...]
    positions: Mapping[str, int]  # token of each of `readouts.POSITIONS`
    question_tokens: tuple[int, ...]
    eq_tokens: tuple[int, ...]
    answer_start: int
    # id of the sample whose prompt the answer stands behind; None for the prompt that it was given
    # to
    partner: str | None = None
    # the same answer behind other prompts, or another answer, by `Intervention.prompt`
    others: dict[str, Sample] = field(default_factory=dict)

    @property
    def answer_tokens(self) -> range:
        """The answer's tokens up to the end of E_A, a lead-in among them."""
        return range(self.answer_start, self.positions["last_answer"] + 1)

    def under(self, one: Intervention) -> Sample:
        """The answer and the prompt that an intervention wants."""
        return self if one.prompt is None else self.others[one.prompt]


@dataclass(frozen=True)
class Row:
    """One row of a pass: a sample (by number) under one intervention and draw, and what is cut."""

    sample: int
    intervention: Intervention
    draw: int
    tokens: tuple[int, ...]

    @property
    def condition(self) -> str:
        """The intervention's name."""
        return self.intervention.name


@dataclass(frozen=True)
class Batch:
    """One pass."""

    samples: tuple[int, ...]  # numbers of its samples, longest first
    columns: tuple[Drawn, ...]  # what each sample is passed under
    # all samples under the first column, then under the next, in the order passed
    rows: tuple[Row, ...]
    length: int  # padded length in tokens

    @property
    def masked(self) -> bool:
        """Whether the pass takes our mask; else it takes the model's ordinary path."""
        return not self.columns[0][0].own_batch

    def tokens(self, samples: Sequence[int]) -> int:
        """How many some of its samples pass, padding included."""
        return len(samples) * len(self.columns) * self.length


@dataclass(frozen=True)
class Plan:
    """All passes of a cell, fixed before the first; depends on the cell and the budget only."""

    samples: tuple[Sample, ...]  # the samples measured, in the order of the answers
    # the passes in running order, longest first, those in a batch of their own last
    batches: tuple[Batch, ...]
    # samples in, kept and dropped by reason; `notes` say how many are exchanged
    counts: Counts
    # how many tokens all prompts of the cell begin with, before the first token of any question
    head: int = 0
    # what the partners of crossing are alike in, see `anchorscope.passes.partners.Crossing`; None
    # where it is not run
    partner_source: str | None = None

    def passed(self, row: Row) -> Sample:
        """What a row passes through the model."""
        return self.samples[row.sample].under(row.intervention)


def arrange(
    samples: Sequence[Sample],
    chosen: Sequence[Drawn],
    *,
    batch_tokens: int,
    seed: int = 0,
    noise_samples: Mapping[str, int] | None = None,
) -> Plan:
    """Put the passes of some samples into batches.

    A batch holds all rows of its samples, so that they share one padded shape: the shape alone
    changes bfloat16 results. Hence samples with unlike other prompts are passed in different
    batches, and a sample is passed under the interventions whose prompt it has.

    Args:
        chosen: the interventions, each with its draws in turn; `clean` among them.
        batch_tokens: most rows × padded length of a pass; one sample is passed whatever its size.
        seed: of the random control.
        noise_samples: how many samples are measured under an intervention with a batch of its
            own, by its name; `NOISE_SAMPLES` where not said.
    """
    alike: dict[frozenset[str], list[int]] = {}
    for number, sample in enumerate(samples):
        alike.setdefault(frozenset(sample.others), []).append(number)
    batches = []
    for had, group in alike.items():
        columns = [
            drawn for drawn in chosen if not drawn[0].own_batch and drawn[0].prompt in {None, *had}
        ]
        batches += _batches(samples, group, columns, batch_tokens, seed)
    batches.sort(key=lambda batch: -batch.length)
    for drawn in chosen:
        if drawn[0].own_batch:
            most = (noise_samples or {}).get(drawn[0].name, NOISE_SAMPLES)
            some = range(min(len(samples), most))
            batches += _batches(samples, some, [drawn], batch_tokens, seed)
    counts = Counts(len(samples), len(samples))
    return Plan(tuple(samples), tuple(batches), counts, _head(samples))


def _head(samples: Sequence[Sample]) -> int:
    """How many tokens all prompts begin with, before the first of any question and read-out."""
    prompts = [prompt for sample in samples for prompt in (sample, *sample.others.values())]
    firsts = (min(*one.question_tokens, *one.eq_tokens, *one.positions.values()) for one in prompts)
    return min([common([one.input_ids for one in prompts]), *firsts])


def narrowed(batch: Batch, samples: Sequence[int]) -> Batch:
    """A batch with some of its samples only, in the same columns and of the same length."""
    chosen = frozenset(samples)
    rows = tuple(row for row in batch.rows if row.sample in chosen)
    return replace(batch, samples=tuple(samples), rows=rows)


def by_length(planned: Plan, batch: Batch) -> list[Batch]:
    """A batch in parts of similar length, where that saves more padding than a call costs.

    A batch is as large as memory allows, and its longest sample pads all others.
    """
    lengths = _lengths(planned.samples, batch.samples, batch.columns)
    # A token of a sample is padded in each of its rows.
    divided = split(lengths, WORTH_A_CALL / len(batch.columns))
    return [
        replace(narrowed(batch, batch.samples[part]), length=max(lengths[part])) for part in divided
    ]


def _lengths(
    samples: Sequence[Sample], numbers: Sequence[int], columns: Sequence[Drawn]
) -> list[int]:
    """Tokens of the longest row of each sample."""
    return [max(len(samples[n].under(one).input_ids) for one, _ in columns) for n in numbers]


def _batches(
    samples: Sequence[Sample],
    chosen: Sequence[int],
    columns: Sequence[Drawn],
    batch_tokens: int,
    seed: int,
) -> list[Batch]:
    """Batches of samples of like length, the longest first."""
    lengths = _lengths(samples, chosen, columns)
    batches = []
    for group in grouped(lengths, batch_tokens // len(columns)):
        numbers, rows = tuple(chosen[place] for place in group), []
        for (one, draw), number in itertools.product(columns, numbers):
            passed = samples[number].under(one)
            # Two answers behind one question are passed with the same random tokens.
            key = f"{draw}/{seed}/{passed.partner or passed.id}"
            tokens = cut(one, passed.question_tokens, passed.eq_tokens, key)
            rows.append(Row(number, one, draw, tokens))
        batches.append(Batch(numbers, tuple(columns), tuple(rows), lengths[group[0]]))
    return batches
