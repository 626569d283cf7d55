"""E_Q in real questions: how much the finders get right, see docs/method.md."""

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from anchorscope.anchors.question_anchors import find
from anchorscope.anchors.words import SUBJECT, Span, word_count, word_places

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
FILES = {
    "PopQA": "popqa/test.jsonl",
    "TriviaQA": "trivia_qa/validation.jsonl",
    "HotpotQA": "hotpot_qa/validation.jsonl",
    "NQ": "nq_open/validation.jsonl",
}


def rows(dataset: str) -> list[dict]:
    """The rows of a dataset; without them the test is skipped."""
    if not (DATA / FILES[dataset]).is_file():
        pytest.skip(f"../shared/data/{FILES[dataset]} is absent")
    lines = (DATA / FILES[dataset]).read_text("utf-8").split("\n")
    return [row for row in map(json.loads, filter(None, lines)) if row["question"]]


def subjects(spans: Iterable[Span]) -> list[Span]:
    return [span for span in spans if span.role == SUBJECT]


def touched(question: str, spans: Sequence[Span]) -> set[int]:
    """Which words of a question the spans touch."""
    places = enumerate(word_places(question))
    return {i for i, (a, b) in places if any(s.start < b and a < s.end for s in spans)}


def test_subjects_of_popqa_are_found_without_being_given() -> None:
    exact = hits = marked = of_subjects = 0
    questions = rows("PopQA")
    for row in questions:
        question = row["question"]
        given, found = subjects(find(question, subject=row["subj"])), subjects(find(question))
        right, ours = touched(question, given), touched(question, found)
        hits, marked = hits + len(right & ours), marked + len(ours)
        of_subjects += len(right)
        exact += {(s.start, s.end) for s in given} == {(s.start, s.end) for s in found}
    assert hits / marked > 0.9995
    assert round(hits / of_subjects, 3) == 0.963
    assert round(exact / len(questions), 3) == 0.954


@pytest.mark.parametrize(
    ("dataset", "share"),
    [("PopQA", 0.986), ("TriviaQA", 0.977), ("HotpotQA", 0.992), ("NQ", 0.798)],
)
def test_most_questions_have_spans_on_at_most_half_of_their_words(
    dataset: str, share: float
) -> None:
    questions = [row["question"] for row in rows(dataset)]
    usable = 0
    for question in questions:
        words = len(touched(question, find(question)))
        usable += 0 < 2 * words <= word_count(question)
    assert round(usable / len(questions), 3) == share


def test_nine_in_ten_main_subjects_of_nq_are_whole() -> None:
    """`nq_subjects.csv` says where a reader sees the main subject: row, characters [start, end)."""
    questions = rows("NQ")
    with (Path(__file__).parents[1] / "data" / "nq_subjects.csv").open() as file:
        judged = [tuple(map(int, line)) for line in list(csv.reader(file))[1:]]
    whole = 0
    for row, start, end in judged:
        spans = subjects(find(questions[row]["question"]))
        whole += any(s.start <= start and end <= s.end for s in spans)
    assert len(judged) == 100 and whole >= 90
