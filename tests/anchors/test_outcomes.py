"""No answer: refusals, echoes and cut sentences, told from answers without any gold answer."""

import pytest
from anchors.test_real_answers import cases_of
from hostile import cases, text
from hypothesis import given, strategies as st

from anchorscope.anchors.answer_anchors import REASONS, UNFINISHED, locate, no_answer, thinks


def reason(question: str, answer: str, finished: bool = True) -> str | None:
    return no_answer(answer, question, locate(answer, question), finished)


@pytest.mark.parametrize(("question", "answer", "expected"), cases_of("anchor_cases")["outcomes"])
def test_no_answers_are_told_from_answers(question: str, answer: str, expected: str | None) -> None:
    assert reason(question, answer) == expected


@pytest.mark.parametrize(
    ("answer", "finished", "expected"),
    [
        ("The author is the British novelist, A. J. Cro", False, UNFINISHED),
        ("The book was written by:\n\nThe author was", False, UNFINISHED),
        ("12, 13, 14, 15, 16,", False, UNFINISHED), ("12, 13, 14, 15, 16,", True, None),
        ("It is Ann Bo. She was born in", False, None), ("", True, UNFINISHED),
        ("The answer is:", True, UNFINISHED), ("The author was:\n\nThe", False, UNFINISHED),
        ('The author of "Rome" was Ann (a British pain', False, None),
    ],
)  # fmt: skip
def test_an_answer_cut_inside_its_anchor_is_unfinished(
    answer: str, finished: bool, expected: str | None
) -> None:
    assert reason("Who wrote it?", answer, finished) == expected


THOUGHTS = [
    "<think>\nOkay, I remember that it was Ann Bo", "<think>It was Ann.</think> Ann Bo",
    "<think", "<think>Let me see</think", " <thinking>Hm</thinking>\n\nAnn Bo",
    "<|channel|>analysis<|message|>Let us see", "[THINK]I think[/THINK]Ann Bo", "</think>\nAnn Bo",
    "<reasoning>Ann", "◁think▷Ann", "<seed:think>Ann", "<unused94>thought\nAnn",
]  # fmt: skip


@pytest.mark.parametrize("answer", THOUGHTS)
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
