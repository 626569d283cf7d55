"""No answer: refusals, echoes and cut sentences, told from answers without any gold answer."""

import pytest
from anchors.test_real_answers import cases_of
from hostile import cases, text
from hypothesis import given, strategies as st

from anchorscope.anchors.answer_anchors import REASONS, UNFINISHED, locate, no_answer, thinks

CASES = cases_of("anchor_cases")


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
