"""Titles in quotation marks, behind words that only repeat the question: 'the show "Ada"'."""

import re

from anchorscope.anchors import english
from anchorscope.anchors.clauses import Clause, is_clause

_OPENING_QUOTATION = re.compile(r"[\w\s'’-]{2,40}\s[\"“]([^\"“”]+)[\"”]")
QUOTE_MARKS = '"“”„«»「」『』'


def title_first(clause: Clause) -> tuple[int, int] | None:
    """The quotation that opens a clause behind words of the question: 'the show "Ada" is ...'."""
    opening = _OPENING_QUOTATION.match(clause.text)
    if (
        opening is None
        or is_clause(clause.text[: opening.start(1) - 1])
        or clause.text == english.without_quotations(clause.text)
    ):
        return None
    before = sum(word.end <= opening.start(1) for word in clause.words)
    inside = sum(word.end <= opening.end(1) for word in clause.words)
    repeated, new = clause.count(0, before)
    return opening.span(1) if repeated and not new and clause.count(before, inside)[1] else None


def title_behind(clause: Clause, first: int, last: int) -> tuple[int, int] | None:
    """The quotation of text[first:last] if only it is new there: 'the novel "Ada"'."""
    quotation = _OPENING_QUOTATION.match(clause.text, first, last)
    if quotation is None:
        return None
    start, end = quotation.span(1)
    places = clause.new_places(first, last)
    only = bool(places) and all(start <= place < end for place in places)
    return (start, end) if only else None


def only_quoted(clause: Clause, start: int, end: int) -> tuple[int, int] | None:
    """The quotation among words [start, end), if all that they add stands in it."""
    plain = english.without_quotations(clause.text)
    new = [i for i in range(start, end) if clause.new[i]]
    places = [range(clause.words[i].start, clause.words[i].end) for i in new]
    if not places or any(plain[c] == clause.text[c] for place in places for c in place):
        return None
    first, last = clause.words[new[0]].start, clause.words[new[-1]].end
    while first and clause.text[first - 1] not in QUOTE_MARKS:
        first -= 1
    while last < len(clause.text) and clause.text[last] not in QUOTE_MARKS:
        last += 1
    return first, last
