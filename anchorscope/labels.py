"""The label z: does an answer match a gold answer?"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

MIN_CONTAINED = 3  # characters; shorter golds (`US`, `no`, `W`) must be the whole answer

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_ASCII_SYMBOLS = frozenset("$+<=>^`|~´")


@lru_cache(maxsize=65536)
def squad_normalise(text: str) -> str:
    """Lower case, without punctuation, articles and superfluous whitespace.

    As SQuAD's evaluation script on ASCII text (its order, too: punctuation goes before articles).
    Beyond ASCII: compatibility forms are folded (NFKC), every script's letters stay, and so do
    accents; typographic quotes and dashes are punctuation; characters without a width (zero-width
    spaces, marks of direction, soft hyphens) go.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    kept = "".join(c for c in folded if not _dropped(c))
    plain = unicodedata.normalize("NFKC", kept)  # what stood between two marks may be gone
    return " ".join(_ARTICLES.sub(" ", plain).split())


def _dropped(char: str) -> bool:
    category = unicodedata.category(char)
    return char in _ASCII_SYMBOLS or category == "Cf" or category.startswith("P")


def matches(answer: str, golds: Iterable[str]) -> bool:
    """Whether the answer equals a gold, or contains one of at least 3 characters as whole words.

    Both sides are normalised first. A gold that normalises to nothing never matches.
    """
    given = squad_normalise(answer)
    return any(_matches(given, squad_normalise(gold)) for gold in golds)


def _matches(given: str, gold: str) -> bool:
    if not gold:
        return False
    return given == gold or (len(gold) >= MIN_CONTAINED and _contains(given, gold))


def _contains(text: str, words: str) -> bool:
    return f" {words} " in f" {text} "


def repeats_subject(answer: str, subject: str | None) -> bool:
    """Whether the answer says the question's subject again, as whole words; False if unknown."""
    name = squad_normalise(subject or "")
    return bool(name) and _contains(squad_normalise(answer), name)
