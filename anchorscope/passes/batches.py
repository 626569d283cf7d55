"""Batches: rows that go through the model together, all planned before the first pass."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from anchorscope.models.calls import WORTH_A_CALL, common, grouped, split
from anchorscope.passes.interventions import Intervention, cut
from anchorscope.storage.counts import Counts
from anchorscope.storage.errors import AnchorscopeError

Drawn = tuple[Intervention, int]
"""An intervention, and the number of one of its draws."""


@dataclass(frozen=True)
class Sample:
    """Inputs of one sample for a pass. Tokens are given as indices in `input_ids`."""

    id: str
    input_ids: tuple[int, ...]
    positions: Mapping[str, int]  # index of the token for each of `readouts.POSITIONS`
    question_tokens: tuple[int, ...]
    eq_tokens: tuple[int, ...]
    answer_start: int
    # id of the sample whose prompt precedes the answer; None for the sample's own prompt
    partner: str | None = None
    # `Intervention.version` → version of the sample with another prompt or another answer
    others: dict[str, Sample] = field(default_factory=dict)

    @property
    def answer_tokens(self) -> range:
        """Indices of the answer's tokens up to the end of E_A, including any lead-in."""
        return range(self.answer_start, self.positions["last_answer"] + 1)

    def under(self, one: Intervention) -> Sample:
        """Return the version of this sample to pass under `one`: itself, or one of `others`."""
        return self if one.version is None else self.others[one.version]


@dataclass(frozen=True)
class Row:
    """One row of a pass: a sample under one intervention and draw."""

    sample: int  # index of the sample in `Plan.samples`
    passed: Sample  # the version of the sample that is passed, see `Sample.under`
    intervention: Intervention
    draw: int
    tokens: tuple[int, ...]  # indices of the blocked tokens

    @property
    def left_out(self) -> tuple[int, ...]:
        """Indices of the tokens that are not passed.

        No token that is read attends to a blocked one. So an intervention that acts in all layers
        leaves its tokens out, and the others keep their positions.
        """
        return self.tokens if self.intervention.layers is None else ()

    def masked_in(self, layer: int) -> tuple[int, ...]:
        """Return the indices of the tokens that a mask must block in a layer."""
        acts = self.intervention.layers is not None and self.intervention.acts_in(layer)
        return self.tokens if acts else ()

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Positions of the tokens that are passed."""
        left_out = {*self.left_out}
        return tuple(n for n in range(len(self.passed.input_ids)) if n not in left_out)

    @property
    def input_ids(self) -> tuple[int, ...]:
        """Ids of the tokens that are passed."""
        return tuple(self.passed.input_ids[place] for place in self.places)

    def place_of(self, position: str) -> int:
        """Return the index, among the tokens that are passed, of the token at `position`.

        Raises:
            AnchorscopeError: The intervention leaves this token out.
        """
        token = self.passed.positions[position]
        if token in self.left_out:
            what = f"the token at `{position}` cannot be read, because it is blocked"
            do = "read another position, or end the prompt with text after the question"
            raise AnchorscopeError(what, str(self), do, see="blocked-read")
        return bisect_left(self.places, token)

    @property
    def condition(self) -> str:
        """The intervention's name."""
        return self.intervention.name

    def __str__(self) -> str:
        """Return the row's name in error messages."""
        return f"sample {self.passed.id}, condition {self.condition}, draw {self.draw}"


@dataclass(frozen=True)
class Batch:
    """The rows of one pass."""

    samples: tuple[int, ...]  # indices of its samples in `Plan.samples`, longest first
    columns: tuple[Drawn, ...]  # interventions and draws that each sample is passed under
    # all samples under the first column, then all samples under the next, and so on
    rows: tuple[Row, ...]
    length: int  # padded length in tokens

    def tokens(self, samples: Sequence[int]) -> int:
        """Return the number of tokens, padding included, in all rows of `samples`."""
        return len(samples) * len(self.columns) * self.length


@dataclass(frozen=True)
class Plan:
    """All passes of a cell, planned before the first pass."""

    samples: tuple[Sample, ...]  # the samples to measure, in the order of the answers
    # in running order: the longest first; conditions with batches of their own come last
    batches: tuple[Batch, ...]
    # how many samples were given, kept, and dropped (by reason); `notes` count outcomes of swaps
    counts: Counts
    head: int = 0  # length in tokens of the prompts' common beginning, see `_head`
    # source of subjects and relations, see `partners.Crossing`; None if `crossed` is not run
    partner_source: str | None = None
    # id → answers that the sample stands for, see `pool.choose`; empty if all are measured
    stands_for: Mapping[str, float] = field(default_factory=dict)


def arrange(
    samples: Sequence[Sample],
    chosen: Sequence[Drawn],
    *,
    batch_tokens: int,
    seed: int = 0,
    noise_samples: Mapping[str, int] | None = None,
) -> Plan:
    """Group the rows of samples into batches.

    All rows of a sample except `noop` are in one batch, padded to the same length. In bfloat16, a
    different length alone can change results. A sample without a partner or gold answer has fewer
    rows. In a batch without `noop`, samples have the same keys in `others`, so equally many rows.

    `chosen` lists every draw of every intervention, `clean` included. Rows × padded length of a
    batch is at most `batch_tokens`, unless the batch holds a single sample. `seed` decides the
    random control's tokens. `noise_samples` maps the name of a `noise` intervention to the number
    of samples that are measured under it. The default is all.
    """
    alike: dict[frozenset[str], list[int]] = {}
    for number, sample in enumerate(samples):
        alike.setdefault(frozenset(sample.others), []).append(number)
    batches = []
    for had, group in alike.items():
        columns = [
            drawn for drawn in chosen if not drawn[0].own_batch and drawn[0].version in {None, *had}
        ]
        batches += _batches(samples, group, columns, batch_tokens, seed)
    batches.sort(key=lambda batch: -batch.length)
    for drawn in chosen:
        if drawn[0].own_batch:
            most = (noise_samples or {}).get(drawn[0].name, len(samples))
            some = range(min(len(samples), most))
            batches += _batches(samples, some, [drawn], batch_tokens, seed)
    counts = Counts(len(samples), len(samples))
    return Plan(tuple(samples), tuple(batches), counts, _head(samples))


def _head(samples: Sequence[Sample]) -> int:
    """Return the length of the common beginning of all prompts, before any question or read-out."""
    prompts = [prompt for sample in samples for prompt in (sample, *sample.others.values())]
    firsts = (min(*one.question_tokens, *one.eq_tokens, *one.positions.values()) for one in prompts)
    return min([common([one.input_ids for one in prompts]), *firsts])


def narrowed(batch: Batch, samples: Sequence[int]) -> Batch:
    """Return a batch with only some of its samples; columns and length stay the same."""
    chosen = frozenset(samples)
    rows = tuple(row for row in batch.rows if row.sample in chosen)
    return replace(batch, samples=tuple(samples), rows=rows)


def by_length(batch: Batch) -> list[Batch]:
    """Split a batch by length where this saves more padding than an extra call costs."""
    n = len(batch.samples)
    sizes = [len(row.passed.input_ids) for row in batch.rows]
    lengths = [max(sizes[place::n]) for place in range(n)]  # of the longest row of each sample
    # `lengths` counts each sample once, but padding is saved in each of its rows.
    divided = split(lengths, WORTH_A_CALL / len(batch.columns))
    return [
        replace(narrowed(batch, batch.samples[part]), length=max(lengths[part])) for part in divided
    ]


def _batches(
    samples: Sequence[Sample],
    chosen: Sequence[int],
    columns: Sequence[Drawn],
    batch_tokens: int,
    seed: int,
) -> list[Batch]:
    """Group samples of similar length into batches, the longest first."""
    lengths = [max(len(samples[n].under(one).input_ids) for one, _ in columns) for n in chosen]
    batches = []
    for group in grouped(lengths, batch_tokens // len(columns)):
        numbers, rows = tuple(chosen[place] for place in group), []
        for (one, draw), number in itertools.product(columns, numbers):
            passed = samples[number].under(one)
            # Two answers after one question get the same random tokens.
            key = f"{draw}/{seed}/{passed.partner or passed.id}"
            tokens = cut(one, passed.question_tokens, passed.eq_tokens, key)
            rows.append(Row(number, passed, one, draw, tokens))
        batches.append(Batch(numbers, tuple(columns), tuple(rows), lengths[group[0]]))
    return batches
