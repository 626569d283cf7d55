"""E_Q: the words of a question that name its frame, as character spans.

The *metadata* finder is used where the dataset names the subject. The *offline* finder reads the
question alone, with a short list of English function words and no model: quoted text, capitalised
runs, titles that the row carries, phrases that capitals do not mark, and the words that ask for the
property. A user's *own* anchors, the entries of a column, come before both. None of them sees gold
answers, model answers or labels.
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

LONGEST = 2000  # words; nobody asks a longer question, and the finders' time grows with the square
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
    """Character spans of E_Q, sorted, none overlapping, no whitespace or punctuation at an edge.

    Empty where nothing is found, and in a question of more than `LONGEST` words without `own`.

    Args:
        subject: its name as the dataset gives it: every occurrence is marked, and the property
            asked for, whatever their length, since that is what E_Q means. Without it, or where it
            does not occur, the offline finder keeps its best spans within half of the words.
        property: its name, used where it occurs in the question.
        titles: titles that the row carries, for instance of its supporting articles.
        own: the user's own anchors, see `own_spans`. Where they are given, no others are
            looked for, even if none of them marks anything.
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
    # "What was What built for?": the asking word is not the name where the name comes again.
    if len(places) > 1 and words and words[0].function and places[0][0] == words[0].start:
        places = places[1:]
    return [Span(*trim(question, a, b), SUBJECT, "metadata") for a, b in places]


def _property_spans(
    question: str, property: str | None, words: Sequence[Word], taken: Sequence[Span]
) -> list[Span]:
    """The property's name where it occurs outside the subject, else the words that ask for it."""
    spans = []
    for a, b in occurrences(question, property) if property else []:
        inside = [w for w in words if a <= w.start and w.end <= b and not w.function]
        if inside and is_free(Span(a, b, PROPERTY, ""), taken):
            spans.append(Span(inside[0].start, inside[-1].end, PROPERTY, "metadata"))
    return spans or [c for c in property_candidates(words, taken) if c.found_by != "more words"]


def candidates(question: str, words: Sequence[Word], titles: Sequence[str] = ()) -> list[Span]:
    """All that the offline finder finds, before it keeps the best within half of the words."""
    names = name_candidates(question, words, titles)
    sure = [c for c in names if c.found_by not in ("restriction", "number")]
    named = not all(is_aside(words, c) for c in sure)
    if not named:  # numbers and the like then belong to phrases: "2014 world cup"
        names = sure
    spans = names + property_candidates(words, names, with_subject=not named)
    if not spans or any(span.role == SUBJECT for span in spans):
        return spans
    last = spans[-1]  # where all ask for the property, the last is taken as the subject
    return [*spans[:-1], Span(last.start, last.end, SUBJECT, "query words")]


def own_spans(question: str, own: Sequence[Any]) -> tuple[list[Span], list[tuple[str, Any]]]:
    """Spans of a user's own anchors, and the entries that mark nothing.

    An entry is a text, whose first occurrence not taken by an earlier entry is marked (as whole
    words if it stands there so, else anywhere; in its own case if it stands there so, else in
    any); or a pair [start, end] of characters; or a mapping with `text`, or `start` and `end`, and
    `role` (`subject`, the default, or `property`). White space at edges is left out. Spans are in
    order, those that overlap united under the first one's role; with each entry that marks nothing
    comes the reason: (reason, entry).
    """
    spans: list[Span] = []
    failed: list[tuple[str, Any]] = []
    for entry in own:
        target, role = entry, SUBJECT
        if isinstance(entry, Mapping):  # in parquet files, a key that is left out holds None
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
    """The characters [start, end) that an entry means, or the reason why it means none."""
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
    """Where a text stands: as whole words, else anywhere; in its own case, else in any."""
    if places := occurrences(question, text):
        return places
    for flags in (0, re.IGNORECASE) if text else ():
        if places := [match.span() for match in re.finditer(re.escape(text), question, flags)]:
            return places
    return []


def _is_whole(number: Any) -> bool:
    return not isinstance(number, bool) and isinstance(number, int | float) and number % 1 == 0
