"""The kind of answer that a question asks for, and the kind of a given answer."""

import re
from collections.abc import Sequence

from anchorscope.anchors.english import AUXILIARIES, TIMES, WH
from anchorscope.anchors.words import Word

KINDS = ("number", "yes/no", "name", "words")
"""Kinds of answers that can be told apart by their characters alone."""
_NUMBER = re.compile(r"\d")


def kind_of(answer: str) -> str:
    """Return the kind of an answer, one of `KINDS`.

    A "number" has a digit. A "name" has a capital but no digit, and is not "Yes" or "No".
    """
    if _NUMBER.search(answer):
        return "number"
    if answer.strip(" .!,").lower() in ("yes", "no"):
        return "yes/no"
    return "name" if any(char.isupper() for char in answer) else "words"


def question_word(words: Sequence[Word]) -> int | None:
    """Return the index of the question word, or None if there is none.

    A word that opens the question, after at most one function word, is preferred: in "Doctor Who
    first aired in what year", the question word is "what". Otherwise the last one counts.
    """
    places = [i for i, word in enumerate(words) if word.lower in WH]
    opening = [i for i in places if i < 2 and all(word.function for word in words[:i])]
    return next(iter(opening or places[-1:]), None)


def answer_kind(words: Sequence[Word]) -> str | None:
    """Return the kind of answer that a question asks for, such as "who" or "how many", or None."""
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
