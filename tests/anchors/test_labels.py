"""The label rule: normalised, whole words, no short alias inside a longer answer."""

import re
import string
from collections import Counter
from typing import Any

import pytest
from anchors.test_real_answers import cases_of, located
from hypothesis import given, settings, strategies as st
from scipy.stats import fisher_exact

from anchorscope.anchors.labels import matches, repeats_subject, squad_normalise

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


@pytest.mark.parametrize(("answer", "gold", "right"), SHORT["labels"])
def test_style_does_not_change_the_label_and_a_denied_gold_is_not_said(
    answer: str, gold: str, right: bool
) -> None:
    assert matches(answer, [gold]) is right
    assert matches(answer, ["something else", gold]) is right
    assert matches(answer, []) is False


@pytest.mark.parametrize(("answer", "gold", "right"), SHORT["unspaced"])
def test_words_of_scripts_without_spaces_are_whole_words(
    answer: str, gold: str, right: bool
) -> None:
    assert matches(answer, [gold]) is right
    assert repeats_subject(answer, gold) is right


def test_repeated_subject_is_seen_as_whole_words() -> None:
    assert repeats_subject("George Rankin's brother", "George Rankin") is False
    assert repeats_subject("the actor George Rankin.", "George Rankin") is True
    assert repeats_subject("anything", None) is False
    assert repeats_subject("anything", "The") is False


CASES = [(group["group"], case) for group in cases_of("hard_labels") for case in group["cases"]]


def judged(case: dict[str, Any]) -> tuple[str | None, int]:
    """E_A and label of a case, in the answers stage's own order: first turn, E_A, label."""
    said, found = located(case | {"prompt": case.get("style", "few_shot")})
    ea = said[found.start : found.end] if found else None
    return ea, int(not matches(ea or case["output"].strip(), case["golds"]))


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{group}: {case['output']!r}") for group, case in CASES]
)
def test_hard_cases_have_the_answer_proper_and_the_label_that_the_file_says(case: dict) -> None:
    assert judged(case) == (case["ea"], case["label"])


@pytest.mark.parametrize("part", ["messy_answers", "fresh_answers"])
def test_sure_spans_and_labels_follow_the_style_of_messy_answers(part: str) -> None:
    cases = [case for group in cases_of(part) for case in group["cases"]]
    # their own `style` is another
    found = [(case, *judged(case | {"style": case.get("prompt", "few_shot")})) for case in cases]
    assert sum(label == case["label"] for case, _, label in found) >= 0.93 * len(cases)
    anchors = [located(case)[1] for case in cases]
    sure = [(c, ea) for (c, ea, _), one in zip(found, anchors, strict=True) if one and one.sure]
    assert sum(ea == case["ea"] for case, ea in sure) >= 0.92 * len(sure)
    assert len(sure) >= 0.65 * len(cases)
    hits = Counter((case["label"], ea == case["ea"]) for case, ea, _ in found)
    table = [[hits[label, hit] for hit in (True, False)] for label in (0, 1)]
    assert fisher_exact(table)[1] > 0.05, "spans are found alike in right and wrong answers"
