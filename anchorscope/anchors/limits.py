"""Which candidate spans of a question are kept, so that E_Q is at most half of its words."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace

from anchorscope.anchors.properties import LONGEST
from anchorscope.anchors.words import PROPERTY, Span, Word, is_free, word_count, word_places

PROPERTY_WORDS = 4  # more than these describe the question, not its property
_CUT = ("asked words", "more words")  # rules whose spans are shortened where they do not fit


def within_half(question: str, words: Sequence[Word], candidates: Sequence[Span]) -> list[Span]:
    """The best candidates that fit into half of the question's words, sorted, none overlapping.

    A name is kept whole or not at all; the first of them even where it is more than half, up to
    `LONGEST` of the words, beyond which it is thinned to its content words. Words that ask are cut
    to their last ones, and to half of the question's tokens as well as they can be guessed, so that
    a random knockout of as many other tokens is possible.
    """
    starts, ends = zip(*word_places(question), strict=True)

    def words_in(spans: Iterable[Span]) -> set[int]:
        """Indices of the words that share a character with one of the spans."""
        runs = (range(bisect_right(ends, s.start), bisect_left(starts, s.end)) for s in spans)
        return {word for run in runs for word in run}

    total = word_count(question)
    most_words, most_pieces = total // 2, _pieces(question) // 2
    # Which words of a query are its subject is a guess, so one word is kept for the property.
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
    """The surest rule first; the phrases of a query come in their own order."""
    return candidate.rank, 0 if candidate.found_by == "query words" else candidate.start


def _inside(span: Span, words: Sequence[Word]) -> list[Word]:
    return [w for w in words if span.start <= w.start and w.end <= span.end]


def _tail(
    question: str, span: Span, words: Sequence[Word], pieces: int, others: bool
) -> list[Span]:
    """The span from the first of its last `words` whose tokens fit; its last word if none does.

    Empty then where there are `others`. English puts the head of a noun phrase at its end.
    """
    for word in words:
        if _pieces(question[word.start : span.end]) <= pieces:
            return [replace(span, start=word.start)]
    return [] if others else [replace(span, start=words[-1].start)]


def _thinned(question: str, span: Span, words: Sequence[Word], room: int) -> list[Span]:
    """Content words of a name that is longer than half of the question, as many as fit."""
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
    """A rough number of a text's subword tokens: long words break, punctuation counts."""
    return sum(1 + len(piece) // 8 for piece in re.findall(r"\w+|[^\w\s]", text))
