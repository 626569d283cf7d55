"""What kind of answer a question asks for, as its question word tells, and of what kind one is."""

import re
from collections.abc import Sequence

from anchorscope.anchors.english import AUXILIARIES, TIMES, WH
from anchorscope.anchors.words import Word

KINDS = ("number", "yes/no", "name", "words")
"""Sorts of answers that letters alone tell apart."""
_NUMBER = re.compile(r"\d")


def kind_of(answer: str) -> str:
    """The sort of an answer, one of `KINDS`: with a digit, yes or no, with a capital, or none."""
    if _NUMBER.search(answer):
        return "number"
    if answer.strip(" .!,").lower() in ("yes", "no"):
        return "yes/no"
    return "name" if any(char.isupper() for char in answer) else "words"


def question_word(words: Sequence[Word]) -> int | None:
    """Index of the word that asks: among the first two words, else the last; None if none asks."""
    places = [i for i, word in enumerate(words) if word.lower in WH]
    if not places:
        return None
    return places[0] if places[0] < 2 else places[-1]


def answer_kind(words: Sequence[Word]) -> str | None:
    """The kind of answer that a question of these words asks for; None where no word asks.

    One of "yes/no", "who", "what", "when", "where", "why", "how" with the word behind it.
    """
    at = question_word(words)
    if words and words[0].lower in AUXILIARIES and (at is None or at > 1):
        return "yes/no"
    if at is None:
        return None
    asking = words[at].lower
    following = words[at + 1].lower if at + 1 < len(words) else ""
    if asking == "how":
        return f"how {following}"
    if asking in ("what", "which"):
        return "when" if following.removesuffix("s") in TIMES else "what"
    return "who" if asking in ("whom", "whose") else asking
