"""Replies and gold answers are treated alike: what differs in form only is equal."""

from collections import Counter

import pytest
from anchors.test_real_answers import FILES, GOLDS, cases_of, rows

from anchorscope.anchors.answer_anchors import locate, no_answer
from anchorscope.anchors.labels import is_right, judge, matches
from anchorscope.anchors.sentences import NEWLINES
from anchorscope.questions.fields import RowCells

CASES = cases_of("anchor_cases")
FIELDS = {"popqa": ["possible_answers"], "nq_open": ["answer"], "hotpot_qa": ["answer"], **GOLDS}


@pytest.mark.parametrize("dataset", list(FILES))
def test_a_reply_equal_to_the_first_gold_is_right_in_every_real_row(dataset: str) -> None:
    if not rows(dataset):
        pytest.skip(f"../shared/data/{dataset} is absent")
    fields = {"question": "question", "answers": FIELDS[dataset]}
    wrong, judged = [], 0
    for row in rows(dataset):
        cells = RowCells(row, fields, dataset, Counter())
        if cells.golds:
            judged += 1
            reply = cells.golds[0].translate(dict.fromkeys(map(ord, NEWLINES), " "))
            wrong += [] if judge(reply, str(cells.question), cells.golds) else [reply]
    assert wrong == [] and judged >= 1998


@pytest.mark.parametrize(
    ("reply", "gold"),
    [
        ("in the 1830s", "in the 1830s"), ("the 1830s", "in the 1830s"), ("1830s", "in the 1830s"),
        ("in Brooklyn", "Brooklyn"), ("The answer is Brooklyn.", "in Brooklyn"),
        ("Kentucky Fried Chicken", "Kentucky Fried Chicken (KFC)"),
        ("The answer is Kentucky Fried Chicken (KFC).", "Kentucky Fried Chicken (KFC)"),
    ],
)  # fmt: skip
def test_golds_are_trimmed_like_replies(reply: str, gold: str) -> None:
    assert judge(reply, "When or where was it?", [gold])


def test_a_remark_in_brackets_goes_from_the_first_gold_and_tells_aliases_apart() -> None:
    assert matches("Jim Grant", ["Jim Grant (author)", "Lee Child"])
    assert not matches("Jim Grant", ["Lee Child", "Jim Grant (author)"])


@pytest.mark.parametrize(("answer", "gold"), CASES["equal"])
def test_what_differs_in_form_only_is_equal_both_ways(answer: str, gold: str) -> None:
    assert matches(answer, [gold])
    assert matches(gold, [answer])


@pytest.mark.parametrize(("answer", "gold"), CASES["unequal"])
def test_signs_and_scales_make_another_number_both_ways(answer: str, gold: str) -> None:
    assert not matches(answer, [gold])
    assert not matches(gold, [answer])


@pytest.mark.parametrize("letter", "ABCD")
def test_a_letter_as_gold_answer_is_right_where_it_is_the_whole_reply(letter: str) -> None:
    golds = RowCells({"a": letter}, {"answers": ["a"]}, "row 1", Counter()).golds
    assert golds == [letter]
    question = "Which is it? (A) one (B) two (C) three (D) four"
    for reply in (letter, f"{letter}.", f"({letter})", f"{letter})", f"The answer is {letter}."):
        assert judge(reply, question, golds), reply
        assert no_answer(reply, question, locate(reply, question), True) is None
    assert not any(judge(other, question, golds) for other in set("ABCD") - {letter})
    assert not judge(f"{letter} large one", question, golds)


def test_a_whole_reply_that_equals_a_gold_is_right_whatever_is_taken_from_it() -> None:
    assert is_right("Passion", "Passion. Connected.", ["Passion. Connected."])
    assert not is_right("Passion", "Passion.", ["Passion. Connected."])
