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
4. a title behind words of the question ('The show "Ada" is ...') answers a "what";
5. else the clause is split at a verb, and the answer is the side that adds words: behind the last
   verb before which nothing is new ("The bridge connecting Detroit to Windsor is | the Niagara
   Falls Bridge"), or before the first verb behind which nothing is new. Where both sides add words,
   or neither, the question tells: who did it stands before the question's own verb, and what it
   asks for with a preposition stands behind that preposition;
6. of what stands behind a verb or a lead-in, these go: a preposition at the front, a description
   before a name ("a British actor named ..."), the noun that the question asks for ("the band
   Queen"), a relative or second clause, a date that was not asked for, and an end that the question
   says as well.

A name of the question at the front counts as repeated even where it is misspelt, if the clause adds
something else and the question does not ask who: relatives share surnames ("Hanna Bo is the sister
of Anna Bo").
A clause that none of these can read is kept whole.
"""

import re

from anchorscope.anchors import asking, english
from anchorscope.anchors.clauses import adds, is_clause, read_clause, says_something
from anchorscope.anchors.edges import JOINED, RELATIVE, before_verb, head_of, without_repeated_end
from anchorscope.anchors.quotations import title_first
from anchorscope.anchors.sides import (
    behind_preposition,
    continuation,
    final_preposition,
    option,
    side_of,
)
from anchorscope.anchors.words import words_of

_YES_NO = re.compile(r"(?i:yes|no)(?=\s*[,.;:!–—-]|$)")
_OTHER_CLAUSE = re.compile(r",?\s(?:but|while|although|though|because)\s")
_NONE_OF_THEM = re.compile(r"\bno [a-z]+")
_WHEN = re.compile(r"\bwhen\s")
_PATTERNS = {asking.WHEN: english.DATE, **dict.fromkeys(asking.HOW_MANY, english.NUMBER)}
_PLACE_FIRST = re.compile(r"In ((?:the\s)?([A-Z\d][^,]{1,40})),\s")


def added(
    text: str, question: str, *, predicate: bool, naming: bool = False
) -> tuple[int, int] | None:
    """Characters [start, end) of what an answer adds to its question; None: not to be told.

    Args:
        text: a clause of one sentence, without its lead-in.
        question: what was asked.
        predicate: whether a lead-in with a copula stood before the text ("The winner is").
        naming: whether that lead-in ended with a word that a name follows ("It is called").
    """
    question_words = words_of(question)
    kind, noun = asking.answer_kind(question_words), asking.asked_noun(question_words)
    pattern = _PATTERNS.get(kind or "")
    if kind == asking.YES_NO:
        verdict = _YES_NO.match(text)
        return verdict.span() if verdict else option(read_clause(text, question), question_words)
    if question_words and question_words[0].lower == "in":
        place = _PLACE_FIRST.match(text)
        if place and adds(place[1], question) and (pattern is None or pattern.fullmatch(place[2])):
            return place.span(1)
    if (start := continuation(read_clause(text, question), question_words)) is not None:
        head = head_of(read_clause(text, question), start, kind, noun)
        only = _only(pattern, text[slice(*head)], question) if head and pattern else None
        return (head[0] + only[0], head[0] + only[1]) if head and only else head
    clause = read_clause(_first_clause(text, predicate), question)
    if kind in asking.HOW_MANY and clause.verbs and (none := _NONE_OF_THEM.search(clause.text)):
        return none.span()
    if english.denial(clause.text):
        return None
    if (clause.verbs or predicate) and pattern and (only := _only(pattern, clause.text, question)):
        return only
    if kind == asking.WHEN and (when := _WHEN.search(clause.text, 1)):
        return when.start(), len(clause.text)
    if kind == "what" and not predicate and (title := title_first(clause)):
        return title
    side = (0, len(clause.words)) if predicate else side_of(clause, question_words)
    side = side or behind_preposition(clause, asking.prepositions(question_words))
    if side is None:
        return None
    start, end = side
    if not predicate and start == 0:
        return before_verb(clause, end, noun, final_preposition(question_words))
    head = head_of(clause, start, kind, noun, asking.prepositions(question_words), naming=naming)
    if head and not predicate:
        head = head[0], without_repeated_end(clause, start, head[1])
    if head and pattern and (only := _only(pattern, clause.text[slice(*head)], question)):
        return head[0] + only[0], head[0] + only[1]
    return head


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
