"""Convert a user's own rows, from Python or a file, to questions, prompts and answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype
from pydantic import ValidationError

from anchorscope.answers import answers
from anchorscope.config.mistakes import explained
from anchorscope.config.sections import Fields
from anchorscope.config.settings import Config
from anchorscope.models.families import Loaded
from anchorscope.questions import fields, prompts, questions
from anchorscope.storage.counts import FOR_EXAMPLES, Counts, in_words
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.styles import Around, style_of

Rows = pd.DataFrame | Sequence[Mapping[str, Any]]
"""A data frame or a list of dicts: one row per question, with the fields of a dataset."""
TABLE = "the table"


@dataclass(frozen=True)
class Asked:
    """Questions ready for prompts."""

    questions: pd.DataFrame  # in the schema of the questions table
    examples: pd.DataFrame | None  # candidates for worked examples; None if the style shows none
    counts: Counts  # rows left out, by reason


def arounds_of(
    prompted: pd.DataFrame, answers: pd.DataFrame
) -> tuple[tuple[str | None, Around], ...]:
    """Return pairs (relation or None, text around questions), or one (None, text) if all agree."""
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


def settings_of(given: Mapping[str, Any], allowed: Set[str], caller: str) -> Config:
    """Return a config with an empty catalogue and with the settings `given` to `caller`.

    Raises:
        TypeError: `caller` takes no such setting.
        AnchorscopeError: A value is not valid.
    """
    if unknown := sorted(set(given) - allowed):
        known = ", ".join(["prompt", *sorted(allowed)])
        raise TypeError(f"{caller}() takes no `{unknown[0]}`; it takes {known}")
    try:
        return Config(models={}, datasets={}, figures={}, **given)
    except ValidationError as error:
        first = explained(error.errors()[0], Config)
        raise AnchorscopeError(first.what, first.key, first.do, see="python-interface") from None


def ask(
    table: Rows,
    style: str,
    seed: int,
    *,
    examples: Rows | None = None,
    source: object = TABLE,
    unlabelled: bool = False,
) -> Asked:
    """Return the questions to ask, and candidates for worked examples if `style` shows any.

    `table`, `style` and `examples` are as in `anchorscope.measure.measure`. `source` names the
    table in errors. With `unlabelled`, keep rows that have neither gold answers nor a label.
    Probes can score such rows, but cannot be fitted to them.

    Raises:
        AnchorscopeError: A column is missing, a response is empty, or no row can be used.
    """
    frame, counts = question_rows(table, source=source, unlabelled=unlabelled)
    if not style_of(style).shows_examples:
        return Asked(frame, None, counts)
    if examples is not None:
        pool, _ = question_rows(examples, source="the examples")
        return Asked(frame, questions.candidates(pool, frame, seed), counts)
    sampled, shots = questions.sample(frame, None, seed, hold_back=True)
    held = {FOR_EXAMPLES: len(frame) - len(sampled)}
    return Asked(sampled, shots, added(counts, Counts(len(frame), len(sampled), held)))


def answer(
    loaded: Loaded,
    asked: Asked,
    chosen: Config,
    *,
    style: str,
    around: Mapping[str | None, Around] | None = None,
    unlabelled: bool = False,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Build prompts and generate answers. Return the prompts table and the answers table.

    `around` maps a relation to the text around its questions. Without `around`, worked examples are
    chosen here. For `unlabelled` see `ask`.
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
    new_tokens, prompt_tokens = chosen.generation.max_new_tokens, chosen.max_prompt_tokens
    how = answers.Settings(style, new_tokens, prompt_tokens, chosen.no_answer, unlabelled)
    table, _ = answers.answer(prompted, asked.questions, loaded, how)
    return prompted, table


def question_rows(
    table: Rows, *, source: object = TABLE, unlabelled: bool = False
) -> tuple[pd.DataFrame, Counts]:
    """Return the questions table of a user's own rows, and counts of dropped rows; see `ask`."""
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
        raise AnchorscopeError(what, source, "correct the rows", see="python-interface")
    return frame, counts


def as_list(table: Rows) -> list[Any]:
    """Return the rows as dicts; refuse anything that is not a table."""
    rows: list[Any] = _records(table) if isinstance(table, pd.DataFrame) else list(table)
    if isinstance(table, Mapping) or not all(isinstance(row, Mapping) for row in rows):
        do = "pass a data frame, or a list with one dict per question"
        raise AnchorscopeError("not a table", "the questions", do, see="python-interface")
    return rows


def _records(table: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the rows of a frame. pandas would widen short floats to 7.400000095367432."""
    kinds = {name: kind for name, kind in table.dtypes.items() if isinstance(name, str)}
    short = [name for name, kind in kinds.items() if is_float_dtype(kind) and kind.itemsize < 8]
    wide = {name: fields.widened(table[name].to_numpy(na_value=np.nan)) for name in short}
    return table.assign(**wide).to_dict("records")


def added(before: Counts, after: Counts) -> Counts:
    """Combine the counts of two consecutive steps."""
    dropped = Counter(before.dropped) + Counter(after.dropped)
    return Counts(before.total, after.kept, dict(dropped), {**before.notes, **after.notes})


def _check_responses(rows: Sequence[Mapping[str, Any]], column: str | None, source: object) -> None:
    """Refuse empty responses: the model would answer such rows, and the user would not notice."""
    values = [fields.value_at(row, column) for row in rows] if column else []
    empty = [n for n, text in enumerate(values, 1) if isinstance(text, str) and not text.strip()]
    if empty:
        what = f"{len(empty)} of {len(rows)} responses are empty texts"
        do = "leave out rows without a response, or write null for the model to answer them"
        raise AnchorscopeError(what, f"{source}, row {empty[0]}", do, see="empty-response")
