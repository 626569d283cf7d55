"""Ends of sentences and lines in the text of a model.

A full stop ends a sentence if white space, a closing quote or the end of the text follows. The stop
of an abbreviation does not. Abbreviations are a single letter ("J. R. R. Tolkien"), dotted letters
("U.S."), a title or the like ("St. Louis"), "No." before a digit, and a day before its month
("4. July"). Even such a stop ends a sentence before a word such as "It" or "The" ("U.S. It is").
A full stop after a space belongs to no abbreviation. `!` and `?` end a sentence unless a small
letter follows ("Panic! at the"). Titles may contain a full stop before "The" ("Portugal. The Man"),
or a `!` ("Mamma Mia! Here We Go Again"). All words of the title after this mark must have capitals.
"""

import re

from anchorscope.anchors import english

NEWLINES = "\n\r\v\f\x85\u2028\u2029"
FULL_STOPS = ".。．｡।۔։"
MARKS = FULL_STOPS + "!?！？؟…"
_UNSPACED_MARKS = "。．｡！？।۔؟"  # end a sentence, whatever follows
_KEEP_STOP = english.word_set("jr sr bros inc ltd co corp etc")
SENTENCE_OPENERS = english.word_set(
    "The It He She This That These They There His Her Its Their However In On At As If"
)
# Text that may follow a full stop. Base models continue with the next question ("Paris.Q: What").
_AFTER_STOP = re.compile(r"[\"'”’»」』)\]*_`]*(?:\s|$|[QA]:|Question:)")
_LAST_WORD = re.compile(r"[^\s\"“”„«»(\[{*_>]*$")
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]{1,2}")
_SMALL = "|".join(
    sorted(english.CONNECTORS | english.JOINING | english.ARTICLES | english.PREPOSITIONS)
)
_CAPITAL = r"[A-Z0-9À-Þ][\w'’-]*"
_WITH_SMALL = rf"(?:(?:{_SMALL}) ){{0,3}}{_CAPITAL}"
_TO_THE_END = r"\s*(?:[.!?,:;()\[\]\"”\n]|$)"
# Up to ten capitalised words that end a sentence or line. TITLED allows small words before each.
TITLED = rf"{_WITH_SMALL}(?: {_WITH_SMALL}){{0,9}}{_TO_THE_END}"
_REST_OF_TITLE = re.compile(rf"(?: {_CAPITAL}){{1,10}}{_TO_THE_END}")
_NEXT_WORD = re.compile(rf"[^\S{NEWLINES}]*[\"'“‘]?(&|\w+)")  # on the same line


def closer(text: str, start: int) -> int | None:
    """Find the next line break or sentence-ending full stop; return its index or None."""
    stops = NEWLINES + FULL_STOPS
    return next((i for i in range(start, len(text)) if text[i] in stops and _ends(text, i)), None)


def sentence_end(text: str, start: int) -> int:
    """Return the index of the end mark of the line or sentence at `start`, or the text's length."""
    return next((place for place in range(start, len(text)) if _ends(text, place)), len(text))


def _ends(text: str, place: int) -> bool:
    """Return whether the character at `place` ends a line or sentence, see module docstring."""
    mark = text[place]
    if mark in NEWLINES + _UNSPACED_MARKS:
        return True
    if mark not in MARKS:
        return False
    if not _AFTER_STOP.match(text, place + 1):  # the first dot of "... " ends a sentence
        return mark == "." and place > 0 and bool(re.match(r"\.+\s", text[place : place + 8]))
    if mark in "!?":
        closed = place + 1 + (text[place + 1 : place + 2] in tuple('"”'))  # "Lost!" is a song
        following = _NEXT_WORD.match(text, closed)
        titled = mark == "!" and _REST_OF_TITLE.match(text, place + 1)
        return following is None or not (titled or following[1][0].islower())
    return not _abbreviated(text, place)


def _abbreviated(text: str, place: int) -> bool:
    """Return whether the full stop belongs to the word before it and the sentence continues."""
    following = _NEXT_WORD.match(text, place + 1)
    if following is None:
        return keeps_stop(text, place)
    if following[1] in SENTENCE_OPENERS:
        articles = following[1].lower() in english.ARTICLES
        return articles and bool(_REST_OF_TITLE.match(text, place + 1))
    word = _last_word(text, place)
    if word.casefold() == "no":
        return following[1][0].isdigit()
    if word.isdecimal():
        return len(word) <= 2 and following[1].casefold() in english.MONTHS
    initials = (len(word) == 1 and word.isalpha()) or _DOTTED.fullmatch(word)
    return bool(initials) or word.casefold() in english.ANSWER_ABBREVIATIONS


def keeps_stop(text: str, place: int) -> bool:
    """Return whether the full stop belongs to the spelling of the word: "U.S.", "Jr."."""
    word = _last_word(text, place)
    return bool(_DOTTED.fullmatch(word)) or word.casefold() in _KEEP_STOP


def _last_word(text: str, place: int) -> str:
    word = _LAST_WORD.search(text[max(0, place - 40) : place])
    return word[0].lstrip("'‘’") if word else ""
