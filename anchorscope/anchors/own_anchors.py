"""A user's own exact question tokens: the entries of a column as places in the question."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from anchorscope.anchors.words import ROLES, SUBJECT, Span, is_free, occurrences, united

NOT_FOUND = "text not in the question"
OUT_OF_RANGE = "characters out of range"
UNREADABLE = "neither a text nor [start, end]"


def resolve(question: str, own: Sequence[Any]) -> tuple[list[Span], list[tuple[str, Any]]]:
    """Spans of a user's own anchors, and the entries that mark nothing.

    An entry is a text, whose first occurrence not taken by an earlier entry is marked (as whole
    words if it stands there so, else anywhere; in its own case if it stands there so, else in
    any); or a pair [start, end] of characters; or a mapping with `text`, or `start` and `end`, and
    `role` (`subject`, the default, or `property`). White space at edges is left out. Spans are in
    order, those that overlap united under the first one's role; with each entry that marks nothing
    comes the reason: (reason, entry).
    """
    found: list[Span] = []
    failed: list[tuple[str, Any]] = []
    for entry in own:
        what, role = entry, SUBJECT
        if isinstance(entry, Mapping):  # a parquet file's holds None for what is left out
            pair = (entry.get("start"), entry.get("end"))
            what = pair if entry.get("text") is None else entry["text"]
            role = entry.get("role") or SUBJECT
        place = _place(question, what, found) if role in ROLES else UNREADABLE
        if isinstance(place, str):
            failed.append((place, entry))
        else:
            found.append(Span(*place, role, "column"))
    return united(found), failed


def _place(question: str, what: Any, taken: Sequence[Span]) -> tuple[int, int] | str:
    """Where an entry stands, or why nowhere."""
    if isinstance(what, str):
        places = _occurrences(question, what.strip())
        return next((p for p in places if is_free(Span(*p, "", ""), taken)), NOT_FOUND)
    if not isinstance(what, Sequence) or len(what) != 2 or not all(map(_whole, what)):
        return UNREADABLE
    start, end = int(what[0]), int(what[1])
    if not 0 <= start < end <= len(question) or not (text := question[start:end].strip()):
        return OUT_OF_RANGE
    start = question.index(text, start)
    return start, start + len(text)


def _whole(number: Any) -> bool:
    return not isinstance(number, bool) and isinstance(number, int | float) and number % 1 == 0


def _occurrences(question: str, text: str) -> list[tuple[int, int]]:
    if not text:
        return []
    ways = (re.finditer(re.escape(text), question, flags) for flags in (0, re.IGNORECASE))
    inside_words = ([match.span() for match in way] for way in ways)
    return occurrences(question, text) or next(filter(None, inside_words), [])
