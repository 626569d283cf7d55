"""Replies and gold answers are treated alike: what differs in form only is equal."""

from collections import Counter

import pytest
from anchors.test_real_answers import FILES, GOLDS, rows

from anchorscope.anchors.answer_anchors import locate, no_answer
from anchorscope.anchors.labels import is_right, judge, matches
from anchorscope.anchors.sentences import NEWLINES
from anchorscope.questions.fields import RowCells

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


def extracted(reply: str, question: str = "") -> str | None:
    found = locate(reply, question)
    return None if found is None else reply[found.start : found.end]


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


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("5 million", "5,000,000"), ("five million", "5000000"), ("1.5 million", "1,500,000"),
        ("a hundred", "100"), ("two hundred", "200"), ("five hundred thousand", "500,000"),
        ("10 000", "10,000"), ("1.000.000", "1,000,000"), (".5", "0.5"), ("1,5", "1.5"),
        ("minus 40", "-40"), ("\u221240", "-40"), ("½", "1/2"), ("10.30 am", "10:30 a.m."),
        ("1939-1945", "1939–1945"), ("50%", "50 percent"), ("50 per cent", "50%"),
        ("Simon & Garfunkel", "Simon and Garfunkel"), ("R&B", "R and B"), ("R & B", "R&B"),
        ("Elizabeth II", "Elizabeth 2"), ("World War One", "World War I"),
        ("Rocky \u2163", "Rocky 4"),
        ("1st", "first"), ("twenty-first", "21st"), ("the Fourth of July", "July 4"),
        ("St. Louis", "Saint Louis"), ("Mt Everest", "Mount Everest"), ("Doctor No", "Dr. No"),
        ("Jay Z", "Jay-Z"), ("8848m", "8848 m"), ("Spider Man", "Spiderman"),
        ("July 4,1776", "4 July 1776"), ("Henry the Eighth", "Henry VIII"),
        ("Chanel No. 5", "Chanel #5"),
        ("Roe vs Wade", "Roe v. Wade"), ("1500 BC", "about 1500 BC"), ("1965", "By 1965"),
        ("four billion", "around 4 billion"), ("10,000 BC", "10000 B.C."),
        ("3½", "3 1/2"), ("44 BCE", "44 B.C."), ("AD 79", "79 C.E."), ("8:00 PM", "8 p.m."),
        ("$5", "5 dollars"), ("$1.5 million", "1,500,000 dollars"), ("Disney+", "Disney Plus"),
        ("F#", "F♯"),
        ("Simon &amp; Garfunkel", "Simon & Garfunkel"), ("3-Sep-1939", "September 3, 1939"),
    ],
)  # fmt: skip
def test_what_differs_in_form_only_is_equal_both_ways(answer: str, gold: str) -> None:
    assert matches(answer, [gold]) and matches(gold, [answer])


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("15 million", "1.5 million"), ("5", "-5"), ("3/4", "34"), ("34", "3:4"), ("32", "3-2"),
        ("15", "1,5"), ("5", ".5"), ("1.5", "1.5 million"), ("100 BC", "100"),
        ("one hundred and one", "100"), ("two hundred", "2"), ("12", "1 2"), ("14", "XIV"),
        ("2nd", "2"), ("500", "5 hundred thousand"), ("2nd century BC", "2nd century"),
        ("C", "C++"), ("C", "C#"), ("C#", "C++"), ("3½", "31/2"), ("8:30 pm", "8 pm"),
        ("$5", "5 pounds"), ("44 BCE", "44 CE"),
    ],
)  # fmt: skip
def test_signs_and_scales_make_another_number_both_ways(answer: str, gold: str) -> None:
    assert not matches(answer, [gold]) and not matches(gold, [answer])


@pytest.mark.parametrize(("answer", "right"), [("3.5 million", False), ("3.5 miles", True)])
def test_a_number_is_not_said_by_a_larger_one_that_begins_with_it(answer: str, right: bool) -> None:
    assert matches(answer, ["3.5"]) is right


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("10,000 BC", "10,000 BC"), ("It began in 10,000 BC.", "10,000 BC"), ("1,776", "1,776"),
        ("It was in 1500 B.C.", "1500 B.C."), ("July 4,1776", "July 4,1776"),
        ("It was in 1951–52.", "1951–52"), ("AD 95–110", "AD 95–110"),
        ("It was from 9 to 25 May 2018.", "9 to 25 May 2018"),
        ("in the 2nd century BC", "2nd century BC"), ("50,000 years ago", "50,000 years ago"),
        ("in 1939,1945", "1939,1945"), ("mid 1950s", "mid 1950s"),
    ],
)  # fmt: skip
def test_a_date_never_begins_or_ends_inside_a_longer_number(reply: str, expected: str) -> None:
    assert extracted(reply, "When did it begin?") == expected


def test_a_number_that_is_asked_for_keeps_its_sign() -> None:
    assert extracted("It was -5 degrees.", "How much was it?") == "-5"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("None but the Brave", "None but the Brave"),
        ("Everything but the Girl. They are a duo.", "Everything but the Girl"),
        ("The The", "The The"),
        ("Portugal. The Man", "Portugal. The Man"),
        ("Portugal. The Man. They are a band.", "Portugal. The Man"),
        ("Mamma Mia! Here We Go Again", "Mamma Mia! Here We Go Again"),
        ("Godspeed You! Black Emperor", "Godspeed You! Black Emperor"),
        # no titles
        ("Paris. The capital of France.", "Paris"), ("Portugal. The Man is a band", "Portugal"),
        ("Paris but it is small", "Paris"), ("Paris, but Rome is larger", "Paris"),
        ("Paris but not in winter", "Paris"), ("Paris! It is nice", "Paris"),
    ],
)  # fmt: skip
def test_a_title_stays_whole(reply: str, expected: str) -> None:
    assert extracted(reply, "Which is it?") == expected
    assert no_answer(reply, "Which is it?", locate(reply, "Which is it?"), True) is None


@pytest.mark.parametrize(
    ("reply", "question", "expected"),
    [
        ("A. Paris", "What is the capital of France?", "Paris"),
        ("(B) Rome", "Which city is it?", "Rome"), ("B: Rome", "Which city is it?", "Rome"),
        ("B. The Beatles", "Which band is it?", "Beatles"),
        ("A. Milne", "Who wrote it? A. Milne B. Shaw", "Milne"),
        ("B. small ones", "Which are they?\nA) large ones\nB) small ones", "small ones"),
        # initials
        ("A. Milne", "Who wrote it?", "A. Milne"), ("A. A. Milne", "Which poet?", "A. A. Milne"),
        ("E. coli", "Which germ is it?", "E. coli"), ("A. Milne", "", "A. Milne"),
    ],
)  # fmt: skip
def test_the_letter_of_a_multiple_choice_goes(reply: str, question: str, expected: str) -> None:
    assert extracted(reply, question) == expected


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
