"""E_A: one label-blind procedure, whatever the answer; and what is no answer."""

from itertools import cycle

import pytest
from anchors.test_real_answers import cases_of
from hostile import cases, text
from hypothesis import given, strategies as st

from anchorscope.anchors import no_answer, sentences
from anchorscope.anchors.answer_anchors import locate
from anchorscope.anchors.no_answer import REASONS, UNFINISHED, thinks

CASES = cases_of("anchor_cases")
WHICH = "Which is it?"


def found(answer: str, question: str = "") -> str | None:
    """The text of E_A."""
    anchor = locate(answer, question)
    return None if anchor is None else answer[anchor.start : anchor.end]


def reason(question: str, answer: str, finished: bool = True) -> str | None:
    return no_answer.reason(answer, question, locate(answer, question), finished)


FOUND = [
    *(("", *case) for case in CASES["found"].items()),
    *((WHICH, *case) for case in CASES["titles"]),
    *CASES["restated"],
]


@pytest.mark.parametrize(("question", "answer", "expected"), FOUND)
def test_the_answer_proper_is_found(question: str, answer: str, expected: str | None) -> None:
    assert found(answer, question) == expected


SURE = [*((*case, False) for case in CASES["left"]), *CASES["sure"]]


@pytest.mark.parametrize(("question", "answer", "sure"), SURE)
def test_the_finder_is_sure_of_short_answers_that_are_no_clause(
    question: str, answer: str, sure: bool
) -> None:
    anchor = locate(answer, question)
    assert anchor is not None and anchor.sure is sure


OUTCOMES = [
    *((*case, True) for case in CASES["outcomes"]),
    *((WHICH, answer, None, True) for answer, _ in CASES["titles"]),
    *(("Who wrote it?", answer, expected, finished) for answer, finished, expected in CASES["cut"]),
]


@pytest.mark.parametrize(("question", "answer", "expected", "finished"), OUTCOMES)
def test_no_answers_are_told_from_answers_and_cut_ones_are_unfinished(
    question: str, answer: str, expected: str | None, finished: bool
) -> None:
    assert reason(question, answer, finished) == expected


TITLES = ["<think>\n\n</think>\n\nAnn Bo", "Think Ann Bo", "Thinking, Fast and Slow", "<b>Ann Bo"]
THOUGHTS = [*((said, UNFINISHED) for said in CASES["thoughts"]), *((said, None) for said in TITLES)]


@pytest.mark.parametrize(("answer", "expected"), THOUGHTS)
def test_a_reply_that_opens_with_thoughts_is_unfinished(answer: str, expected: str | None) -> None:
    assert thinks(answer) == bool(expected) and reason("Who wrote it?", answer) == expected


ASKED = ("Who wrote it?", "How many are there?", "When was it?")
UNITS = [
    "was ", "the answer is ", "Q: A: ", "(a) ", '"', "Who? ", "not ", "東", "12 ", "<b>", "1,",
    " ‘a", "He is “", "ا",
]  # fmt: skip


@pytest.mark.parametrize(("unit", "question"), [*zip(UNITS, cycle(ASKED))])
def test_a_reply_of_100_000_characters_is_read(unit: str, question: str) -> None:
    assert reason(question, unit * (100_000 // len(unit))) in (None, *REASONS)


PIECES = [*"abTJ3 .,!?'\"()\n:*-’“”東。ا", "the ", "It is ", "St. ", "U.S. ", "The answer is"]
ANSWERS = st.lists(st.sampled_from(PIECES), max_size=20).map("".join) | text
QUESTIONS = st.sampled_from(["", *ASKED, "Is it so?", "It is in what city?"]) | text


@cases
@given(ANSWERS, QUESTIONS, st.booleans(), st.text(max_size=20))
def test_a_span_lies_on_one_line_and_every_reason_is_of_the_list(
    answer: str, question: str, finished: bool, later: str
) -> None:
    assert reason(question, answer, finished) in (None, *REASONS)
    span = found(answer, question)
    if span is not None:
        assert span and span == span.strip()
        assert not set(span) & set(sentences.NEWLINES)
    # A line break right after a lead-in's colon is no end, nor are line breaks before the answer.
    first = answer.replace(":", "").replace("：", "") + "\n"
    if locate(first) is not None:
        assert locate(first + later) == locate(first), "later lines do not matter"
