"""Finders of E_Q, the words of a question that name its frame, as character spans.

The *metadata* finder is used if the dataset names the subject. The *offline* finder reads the
question alone, with short lists of English words and no model. It marks quoted text, capitalised
runs, titles of the row, phrases without capitals, and the words that ask for the property. A user's
*own* anchors, the entries of a column, replace both. No finder sees gold answers, model answers or
labels.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from anchorscope.anchors.limits import within_half
from anchorscope.anchors.names import is_aside, name_candidates
from anchorscope.anchors.properties import property_candidates
from anchorscope.anchors.words import (
    PROPERTY,
    ROLES,
    SUBJECT,
    Span,
    Word,
    is_free,
    occurrences,
    trim,
    united,
    word_places,
    words_of,
)

LONGEST = 2000  # words; the finders' time grows with the square of the length
NOT_FOUND = "text not in the question"
OUT_OF_RANGE = "characters out of range"
UNREADABLE = "neither a text nor [start, end]"


def find(
    question: str,
    *,
    subject: str | None = None,
    property: str | None = None,
    titles: Sequence[str] = (),
    own: Sequence[Any] | None = None,
) -> list[Span]:
    """Find E_Q in a question.

    Args:
        question: The text of the question.
        subject: Name of the subject in the dataset. All its occurrences and the property are
            marked, whatever their length. Without a subject, or if it does not occur, the offline
            finder keeps its best spans within half of the words.
        property: Name of the property, used if it occurs in the question.
        titles: Titles of the row, for instance of its supporting articles.
        own: The user's own anchors, see `own_spans`. If they are given, no finder runs, even if
            no anchor marks anything.

    Returns:
        Spans in order, none overlapping, without white space or punctuation at an edge. Empty if
        nothing is found, and for a question of more than `LONGEST` words without `own`.
    """
    if own is not None:
        return own_spans(question, own)[0]
    if len(word_places(question)) > LONGEST:
        return []
    words = words_of(question)
    if subject and (named := _subject_spans(question, subject, words)):
        return sorted(named + _property_spans(question, property, words, named))
    return within_half(question, words, candidates(question, words, titles)) if words else []


def _subject_spans(question: str, subject: str, words: Sequence[Word]) -> list[Span]:
    places = occurrences(question, subject)
    # "What was What built for?": the question word is not the name if the name occurs again.
    if len(places) > 1 and words and words[0].function and places[0][0] == words[0].start:
        places = places[1:]
    return [Span(*trim(question, a, b), SUBJECT, "metadata") for a, b in places]


def _property_spans(
    question: str, property: str | None, words: Sequence[Word], taken: Sequence[Span]
) -> list[Span]:
    """Find the property's name outside the subject, else the words that ask for it."""
    spans = []
    for a, b in occurrences(question, property) if property else []:
        inside = [w for w in words if a <= w.start and w.end <= b and not w.function]
        if inside and is_free(Span(a, b, PROPERTY, ""), taken):
            spans.append(Span(inside[0].start, inside[-1].end, PROPERTY, "metadata"))
    return spans or [c for c in property_candidates(words, taken) if c.found_by != "more words"]


def candidates(question: str, words: Sequence[Word], titles: Sequence[str] = ()) -> list[Span]:
    """Return all spans of the offline finder, before they are limited to half of the words."""
    names = name_candidates(question, words, titles)
    sure = [c for c in names if c.found_by not in ("restriction", "number")]
    named = not all(is_aside(words, c) for c in sure)
    if not named:  # then numbers and restrictions belong to phrases: "2014 world cup"
        names = sure
    spans = names + property_candidates(words, names, with_subject=not named)
    if not spans or any(span.role == SUBJECT for span in spans):
        return spans
    last = spans[-1]  # without a subject, the last property span is the subject
    return [*spans[:-1], Span(last.start, last.end, SUBJECT, "query words")]


def own_spans(question: str, own: Sequence[Any]) -> tuple[list[Span], list[tuple[str, Any]]]:
    """Find the spans of a user's own anchors.

    An entry is a text, a pair [start, end] of characters, or a mapping. A mapping has `text`, or
    `start` and `end`, and optionally `role` (`subject`, the default, or `property`). A text marks
    its first occurrence that no earlier entry has taken. Whole words go before parts of words, then
    equal case before any case. White space at edges is left out.

    Returns:
        The spans in order, overlapping ones united under the role of the first; and
        (reason, entry) of each entry that marks nothing.
    """
    spans: list[Span] = []
    failed: list[tuple[str, Any]] = []
    for entry in own:
        target, role = entry, SUBJECT
        if isinstance(entry, Mapping):  # parquet files store None for a missing key
            pair = (entry.get("start"), entry.get("end"))
            target = pair if entry.get("text") is None else entry["text"]
            role = entry.get("role") or SUBJECT
        place = _place(question, target, spans) if role in ROLES else UNREADABLE
        if isinstance(place, str):
            failed.append((place, entry))
        else:
            spans.append(Span(*place, role, "column"))
    return united(spans), failed


def _place(question: str, target: Any, taken: Sequence[Span]) -> tuple[int, int] | str:
    """Return the characters [start, end) of an entry, or the reason why it marks none."""
    if isinstance(target, str):
        places = _text_places(question, target.strip())
        return next((place for place in places if is_free(Span(*place, "", ""), taken)), NOT_FOUND)
    if not isinstance(target, Sequence) or len(target) != 2 or not all(map(_is_whole, target)):
        return UNREADABLE
    start, end = int(target[0]), int(target[1])
    if not 0 <= start < end <= len(question) or not (text := question[start:end].strip()):
        return OUT_OF_RANGE
    start = question.index(text, start)
    return start, start + len(text)


def _text_places(question: str, text: str) -> list[tuple[int, int]]:
    """Find a text as whole words, else anywhere; in its own case, else in any case."""
    if places := occurrences(question, text):
        return places
    for flags in (0, re.IGNORECASE) if text else ():
        if places := [match.span() for match in re.finditer(re.escape(text), question, flags)]:
            return places
    return []


def _is_whole(number: Any) -> bool:
    return not isinstance(number, bool) and isinstance(number, int | float) and number % 1 == 0
