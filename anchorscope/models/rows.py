"""Rows of a user's own, from Python or a file: to questions, prompts and answers in one call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pydantic import ValidationError

from anchorscope.config.sections import Fields
from anchorscope.config.settings import Config
from anchorscope.models import answers
from anchorscope.models.families import Loaded
from anchorscope.questions import fields, prompts, questions
from anchorscope.storage.counts import Counts, in_words
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.styles import Around, style_of

Rows = pd.DataFrame | Sequence[Mapping[str, Any]]
"""A row for each question: the fields of a dataset, as a frame or as a list of dicts."""
TABLE = "the table"


@dataclass(frozen=True)
class Asked:
    """Questions ready for prompts."""

    questions: pd.DataFrame  # in the schema of the questions' table
    examples: pd.DataFrame | None  # candidates for worked examples; None if the style shows none
    counts: Counts  # rows left out, by reason


@dataclass(frozen=True)
class Answered:
    """What became of the rows."""

    prompts: pd.DataFrame  # see `prompts.build`
    answers: pd.DataFrame  # see `answers.answer`
    counts: Counts  # rows given, questions asked, and what was left out before them


def arounds_of(
    prompted: pd.DataFrame, answers: pd.DataFrame
) -> tuple[tuple[str | None, Around], ...]:
    """Pair each relation (None: unknown) with the text around its questions, examples included.

    Of a table of prompts and one with `id` and `relation`.
    """
    relations = answers.set_index("id")["relation"].to_dict()
    arounds: dict[str | None, Around] = {}
    for row in prompted.to_dict("records"):
        relation, text = relations.get(row["id"]), str(row["prompt"])
        key = relation if isinstance(relation, str) else None
        around = Around(text[: row["question_start"]], text[row["question_end"] :])
        arounds.setdefault(key, around)
    if len(set(arounds.values())) == 1:
        return ((None, next(iter(arounds.values()))),)
    return tuple(arounds.items())


def settings_of(given: Mapping[str, Any], allowed: frozenset[str], caller: str) -> Config:
    """A config of these settings and no catalogue.

    Raises TypeError: `caller` takes no such setting; AnchorscopeError: a value is not valid.
    """
    if unknown := sorted(set(given) - allowed):
        raise TypeError(f"{caller}() takes no `{unknown[0]}`, but {', '.join(sorted(allowed))}")
    try:
        return Config(models={}, datasets={}, figures={}, **given)
    except ValidationError as error:
        first = error.errors()[0]
        what, where = f"{first['msg']}: {first['input']!r}", ".".join(map(str, first["loc"]))
        do = "docs/configuration.md lists the keys"
        raise AnchorscopeError(what, where, do, see="python-interface") from None


def ask(
    table: Rows,
    style: str,
    seed: int,
    *,
    examples: Rows | None = None,
    source: object = TABLE,
    unlabelled: bool = False,
) -> Asked:
    """The questions to ask, and the candidates for worked examples where the style shows any.

    Args:
        table, style, examples: see `anchorscope.measure.measure`.
        unlabelled: whether rows whose answer nothing tells right or wrong are kept: no gold
            answers, and no label of a response. Their label is missing. Probes cannot be fitted to
            such rows, but states can be measured and scored.
        source: what errors call the table.

    Raises:
        AnchorscopeError: missing columns, an empty response, no row that can be used.
    """
    frame, counts = question_rows(table, source=source, unlabelled=unlabelled)
    if not style_of(style).shows_examples:
        return Asked(frame, None, counts)
    if examples is not None:
        pool, _ = question_rows(examples, source="the examples")
        return Asked(frame, questions.candidates(pool, frame, seed), counts)
    sampled, shots = questions.sample(frame, None, seed, hold_back=True)
    held = {"held back for few-shot examples": len(frame) - len(sampled)}
    return Asked(sampled, shots, added(counts, Counts(len(frame), len(sampled), held)))


def answer(
    loaded: Loaded,
    asked: Asked,
    chosen: Config,
    *,
    style: str,
    around: Mapping[str | None, Around] | None = None,
    unlabelled: bool = False,
) -> Answered:
    """Prompt a model with questions, or take their responses, and find the anchors.

    `around`: the text around questions as it is, by relation, in place of examples chosen here. The
    note `answers.UNLABELLED` counts rows kept without a label (`unlabelled`, see `ask`). Raises
    AnchorscopeError: see `answers.answer`.
    """
    prompted, _ = prompts.build(
        prompts.of_run(asked.questions, None, chosen.finder),
        asked.examples,
        style=style,
        tokenizer=loaded.tokenizer,
        anchors=chosen.anchors,
        examples=chosen.generation.few_shot_examples,
        seed=chosen.seed,
        around=around,
    )
    how = answers.Settings(
        style,
        chosen.generation.max_new_tokens,
        chosen.max_prompt_tokens,
        chosen.no_answer,
        unlabelled=unlabelled,
    )
    table, counts = answers.answer(prompted, asked.questions, loaded, how)
    without, before = counts.notes.get(answers.UNLABELLED, 0), asked.counts
    before = before.noted(answers.UNLABELLED, without) if without else before
    return Answered(prompted, table, before)


def question_rows(
    table: Rows, *, source: object = TABLE, unlabelled: bool = False
) -> tuple[pd.DataFrame, Counts]:
    """The questions' table of a user's own, and the rows that cannot be used; see `ask`."""
    rows = as_list(table)
    columns = {name for row in rows for name in row}
    chosen: dict[str, Any] = {name: name for name in Fields.model_fields if name in columns}
    chosen["question"] = "question"
    if "answers" in columns or not unlabelled:
        chosen["answers"] = ["answers"]
    _check_responses(rows, chosen.get("response"), source)
    frame, counts = questions.normalise(
        rows, chosen, split=None, source=source, unlabelled=unlabelled
    )
    if frame.empty:
        what = f"no question can be used: {in_words(counts.dropped) or 'no rows'}"
        raise AnchorscopeError(what, source, "correct its rows", see="python-interface")
    return frame, counts


def as_list(table: Rows) -> list[Any]:
    """The rows as dicts; raises AnchorscopeError: the table is none."""
    rows: list[Any] = table.to_dict("records") if isinstance(table, pd.DataFrame) else list(table)
    if isinstance(table, Mapping) or not all(isinstance(row, Mapping) for row in rows):
        do = "pass a data frame, or a list with one dict per question"
        raise AnchorscopeError("not a table", "the questions", do, see="python-interface")
    return rows


def added(before: Counts, after: Counts) -> Counts:
    """What was dropped on the way, from the user's rows to what is left."""
    dropped = Counter(before.dropped) + Counter(after.dropped)
    return Counts(before.total, after.kept, dict(dropped), {**before.notes, **after.notes})


def _check_responses(rows: Sequence[Mapping[str, Any]], column: str | None, source: object) -> None:
    """Refuse an empty text for a response: the model would answer in its place, unnoticed."""
    values = [fields.value_at(row, column) for row in rows] if column else []
    empty = [n for n, text in enumerate(values, 1) if isinstance(text, str) and not text.strip()]
    if empty:
        what = f"{len(empty)} of {len(rows)} responses are empty texts"
        do = "leave out rows without a response, or write null for the model to answer them"
        raise AnchorscopeError(what, f"{source}, row {empty[0]}", do, see="empty-response")
