"""E_A: one label-blind procedure, whatever the answer; and what is no answer."""

import inspect
from itertools import cycle

import pytest
from anchors.test_real_answers import cases_of
from hostile import cases, text
from hypothesis import given, strategies as st

from anchorscope.anchors import sentences
from anchorscope.anchors.answer_anchors import REASONS, UNFINISHED, locate, no_answer, thinks
from anchorscope.anchors.sentences import closer

CASES = cases_of("anchor_cases")


def found(answer: str, question: str = "") -> str | None:
    """The text of E_A."""
    anchor = locate(answer, question)
    return None if anchor is None else answer[anchor.start : anchor.end]


@pytest.mark.parametrize(("answer", "expected"), CASES["found"].items())
def test_the_answer_proper_is_found(answer: str, expected: str | None) -> None:
    assert found(answer) == expected


@pytest.mark.parametrize(("answer", "expected"), CASES["titles"])
def test_a_title_stays_whole(answer: str, expected: str) -> None:
    assert found(answer, "Which is it?") == expected
    assert no_answer(answer, "Which is it?", locate(answer, "Which is it?"), True) is None


@pytest.mark.parametrize(("question", "answer", "expected"), CASES["restated"])
def test_the_question_tells_what_of_a_reply_is_the_answer(
    question: str, answer: str, expected: str
) -> None:
    assert found(answer, question) == expected


@pytest.mark.parametrize(("question", "answer"), CASES["left"])
def test_the_finder_is_not_sure_of_what_it_leaves_whole(question: str, answer: str) -> None:
    anchor = locate(answer, question)
    assert anchor is not None and not anchor.sure


@pytest.mark.parametrize(("question", "answer", "sure"), CASES["sure"])
def test_the_finder_is_sure_of_short_answers_that_are_no_clause(
    question: str, answer: str, sure: bool
) -> None:
    anchor = locate(answer, question)
    assert anchor is not None and anchor.sure is sure


ASKED = ("Who wrote it?", "How many are there?", "When was it?")
UNITS = [
    "was ", "the answer is ", "Q: A: ", "(a) ", '"', "Who? ", "not ", "東", "12 ", "<b>", "1,",
    " ‘a", "He is “", "ا",
]  # fmt: skip


@pytest.mark.parametrize(("unit", "question"), [*zip(UNITS, cycle(ASKED))])
def test_a_reply_of_100_000_characters_is_read(unit: str, question: str) -> None:
    said = unit * (100_000 // len(unit))
    anchor = locate(said, question)
    assert no_answer(said, question, anchor, finished=True) in (None, *REASONS)


def test_the_finder_is_given_question_and_reply_alone() -> None:
    assert list(inspect.signature(locate).parameters) == ["reply", "question"]
    names = ["reply", "question", "anchor", "finished"]
    assert list(inspect.signature(no_answer).parameters) == names


PIECES = [*"abTJ3 .,!?'\"()\n:*-’“”東。ا", "the ", "It is ", "St. ", "U.S. ", "The answer is"]
ANSWERS = st.lists(st.sampled_from(PIECES), max_size=20).map("".join) | text


QUESTIONS = st.sampled_from(
    ["", "Who wrote it?", "When was it?", "How many are there?", "Is it so?", "It is in what city?"]
)


@cases
@given(ANSWERS, QUESTIONS)
def test_a_span_lies_on_one_line_without_white_space_at_its_edges(
    answer: str, question: str
) -> None:
    text = found(answer, question)
    if text is not None:
        assert text and text == text.strip()
        assert not set(text) & set(sentences.NEWLINES)


@cases
@given(ANSWERS, st.text(max_size=20))
def test_what_stands_on_later_lines_does_not_matter(answer: str, later: str) -> None:
    # A line break right after a lead-in's colon is no end, nor are line breaks before the answer.
    first = answer.replace(":", "").replace("：", "")
    if locate(first + "\n") is not None:
        assert locate(first + "\n" + later) == locate(first + "\n")


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ("Paris .", 5, 6), ("Paris.\n", 5, 5), ("Paris\n.", 5, 5),
        ("Paris (pop. 2.1 million)\n", 5, 24), ("Jr.\n", 3, 3), ("東京。", 2, 2),
        ("Paris", 5, None), ("3.5", 0, None), ("U.S. . right", 0, 5), ("U.S. Navy", 0, None),
    ],
)  # fmt: skip
def test_the_closer_is_the_first_line_break_or_full_stop(
    text: str, start: int, expected: int | None
) -> None:
    assert closer(text, start) == expected


def reason(question: str, answer: str, finished: bool = True) -> str | None:
    return no_answer(answer, question, locate(answer, question), finished)


@pytest.mark.parametrize(("question", "answer", "expected"), CASES["outcomes"])
def test_no_answers_are_told_from_answers(question: str, answer: str, expected: str | None) -> None:
    assert reason(question, answer) == expected


@pytest.mark.parametrize(("answer", "finished", "expected"), CASES["cut"])
def test_an_answer_cut_inside_its_anchor_is_unfinished(
    answer: str, finished: bool, expected: str | None
) -> None:
    assert reason("Who wrote it?", answer, finished) == expected


@pytest.mark.parametrize("answer", CASES["thoughts"])
@pytest.mark.parametrize("finished", [True, False])
def test_a_reply_that_opens_with_thoughts_is_unfinished(answer: str, finished: bool) -> None:
    assert thinks(answer) and reason("Who wrote it?", answer, finished) == UNFINISHED


@pytest.mark.parametrize(
    "answer",
    ["<think>\n\n</think>\n\nAnn Bo", "Think Ann Bo", "Thinking, Fast and Slow", "<b>Ann Bo"],
)
def test_an_empty_pair_of_tags_and_a_title_are_no_thoughts(answer: str) -> None:
    assert not thinks(answer) and reason("Who wrote it?", answer) is None
    assert locate("<think></think>Ann Bo", "Who wrote it?") == locate("<think></think>Ann Bo", "")


@cases
@given(text, text, st.booleans())
def test_whatever_is_said_has_a_reason_of_the_list_or_none(
    question: str, answer: str, finished: bool
) -> None:
    assert reason(question, answer, finished) in (None, *REASONS)
