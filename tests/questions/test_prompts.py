"""Prompts: exact text, and spans that give back the question's own words."""

from pathlib import Path

import pandas as pd
import pytest
from chats import CHATS, with_chat

from anchorscope.anchors.labels import squad_normalise
from anchorscope.answers.rows import arounds_of
from anchorscope.questions import datasets, prompts, questions
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.styles import INSTRUCTION

FIELDS = {"question": "question", "answers": ["answer"], "subject": "subject", "property": "prop"}
ASKED = [
    {"question": "What is George Rankin's occupation?", "subject": "George Rankin",
     "prop": "occupation", "answer": "politician"},
    {"question": " In what  city was 東京 born? ", "subject": "東京", "prop": "", "answer": "x"},
    {"question": "is it?", "subject": None, "prop": None, "answer": "yes"},
]  # fmt: skip


def asked() -> pd.DataFrame:
    return questions.normalise(ASKED, FIELDS, split="test")[0]


def examples(n: int = 12) -> pd.DataFrame:
    said = [(f"Example\n{i}?", f"gold {i}", f"r{i % 3}") for i in range(n)]
    fields = {"question": "question", "answers": ["answer"], "relation": "relation"}
    rows = [dict(zip(("question", "answer", "relation"), row, strict=True)) for row in said]
    return questions.normalise(rows, fields, split="test")[0]


def assert_spans_decode(frame: pd.DataFrame) -> None:
    marked = []
    for row in frame[frame["dropped"].isna()].to_dict("records"):
        start, end = row["question_start"], row["question_end"]
        assert row["prompt"][start:end].strip() == row["question"].strip()
        places = [*zip(row["eq_start"], row["eq_end"], strict=True)]
        assert places and all(start <= a < b <= end for a, b in places)
        marked.append([row["prompt"][a:b] for a, b in places])
    assert marked[0] == ["George Rankin", "occupation"] and "東京" in marked[1]
    assert frame["eq_role"][0] == ["subject", "property"]
    assert frame["eq_found_by"][0] == ["metadata", "metadata"]


def test_plain_prompts_are_exact_and_keep_the_question_verbatim() -> None:
    frame, counts = prompts.build(asked(), style="plain")
    assert frame["prompt"].tolist() == [f"Q: {row['question']} A:" for row in ASKED]
    assert_spans_decode(frame)
    assert frame["dropped"].tolist() == [None, None, "no question anchor"]
    assert (counts.total, counts.kept, counts.dropped) == (3, 2, {"no question anchor": 1})
    assert counts.notes["found by metadata"] == 2
    subjects, _ = prompts.build(asked(), style="plain", anchors="subject")
    assert subjects["eq_role"].tolist()[:2] == [["subject"], ["subject"]]
    own = asked().assign(anchors=[[{"start": 24, "end": 34, "role": "property"}], None, []])
    built, _ = prompts.build(own, style="plain")
    assert [built[name][0] for name in ("eq_start", "eq_found_by")] == [[27], ["column"]]


def test_few_shot_prompts_show_the_same_examples_to_every_question_or_stop_without() -> None:
    frame, counts = prompts.build(asked(), examples(), style="few_shot", examples=4, seed=1)
    heads = {row["prompt"][: row["question_start"]] for row in frame.to_dict("records")}
    assert len(heads) == 1 and counts.notes["few-shot examples shown"] == 4
    head = heads.pop()
    assert head.count("Q: Example ") == 4 and head.endswith("\n\nQ: ")
    for prompt, row in zip(frame["prompt"], ASKED, strict=True):
        assert prompt.endswith(f"Q: {row['question']}\nA:")
    assert_spans_decode(frame)
    for pool in (None, examples(1).iloc[:0]):
        with pytest.raises(AnchorscopeError, match="no few-shot example is left"):
            prompts.build(asked(), pool, style="few_shot")


def test_examples_are_short_spread_over_relations_and_chosen_by_the_seed() -> None:
    pool = examples()
    pool.at[0, "answers"] = ["a very long answer of many words"]
    chosen = prompts.choose_examples(pool, 3, seed=0)
    assert sorted(chosen["relation"]) == ["r0", "r1", "r2"]
    assert all(prompts.choose_examples(pool, 9, s)["id"].ne(pool["id"][0]).all() for s in range(5))
    assert len({tuple(prompts.choose_examples(pool, 5, seed)["id"]) for seed in range(5)}) > 1
    again = prompts.choose_examples(pool.iloc[::-1], 3, seed=0)
    assert again["id"].tolist() == chosen["id"].tolist()


@pytest.mark.parametrize("name", ["qwen3", "falcon"])
def test_chat_prompts_find_the_question_behind_the_template(byte_level, name: str) -> None:
    tokenizer = with_chat(byte_level, CHATS[name])
    for shown in (0, 3):
        made = prompts.build(
            asked(), examples(), style="chat", tokenizer=tokenizer, examples=shown, seed=1
        )
        frame, counts = made
        assert_spans_decode(frame)
        assert [len(answers) for answers in frame["shown"]] == [shown] * 3
        assert frame["prompt"][0].count(INSTRUCTION) == shown + 1
        assert counts.notes.get("few-shot examples shown", 0) == shown
        assert frame["dropped"].tolist() == [None, None, "no question anchor"]


def test_a_chat_shows_examples_of_other_relations_with_different_answers(byte_level) -> None:
    tokenizer = with_chat(byte_level, CHATS["smollm2"])
    pool = examples()
    pool["answers"] = [[answer] for answer in ["The same", "same", *"abcdefghij"]]
    questions_asked = asked().assign(relation=["r0", "r1", None])
    chat = {"style": "chat", "tokenizer": tokenizer}
    frame, _ = prompts.build(questions_asked, pool, **chat, examples=5)
    for relation, row in zip(["r0", "r1", None], frame.to_dict("records"), strict=True):
        shown = pool[[f"\nExample {n}?<" in row["prompt"] for n in range(len(pool))]]
        assert relation not in set(shown["relation"])
        said = [squad_normalise(answer) for answer in row["shown"]]
        assert len(said) == len(set(said)) == len(shown) == 5
    arounds = arounds_of(frame, questions_asked)
    again = prompts.build(questions_asked, None, **chat, around=dict(arounds))[0]
    assert list(again["prompt"]) == list(frame["prompt"]), "a saved detector asks as it was asked"


@pytest.mark.parametrize("text", ["", "- {question: q}"])
def test_a_broken_file_of_examples_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(AnchorscopeError, match="x.yaml"):
        datasets.read_examples(tmp_path / "x.yaml")
