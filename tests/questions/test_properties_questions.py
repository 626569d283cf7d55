"""Whatever the rows of a dataset hold: no traceback, all counted, spans where they say."""

from functools import cache
from typing import Any

import pandas as pd
import pytest
from chats import CHATS, with_chat
from hostile import cases, short, text
from hypothesis import given, strategies as st

from anchorscope.questions import prompts, questions
from anchorscope.storage import files

FIELDS = {
    "id": "id", "question": "q", "answers": ["a", "more"], "subject": "s", "property": "p",
    "relation": "r", "titles": "t", "anchors": "own",
}  # fmt: skip


numbers = st.one_of(st.integers(), st.floats())
texts = text | st.none() | st.just(float("nan"))
values = texts | numbers | st.lists(texts | numbers, max_size=3)
entries = (
    values
    | st.lists(st.integers(-3, 80), max_size=3)
    | st.fixed_dictionaries({"text": short, "role": st.sampled_from(["subject", "x", None])})
    | st.fixed_dictionaries({"start": numbers, "end": numbers})
)
own = st.none() | text | st.lists(entries, max_size=4)


def listed(value: Any) -> Any:
    """A text with brackets as a list of one; alone it may be refused as a broken list."""
    return [value] if isinstance(value, str) and set("[{(") & set(value) else value


@st.composite
def rows(draw: Any) -> list[dict[str, Any]]:
    """Rows of a dataset; subjects and answers often stand in the question, more than once."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        question = draw(texts)
        subject = draw(st.one_of(texts, st.just(question)))
        if isinstance(question, str) and isinstance(subject, str) and draw(st.booleans()):
            question = f"{question} {subject} and {subject}"
        found.append(
            {
                "id": draw(st.one_of(st.none(), st.sampled_from(["1", 1, " 1 ", "x", ""]), short)),
                "q": question,
                "a": listed(draw(st.one_of(values, st.just(question)))),
                "more": draw(values.map(listed) | st.just("['a', \"b\"]")),
                "s": subject,
                "p": draw(texts),
                "r": draw(st.one_of(texts, numbers)),
                "t": listed(draw(st.one_of(texts, st.lists(texts, max_size=3)))),
                "own": listed(draw(own)),
            }
        )
    return found


def normalised(given: list[dict[str, Any]]) -> tuple[pd.DataFrame, Any]:
    return questions.normalise(given, FIELDS, split="test", source="rows")


def comparable(frame: pd.DataFrame) -> list[str]:
    keep = frame.drop(columns=["answers", "titles", "anchors"])
    return sorted(map(str, keep.assign(g=frame["answers"].map(sorted)).to_numpy()))


@cases
@given(rows())
def test_every_row_is_kept_or_counted_in_any_order_and_read_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, given: list[dict[str, Any]]
) -> None:
    frame, counts = normalised(given)
    if len({str(row["q"]) for row in given}) == len(given):
        assert comparable(normalised(given[::-1])[0]) == comparable(frame)
    assert counts.total == len(given) == len(frame) + sum(counts.dropped.values())
    assert frame["id"].is_unique
    assert frame["folded"].sum() == counts.dropped.get("equal question folded", 0)
    path = tmp_path_factory.mktemp("written") / "questions.parquet"
    files.write_parquet(frame, path)
    back = files.read_parquet(path)
    for name in ("id", "question", "answers", "subject", "anchors"):
        assert list(back[name]) == list(frame[name]), name
    for row in frame.to_dict("records"):
        assert row["question"].strip()
        assert row["answers"] and all(isinstance(gold, str) and gold for gold in row["answers"])
        for place in row["anchors"] or []:
            assert 0 <= place["start"] < place["end"] <= len(row["question"])


@cache
def chat_of(tokenizer: Any, name: str) -> Any:
    return with_chat(tokenizer, CHATS[name])


EXAMPLES = [{"q": "Who wrote Emma?", "a": "Jane Austen"}]


@cases
@given(rows(), st.sampled_from(["plain", "few_shot", *CHATS]))
def test_prompts_hold_the_question_and_its_spans_where_they_say(
    byte_level: Any, given: list[dict[str, Any]], style: str
) -> None:
    frame, _ = normalised(given)
    examples, _ = questions.normalise(EXAMPLES, {"question": "q", "answers": ["a"]}, split=None)
    kind, tokenizer = ("chat", chat_of(byte_level, style)) if style in CHATS else (style, None)
    built, counts = prompts.build(frame, examples, style=kind, tokenizer=tokenizer)
    assert list(built["id"]) == list(frame["id"])
    assert counts.total == len(frame) and counts.kept == int(built["dropped"].isna().sum())
    for row in built[built["dropped"].isna()].to_dict("records"):
        prompt, before, end = row["prompt"], row["question_start"], row["question_end"]
        assert prompt[before:end].strip() == row["question"].strip()
        assert row["eq_start"]
        for a, b in zip(row["eq_start"], row["eq_end"], strict=True):
            assert before <= a < b <= end
            assert prompt[a:b].strip() == prompt[a:b]
            before = b
