"""The words of a question, and the spans that the finders mark in it."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from anchorscope.anchors.english import ABBREVIATIONS, FUNCTION, LIGHT, RANKS

SUBJECT, PROPERTY = ROLES = ("subject", "property")

# Names of the rules, as in `found_by`. The surest rule comes first.
RULES = (
    "column",  # the user's own anchors
    "metadata",
    "title",
    "quoted",
    "capitalised run",
    "capitalised word",
    "query words",  # phrases of a question without names
    "asked words",
    "verb",
    "restriction",  # "Which European city": restricts the answer
    "number",
    "more words",
)


@dataclass(frozen=True, order=True, slots=True)
class Span:
    """Characters [start, end) of a question, their role, and the rule that found them."""

    start: int
    end: int
    role: str
    found_by: str

    @property
    def rank(self) -> int:
        """Rank of the rule that found the span. Spans of lower rank are chosen first."""
        return RULES.index(self.found_by)


def united(spans: Iterable[Span]) -> list[Span]:
    """Unite overlapping spans, and sort. A union has the role and the rule of its surest span."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda s: (s.start, s.rank)):
        if merged and span.start < merged[-1].end:
            best = min(merged[-1], span, key=lambda s: s.rank)
            end = max(merged[-1].end, span.end)
            merged[-1] = replace(best, start=merged[-1].start, end=end)
        else:
            merged.append(span)
    return merged


def is_free(span: Span, taken: Iterable[Span]) -> bool:
    """Return whether a span shares no character with the spans taken."""
    return all(span.end <= t.start or t.end <= span.start for t in taken)


# Letters of scripts that put no spaces between words, as the inside of a character class.
UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_CHUNK = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")
_POSSESSIVE = re.compile(r"['’][sS]$")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)")
_BREAK = re.compile(r"[,;?!()\[\]\"“”«»…\u3001\u3002]|[.:]\s|\s[-–—]+\s")
_SENTENCE_END = re.compile(r"[?!;]|\.[\"”']?\s|[.:]$|\s[-–—]+\s$|[-–—:]\s")


@dataclass(frozen=True, slots=True)
class Word:
    """A word without edge punctuation or possessive ending, and facts about its surroundings."""

    start: int
    end: int
    lower: str
    capital: bool  # has a capital, begins with a digit, or has no case in a question with case
    possessive: bool  # `'s` follows
    breaks: bool  # punctuation that ends a name stands before it
    joins: bool  # this punctuation may be inside a name: "Star Trek: First", "Palmer, Jr."
    first: bool  # whether it begins a sentence

    @property
    def function(self) -> bool:
        """Return whether the word is a function word."""
        return self.lower in FUNCTION

    @property
    def content(self) -> bool:
        """Return whether the word is neither a function word nor a light one ("name", "kind")."""
        return self.lower not in FUNCTION and self.lower not in LIGHT

    @property
    def number(self) -> bool:
        """Return whether the word begins with a digit."""
        return self.lower[:1].isdigit()


def word_count(question: str) -> int:
    """Count the words (see `word_places`) that contain a letter or digit."""
    return sum(any(c.isalnum() for c in question[a:b]) for a, b in word_places(question))


def word_places(question: str) -> list[tuple[int, int]]:
    """Return characters [start, end) of each word, or of each letter of a script without spaces."""
    return [chunk.span() for chunk in _CHUNK.finditer(question)]


@lru_cache(maxsize=4096)  # the finders and the text models read the same texts again
def words_of(question: str) -> tuple[Word, ...]:
    """Return the question's words in order, without those that have no letter or digit."""
    words: list[Word] = []
    mixed = any(c.isupper() or c.islower() for c in question)
    for chunk in _CHUNK.finditer(question):
        start, end = trim(question, *chunk.span())
        if not any(c.isalnum() for c in question[start:end]):
            continue
        text = question[start:end]
        between = question[words[-1].end if words else 0 : start]
        if words and _abbreviated(question[words[-1].start : words[-1].end]):
            between = between.replace(".", "", 1)
        word = Word(
            start,
            end,
            lower=text.lower().replace("’", "'"),
            capital=_capital(text, mixed),
            possessive=bool(_POSSESSIVE.match(question[end : end + 2])),
            breaks=bool(_BREAK.search(between)) or not words,
            joins=_joins(text, between),
            first=not words or bool(_SENTENCE_END.search(between)),
        )
        words.append(word)
    return tuple(words)


def _joins(text: str, between: str) -> bool:
    """Return whether a name may go on with `text` after the text `between`: "Palmer, Jr."."""
    if between == ": ":
        return text[:1].isupper()
    return between == ", " and (text.lower() in RANKS or bool(_ORDINAL.fullmatch(text)))


def _abbreviated(text: str) -> bool:
    """Return whether a full stop after `text` belongs to it: initials, `Mr`, `St`, `D.C`."""
    short = len(text) == 1 or (len(text) <= 3 and text[:1].isupper())
    return short or "." in text or text.lower() in ABBREVIATIONS


def _capital(text: str, mixed: bool) -> bool:
    capital = any(c.isupper() or c.istitle() for c in text) or text[0].isdigit()
    return capital or (mixed and not any(c.islower() for c in text))


def trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Trim white space, punctuation and symbols from both ends, and a final possessive.

    Nothing is trimmed if nothing would be left.
    """
    a, b = start, end
    while True:
        while a < b and not _letterlike(text[a]):
            a += 1
        while b > a and not _letterlike(text[b - 1]):
            b -= 1
        if a == b:
            return start, end
        if b - a <= 2 or not _POSSESSIVE.match(text[b - 2 : b]):
            return a, b
        start, end, b = a, b - 2, b - 2  # "James's": the possessive goes, too


@lru_cache(maxsize=4096)
def _letterlike(char: str) -> bool:
    return unicodedata.category(char)[0] in "LNM"


def case_tells(words: Sequence[Word]) -> bool:
    """Return whether capitals can mark names, as in `Who wrote Hamlet`, not `Who Wrote Hamlet`."""
    inner = [w for w in words if not w.first and any(c.isalpha() for c in w.lower)]
    return any(not w.capital for w in inner) or len(inner) < 2


def occurrences(text: str, name: str) -> list[tuple[int, int]]:
    """Find a name as whole words, in its own case if possible; return places [start, end)."""
    for form in (name, unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)):
        if not (pieces := form.split()):
            return []
        body = r"\s+".join(re.sub("['’]", "['’]", re.escape(p)) for p in pieces)
        left = r"(?<!\w)" if _spaced(pieces[0][0]) else ""
        right = r"(?!\w)" if _spaced(pieces[-1][-1]) else ""
        for flags in (0, re.IGNORECASE):
            if places := [m.span() for m in re.finditer(left + body + right, text, flags)]:
                return places
    return []


def _spaced(char: str) -> bool:
    """Return whether the script of this character puts spaces between words."""
    return char.isalnum() and not re.match(f"[{UNSPACED}]", char)
