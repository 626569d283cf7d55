"""Planning: turn answers and conditions into the rows that a cell passes through the model."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.answers.inputs import BEYOND_POSITIONS, BEYOND_WINDOW
from anchorscope.passes import partners
from anchorscope.passes.batches import Plan, Sample, arrange
from anchorscope.passes.interventions import CROSSED, CROSSED_GOLD, GOLD, ConditionSettings, on
from anchorscope.questions.pool import LEAST, Choice, choose
from anchorscope.storage.counts import NOT_CHOSEN, Counts, in_words
from anchorscope.storage.errors import AnchorscopeError

NOT_ANCHORED = "no exact question tokens"
Limits = Mapping[str, int | None]
"""Reason to drop a sample → most tokens that a sample may have; None for no limit."""


def plan(
    answers: pd.DataFrame,
    *,
    conditions: ConditionSettings,
    batch_tokens: int,
    window: int | None = None,
    max_positions: int | None = None,
    seed: int = 0,
    fold: Callable[[pd.DataFrame], np.ndarray] | None = None,
    choice: Choice | None = None,
    where: str = "answers",
) -> Plan:
    """Plan every pass of a cell: samples, other prompts, rows and batches.

    The plan depends on the arguments alone, so an interrupted run continues with the same plan.

    Args:
        answers: The answers table. Rows with a `dropped` reason are counted and left out.
        conditions: Condition → settings (`draws` of a control, `samples` of noise). A condition
            that is missing or None is not run. `clean` is always run.
        batch_tokens: See `arrange`.
        window: Length of the model's sliding window in tokens. Longer samples are dropped, because
            our mask overrides the window.
        max_positions: Largest number of tokens that the model can read. Longer samples are dropped.
        seed: Seed of the random control.
        fold: Function that returns the outer fold of each row, see `partners.crossing`.
        choice: How many of the answers to measure; None for all.
        where: Name of the answers in errors.

    Raises:
        AnchorscopeError: No sample is left to measure, or too few answers are right, or wrong.
    """
    chosen = on(conditions)
    limits = {BEYOND_WINDOW: window, BEYOND_POSITIONS: max_positions}
    table, counts = _usable(answers, limits, where)
    stands_for: dict[str, float] = {}
    if choice is not None:
        table, counts, stands_for = _chosen(table, counts, choice, where)
    samples = [sample_of(record) for record in table.to_dict("records")]
    notes: Counter[str] = Counter()
    source = None
    prompts = {one.version for one, _ in chosen}
    if CROSSED in prompts:
        places = dict(zip(table["id"], fold(table), strict=True)) if fold else None
        crossing = partners.crossing(table, places)
        golds = gold_samples(table) if GOLD in prompts else {}
        if GOLD not in prompts:
            crossing = replace(crossing, golds_left_out={})
        source, notes = crossing.source, _swap(samples, golds, crossing, limits)
    noise_samples = {
        name: given["samples"] for name, given in conditions.items() if given and "samples" in given
    }
    return replace(
        arrange(samples, chosen, batch_tokens=batch_tokens, seed=seed, noise_samples=noise_samples),
        counts=replace(counts, notes=dict(notes)),
        partner_source=source,
        stands_for=stands_for,
    )


def conditions_of(settings: ConditionSettings) -> list[tuple[str, int]]:
    """Return every (condition, draw) that a cell with these settings is measured under."""
    return [(one.name, draw) for one, draw in on(settings)]


def _usable(answers: pd.DataFrame, limits: Limits, where: str) -> tuple[pd.DataFrame, Counts]:
    """Return the rows that are measured, and the counts of dropped rows by reason."""
    reasons = [_reason_to_drop(record, limits) for record in answers.to_dict("records")]
    table = answers[np.array([reason is None for reason in reasons], dtype=bool)]
    counts = Counts(len(answers), len(table), dict(Counter(filter(None, reasons))))
    if table.empty:
        what = f"no sample is left to measure: {in_words(counts.dropped) or 'no answers'}"
        do = "see the reasons in the provenance of the answers"
        raise AnchorscopeError(what, where, do, see="nothing-left")
    return table, counts


def _chosen(
    table: pd.DataFrame, counts: Counts, choice: Choice, where: str
) -> tuple[pd.DataFrame, Counts, dict[str, float]]:
    """Return the rows that are chosen, the counts, and how many answers each row stands for.

    Raises:
        AnchorscopeError: A class has too few answers to fit a probe.
    """
    right, wrong = (int((table["label"] == label).sum()) for label in (0, 1))
    if min(right, wrong) < LEAST:
        rare, n = ("right", right) if right <= wrong else ("wrong", wrong)
        are = "are" if n > 1 else "is"
        what = f"{n or 'none'} of {len(table):,} answers {are} {rare}, too few to fit a probe"
        do = (
            "compare `ea_text` with `golds` for some answers; if the labels are right, ask more "
            "questions (`pool_size`), or measure another model or dataset"
        )
        raise AnchorscopeError(what, where, do, see="one-class")
    stands_for = choose(table, choice)
    chosen = table[stands_for > 0]
    left_out = {NOT_CHOSEN: n} if (n := len(table) - len(chosen)) else {}
    counts = Counts(counts.total, len(chosen), {**counts.dropped, **left_out}, counts.notes)
    named = zip(chosen["id"], stands_for[stands_for > 0], strict=True)
    return chosen, counts, {name: float(n) for name, n in named}


def _reason_to_drop(record: Mapping[Any, Any], limits: Limits) -> str | None:
    if isinstance(record.get("dropped"), str):
        return str(record["dropped"])
    return _over(len(record["input_ids"]), limits) if len(record["eq_tokens"]) else NOT_ANCHORED


def _over(length: int, limits: Limits) -> str | None:
    return next((why for why, most in limits.items() if most and length > most), None)


def sample_of(record: Mapping[Any, Any]) -> Sample:
    """Convert one row of the answers table to a sample."""
    positions = {
        "final": record["final"],
        "before_answer": record["ea_start"] - 1,
        "last_answer": record["ea_end"] - 1,
        "prompt_end": record["prompt_length"] - 1,
    }
    return Sample(
        id=str(record["id"]),
        input_ids=_ints(record["input_ids"]),
        positions={name: int(place) for name, place in positions.items()},
        question_tokens=_ints(record["question_tokens"]),
        eq_tokens=_ints(record["eq_tokens"]),
        answer_start=int(record["prompt_length"]),
    )


def gold_samples(table: pd.DataFrame) -> dict[str, Sample]:
    """Map the id of each row with `gold_ids` to a sample whose answer is the gold answer."""
    golds = {}
    for record in table.to_dict("records"):
        if len(ids := record["gold_ids"]):
            start = record["prompt_length"]
            of_gold = record | {
                "input_ids": [*record["input_ids"][:start], *ids],
                "ea_start": start + record["gold_start"],
                "ea_end": start + record["gold_end"],
                "final": start + len(ids) - 1,
            }
            golds[str(record["id"])] = sample_of(of_gold)
    return golds


def _ints(numbers: Iterable[Any]) -> tuple[int, ...]:
    return tuple(map(int, numbers))


def _swap(
    samples: Sequence[Sample],
    golds: Mapping[str, Sample],
    crossing: partners.Crossing,
    limits: Limits,
) -> Counter[str]:
    """Add the swapped versions of each sample to its `others`; count the samples by outcome.

    A pair's two answers are swapped together or not at all. The same holds for its gold answers.
    """
    by_id = {sample.id: sample for sample in samples}
    moved = {id_: behind(by_id[id_], by_id[other]) for id_, other in crossing.partners.items()}
    why_not = dict(crossing.left_out) | _too_long(moved, crossing.partners, limits)
    of_gold = {id_: by_id[other] for id_, other in crossing.partners.items() if id_ in golds}
    moved_golds = {id_: behind(golds[id_], other) for id_, other in of_gold.items()}
    no_gold = dict(crossing.golds_left_out)
    no_gold |= _too_long({id_: golds[id_] for id_ in of_gold}, crossing.partners, limits)
    no_gold |= _too_long(moved_golds, crossing.partners, limits)
    wording = " of like wording" if crossing.source == "wording" else ""
    notes: Counter[str] = Counter()
    for sample in samples:
        if sample.id not in why_not:
            sample.others[CROSSED] = moved[sample.id]
            if sample.id in moved_golds and sample.id not in no_gold:
                sample.others[GOLD] = golds[sample.id]
                sample.others[CROSSED_GOLD] = moved_golds[sample.id]
            elif golds or no_gold:
                notes[f"{GOLD}, {no_gold.get(sample.id, partners.ANSWERED_RIGHT)}"] += 1
        what = why_not.get(sample.id, f"another question{wording}")
        notes[f"{CROSSED}, {what}"] += 1
    measured = sum(GOLD in sample.others for sample in samples)
    return notes + Counter({f"{GOLD}, swapped": measured} if measured else {})


def _too_long(
    passed: Mapping[str, Sample], partners_of: Mapping[str, str], limits: Limits
) -> dict[str, str]:
    """Return id → reason, for each sample in `passed` that is too long, and for its partner."""
    reasons = {id_: _over(len(one.input_ids), limits) for id_, one in passed.items()}
    return {both: why for id_, why in reasons.items() if why for both in (id_, partners_of[id_])}


def behind(sample: Sample, other: Sample) -> Sample:
    """Return `sample` with its answer after the prompt of `other`. Shift positions accordingly."""
    shift = other.answer_start - sample.answer_start
    return replace(
        other,
        id=sample.id,
        input_ids=other.input_ids[: other.answer_start] + sample.input_ids[sample.answer_start :],
        positions={name: place + shift for name, place in sample.positions.items()},
        partner=other.id,
        others={},
    )
