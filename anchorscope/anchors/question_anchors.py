"""Find E_Q, the words of a question that name subject and property, as character spans.

The *metadata* finder is used if the dataset names the subject. The *offline* finder uses no model,
only the question, the titles in its row, and short lists of English words. It marks the titles,
quoted text, capitalised runs, phrases without capitals, and the words that ask for the property. A
column with the user's *own* anchors replaces both finders. No finder sees gold answers, model
answers or labels.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from anchorscope.anchors.names import is_aside, name_candidates
from anchorscope.anchors.properties import LONGEST_NAME, property_candidates
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
    word_count,
    word_places,
    words_of,
)

LONGEST = 2000  # words; the finders' time grows with the square of the length
NOT_FOUND = "text not in the question"
OUT_OF_RANGE = "characters out of range"
UNREADABLE = "neither a text nor [start, end]"
PROPERTY_WORDS = 4  # most words that name the property in a question
_CUT = ("asked words", "more words")  # rules whose spans are shortened if they do not fit


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
        subject: Name of the subject. If the question contains it, its occurrences and the property
            are marked, however many words they have. Otherwise the offline finder marks at most
            half of the words, unless the first name it chooses exceeds half (see `within_half`).
        property: Name of the property.
        titles: Titles of the row, for instance of its supporting articles.
        own: The user's own anchors, see `own_spans`. With them, no finder runs.

    Returns:
        Spans in order, none overlapping, without white space or punctuation at an edge. Empty if
        nothing is found. The finders find nothing in a question of more than `LONGEST` words.
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
    # An opening function word is not the name if the name occurs again: "What was What built for?"
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
    its first occurrence that no earlier entry has taken. Whole words in the text's own case count;
    if there are none, whole words in any case; if still none, parts of words. Edges are trimmed.

    Returns:
        (spans, failed): `spans` are in order. Overlapping spans become one, with the role of the
        span that starts first. `failed` has (reason, entry) for each entry that marks nothing.
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
    """Return the characters [start, end) that `target` marks, or why it marks none."""
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
    if places := occurrences(question, text):
        return places
    for flags in (0, re.IGNORECASE) if text else ():
        if places := [match.span() for match in re.finditer(re.escape(text), question, flags)]:
            return places
    return []


def _is_whole(number: Any) -> bool:
    return not isinstance(number, bool) and isinstance(number, int | float) and number % 1 == 0


def within_half(question: str, words: Sequence[Word], candidates: Sequence[Span]) -> list[Span]:
    """Choose spans, the best first, up to half of the question's words; return them in order.

    A name that does not fit is left out. Only the name chosen first may exceed half of the words;
    beyond the share `LONGEST_NAME`, it is cut to its first content words. To allow a random
    knockout, a phrase that asks for the property loses its first words until E_Q has at most half
    of all words and estimated tokens. If a name exceeds half, the phrase keeps only its last word.
    """
    starts, ends = zip(*word_places(question), strict=True)

    def words_in(spans: Iterable[Span]) -> set[int]:
        """Return the indices of the words that share a character with one of the spans."""
        runs = (range(bisect_right(ends, s.start), bisect_left(starts, s.end)) for s in spans)
        return {word for run in runs for word in run}

    total = word_count(question)
    most_words, most_pieces = total // 2, _pieces(question) // 2
    # The subject of a query is a guess, so one word is kept for the property.
    has_property = any(candidate.role == PROPERTY for candidate in candidates)
    reserved = 1 if most_words > 2 and has_property else 0
    chosen: list[Span] = []
    by_place = sorted(candidates, key=lambda c: 0 if c.found_by == "query words" else c.start)
    for span in sorted(by_place, key=lambda c: c.rank):  # phrases of a query are in order already
        is_query = span.found_by == "query words"
        n_chosen = len(words_in(chosen))
        words_left = most_words - n_chosen - (reserved if is_query else 0)
        pieces_left = most_pieces - sum(_pieces(question[s.start : s.end]) for s in chosen)
        if span.role == PROPERTY:
            n_property = len(words_in(s for s in chosen if s.role == PROPERTY))
            is_filler = n_property > 0 and span.found_by == "more words"
            words_left = min(words_left, 0 if is_filler else PROPERTY_WORDS - n_property)
            if not n_property and n_chosen > most_words:
                words_left, pieces_left = 1, most_pieces  # the random control is incomplete anyway
        size = len(words_in([span]))
        first_name = span.role != PROPERTY and not chosen
        fits = size <= words_left and span.found_by not in _CUT
        if is_query and chosen:
            fits = fits and _pieces(question[span.start : span.end]) <= pieces_left
        if fits or (first_name and size <= LONGEST_NAME * total):
            chosen.append(span)
        elif words_left > 0 and span.found_by in _CUT:
            last_words = _inside(span, words)[-words_left:]
            chosen += _tail(question, span, last_words, pieces_left, bool(chosen))
        elif words_left > 0 and first_name:
            chosen += _thinned(question, span, words, words_left)
    return sorted(chosen)


def _inside(span: Span, words: Sequence[Word]) -> list[Word]:
    return [w for w in words if span.start <= w.start and w.end <= span.end]


def _tail(
    question: str, span: Span, words: Sequence[Word], pieces: int, others: bool
) -> list[Span]:
    """Return the longest end of a span that fits into `pieces` estimated tokens.

    English puts the head of a noun phrase at its end. If no `others` were chosen before, the last
    word is kept even if it is too long.
    """
    for word in words:
        if _pieces(question[word.start : span.end]) <= pieces:
            return [replace(span, start=word.start)]
    return [] if others else [replace(span, start=words[-1].start)]


def _thinned(question: str, span: Span, words: Sequence[Word], room: int) -> list[Span]:
    """Shorten a name to its first `room` content words, and return these as spans."""
    inside = _inside(span, words)
    kept = [w for w in inside if not w.function][:room] or inside[:room]
    parts: list[Span] = []
    for word in kept:
        if parts and question[parts[-1].end : word.start].isspace():
            parts[-1] = replace(parts[-1], end=word.end)
        else:
            parts.append(Span(word.start, word.end, span.role, f"{span.found_by}, thinned"))
    return parts


def _pieces(text: str) -> int:
    """Estimate the number of subword tokens: several per long word, one per punctuation mark."""
    return sum(1 + len(piece) // 8 for piece in re.findall(r"\w+|[^\w\s]", text))
