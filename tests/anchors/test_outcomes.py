"""No answer: refusals, echoes and cut sentences, told from answers without any gold answer."""

import pytest
from hostile import cases, text
from hypothesis import given, strategies as st

from anchorscope.anchors.answer_anchors import (
    ECHO,
    REASONS,
    REFUSAL,
    UNFINISHED,
    locate,
    no_answer,
    thinks,
)

CASES = [
    # refusals
    ("Who wrote it?", "I don't know.", REFUSAL), ("Who wrote it?", "Unknown", REFUSAL),
    ("Who wrote it?", "The author is unknown.", REFUSAL), ("Who wrote it?", "N/A", REFUSAL),
    ("Who wrote it?", "The author is not explicitly mentioned in the passage.", REFUSAL),
    ("Who wrote it?", "The author of the book was not revealed.", REFUSAL),
    ("Who wrote it?", "There is no information about it.", REFUSAL),
    ("Who wrote it?", "Unfortunately, I couldn't find the author.", REFUSAL),
    ("Who wrote it?", "I'm sorry, but I cannot answer that.", REFUSAL),
    ("Who wrote it?", "As an AI language model, I cannot know that.", REFUSAL),
    ("Who wrote it?", "You're a helpful AI assistant.", REFUSAL),
    # only what it is not, or yes and no where neither was asked for
    ("Who wrote it?", "It was not Ann Bo.", REFUSAL), ("Who wrote it?", "Yes.", REFUSAL),
    ("Who wrote it?", "The author was not the one who wrote it.", REFUSAL),
    # what looks like a refusal
    ("Who wrote it?", "I'm not sure, but I think it was Ann Bo.", None),
    ("Who wrote it?", "I don't know, but Ann Bo is my guess.", None),
    ("Which record is it?", "Unknown Pleasures", None), ("Is it true?", "No.", None),
    ("Which record is it?", "There Is Nothing Left to Lose", None),
    ("Which song is it?", "I Can't Get No Satisfaction", None),
    ("Which song is it?", "Not Fade Away", None), ("Who lives there?", "Nobody", None),
    ("When could they vote?", "It was not until 1971.", None),
    ("Who wrote it?", "No idea.", REFUSAL), ("Who wrote it?", "Nobody knows", REFUSAL),
    ("Which symbol is it?", "As", None), ("Is it true?", "It is not true.", None),
    ("Who never won?", "Ann never won it.", None),
    ("Who was it?", "It was not Ann, but Bo.", None),
    # echoes
    ("In what city was Ann Bo born?", "In what city was Ann Bo born?", ECHO),
    ("in what city was ann bo born", "in what city was ann bo born", ECHO),
    ("Who wrote The Red House?", "Who is the author of The Red House?", ECHO),
    ("Which Italian sauce contains tomato, olives, capers and red peppers?",
     "Italian sauce contains tomato, olives, capers, and red peppers.", ECHO),
    ("Which family of insects is it?", "The family of insects is the family of insects.", ECHO),
    ("Which river runs through Ely?", "Ely is a river that runs through Ely.", ECHO),
    ("What is a shoe that is traditionally made of wood?",
     "The shoe is a traditional shoe made of wood.", ECHO),
    ("Where should non playing children be in a shoot out?",
     "The non-playing children should be in the shoot-out.", ECHO),
    ("Which trail runs from Ayr to Ely in a week?", "The trail runs from Ayr to Ely in a week.",
     ECHO),
    ("Bo had a role in which 2008 comedy film?", "Bo had a role in 2008 comedy film.", ECHO),
    ("Whose song led to a craze for the dance of that name?",
     "Who is the craze for the dance of that name?", ECHO),
    # what repeats words of the question and answers
    ("Who played Luke Skywalker?", "Luke Skywalker", None),
    ("Which came first, the Battle of the Ch'ongch'on River or the Battle of Tarawa?",
     "The Battle of the Ch'ongch'on River", None),
    ("When did the film of 2006 begin?", "The film of 2006 began in 2006.", None),
    ("Which play is it?", "Who's Afraid of Virginia Woolf?", None),
    ("Are Ann and Bo actors?", "Ann and Bo are actors.", None),
    ("Who is the sister of Anna Bo?", "Hanna Bo is the sister of Anna Bo.", None),
    ("Who is the son of Maria Curie?", "Marie Curie is.", None),
    ("Is it heavier, gold or silver, and which is it?", "The heavier is silver.", None),
    ("Do Ann and Bo have the same job?", "Ann and Bo do not have the same job.", None),
    ("Which event did Ann Bo found in 1999?", "Ann Bo was found in 1999.", ECHO),
    ("What is the tale?", "The tale is not stated, but the tale is old.", REFUSAL),
    ("Which film won more, 1917 or Dunkirk?", "1917 won more.", None),
    ("Which number is larger, 1500 or 1400?", "The larger number is 1500.", None),
    ("Do bats and cats have wings?", "No, both bats and cats do not have wings.", None),
]  # fmt: skip


def reason(question: str, answer: str, finished: bool = True) -> str | None:
    return no_answer(answer, question, locate(answer, question), finished)


@pytest.mark.parametrize(("question", "answer", "expected"), CASES)
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
