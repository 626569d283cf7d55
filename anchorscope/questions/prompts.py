"""Prompts: the text that a model reads for each question, and the places of E_Q in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from anchorscope.anchors import question_anchors
from anchorscope.anchors.labels import squad_normalise
from anchorscope.anchors.words import SUBJECT
from anchorscope.questions.fields import digest
from anchorscope.storage.counts import EXAMPLES_SHOWN, Counts
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.styles import Around, Example, Style, style_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SHORT_ANSWER = 5  # words
NO_ANCHOR = "no question anchor"

COLUMNS = {
    "id": "the sample's id",
    "question": "as in the questions",
    "prompt": "all the text that the model reads",
    "question_start": "characters [start, end) of the question in the prompt",
    "question_end": "characters [start, end) of the question in the prompt",
    "eq_start": "characters [start, end) of each span of E_Q in the prompt, lists",
    "eq_end": "characters [start, end) of each span of E_Q in the prompt, lists",
    "eq_role": "role of each span, `subject` or `property`",
    "eq_found_by": "rule that found each span",
    "shown": "answers of the worked examples before the question",
    "dropped": "why the question is not asked, or null",
}
"""Column of the table → its meaning."""


def build(
    questions: pd.DataFrame,
    few_shot: pd.DataFrame | None = None,
    *,
    style: str,
    tokenizer: PreTrainedTokenizerFast | None = None,
    anchors: str = "subject+property",
    examples: int = 5,
    seed: int = 0,
    around: Mapping[str | None, Around] | None = None,
) -> tuple[pd.DataFrame, Counts]:
    """Build one prompt per question, with character spans of the question and of E_Q in it.

    Args:
        questions: Table of questions, see `questions.COLUMNS`.
        few_shot: Candidates for worked examples, see `questions.candidates`.
        style: Name of a style, see `anchorscope.styles`.
        tokenizer: Tokenizer with the chat template; needed for the style `chat` only.
        anchors: Parts of E_Q, `subject+property` or `subject`.
        examples: Maximum number of worked examples.
        seed: Seed of the choice of examples.
        around: Relation → text to put around its questions, in place of the style's text. A
            relation without an entry gets the first entry's text.

    Returns:
        (table, counts): the table has the columns `COLUMNS` and a row per question. `counts.notes`
        gives the number of questions in which each rule found spans.

    Raises:
        AnchorscopeError: The style is unknown, there is no example to show, there is no chat
            template, or the template refuses or alters the turns.
    """
    how = style_of(style)
    if not how.shows_examples or around is not None:
        examples = 0
    pool = checked_examples(few_shot) if examples else None
    frames: dict[str | None, tuple[tuple[Example, ...], Around]] = {}
    rows = []
    for entry in questions.to_dict("records"):
        known = how.templated and isinstance(entry["relation"], str)
        relation = entry["relation"] if known else None
        if relation not in frames:
            shown = _shown(pool, how, examples, seed, relation)
            given = around and around.get(relation, next(iter(around.values())))
            frames[relation] = shown, given or how.around(shown, tokenizer)
        rows.append(_row(entry, anchors, *frames[relation]))
    frame = pd.DataFrame(rows, columns=[*COLUMNS], dtype=object)
    places = ("question_start", "question_end")
    most = max((len(shown) for shown, _ in frames.values()), default=0)
    return frame.astype(dict.fromkeys(places, "int64")), _counts(rows, most)


def of_run(sampled: pd.DataFrame, limit: int | None, finder: str) -> pd.DataFrame:
    """Return the first `limit` questions. If `finder` is `offline`, hide metadata and anchors."""
    questions = sampled.head(limit) if limit else sampled
    if finder == "offline":
        unknown: dict[str, Any] = dict.fromkeys(("subject", "property", "anchors"))
        questions = questions.assign(**unknown | {"titles": [[] for _ in questions.index]})
    return questions


def choose_examples(few_shot: pd.DataFrame, examples: int, seed: int) -> pd.DataFrame:
    """Choose examples: short answers first, spread over relations, ordered by the seed."""
    is_long = few_shot["answers"].map(lambda golds: len(golds[0].split()) > SHORT_ANSWER)
    shuffled = few_shot["id"].map(lambda name: digest(str(seed), name))
    order = few_shot.assign(_long=is_long, _order=shuffled).sort_values(["_long", "_order"])
    # The first row of each relation, then the second. Rows without a relation count as first rows.
    number = order.groupby("relation").cumcount().where(order["relation"].notna(), 0)
    return order[few_shot.columns].iloc[number.argsort(kind="stable")[:examples]]


def checked_examples(few_shot: pd.DataFrame | None) -> pd.DataFrame:
    """Return the candidates for worked examples, or raise an AnchorscopeError if there are none."""
    if few_shot is None or few_shot.empty:
        what = "no few-shot example is left: none may share a question or subject with the sample"
        where = "the rows outside the sample"
        do = (
            "give rows of more subjects, or examples of your own (in a run, `few_shot: {file: …}`; "
            "in `measure`, `examples`), or draw fewer questions (`sample_size` and `pool_size`)"
        )
        raise AnchorscopeError(what, where, do, see="few-shot")
    return few_shot


def _shown(
    pool: pd.DataFrame | None, style: Style, examples: int, seed: int, relation: str | None
) -> tuple[Example, ...]:
    """Return the worked examples for questions of a relation.

    Chat models tend to repeat an example's answer, especially for a question of the same relation.
    So a chat shows examples of other relations first, and shows no answer twice.
    """
    if pool is None:
        return ()
    chosen = choose_examples(pool, len(pool) if style.templated else examples, seed)
    if style.templated:
        own = chosen["relation"].notna() & (chosen["relation"] == relation)
        chosen = chosen.iloc[own.to_numpy().argsort(kind="stable")]
        answer = chosen["answers"].map(lambda golds: squad_normalise(golds[0]))
        chosen = chosen[~answer.duplicated()].head(examples)
    pairs = zip(chosen["question"], chosen["answers"].str[0], strict=True)
    # In one line each, since a newline would look like another turn.
    return tuple(Example(*(" ".join(text.split()) for text in pair)) for pair in pairs)


def without_question(row: Mapping[Any, Any], style: str) -> str:
    r"""Return the prompt in `row` without the question, such as `Q: A:` or `Q:\nA:`.

    `row` is from `build`'s table. A `chat` prompt keeps an empty user message but no instruction.
    """
    before, after = row["prompt"][: row["question_start"]], row["prompt"][row["question_end"] :]
    return style_of(style).without_question(before, after)


def with_instruction(prompts: pd.DataFrame, text: str, style: str) -> pd.DataFrame:
    """Add an instruction to every prompt of `build`'s table, and shift the spans accordingly."""
    rows = []
    for row in prompts[list(COLUMNS)].to_dict("records"):
        start = row["question_start"]
        before = style_of(style).with_instruction(row["prompt"][:start], text)
        moved = len(before) - start
        row |= {"prompt": before + row["prompt"][start:], "question_start": start + moved}
        row["question_end"] += moved
        for name in ("eq_start", "eq_end"):
            row[name] = [place + moved for place in row[name]]
        rows.append(row)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _row(
    entry: Mapping[Any, Any], anchors: str, shown: Sequence[Example], around: Around
) -> dict[str, Any]:
    found = question_anchors.find(
        entry["question"],
        subject=entry["subject"],
        property=entry["property"],
        titles=entry["titles"],
        own=entry.get("anchors"),
    )
    spans = [span for span in found if anchors != "subject" or span.role == SUBJECT]
    text = entry["question"].rstrip() if around.strips else entry["question"]
    start = len(around.before)
    return {
        "id": entry["id"],
        "question": entry["question"],
        "prompt": f"{around.before}{text}{around.after}",
        "question_start": start,
        "question_end": start + len(text),
        "eq_start": [s.start + start for s in spans],
        "eq_end": [s.end + start for s in spans],
        "eq_role": [s.role for s in spans],
        "eq_found_by": [s.found_by for s in spans],
        "shown": [example.answer for example in shown],
        "dropped": None if spans else NO_ANCHOR,
    }


def _counts(rows: Sequence[Mapping[str, Any]], examples: int) -> Counts:
    dropped = Counter(r["dropped"] for r in rows if r["dropped"])
    rules = Counter(f"found by {rule}" for r in rows for rule in sorted(set(r["eq_found_by"])))
    notes = dict(sorted(rules.items()))
    if examples:
        notes[EXAMPLES_SHOWN] = examples
    return Counts(len(rows), len(rows) - sum(dropped.values()), dict(dropped), notes)
