"""What leads to an answer and follows it on its side of the verb, and is no part of it.

These go: a preposition at the front, a description before a name ("a British actor named ..."), the
noun that the question asks for ("the band Queen"), a relative or second clause, an apposition, a
date that was not asked for, and an end that the question says as well.
"""

import re

from anchorscope.anchors import asking, english
from anchorscope.anchors.clauses import Clause, misspells, repeats, says_something, stem
from anchorscope.anchors.quotations import QUOTE_MARKS, only_quoted, title_behind
from anchorscope.anchors.words import words_of

_PREPOSITIONS = english.word_set("in on at by from to as for with")
_ENDS = english.word_set("in on at from for during")  # may lead to what the question says, too
_AT_THE_FRONT = re.compile(
    r"[\s,;:]*(?:(?:in|on|at|by|from|to(?=\s(?:[A-Z]|the\s))|as|for|with|of|after|between|the|an|a|be|been|"
    r"(?:likely )?to be|probably|likely|also|both|actually|currently|usually|always|mainly|mostly|"
    r"none other than|(?:approximately|roughly|about|around)(?=\s[\d$£€])|"
    r"(?:title|name) of|(?:\w{3,}ed|done|made) by)\s+)+"
)
_NAMED = re.compile(
    r"\b(?:named|called|titled|entitled|nicknamed|known as|referred to as|by the name of)\s+"
    r"(?=(?:[Aa]n?\s|[Tt]he\s)?[\"“‘'*A-Z\d])"
)
_NAMED_IN_SMALL = re.compile(r"\b(?:called|named|known as)\s(?=(?:an?\s|the\s)?[a-z])")
_NAMING_ENDS = (" called", " named", " nicknamed", " titled", " dubbed", " as")


def _any_of(*patterns: str) -> str:
    """A pattern of its alternatives."""
    return f"(?:{'|'.join(patterns)})"


_IS = _any_of("is", "was", "are", "were")
RELATIVE = re.compile(
    "|".join(
        (
            rf",?\s{_any_of('who', 'which', 'that', 'whose', 'whom', 'where')}\s(?=[a-z])",
            rf",\s{_any_of('[a-z]+ing', 'known', 'made', 'born', 'set', 'written')}\s",
            rf",\s[a-z]+ed\s{_any_of('in', 'on', 'at', 'by', 'to', 'for', 'from', 'as', 'with')}\s",
            rf",\s{_any_of('but', 'when', 'while', 'although', 'though', 'because', 'since')}\s",
            rf",\s{_any_of('specifically', 'namely')}\s",
            rf",?\sand\s{_any_of('is', 'was', 'are', 'were', 'has', 'had')}\s",
            rf",\sand\s(?=[^,]*\s{_IS}\s)",
            rf",\s(?:[a-z]+ly\s|often\s)?{_any_of('with', 'without')}\s(?![A-Z])",
            r",\s(?:[a-z]+ly\s|often\s)?including\s",
            rf",\s(?:[a-z]+ly\s|often\s)?{_any_of('after', 'before', 'during', 'by')}\s",
            rf"\s{_any_of('or', 'and', 'but')}$",
            rf"(?<=[\"”»])\s{_any_of('who', 'which', 'that', 'where')}$",
        )
    )
)
# Not in a title ("The Good, the Bad and the Ugly"), nor in a list ("a bird, a cat and a dog").
_NO_LIST = r"(?!.*\s(?:and|or|&)\s(?:an?|the)\s)"
_APPOSITION = re.compile(rf"(?<=\w),\s(?:an?|the)\s(?![A-Z]){_NO_LIST}")
_TO_A_PERSON = re.compile(rf"(?<=\w),\s(?:an?\s|the\s(?![A-Z])){_NO_LIST}")  # "Bo, a British"
_BEHIND_A_QUOTATION = re.compile(r"(?<=[\"”»])\s(?:in|on|at|from|for|during|an?|the)\s")
_BEHIND_A_NAME = re.compile(
    r"(?<=[\"”»])\s(?:in|on|at|from|for|during|by|after|because|due)(?:\s|$)"
)
_MEASURE = re.compile(r"(\w+) of (?=[\d$£€])")
JOINED = re.compile(r"\s*(?:to|and|until|or|[-–—])\s*")
_DATED = re.compile(rf"\s(?:in|on|from|since|until)\s(?:the\s)?(?:{english.DATE.pattern})$")
_RANGE = re.compile(
    rf"\s(?:from|between)\s(?:{english.DATE.pattern}){JOINED.pattern}(?:{english.DATE.pattern})$"
)
_DATE_FIRST = re.compile(rf"(?:In|On|By|Since|Until)\s(?:{english.DATE.pattern}),\s")


def before_verb(
    clause: Clause, end: int, noun: str | None, final_preposition: str | None
) -> tuple[int, int] | None:
    """Characters of the words before a verb, without small words at their end.

    Args:
        end: index of the verb.
        noun: the noun that the question asks for.
        final_preposition: the question's; what follows it is the answer ("capital of | Peru").
    """
    text, words = clause.text, clause.words
    lower = [word.lower for word in words[: max(0, end - 1)]]
    if final_preposition is not None and lower.count(final_preposition) == 1:
        return words[lower.index(final_preposition) + 1].start, words[end - 1].end
    while end and words[end - 1].function and not words[end - 1].capital:
        end -= 1  # "Samuel Beckett who | wrote it"
    if not end:
        return None
    if quoted := only_quoted(clause, 0, end):
        return quoted
    date = _DATE_FIRST.match(text)
    last = words[end].start if end < len(words) else len(text)
    return _behind_class(text, date.end() if date else 0, noun), len(text[:last].rstrip())


def head_of(
    clause: Clause,
    start: int,
    kind: str | None,
    noun: str | None,
    prepositions: frozenset[str] = frozenset(),
    *,
    naming: bool = False,
) -> tuple[int, int] | None:
    """Characters of the answer that begins at a word, without what leads to it or follows it.

    Args:
        noun: the noun that the question asks for.
        prepositions: those by which the question asks; what follows one is the answer.
        naming: whether a word that a name follows stood before the text.
    """
    text = clause.text
    undated = len(text) if kind == asking.WHEN else _before_date(clause, start)
    start = _behind_preposition(clause, start, undated, prepositions)
    begin = _end_of_word_before(clause, start)
    begin += len(text[begin:]) - len(text[begin:].lstrip())
    end = _without_second_clause(clause, start, begin, _before_relative(text, begin, undated))
    named = _behind_naming(clause, begin, end)
    first = _behind_lead_in(clause, begin if named is None else named, noun)
    is_name = naming or named is not None or ends_with_naming(text[:first])
    tail = _BEHIND_A_NAME if is_name and (naming or kind != "who") else _BEHIND_A_QUOTATION
    apposition = _TO_A_PERSON if kind == "who" else _APPOSITION
    last = _before_apposition(apposition, text, first, _quotation_end(tail, text, first, end))
    head = words_of(text[first:last])
    if not any(word.content or word.capital or word.number for word in head):
        return None
    title = title_behind(clause, first, last) if kind == "what" else None
    return title or (first, last)


def _end_of_word_before(clause: Clause, start: int) -> int:
    """Character behind the word before one; 0 before the first."""
    return clause.words[start - 1].end if start else 0


def _before_date(clause: Clause, start: int) -> int:
    """Where a date at the clause's end begins, behind a word: "Bo Day | in 1972"; else its end."""
    behind = _end_of_word_before(clause, start)
    dated = _RANGE.search(clause.text, behind) or _DATED.search(clause.text, behind)
    return dated.start() if dated else len(clause.text)


def _behind_preposition(clause: Clause, start: int, last: int, prepositions: frozenset[str]) -> int:
    """Index of the word behind the last preposition before which nothing is new.

    "the Cybermen by | a group of monks". The words begin at `start` and end before character
    `last`; each of the question's prepositions counts once.
    """
    words, plain = clause.words, english.without_quotations(clause.text)
    inside = [i for i in range(start, len(words)) if words[i].end <= last]
    unused = prepositions
    for i in inside[1:-1]:
        word = plain[words[i].start : words[i].end].lower()
        repeated, new = clause.count(start, i)
        verbs = [words[verb].lower for verb in clause.verbs if start <= verb < i]
        acts_anew = any(
            not repeats(verb, clause.question) and not misspells(verb, clause.question)
            for verb in verbs
        )  # "a token created by | its makers"
        only_repeats = repeated and not new and not acts_anew and not any(clause.quoted[start:i])
        if word in _PREPOSITIONS | unused and only_repeats and any(clause.new[i : inside[-1] + 1]):
            start = i + 1
            unused -= {word}
    return start


def _before_relative(text: str, first: int, last: int) -> int:
    """Where a relative or the like begins that follows something: "doctor | who works in Rome"."""
    for relative in RELATIVE.finditer(text, first, last):
        if any(says_something(word) for word in words_of(text[first : relative.start()])):
            return relative.start()
    return last


def _behind_naming(clause: Clause, first: int, last: int) -> int | None:
    """Behind the last "named" or the like: "an actor named | Ann Bo"; None without.

    A name in small letters only follows the question's words: "a device called | a kettle".
    """
    places = [naming.end() for naming in _NAMED.finditer(clause.text, first, last)]
    for naming in _NAMED_IN_SMALL.finditer(clause.text, first, last):
        only_repeats = not clause.new_places(first, naming.start())
        if only_repeats and clause.new_places(naming.end(), last):
            places.append(naming.end())
    return max(places, default=None)


def ends_with_naming(text: str) -> bool:
    """Whether a text ends with a word that a name follows, quotation marks apart."""
    return text.rstrip(QUOTE_MARKS + " ").endswith(_NAMING_ENDS)


def _behind_lead_in(clause: Clause, first: int, noun: str | None) -> int:
    """Behind small words, the noun asked for and a measure: "an altitude of | 180 feet"."""
    front = _AT_THE_FRONT.match(clause.text, first)
    behind = _behind_class(clause.text, front.end() if front else first, noun)
    measure = _MEASURE.match(clause.text, behind)
    repeated = measure is not None and stem(measure[1].lower()) in clause.question
    return measure.end() if measure and repeated else behind


def _quotation_end(tail: re.Pattern[str], text: str, first: int, last: int) -> int:
    """Where a quotation that opens the answer ends, if a tail follows: '"Drift" | in Japan'."""
    quoted = text.startswith(tuple(QUOTE_MARKS), first)
    behind = tail.search(text, first, last) if quoted else None
    return behind.start() if behind else last


def _before_apposition(pattern: re.Pattern[str], text: str, first: int, last: int) -> int:
    """Where a description behind a comma begins: "Ann Bo |, a painter from Rome"."""
    apposition = pattern.search(text, first, last)
    return apposition.start() if apposition else last


def _behind_class(text: str, first: int, noun: str | None) -> int:
    """Behind the noun that the question asks for: "band | Queen", "genre of | drama"."""
    if noun is None or not text[first:].startswith(noun + " "):
        return first
    behind = first + len(noun) + 1
    of = r"of (?:the |an? )?(?=\S)|" if noun in english.APPOSED else ""
    follows = re.compile(rf"{of}(?=[\"“A-Z])").match(text, behind)
    return follows.end() if follows else first


def _without_second_clause(clause: Clause, start: int, first: int, last: int) -> int:
    """Where the first of two joined clauses ends: "Ann | and stars Bo", "a tale |, set in"."""
    words = clause.words
    for i in range(start + 1, len(words)):
        if words[i].end > last or words[i - 1].end <= first or i not in clause.verbs:
            continue
        if _describes(clause, i):
            continue
        if words[i - 1].lower == "and" and clause.count(start, i - 1)[1]:
            return len(clause.text[: words[i - 1].start].rstrip(" ,"))
        if words[i].breaks and clause.count(start, i)[1]:
            return words[i - 1].end
    return last


def without_repeated_end(clause: Clause, start: int, last: int) -> int:
    """Without an end that the question says as well: "Bo Day | in the chess match of 1972"."""
    words = clause.words
    end = sum(word.end <= last for word in words)
    for i in range(start + 1, end):
        repeated, new = clause.count(i, end)
        if (
            words[i].lower in _ENDS
            and not clause.quoted[i]
            and clause.count(start, i)[1]
            and repeated
            and not new
        ):
            return words[i - 1].end
    return last


def _describes(clause: Clause, verb: int) -> bool:
    """Whether a verb in -ed stands before what it describes: "iconic and | beloved ballets"."""
    behind = clause.words[verb + 1 : verb + 2]
    return clause.words[verb].lower.endswith("ed") and bool(behind) and not behind[0].function
