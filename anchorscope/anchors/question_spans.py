"""Spans of a question: what the finders mark, and the rules that they mark it by."""

from collections.abc import Iterable
from dataclasses import dataclass

# Rules of the offline finder, the surest first; `found_by` holds their names.
RULES = (
    "title",
    "quoted",
    "capitalised run",
    "capitalised word",
    "query words",  # phrases of a question without names
    "asked words",
    "verb",
    "restriction",  # "Which European city": restricts what is asked for
    "number",
    "more words",
)
RANK = {rule: rank for rank, rule in enumerate(RULES)}


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, end) of a question, what they name, and which rule found them."""

    start: int
    end: int
    role: str
    found_by: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A span that the offline finder may keep.

    Attributes:
        span: the span.
        rank: lower goes first when the question has no room for all.
    """

    span: Span
    rank: int


def ranked(start: int, end: int, role: str, found_by: str) -> Candidate:
    """A span [start, end) with the rank of the rule that found it, one of `RULES`."""
    return Candidate(Span(start, end, role, found_by), RANK[found_by])


def in_order(spans: Iterable[Span]) -> list[Span]:
    """The spans by where they start."""
    return sorted(spans, key=lambda span: span.start)


def is_free(span: Span, taken: Iterable[Span]) -> bool:
    """Whether a span shares no character with those taken."""
    return all(span.end <= t.start or t.end <= span.start for t in taken)
