"""Passes: which rows go through the model together, all planned before the first."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.models import knockout, partners
from anchorscope.models.answers import BEYOND_POSITIONS, BEYOND_WINDOW
from anchorscope.models.partners import Interchange
from anchorscope.models.sharing import common
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.provenance import Counts

POSITIONS = ("final", "before_answer", "last_answer", "prompt_end")
BLOCKS = ("after", "answer")
PROMPT_OF = {
    **{arm: arm for arm in knockout.ARMS},
    **dict.fromkeys(knockout.REPLICATE, "replicate"),
}
"""Conditions measured behind another prompt than the sample's own → which one."""

NOT_ANCHORED = "no exact question tokens"
FEW_SHOT = "few-shot"
"""Stands for a partner's id where the second prompt shows other worked examples."""

Conditions = Mapping[str, Mapping[str, Any] | None]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sample:
    """What a pass needs of one sample; all numbers are token indices in `input_ids`.

    Attributes:
        partner: id of the sample whose prompt the answer stands behind, `FEW_SHOT`, or None for
            the prompt that it was given to.
        others: the same answer behind other prompts, by name: `matched`, `placebo`, `replicate`.
    """

    id: str
    input_ids: tuple[int, ...]
    positions: Mapping[str, int]
    question_tokens: tuple[int, ...]
    eq_tokens: tuple[int, ...]
    answer_start: int
    partner: str | None = None
    others: Mapping[str, Sample] = field(default_factory=dict)

    def under(self, condition: str) -> Sample:
        """The answer behind the prompt that a condition wants."""
        name = PROMPT_OF.get(condition)
        return self if name is None else self.others[name]


@dataclass(frozen=True)
class Row:
    """One row of a pass: a sample (by number) under one condition and draw."""

    sample: int
    condition: str
    draw: int
    cut: knockout.Cut


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
        """Whether the pass takes the additive mask; `noop` takes the model's ordinary path."""
        return self.columns != (("noop", 0),)


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
            `anchorscope.models.partners.Interchange`.
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
        return self.samples[row.sample].under(row.condition)

    def head(self, sample: Sample) -> int:
        """Which head a sample's prompt begins with: 0, or 1 behind other worked examples."""
        return int(sample.partner == FEW_SHOT)

    def shared(self, sample: Sample) -> int:
        """How many tokens of a sample are its head."""
        return self.heads[self.head(sample)]


def plan(
    answers: pd.DataFrame,
    *,
    conditions: Conditions,
    batch_tokens: int,
    window: int | None = None,
    max_positions: int | None = None,
    blocks: str = "after",
    seed: int = 0,
    fold: Callable[[pd.DataFrame], np.ndarray] | None = None,
) -> Plan:
    """Plan every pass of a cell.

    A batch holds all condition rows of its samples, so that they share one padded shape: the shape
    alone changes bfloat16 results. Hence samples that have a second prompt and samples that have
    none are passed in different batches. `noop` rows go through batches of their own.

    Args:
        answers: the answers table; rows with a `dropped` reason are counted and left out.
        conditions: condition → settings (`random`: draws; `noop`: samples). One left out, or None,
            is not run; `clean` always is.
        batch_tokens: most rows × padded length of a pass; one sample is passed whatever its size.
        window: sliding window of the model, in tokens. A tensor mask makes the model forget its
            window, so longer samples are dropped.
        max_positions: most tokens that the model was made for. The answers stage has seen to its
            own model's prompts; the limit is for another's, and for an answer behind a longer one.
        blocks: which queries the block applies to, see `Plan`.
        seed: seed of the random control, and of the choice among partners.
        fold: the outer folds of the probes, of the samples measured (rows of `answers`), see
            `anchorscope.models.partners.interchange`.

    Raises:
        AnchorscopeError: nothing left to measure, an id twice, an index outside its sample.
    """
    if blocks not in BLOCKS:
        raise ValueError(f"unknown blocks {blocks!r}, expected one of {BLOCKS}")
    unknown = set(conditions) - {*knockout.CONDITIONS, "replicate"}
    if unknown:
        raise ValueError(f"unknown conditions {sorted(unknown)}")
    limits = {BEYOND_WINDOW: window, BEYOND_POSITIONS: max_positions}
    table, counts = _kept(answers, limits)
    samples = [_sample(record) for record in table.to_dict("records")]
    _check_ids(samples, counts)
    prompts = _prompts(conditions)
    notes: Counter[str] = Counter()
    exchanged = _interchange(prompts, table, seed, fold)
    for name in prompts:
        samples = _behind_others(name, samples, table, exchanged, limits, notes)
    batches = _all_batches(samples, conditions, batch_tokens, seed)
    counts = replace(counts, notes=dict(notes))
    _warn_of_budget(samples, batches, batch_tokens)
    heads = _heads(samples)
    return Plan(tuple(samples), tuple(batches), counts, blocks, prompts, heads, exchanged.source)


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


def conditions_of(settings: Conditions) -> list[tuple[str, int]]:
    """Every (condition, draw) that a cell with these settings is measured under.

    `matched`, `placebo`, the `replicate-` conditions and `noop` are measured for some of the
    samples only.
    """
    noop = [("noop", 0)] if settings.get("noop") is not None else []
    return _columns(settings, _prompts(settings)) + noop


def _prompts(conditions: Conditions) -> tuple[str, ...]:
    """The other prompts that the settings ask for."""
    names = dict.fromkeys(PROMPT_OF.values())
    return tuple(name for name in names if conditions.get(name) is not None)


def _columns(conditions: Conditions, prompts: Collection[str]) -> list[tuple[str, int]]:
    """The (condition, draw) pairs that share a batch, for samples with these other prompts."""
    columns = [("clean", 0)]
    for name in knockout.BLOCKING:
        settings = conditions.get(name)
        if settings is not None:
            columns += [(name, draw) for draw in range(int(settings.get("draws", 1)))]
    for name, prompt in PROMPT_OF.items():
        cut = knockout.REPLICATE.get(name, "clean")
        if prompt in prompts and (cut == "clean" or conditions.get(cut) is not None):
            columns.append((name, 0))
    return columns


def _kept(answers: pd.DataFrame, limits: Mapping[str, int | None]) -> tuple[pd.DataFrame, Counts]:
    """The rows that are measured; `limits` are most tokens by the reason to drop more."""
    reasons = [_unusable(record, limits) for record in answers.to_dict("records")]
    dropped = Counter(reason for reason in reasons if reason is not None)
    table = answers[[reason is None for reason in reasons]]
    return table, Counts(len(answers), len(table), dict(dropped))


def _unusable(record: Mapping[Any, Any], limits: Mapping[str, int | None]) -> str | None:
    reason = record.get("dropped")
    if isinstance(reason, str):
        return reason
    if not len(record["eq_tokens"]):
        return NOT_ANCHORED
    return _over(len(record["input_ids"]), limits)


def _over(length: int, limits: Mapping[str, int | None]) -> str | None:
    """Why so many tokens are too many, or None."""
    over = [why for why, most in limits.items() if most and length > most]
    return over[0] if over else None


def _sample(record: Mapping[Any, Any]) -> Sample:
    """One row of the answers table, its indices checked."""
    sample = Sample(
        id=str(record["id"]),
        input_ids=tuple(map(int, record["input_ids"])),
        positions={
            "final": int(record["final"]),
            "before_answer": int(record["ea_start"]) - 1,
            "last_answer": int(record["ea_end"]) - 1,
            "prompt_end": int(record["prompt_length"]) - 1,
        },
        question_tokens=tuple(map(int, record["question_tokens"])),
        eq_tokens=tuple(map(int, record["eq_tokens"])),
        answer_start=int(record["prompt_length"]),
    )
    _check_indices(sample)
    return sample


def _check_indices(sample: Sample) -> None:
    indices = [*sample.positions.values(), *sample.question_tokens, *sample.eq_tokens]
    if min(indices) < 0 or max(indices) >= len(sample.input_ids):
        raise AnchorscopeError(
            f"a token index lies outside the sample's {len(sample.input_ids)} tokens",
            f"answers, id {sample.id}",
            "delete the answers of this cell and run again",
            see="stale-product",
        )


def _check_ids(samples: Sequence[Sample], counts: Counts) -> None:
    if not samples:
        raise AnchorscopeError(
            f"no sample is left to measure: {counts.as_dict()}",
            "answers",
            "see the reasons in the provenance of the answers",
            see="nothing-left",
        )
    (often, times), *_ = Counter(sample.id for sample in samples).most_common(1)
    if times > 1:
        raise AnchorscopeError(
            f"the id {often} stands {times} times",
            "answers",
            "make the ids unique",
            see="repeated-id",
        )


def _interchange(
    prompts: Sequence[str],
    table: pd.DataFrame,
    seed: int,
    fold: Callable[[pd.DataFrame], np.ndarray] | None,
) -> Interchange:
    """The partners of the arms, where an arm is asked for."""
    if not {*prompts} & {*knockout.ARMS}:
        return Interchange({}, None, 0.0)
    folds_of = dict(zip(table["id"].astype(str), fold(table), strict=True)) if fold else None
    found = partners.interchange(table, seed, folds_of)
    if found.source is None:
        log.warning(
            "%s: not run; %.0f %% of the right answers find a matched partner by the wording of "
            "the questions, and %.0f %% must",
            *(" and ".join(knockout.ARMS), 100 * found.coverage, 100 * partners.LEAST_COVERAGE),
        )
    return found


def _behind_others(
    name: str,
    samples: Sequence[Sample],
    table: pd.DataFrame,
    exchanged: Interchange,
    limits: Mapping[str, int | None],
    notes: Counter[str],
) -> list[Sample]:
    """The samples, with their answers behind the prompts `name` where there are such."""
    by_id = {sample.id: sample for sample in samples}
    if name == "replicate":
        found = _few_shot(samples, table)
        found |= {id_: by_id[other] for id_, other in partners.replicate(table).items()}
        none = "no partner" if partners.applies(table) else "no partner: no subjects and relations"
    else:
        found = {id_: by_id[other] for id_, other in exchanged.arms[name].items()}
        none = "no partner" if exchanged.source else "off: too few matched partners"
    by_wording = name != "replicate" and exchanged.source == "wording"
    another = "another question" + " of like wording" * by_wording
    given = []
    for sample in samples:
        if (prompt := found.get(sample.id)) is None:
            notes[f"{name}, {none}"] += 1
            given.append(sample)
            continue
        moved = _behind(sample, prompt)
        over = [why for why, most in limits.items() if most and len(moved.input_ids) > most]
        how = over[0] if over else FEW_SHOT if moved.partner == FEW_SHOT else another
        notes[f"{name}, {how}"] += 1
        given.append(sample if over else replace(sample, others={**sample.others, name: moved}))
    return given


def _few_shot(samples: Sequence[Sample], table: pd.DataFrame) -> dict[str, Sample]:
    """Id → the same question behind other worked examples; only its prompt counts."""
    if "replicate_ids" not in table:
        return {}
    return {
        sample.id: replace(
            sample,
            id=FEW_SHOT,
            input_ids=tuple(map(int, ids)),
            question_tokens=tuple(map(int, question)),
            eq_tokens=tuple(map(int, anchors)),
            answer_start=len(ids),
        )
        for sample, ids, question, anchors in zip(
            samples,
            table["replicate_ids"],
            table["replicate_question_tokens"],
            table["replicate_eq_tokens"],
            strict=True,
        )
        if len(ids)
    }


def _behind(sample: Sample, other: Sample) -> Sample:
    """The frozen answer of one sample behind the prompt of another."""
    shift = other.answer_start - sample.answer_start
    moved = Sample(
        id=sample.id,
        input_ids=other.input_ids[: other.answer_start] + sample.input_ids[sample.answer_start :],
        positions={name: place + shift for name, place in sample.positions.items()},
        question_tokens=other.question_tokens,
        eq_tokens=other.eq_tokens,
        answer_start=other.answer_start,
        partner=other.id,
    )
    _check_indices(moved)
    return moved


def _all_batches(
    samples: Sequence[Sample], conditions: Conditions, batch_tokens: int, seed: int
) -> list[Batch]:
    """The batches of samples with the same other prompts, longest first; then `noop`."""
    alike: dict[frozenset[str], list[int]] = {}
    for number, sample in enumerate(samples):
        alike.setdefault(frozenset(sample.others), []).append(number)
    batches = [
        batch
        for prompts, chosen in alike.items()
        for batch in _batches(samples, chosen, _columns(conditions, prompts), batch_tokens, seed)
    ]
    batches.sort(key=lambda batch: -batch.length)
    noop = conditions.get("noop")
    if noop is not None:
        some = range(min(len(samples), int(noop.get("samples", 64))))
        batches += _batches(samples, some, [("noop", 0)], batch_tokens, seed)
    return batches


def _batches(
    samples: Sequence[Sample],
    chosen: Iterable[int],
    columns: Sequence[tuple[str, int]],
    batch_tokens: int,
    seed: int,
) -> list[Batch]:
    """Batches of samples of like length. Longest first: what does not fit fails at once."""
    names = {name for name, _ in columns}
    lengths = {
        number: max(len(samples[number].under(name).input_ids) for name in names)
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
    columns: Sequence[tuple[str, int]],
    length: int,
    seed: int,
) -> Batch:
    rows = [
        Row(number, name, draw, _cut(samples[number], name, draw, seed))
        for name, draw in columns
        for number in group
    ]
    return Batch(tuple(group), tuple(columns), tuple(rows), length)


def _cut(sample: Sample, name: str, draw: int, seed: int) -> knockout.Cut:
    passed = sample.under(name)
    return knockout.cut(
        name, passed.question_tokens, passed.eq_tokens, key=f"{seed}/{sample.id}", draw=draw
    )
