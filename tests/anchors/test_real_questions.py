"""E_Q in real questions: how much the finders get right, see docs/method.md."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from anchors.test_real_answers import rows

from anchorscope.anchors.question_anchors import find
from anchorscope.anchors.words import SUBJECT, Span, word_count, word_places


def questions_of(dataset: str) -> list[dict[str, Any]]:
    """The rows of a dataset; without them the test is skipped."""
    return rows(dataset) or pytest.skip(f"../shared/data/{dataset} is absent")


def subjects(spans: Iterable[Span]) -> list[Span]:
    return [span for span in spans if span.role == SUBJECT]


def touched(question: str, spans: Sequence[Span]) -> set[int]:
    """Which words of a question the spans touch."""
    places = enumerate(word_places(question))
    return {i for i, (a, b) in places if any(s.start < b and a < s.end for s in spans)}


def test_subjects_of_popqa_are_found_without_being_given() -> None:
    exact = hits = marked = of_subjects = 0
    questions = questions_of("popqa")
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
    [("popqa", 0.986), ("trivia_qa", 0.977), ("hotpot_qa", 0.992), ("nq_open", 0.798)],
)
def test_most_questions_have_spans_on_at_most_half_of_their_words(
    dataset: str, share: float
) -> None:
    questions = [row["question"] for row in questions_of(dataset)]
    usable = 0
    for question in questions:
        words = len(touched(question, find(question)))
        usable += 0 < 2 * words <= word_count(question)
    assert round(usable / len(questions), 3) == share


def test_nine_in_ten_main_subjects_of_nq_are_whole() -> None:
    """`nq_subjects.csv` says where a reader sees the main subject: row, characters [start, end)."""
    questions = questions_of("nq_open")
    with (Path(__file__).parents[1] / "data" / "nq_subjects.csv").open() as file:
        judged = [tuple(map(int, line)) for line in list(csv.reader(file))[1:]]
    whole = 0
    for row, start, end in judged:
        spans = subjects(find(questions[row]["question"]))
        whole += any(s.start <= start and end <= s.end for s in spans)
    assert len(judged) == 100 and whole >= 90
