"""The label rule: normalised, whole words, no short alias inside a longer answer."""

import re
import string
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorscope import answer_anchors
from anchorscope.answers import _first_turn
from anchorscope.labels import matches, repeats_subject, squad_normalise


def squad_script(text: str) -> str:
    """SQuAD's own normalisation, the oracle on ASCII text."""
    plain = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", plain).split())


@settings(deadline=None)
@given(st.text(st.characters(codec="ascii")))
def test_normalisation_is_squads_on_ascii(text: str) -> None:
    assert squad_normalise(text) == squad_script(text)


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("The “Thriller”", "thriller"),
        ("Москва!", "москва"),
        ("東京", "東京"),
        ("ﬁlm Ⅳ", "film iv"),
        ("Café—Noir", "cafénoir"),
        ("ΟΔΟΣ", squad_normalise("οδος")),
        ("the", ""),
        ("New\u200b York", "new york"),
        ("\ufeffco\u00adop", "coop"),
        ("c\u0301\u200b\u0327", "\u1e09"),
    ],
)
def test_normalisation_keeps_letters_of_every_script(text: str, normalised: str) -> None:
    assert squad_normalise(text) == normalised


@pytest.mark.parametrize(
    ("answer", "golds", "right"),
    [
        ("the Beatles.", ["Beatles"], True),
        ("It was Paul McCartney of Liverpool", ["John Lennon", "Paul McCartney"], True),
        ("Austria", ["US"], False),
        ("he is from the US", ["US"], False),
        ("The U.S.", ["US"], True),
        ("unknown", ["no"], False),
        ("no", ["No."], True),
        ("catalogue", ["cat"], False),
        ("a cat sat", ["cat"], True),
        ("the", ["a"], False),
        ("", [""], False),
        ("anything", [], False),
    ],
)
def test_a_gold_matches_as_whole_words_and_only_from_three_characters(
    answer: str, golds: list[str], right: bool
) -> None:
    assert matches(answer, golds) is right


def test_repeated_subject_is_seen_as_whole_words() -> None:
    assert repeats_subject("George Rankin's brother", "George Rankin") is False
    assert repeats_subject("the actor George Rankin.", "George Rankin") is True
    assert repeats_subject("anything", None) is False
    assert repeats_subject("anything", "The") is False


HARD = yaml.safe_load((Path(__file__).parent / "data" / "hard_labels.yaml").read_text("utf-8"))
CASES = [(group["group"], case) for group in HARD for case in group["cases"]]


def judged(case: dict[str, Any]) -> tuple[str | None, int]:
    """E_A and label of a case, in the answers stage's own order: first turn, E_A, label."""
    said = _first_turn(case["output"], case.get("style", "few_shot"))
    found = answer_anchors.find(said)
    ea = said[slice(*found)] if found else None
    return ea, int(not matches(ea or case["output"].strip(), case["golds"]))


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{group}: {case['output']!r}") for group, case in CASES]
)
def test_hard_cases_have_the_answer_proper_and_the_label_that_the_file_says(case: dict) -> None:
    assert judged(case) == (case["ea"], case["label"])


def test_the_hard_cases_are_many_different_and_of_both_labels() -> None:
    assert len(CASES) >= 60
    keys = {(c["question"], *c["golds"], c["output"], c.get("style")) for _, c in CASES}
    assert len(keys) == len(CASES)
    labels = Counter(case["label"] for _, case in CASES)
    assert min(labels[0], labels[1]) >= 20
    assert {"question", "golds", "output", "ea", "label", "style", "why"} >= {
        key for _, case in CASES for key in case
    }


def test_the_answer_proper_does_not_hang_on_the_golds() -> None:
    for _, case in CASES:
        other = case | {"golds": [case["output"], "something else"]}
        assert judged(other)[0] == judged(case)[0]
