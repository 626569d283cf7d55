"""Scoring rows of a user's own: prompts, answers, one clean pass, and what the scorers say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import pandas as pd

from anchorscope.config.sections import Fields
from anchorscope.config.settings import Config
from anchorscope.detectors.linear import LinearScorer
from anchorscope.detectors.saved.binding import Binding, Prompting
from anchorscope.models import loading
from anchorscope.models.rows import TABLE, FieldNames, Rows, answer, as_list, ask
from anchorscope.passes import planning, runner
from anchorscope.passes.batches import arrange
from anchorscope.passes.interventions import on
from anchorscope.questions import questions
from anchorscope.questions.fields import RowCells, check_columns

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from anchorscope.models.families import Loaded

ROW = "row of the table"
"""Column of the numbers that stand for rows while they are read."""
NO_QUESTION = "no question"


class How(TypedDict, total=False):
    """How rows are read; all may be left out."""

    fields: FieldNames | None  # field → column, if they do not share names
    source: object  # what errors call the rows
    batch_tokens: int | None  # most tokens in a batch


@dataclass(frozen=True)
class _Given:
    """The rows as they were given, numbered."""

    rows: list[dict[str, Any]]  # with the column `ROW`
    fields: FieldNames  # `id` is that column
    ids: list[str]  # the rows' own, else their numbers
    keys: list[tuple[str, str | None]]  # question and response, folded as equal rows are


def scored(
    binding: Binding,
    prompting: Prompting,
    scorers: Mapping[str, LinearScorer],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    rows: Rows,
    *,
    fields: FieldNames | None = None,
    source: object = TABLE,
    batch_tokens: int | None = None,
) -> pd.DataFrame:
    """A row for each row given: what is known of the answer, and the logit of each scorer.

    Columns are those of the answers, `response`, `question_anchor`, `answer_anchor` and the names
    of the scorers; logits are blank where a row has a reason in `dropped`.
    """
    settings = dict(prompting.settings)
    if batch_tokens is not None:
        settings["batch_tokens"] = batch_tokens
    chosen = Config(models={}, datasets={}, figures={}, **settings)
    loaded = loading.wrapped(model, tokenizer, batch_tokens=chosen.batch_tokens)
    binding.check(Binding.of(loaded, binding.style))
    loading.check_attention(model)
    given = _numbered(as_list(rows), fields, source)
    asked = ask(given.rows, "plain", 0, names=given.fields, source=source, unlabelled=True)
    style, around = binding.style, prompting.around
    answered = answer(loaded, asked, chosen, style=style, around=around, unlabelled=True)
    table = answered.answers.merge(_anchors(answered.prompts), on="id", validate="one_to_one")
    table["question_anchor"] = table["question_anchor"].where(table["dropped"].isna(), None)
    table = table.join(_logits(loaded, table, scorers), on="id")
    return _as_given(table, given)


def _numbered(
    rows: Sequence[Mapping[str, Any]], names: FieldNames | None, source: object
) -> _Given:
    """Rows with numbers for ids, so that each is found again whatever its own id is."""
    columns = {name for row in rows for name in row}
    fields = dict(names or {name: name for name in Fields.model_fields if name in columns})
    fields.setdefault("question", "question")
    check_columns(rows, fields, source)
    notes, ids, keys = Counter[str](), [], []
    for number, row in enumerate(rows):
        cells = RowCells(row, fields, f"{source}, row {number + 1}", notes)
        ids.append(cells.text("id", number=True) or str(number + 1))
        keys.append((questions.folded_text(cells.question or ""), cells.text("response")))
    numbered = [{**row, ROW: f"{number:09}"} for number, row in enumerate(rows)]
    return _Given(numbered, {**fields, "id": ROW}, ids, keys)


def _anchors(prompts: pd.DataFrame) -> pd.DataFrame:
    """The text of the exact question tokens of each prompt; several spans with ` … ` between."""
    texts = [
        " … ".join(row["prompt"][a:b] for a, b in zip(row["eq_start"], row["eq_end"], strict=True))
        for row in prompts.to_dict("records")
    ]
    return pd.DataFrame({"id": prompts["id"], "question_anchor": texts})


def _logits(
    loaded: Loaded, answers: pd.DataFrame, scorers: Mapping[str, LinearScorer]
) -> pd.DataFrame:
    """What each scorer says of every answer that was not dropped, by one clean pass, by id."""
    usable = answers[answers["dropped"].isna()]
    samples = [planning.sample_of(row) for row in usable.to_dict("records")]
    frames = [pd.DataFrame(columns=list(scorers), dtype=np.float64)]
    plan = arrange(samples, on({}), batch_tokens=loaded.batch_tokens) if samples else None
    readouts = list({one.readout: None for one in scorers.values()})
    for batch, states in runner.measure(loaded, plan, readouts) if plan else ():
        logits = {}
        for name, scorer in scorers.items():
            of_readout = states[f"clean.0/{scorer.readout.replace('/', '.')}"]
            logits[name] = scorer.of_states([of_readout[:, layer] for layer in scorer.layers])
        ids = [samples[number].id for number in batch.samples]
        frames.append(pd.DataFrame(logits, index=ids))
    return pd.concat(frames) if len(frames) > 1 else frames[0]


def _as_given(table: pd.DataFrame, given: _Given) -> pd.DataFrame:
    """The table with a row for each row given: equal ones get the same scores."""
    by_id = {str(id_): place for place, id_ in enumerate(table["id"])}
    by_key = {given.keys[int(id_)]: place for id_, place in by_id.items()}
    places = [by_id.get(f"{n:09}", by_key.get(key, -1)) for n, key in enumerate(given.keys)]
    # A place of -1 is none, and gives a row of blanks.
    rows = table.reset_index(drop=True).reindex(places).reset_index(drop=True)
    rows["dropped"] = rows["dropped"].where(np.array(places) >= 0, NO_QUESTION)
    responses = [response for _, response in given.keys]
    rows["response"] = rows["answer"].where(rows["answer"].notna(), pd.Series(responses))
    return rows.assign(id=given.ids, answer_anchor=rows["ea_text"])
