"""The label rule: normalised, whole words, no short alias inside a longer answer."""

import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
