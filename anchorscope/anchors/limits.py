"""Selection of candidate spans, so that E_Q is at most half of the words of a question."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace

from anchorscope.anchors.properties import LONGEST
from anchorscope.anchors.words import PROPERTY, Span, Word, is_free, word_count, word_places

PROPERTY_WORDS = 4  # a longer phrase describes the question, not its property
_CUT = ("asked words", "more words")  # rules whose spans are shortened if they do not fit


def within_half(question: str, words: Sequence[Word], candidates: Sequence[Span]) -> list[Span]:
    """Return the best candidates that fit into half of the question's words.

    A name is kept whole or not at all. Only the first name may be more than half of the words, up
    to the share `LONGEST`. A longer one is thinned to its content words. A phrase that asks for the
    property keeps its last words that fit into half of the words and half of the estimated tokens,
    so that a random knockout of as many other tokens is possible.

    Returns:
        Spans in order, none overlapping.
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
    for span in sorted(candidates, key=_precedence):
        if not is_free(span, chosen):
            continue
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
        if fits or (first_name and size <= LONGEST * total):
            chosen.append(span)
        elif words_left > 0 and span.found_by in _CUT:
            last_words = _inside(span, words)[-words_left:]
            chosen += _tail(question, span, last_words, pieces_left, bool(chosen))
        elif words_left > 0 and first_name:
            chosen += _thinned(question, span, words, words_left)
    return sorted(chosen)


def _precedence(candidate: Span) -> tuple[int, int]:
    """Return a sort key: the surest rule first, phrases of a query in their given order."""
    return candidate.rank, 0 if candidate.found_by == "query words" else candidate.start


def _inside(span: Span, words: Sequence[Word]) -> list[Word]:
    return [w for w in words if span.start <= w.start and w.end <= span.end]


def _tail(
    question: str, span: Span, words: Sequence[Word], pieces: int, others: bool
) -> list[Span]:
    """Return the longest end of a span that fits into `pieces` estimated tokens.

    English puts the head of a noun phrase at its end. If not even the last word fits, return that
    word, or nothing if there are `others`.
    """
    for word in words:
        if _pieces(question[word.start : span.end]) <= pieces:
            return [replace(span, start=word.start)]
    return [] if others else [replace(span, start=words[-1].start)]


def _thinned(question: str, span: Span, words: Sequence[Word], room: int) -> list[Span]:
    """Return the first `room` content words of a name that is too long, as spans."""
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
    """Estimate the number of a text's subword tokens: long words break, punctuation counts."""
    return sum(1 + len(piece) // 8 for piece in re.findall(r"\w+|[^\w\s]", text))
