"""Which spans are kept where a question's candidates are more than half of its words."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace

from anchorscope.anchors.properties import LONGEST
from anchorscope.anchors.words import PROPERTY, Span, Word, is_free, word_count, word_places

PROPERTY_WORDS = 4  # more than these describe the question, not its property
_CUT = ("asked words", "more words")


def within_half(question: str, words: Sequence[Word], candidates: Sequence[Span]) -> list[Span]:
    """The best candidates that fit into half of the question's words, sorted, none overlapping.

    A name is kept whole or not at all; the first of them even where it is more than half, up to
    `LONGEST` of the words, beyond which it is thinned to its content words. Words that ask are cut
    to their last ones, and to half of the question's tokens as well as they can be guessed, so that
    a random knockout of as many other tokens is possible.
    """
    starts, ends = zip(*word_places(question), strict=True)

    def touched(spans: Iterable[Span]) -> set[int]:
        """The question's words that hold a character of a span."""
        runs = (range(bisect_right(ends, s.start), bisect_left(starts, s.end)) for s in spans)
        return {word for run in runs for word in run}

    total = word_count(question)
    room = total // 2
    # Which words of a query are its subject is a guess, so one word is kept for the property.
    reserve = int(room > 2 and any(c.role == PROPERTY for c in candidates))
    half = _pieces(question) // 2  # tokens
    chosen: list[Span] = []
    for span in sorted(candidates, key=_precedence):
        if not is_free(span, chosen):
            continue
        query, used = span.found_by == "query words", touched(chosen)
        left = room - len(used) - reserve * query
        pieces = half - sum(_pieces(question[s.start : s.end]) for s in chosen)
        if span.role == PROPERTY:
            asked = touched(s for s in chosen if s.role == PROPERTY)
            filler = asked and span.found_by == "more words"
            left = min(left, 0 if filler else PROPERTY_WORDS - len(asked))
            if not asked and len(used) > room:
                left, pieces = 1, half  # the random control is incomplete anyway
        size, first = len(touched([span])), span.role != PROPERTY and not chosen
        fits = size <= left and span.found_by not in _CUT
        if query and chosen:
            fits = fits and _pieces(question[span.start : span.end]) <= pieces
        if fits or (first and size <= LONGEST * total):
            chosen.append(span)
        elif left > 0 and span.found_by in _CUT:
            chosen += _tail(question, span, _inside(span, words)[-left:], pieces, bool(chosen))
        elif left > 0 and first:
            chosen += _thinned(question, span, words, left)
    return sorted(chosen)


def _precedence(candidate: Span) -> tuple[int, int]:
    """The surest rule first; the phrases of a query come in their own order."""
    return candidate.rank, 0 if candidate.found_by == "query words" else candidate.start


def _inside(span: Span, words: Sequence[Word]) -> list[Word]:
    return [w for w in words if span.start <= w.start and w.end <= span.end]


def _tail(
    question: str, span: Span, words: Sequence[Word], pieces: int, others: bool
) -> list[Span]:
    """The last words of a span that fit; English puts the head of a noun phrase there."""
    for word in words:
        if _pieces(question[word.start : span.end]) <= pieces:
            return [replace(span, start=word.start)]
    return [] if others else [replace(span, start=words[-1].start)]


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
