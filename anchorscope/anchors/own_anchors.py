"""A user's own exact question tokens: the entries of a column as places in the question."""

from collections.abc import Mapping, Sequence
from typing import Any

from anchorscope.anchors.words import ROLES, SUBJECT

Place = tuple[int, int, str]
"""Characters [start, end) and the role that the user gave them."""

NOT_FOUND = "text not in the question"
OUT_OF_RANGE = "characters out of range"
UNREADABLE = "neither a text nor [start, end]"


def resolve(question: str, own: Sequence[Any]) -> tuple[list[Place], list[tuple[str, Any]]]:
    """Places of a user's own anchors, and the entries that mark nothing.

    An entry is a text, whose first occurrence not taken by an earlier entry is marked (as whole
    words if it stands there so, else anywhere; in its own case if it stands there so, else in
    any); or a pair [start, end] of characters; or a mapping with `text`, or `start` and `end`, and
    `role` (`subject`, the default, or `property`). White space at edges is left out.

    Args:
        question: the question's text, verbatim.
        own: the entries.

    Returns:
        Places sorted, those that overlap united under the first one's role; and (reason, entry)
        for each entry without a place.
    """
    found: list[Place] = []
    failed: list[tuple[str, Any]] = []
    for entry in own:
        what, role = entry, SUBJECT
        if isinstance(entry, Mapping):
            what = entry["text"] if "text" in entry else (entry.get("start"), entry.get("end"))
            role = entry.get("role") or SUBJECT
        place = _place(question, what, found) if role in ROLES else UNREADABLE
        if isinstance(place, str):
            failed.append((place, entry))
        else:
            found.append((*place, role))
    return _united(found), failed


def _place(question: str, what: Any, taken: Sequence[Place]) -> tuple[int, int] | str:
    """Where an entry stands, or why nowhere."""
    if isinstance(what, str):
        places = _occurrences(question, what.strip())
        free = (p for p in places if all(p[1] <= a or b <= p[0] for a, b, _ in taken))
        return next(free, NOT_FOUND)
    if not isinstance(what, Sequence) or len(what) != 2 or not all(map(_whole, what)):
        return UNREADABLE
    start, end = int(what[0]), int(what[1])
    if not 0 <= start < end <= len(question):
        return OUT_OF_RANGE
    text = question[start:end]
    start, end = start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())
    return (start, end) if start < end else OUT_OF_RANGE


def _whole(number: Any) -> bool:
    return not isinstance(number, bool) and isinstance(number, int | float) and number % 1 == 0


def _occurrences(question: str, text: str) -> list[tuple[int, int]]:
    """Whole words before parts of words, the same case before any case; in order of the text."""
    if not text:
        return []
    ways = [_places(question, text)]
    # Lower case changes the length of a few letters; places would then be others'.
    if len(question.lower()) == len(question):
        ways.append(_places(question.lower(), text.lower()))
    for places in ways:
        if places:
            return [p for p in places if _bounded(question, *p)] or places
    return []


def _places(question: str, text: str) -> list[tuple[int, int]]:
    starts = (i for i in range(len(question)) if question.startswith(text, i))
    return [(i, i + len(text)) for i in starts]


def _bounded(text: str, start: int, end: int) -> bool:
    """Whether a place neither begins nor ends inside a word."""
    inside_left = start > 0 and text[start - 1].isalnum() and text[start].isalnum()
    inside_right = end < len(text) and text[end - 1].isalnum() and text[end].isalnum()
    return not inside_left and not inside_right


def _united(places: Sequence[Place]) -> list[Place]:
    united: list[Place] = []
    for start, end, role in sorted(places, key=lambda p: p[:2]):
        if united and start < united[-1][1]:
            first, before, kept = united[-1]
            united[-1] = (first, max(before, end), kept)
        else:
            united.append((start, end, role))
    return united
