"""Which spans are kept where a question's candidates are more than half of its words."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace

from anchorscope.anchors.queries import LONGEST
from anchorscope.anchors.words import (
    PROPERTY,
    SUBJECT,
    Span,
    Word,
    is_free,
    word_count,
    word_places,
)

PROPERTY_WORDS = 4  # more than these describe the question, not its property
_CUT = ("asked words", "more words")


def within_half(question: str, words: Sequence[Word], candidates: Sequence[Span]) -> list[Span]:
    """The best candidates that fit into half of the question's words.

    A name is kept whole or not at all; the first of them even where it is more than half, up to
    `LONGEST` of the words, beyond which it is thinned to its content words. Words that ask are cut
    to their last ones, and to half of the question's tokens as well as they can be guessed, so that
    a random knockout of as many other tokens is possible.

    Args:
        question: the question's text.
        words: its words, see `words_of`.
        candidates: what the offline finder found in it.

    Returns:
        Spans sorted, none overlapping.
    """
    total = word_count(question)
    room = total // 2
    # Which words of a query are its subject is a guess, so one word is kept for the property.
    reserve = int(room > 2 and any(c.role == PROPERTY for c in candidates))
    half = _pieces(question) // 2  # tokens
    chosen = _Chosen(question)
    for span in sorted(candidates, key=_precedence):
        if not is_free(span, chosen.spans):
            continue
        query = span.found_by == "query words"
        left = min(room - len(chosen.words) - reserve * query, _property_room(chosen, span))
        pieces = half - chosen.pieces
        if span.role == PROPERTY and not chosen.asked and len(chosen.words) > room:
            left, pieces = 1, half  # the random control is incomplete anyway
        size = len(chosen.touched(span))
        first = span.role == SUBJECT and not chosen.spans
        fits = size <= left and span.found_by not in _CUT
        if fits and query and chosen.spans:
            fits = _pieces(question[span.start : span.end]) <= pieces
        if fits or (first and size <= LONGEST * total):
            chosen.add([span])
        elif left > 0 and span.found_by in _CUT:
            chosen.add(_tail(question, span, _inside(span, words)[-left:], pieces, chosen))
        elif left > 0 and first:
            chosen.add(_thinned(question, span, words, left))
    return sorted(chosen.spans)


def _precedence(candidate: Span) -> tuple[int, int]:
    """The surest rule first; the phrases of a query come in their own order."""
    query = candidate.found_by == "query words"
    return candidate.rank, 0 if query else candidate.start


class _Chosen:
    """Spans chosen so far, the words they touch, those of them that ask, and their tokens."""

    def __init__(self, question: str) -> None:
        self.question = question
        places = word_places(question)
        self.starts, self.ends = [start for start, _ in places], [end for _, end in places]
        self.spans: list[Span] = []
        self.words: set[int] = set()
        self.asked: set[int] = set()
        self.pieces = 0

    def touched(self, span: Span) -> range:
        """The question's words that hold a character of the span."""
        return range(bisect_right(self.ends, span.start), bisect_left(self.starts, span.end))

    def add(self, spans: Iterable[Span]) -> None:
        for span in spans:
            self.spans.append(span)
            self.words.update(self.touched(span))
            self.pieces += _pieces(self.question[span.start : span.end])
            if span.role == PROPERTY:
                self.asked.update(self.touched(span))


def _property_room(chosen: _Chosen, span: Span) -> int:
    """How many more words may ask for the property; filler only where none does yet."""
    if span.role == SUBJECT:
        return len(chosen.question)
    asked = len(chosen.asked)
    return 0 if asked and span.found_by == "more words" else PROPERTY_WORDS - asked


def _inside(span: Span, words: Sequence[Word]) -> list[Word]:
    return [w for w in words if span.start <= w.start and w.end <= span.end]


def _tail(
    question: str, span: Span, words: Sequence[Word], free: int, chosen: _Chosen
) -> list[Span]:
    """The last words of a span that fit; English puts the head of a noun phrase there."""
    for word in words:
        if _pieces(question[word.start : span.end]) <= free:
            return [replace(span, start=word.start)]
    return [] if chosen.spans else [replace(span, start=words[-1].start)]


def _thinned(question: str, span: Span, words: Sequence[Word], room: int) -> list[Span]:
    """Content words of a name that is longer than half of the question, as many as fit."""
    inside = _inside(span, words)
    kept = [w for w in inside if not w.function][:room] or inside[:room]
    thin: list[Span] = []
    for word in kept:
        if thin and question[thin[-1].end : word.start].isspace():
            thin[-1] = replace(thin[-1], end=word.end)
        else:
            thin.append(Span(word.start, word.end, span.role, f"{span.found_by}, thinned"))
    return thin


def _pieces(text: str) -> int:
    """A rough number of a text's subword tokens: long words break, punctuation counts."""
    return sum(1 + len(piece) // 8 for piece in re.findall(r"\w+|[^\w\s]", text))
