"""The rows that a user gives a detector: check their columns, and give back a row for each."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from anchorscope.answers.rows import Rows, as_list
from anchorscope.config.sections import Fields
from anchorscope.questions.questions import folded_text
from anchorscope.storage.errors import AnchorscopeError

FIELDS = {"answer": "response"} | {
    name: name for name in ("question", "subject", "property", "relation")
}
"""Column of a table of answers → field of a row that `Detector.score` takes."""
READ = ("id", *FIELDS.values())
"""Fields of a row that change its score, or name it."""
SYNONYMS = dict.fromkeys(
    "answer completion generation model_answer output prediction reply".split(), "response"
) | dict.fromkeys(("prompt", "query"), "question")
"""Usual name of a column → the field that it probably holds."""
log = logging.getLogger(__name__)


def checked(table: Rows, source: object) -> list[Any]:
    """Return the rows as dicts, and name the columns that are not read.

    Raises:
        AnchorscopeError: A column looks like `response`, say, and no column has this name. The
            model would answer itself, and that answer would be scored.
    """
    rows = as_list(table)
    names = dict.fromkeys(str(name) for row in rows for name in row)
    others = [name for name in names if name not in Fields.model_fields]
    absent = [name for name in READ if name not in names]
    for name in others:
        close = difflib.get_close_matches(name.lower(), absent, n=1, cutoff=0.8)
        meant = SYNONYMS.get(name.lower()) or next(iter(close), None)
        if meant in absent:
            what, do = f"the column `{name}` is not read", f"did you mean `{meant}`? rename it"
            raise AnchorscopeError(what, source, f"{do}, or leave it out", see="missing-column")
    if others:
        log.warning("%s: columns that are not read: %s", source, ", ".join(others))
    return rows


def as_given(
    answers: pd.DataFrame, given: Sequence[Mapping[str, Any]], column: str
) -> pd.DataFrame:
    """Return a row for each of `given`. Rows with the same question and response share an answer.

    Each id in `answers` is the number of a row of `given`. `column` names one more column to keep.
    """
    rows = pd.DataFrame(list(given)).reindex(columns=["id", "question", "response"])
    texts = rows[["question", "response"]].astype(object).fillna("").astype(str)
    keys = [texts["question"].map(folded_text), texts["response"].str.strip()]
    numbers = pd.Series([f"{number:09}" for number in range(len(rows))])
    found = answers.set_index("id").reindex(numbers.groupby(keys).transform("first"))
    found = found.reset_index(drop=True)
    asked = found["question"].notna()
    return rows.assign(
        id=rows["id"].astype(object).where(rows["id"].notna(), numbers.index + 1).astype(str),
        response=found["answer"].where(found["answer"].notna(), rows["response"]),
        ea_text=found["ea_text"],
        dropped=found["dropped"].where(asked, "no question"),
        **{column: found[column]},
    )
