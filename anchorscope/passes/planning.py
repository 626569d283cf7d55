"""Planning: from the answers of a cell to all its passes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.models.inputs import BEYOND_POSITIONS, BEYOND_WINDOW
from anchorscope.passes import partners
from anchorscope.passes.batches import FEW_SHOT, Plan, Sample, arrange
from anchorscope.passes.interventions import ARMS, Settings, on
from anchorscope.passes.partners import Interchange
from anchorscope.storage.counts import Counts
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import check_ids

NOT_ANCHORED = "no exact question tokens"

log = logging.getLogger(__name__)


def plan(
    answers: pd.DataFrame,
    *,
    conditions: Settings,
    batch_tokens: int,
    window: int | None = None,
    max_positions: int | None = None,
    blocks: str = "after",
    seed: int = 0,
    fold: Callable[[pd.DataFrame], np.ndarray] | None = None,
) -> Plan:
    """Plan every pass of a cell.

    How they are put into batches: see `arrange`.

    Args:
        answers: the answers table; rows with a `dropped` reason are counted and left out.
        conditions: condition → settings (`random`: draws; `noop`: samples). One left out, or None,
            is not run; `clean` always is.
        batch_tokens: most rows × padded length of a pass; one sample is passed whatever its size.
        window, max_positions: most tokens. A tensor mask makes the model forget its sliding
            window. The answers' own prompts keep to both for the model that gave them; another
            model, and an answer behind a longer prompt, may not.
        blocks: which queries the block applies to, see `Plan`.
        seed: seed of the random control, and of the choice among partners.
        fold: the outer folds of the probes, of the samples measured (rows of `answers`), see
            `anchorscope.passes.partners.interchange`.

    Raises:
        AnchorscopeError: nothing left to measure, an id twice, an index outside its sample.
    """
    chosen = on(conditions)
    limits = {BEYOND_WINDOW: window, BEYOND_POSITIONS: max_positions}
    table, counts = _kept(answers, limits)
    check_ids(table)
    samples = [sample_of(record) for record in table.to_dict("records")]
    if not samples:
        raise AnchorscopeError(
            f"no sample is left to measure: {counts.as_dict()}",
            "answers",
            "see the reasons in the provenance of the answers",
            see="nothing-left",
        )
    prompts = tuple(dict.fromkeys(one.prompt for one, _ in chosen if one.prompt))
    notes: Counter[str] = Counter()
    exchanged = _interchange(prompts, table, seed, fold)
    for name in prompts:
        samples = _behind_others(name, samples, table, exchanged, limits, notes)
    return arrange(
        samples,
        chosen,
        replace(counts, notes=dict(notes)),
        batch_tokens=batch_tokens,
        blocks=blocks,
        seed=seed,
        noop=int((conditions.get("noop") or {}).get("samples", 64)),
        prompts=prompts,
        partner_source=exchanged.source,
    )


def conditions_of(settings: Settings) -> list[tuple[str, int]]:
    """Every (condition, draw) that a cell with these settings is measured under."""
    return [(one.name, draw) for one, draw in on(settings)]


def _kept(answers: pd.DataFrame, limits: Mapping[str, int | None]) -> tuple[pd.DataFrame, Counts]:
    """The rows that are measured; `limits` are most tokens by the reason to drop more."""
    reasons = [_unusable(record, limits) for record in answers.to_dict("records")]
    dropped = Counter(reason for reason in reasons if reason)
    table = answers[np.array([reason is None for reason in reasons], dtype=bool)]
    return table, Counts(len(answers), len(table), dict(dropped))


def _unusable(record: Mapping[Any, Any], limits: Mapping[str, int | None]) -> str | None:
    if isinstance(record.get("dropped"), str):
        return str(record["dropped"])
    return _over(len(record["input_ids"]), limits) if len(record["eq_tokens"]) else NOT_ANCHORED


def _over(length: int, limits: Mapping[str, int | None]) -> str | None:
    """Why so many tokens are too many, or None."""
    return next((why for why, most in limits.items() if most and length > most), None)


def sample_of(record: Mapping[Any, Any]) -> Sample:
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
    indices = [*sample.positions.values(), *sample.question_tokens, *sample.eq_tokens]
    if min(indices) < 0 or max(indices) >= len(sample.input_ids):
        raise AnchorscopeError(
            f"a token index lies outside the sample's {len(sample.input_ids)} tokens",
            f"answers, id {sample.id}",
            "delete the answers of this cell and run again",
            see="stale-product",
        )
    return sample


def _interchange(
    prompts: Sequence[str],
    table: pd.DataFrame,
    seed: int,
    fold: Callable[[pd.DataFrame], np.ndarray] | None,
) -> Interchange:
    """The partners of the arms, where an arm is asked for."""
    if not {*prompts} & {*ARMS}:
        return Interchange({}, None, 0.0)
    folds_of = dict(zip(table["id"].astype(str), fold(table), strict=True)) if fold else None
    found = partners.interchange(table, seed, folds_of)
    if found.source is None:
        log.warning(
            "%s: not run; %.0f %% of the right answers find a matched partner by the wording of "
            "the questions, and %.0f %% must",
            *(" and ".join(ARMS), 100 * found.coverage, 100 * partners.LEAST_COVERAGE),
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
        over = _over(len(moved.input_ids), limits)
        how = over or (FEW_SHOT if moved.partner == FEW_SHOT else another)
        notes[f"{name}, {how}"] += 1
        given.append(sample if over else replace(sample, others={**sample.others, name: moved}))
    return given


def _few_shot(samples: Sequence[Sample], table: pd.DataFrame) -> dict[str, Sample]:
    """Id → the same question behind other worked examples; only its prompt counts."""
    if "replicate_ids" not in table:
        return {}
    names = ("replicate_ids", "replicate_question_tokens", "replicate_eq_tokens")
    found = {}
    for sample, *columns in zip(samples, *(table[name] for name in names), strict=True):
        ids, question, anchors = (tuple(map(int, column)) for column in columns)
        if ids:
            found[sample.id] = replace(
                sample,
                id=FEW_SHOT,
                input_ids=ids,
                question_tokens=question,
                eq_tokens=anchors,
                answer_start=len(ids),
            )
    return found


def _behind(sample: Sample, other: Sample) -> Sample:
    """The frozen answer of one sample behind the prompt of another."""
    shift = other.answer_start - sample.answer_start
    return replace(
        other,
        id=sample.id,
        input_ids=other.input_ids[: other.answer_start] + sample.input_ids[sample.answer_start :],
        positions={name: place + shift for name, place in sample.positions.items()},
        partner=other.id,
        others={},
    )
