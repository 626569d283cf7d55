"""The label rule: whole words, replies and golds treated alike, no short alias inside another."""

import re
import string
from collections import Counter
from typing import Any

import pytest
from anchors.test_real_answers import FILES, GOLDS, cases_of, located, present
from hypothesis import given, settings, strategies as st
from scipy.stats import fisher_exact

from anchorscope.anchors import no_answer
from anchorscope.anchors.answer_anchors import locate
from anchorscope.anchors.labels import (
    is_right,
    judge,
    matches,
    only_repeats,
    repeats_subject,
    squad_normalise,
)
from anchorscope.anchors.sentences import NEWLINES
from anchorscope.questions.fields import RowCells

SHORT = cases_of("anchor_cases")


def squad_script(text: str) -> str:
    """SQuAD's own normalisation, the oracle on ASCII text."""
    plain = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", plain).split())


@settings(deadline=None)
@given(st.text(st.characters(codec="ascii")))
def test_normalisation_is_squads_on_ascii(text: str) -> None:
    assert squad_normalise(text) == squad_script(text)


@pytest.mark.parametrize(("text", "normalised"), SHORT["normalised"])
def test_normalisation_keeps_letters_of_every_script(text: str, normalised: str) -> None:
    assert squad_normalise(text) == normalised


MATCHES = [
    *SHORT["labels"],
    *SHORT["unspaced"],
    *((one, other, True) for pair in SHORT["equal"] for one, other in (pair, pair[::-1])),
    *((one, other, False) for pair in SHORT["unequal"] for one, other in (pair, pair[::-1])),
]


@pytest.mark.parametrize(("answer", "gold", "right"), MATCHES)
def test_style_and_form_do_not_change_the_label_and_a_denied_gold_is_not_said(
    answer: str, gold: str, right: bool
) -> None:
    assert matches(answer, [gold]) is right
    assert matches(answer, ["something else", gold]) is right
    assert matches(answer, []) is False


@pytest.mark.parametrize(
    ("answer", "subject", "repeats"),
    [("George Rankin's brother", "George Rankin", False), ("anything", None, False),
     ("the actor George Rankin.", "George Rankin", True), *SHORT["unspaced"]],
)  # fmt: skip
def test_repeated_subject_is_seen_as_whole_words(
    answer: str, subject: str | None, repeats: bool
) -> None:
    assert repeats_subject(answer, subject) is repeats


CASES = [(group["group"], case) for group in cases_of("hard_labels") for case in group["cases"]]


def judged(case: dict[str, Any]) -> tuple[str | None, bool, int]:
    """E_A of a case, whether the finder is sure, and the label, as in the answers stage."""
    said, found = located({"prompt": case.get("style", "few_shot")} | case)
    ea = said[found.start : found.end] if found else None
    label = int(not is_right(ea or case["output"].strip(), said, case["golds"]))
    return ea, found is not None and found.sure, label


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{group}: {case['output']!r}") for group, case in CASES]
)
def test_hard_cases_have_the_answer_proper_and_the_label_that_the_file_says(case: dict) -> None:
    ea, _, label = judged(case)
    assert (ea, label) == (case["ea"], case["label"])


@pytest.mark.parametrize("part", ["messy_answers", "fresh_answers"])
def test_sure_spans_and_labels_follow_the_style_of_messy_answers(part: str) -> None:
    cases = [{"prompt": "few_shot"} | c for group in cases_of(part) for c in group["cases"]]
    found = [(case, *judged(case)) for case in cases]
    assert sum(label == case["label"] for case, *_, label in found) >= 0.93 * len(cases)
    sure = [ea == case["ea"] for case, ea, is_sure, _ in found if is_sure]
    assert sum(sure) >= 0.92 * len(sure) and len(sure) >= 0.65 * len(cases)
    hits = Counter((case["label"], ea == case["ea"]) for case, ea, *_ in found)
    table = [[hits[label, hit] for hit in (True, False)] for label in (0, 1)]
    assert fisher_exact(table)[1] > 0.05, "spans are found alike in right and wrong answers"


FIELDS = {"popqa": ["possible_answers"], "nq_open": ["answer"], "hotpot_qa": ["answer"], **GOLDS}


@pytest.mark.parametrize("dataset", list(FILES))
def test_a_reply_equal_to_the_first_gold_is_right_in_every_real_row(dataset: str) -> None:
    fields = {"question": "question", "answers": FIELDS[dataset]}
    wrong, judged = [], 0
    for row in present(dataset):
        cells = RowCells(row, fields, dataset, Counter())
        if cells.golds:
            judged += 1
            reply = cells.golds[0].translate(dict.fromkeys(map(ord, NEWLINES), " "))
            wrong += [] if judge(reply, str(cells.question), cells.golds) else [reply]
    assert wrong == [] and judged >= 1998


@pytest.mark.parametrize(
    ("reply", "gold"),
    [
        ("the 1830s", "in the 1830s"), ("1830s", "in the 1830s"),
        ("The answer is Brooklyn.", "in Brooklyn"),
        ("Kentucky Fried Chicken", "Kentucky Fried Chicken (KFC)"),
    ],
)  # fmt: skip
def test_golds_are_trimmed_like_replies(reply: str, gold: str) -> None:
    assert judge(reply, "When or where was it?", [gold])


def test_a_remark_in_brackets_goes_from_the_first_gold_and_tells_aliases_apart() -> None:
    assert matches("Jim Grant", ["Jim Grant (author)", "Lee Child"])
    assert not matches("Jim Grant", ["Lee Child", "Jim Grant (author)"])


def test_a_letter_as_gold_answer_is_right_where_it_is_the_whole_reply() -> None:
    question = "Which is it? (A) one (B) two (C) three (D) four"
    for reply in ("C", "C.", "(C)", "C)", "The answer is C."):
        assert judge(reply, question, ["C"]), reply
        assert no_answer.reason(reply, question, locate(reply, question), True) is None
    assert not any(judge(other, question, ["C"]) for other in ("A", "B", "D", "C large one"))


def test_a_whole_reply_that_equals_a_gold_is_right_whatever_is_taken_from_it() -> None:
    assert is_right("Passion", "Passion. Connected.", ["Passion. Connected."])
    assert not is_right("Passion", "Passion.", ["Passion. Connected."])


KNOWN_AS = "By what name is Annie Mae Bullock better known?"
TURNER = ["Tina Turner", "Annie Mae Bullock", "T. Turner"]


@pytest.mark.parametrize(
    ("reply", "question", "golds", "repeats"),
    [
        ("Annie Mae Bullock", KNOWN_AS, TURNER, True),
        ("She is known as Annie Mae Bullock.", KNOWN_AS, TURNER, True),
        ("Tina Turner", KNOWN_AS, TURNER, False),
        ("Tina Turner, born Annie Mae Bullock", KNOWN_AS, TURNER, False),
        ("Annie Lennox", KNOWN_AS, TURNER, False),
        ("Annie Mae Bullock", "What is Annie Mae Bullock’s stage name?", TURNER, True),
        ("Beyonce", "What is Beyoncé's surname?", ["Knowles", "Beyonce"], True),
        ("Thighbone", "What is the thigh bone called?", ["Femur", "Thighbone"], True),
        ("東京", "東京の旧名は何ですか", ["江戸", "東京"], True),
        # The question offers its answer.
        ("Rome", "Which is older, Rome or Oslo?", ["Rome", "Roma"], False),
        ("Rome", "Of Rome and Oslo, which is older?", ["Rome"], False),
        ("four", "How many times did she win each of the four cups?", ["4", "four"], False),
        # A word without a meaning of its own names nothing.
        ("The Who", "Who recorded Tommy?", ["The Who", "The Who (band)", "Who (band)"], False),
        # The second gold keeps its remark although the first one stands in the question.
        ("Jim Grant", "Who wrote as Lee Child?", ["Lee Child", "Jim Grant (author)"], False),
    ],
)  # fmt: skip
def test_an_answer_that_matches_only_golds_in_its_question_only_repeats_it(
    reply: str, question: str, golds: list[str], repeats: bool
) -> None:
    found = locate(reply, question)
    proper = reply[found.start : found.end] if found else reply
    assert only_repeats(proper, reply, question, golds) is repeats


def letters(text: str) -> str:
    """The letters and digits of a text."""
    return re.sub(r"\W", "", text.casefold())


@pytest.mark.parametrize(("dataset", "rows"), [("trivia_qa", 99), ("popqa", 34), ("nq_open", 17)])
def test_real_rows_have_golds_that_only_repeat_their_question(dataset: str, rows: int) -> None:
    found = 0
    for row in present(dataset):
        fields = {"question": "question", "answers": FIELDS[dataset]}
        cells = RowCells(row, fields, dataset, Counter())
        question, golds = str(cells.question), cells.golds
        inside = (gold for gold in golds if letters(gold) in letters(question))
        found += any(only_repeats(gold, gold, question, golds) for gold in inside)
    assert found == rows
