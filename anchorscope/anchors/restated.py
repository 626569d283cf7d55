"""What an answer adds to its question, where it says the question's words again.

"Ada Lovelace was a keen mathematician." adds "keen mathematician" to "What did Ada Lovelace do?";
"Bern hosts the parliament." adds "Bern" to "Which city hosts the parliament?".
Read off question and answer alone, with the short lists of `english`:

1. a yes/no question is answered by a first "yes" or "no"; a question with two options by the one
   that is the clause's subject;
2. "when" and "how many" are answered by the one date or number that the clause adds, "when" also
   by what follows a "when" of the answer;
3. where the question asks at its end ("The river flows into which sea?"), the answer proper is what
   follows the same three words in the answer;
4. a title behind words of the question ('The show "Ada" is ...') answers a "what" (`quotations`);
5. else the clause (`clauses`) is split at a verb, and the answer is the side that adds words
   (`sides`), without what leads to it and what follows it (`edges`).

A clause that none of these can read is kept whole.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from anchorscope.anchors import asking, english
from anchorscope.anchors.clauses import Clause, adds, is_clause, read_clause, says_something
from anchorscope.anchors.edges import JOINED, RELATIVE, before_verb, head_of, without_repeated_end
from anchorscope.anchors.quotations import title_first
from anchorscope.anchors.sides import (
    behind_preposition,
    continuation,
    final_preposition,
    option,
    side_of,
)
from anchorscope.anchors.words import Word, words_of

MOST_READ = 300  # words of a clause; reading takes time with the cube of a run of verbs
_YES_NO = re.compile(r"(?i:yes|no)(?=\s*[,.;:!–—-]|$)")
_OTHER_CLAUSE = re.compile(r",?\s(?:but|while|although|though|because)\s")
_NONE_OF_THEM = re.compile(r"\bno [a-z]+")
_WHEN = re.compile(r"\bwhen\s")
_PATTERNS = {asking.WHEN: english.DATE, **dict.fromkeys(asking.HOW_MANY, english.NUMBER)}
_PLACE_FIRST = re.compile(r"In ((?:the\s)?([A-Z\d][^,]{1,40})),\s")


@dataclass(frozen=True)
class _Asked:
    """What a question asks for."""

    text: str
    words: Sequence[Word]
    kind: str | None  # as `asking.answer_kind` names it
    noun: str | None  # "city" of "Which city is it?"
    prepositions: frozenset[str]  # that go with the question word
    pattern: re.Pattern[str] | None  # of the date or number that is asked for


def added(
    text: str, question: str, *, predicate: bool, naming: bool = False
) -> tuple[int, int] | None:
    """Characters [start, end) of what an answer adds to its question; None if it cannot be told.

    Args:
        text: a clause of one sentence, without its lead-in.
        question: what was asked.
        predicate: whether a lead-in with a copula stood before the text ("The winner is").
        naming: whether that lead-in ended with a word that a name follows ("It is called").
    """
    asked = _read_question(question)
    whole = read_clause(text, question)
    if len(whole.words) > MOST_READ:
        return None
    if asked.kind == asking.YES_NO:
        verdict = _YES_NO.match(text)
        return verdict.span() if verdict else option(whole, asked.words)
    if place := _place_in_front(text, asked):
        return place
    if (start := continuation(whole, asked.words)) is not None:
        return _narrowed(text, head_of(whole, start, asked.kind, asked.noun), asked)
    clause = read_clause(_first_clause(text, predicate), question)
    none = _NONE_OF_THEM.search(clause.text) if asked.kind in asking.HOW_MANY else None
    if none and clause.verbs:
        return none.span()
    if english.denial(clause.text):
        return None
    return _by_kind(clause, asked, predicate) or _by_side(clause, asked, predicate, naming)


def _read_question(question: str) -> _Asked:
    words = words_of(question)
    kind = asking.answer_kind(words)
    return _Asked(
        question,
        words,
        kind,
        asking.asked_noun(words),
        asking.prepositions(words),
        _PATTERNS.get(kind or ""),
    )


def _place_in_front(text: str, asked: _Asked) -> tuple[int, int] | None:
    """The place or date that opens an answer to "In which ...?": "In | France |, it is"."""
    place = _PLACE_FIRST.match(text)
    if place is None or not asked.words or asked.words[0].lower != "in":
        return None
    fits = asked.pattern is None or asked.pattern.fullmatch(place[2])
    return place.span(1) if fits and adds(place[1], asked.text) else None


def _by_kind(clause: Clause, asked: _Asked, predicate: bool) -> tuple[int, int] | None:
    """What answers by its form: a date, a number, a "when", a title in front."""
    only = _only(asked.pattern, clause.text, asked.text) if asked.pattern else None
    if only and (clause.verbs or predicate):
        return only
    if asked.kind == asking.WHEN and (when := _WHEN.search(clause.text, 1)):
        return when.start(), len(clause.text)
    return title_first(clause) if asked.kind == "what" and not predicate else None


def _by_side(
    clause: Clause, asked: _Asked, predicate: bool, naming: bool
) -> tuple[int, int] | None:
    """What answers by its place: the predicate, or a side of a verb or preposition."""
    side = (0, len(clause.words)) if predicate else side_of(clause, asked.words)
    side = side or behind_preposition(clause, asked.prepositions)
    if side is None:
        return None
    start, end = side
    if not predicate and start == 0:
        return before_verb(clause, end, asked.noun, final_preposition(asked.words))
    head = head_of(clause, start, asked.kind, asked.noun, asked.prepositions, naming=naming)
    if head and not predicate:
        head = head[0], without_repeated_end(clause, start, head[1])
    return _narrowed(clause.text, head, asked)


def _narrowed(text: str, head: tuple[int, int] | None, asked: _Asked) -> tuple[int, int] | None:
    """Of an answer, the one date or number that is asked for, if there is one."""
    if head is None or asked.pattern is None:
        return head
    only = _only(asked.pattern, text[slice(*head)], asked.text)
    return (head[0] + only[0], head[0] + only[1]) if only else head


def continues(text: str, question: str) -> bool:
    """Whether an answer goes on where a question asks at its end: "It flows into | which sea"."""
    return continuation(read_clause(text, question), words_of(question)) is not None


def _first_clause(text: str, predicate: bool) -> str:
    """The text up to a "but" or the like behind its first verb; a predicate without relatives."""
    plain = english.without_quotations(text)
    if predicate:
        for relative in RELATIVE.finditer(plain):
            if any(says_something(word) for word in words_of(text[: relative.start()])):
                return text[: relative.start()]
    for other in _OTHER_CLAUSE.finditer(plain):
        if predicate or is_clause(text[: other.start()]):
            return text[: other.start()]
    return text


def answered_before(text: str, place: int, question: str) -> bool:
    """Whether the part of a clause before a place has the answer.

    That is the date or number that the question asks for and the rest lacks, one of the question's
    options, or a title behind words of the question.
    """
    words = words_of(question)
    kind, clause = asking.answer_kind(words), read_clause(text, question)
    if pattern := _PATTERNS.get(kind or ""):
        return bool(pattern.search(text[:place])) and not pattern.search(text[place:])
    if final_preposition(words):  # "The longest river of Peru is | the Ucayali"
        return adds(text[:place], question) and not adds(text[place:], question)
    title = title_first(clause) if kind == "what" else None
    return title is not None or option(clause, words) is not None


def _only(pattern: re.Pattern[str], text: str, question: str) -> tuple[int, int] | None:
    """The one match in a text, or the one that the question lacks; a range counts as one."""
    places: list[tuple[int, int]] = []
    for match in pattern.finditer(text):
        joined = places and JOINED.fullmatch(text, places[-1][1], match.start())
        if joined and text[places[-1][1] : match.start()].strip():
            places[-1] = (places[-1][0], match.end())
        else:
            places.append(match.span())
    missing = [place for place in places if text[slice(*place)] not in question]
    chosen = missing or places
    texts = {text[slice(*place)] for place in chosen}
    return chosen[-1] if len(texts) == 1 else None
