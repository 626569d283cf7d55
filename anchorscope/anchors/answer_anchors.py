"""E_A: the answer proper inside what a model wrote, found without looking at gold or label.

One procedure for every answer, right or wrong:

1. start behind the model's thoughts, at its own mark of the answer (`<answer>`) where it set one,
   and behind sentences about the request ("Okay, so the user asks ...") that others follow;
2. skip spaces, bullets, tags, the "1." of a list, the "(B)" or "b)" of a choice, opening
   punctuation;
3. strip a heading or a phrase in front that only says the question again ("In Norse mythology,")
   and lead-ins (`lead_ins`: "The answer is", "Q: ...? A:", "I'm not sure, but", "As of 2020,");
4. cut at the first line break, bracket (unless only the question was said before it), tag or
   sentence end, before the next item of a list, at the end of what is emphasised, before an
   afterthought ("X, I think", "X, not Y"), but keep a number's other spelling ("12 (twelve)");
5. of a clause that says the question's words again, keep what it adds (`restated`), where the
   question is known;
6. drop articles, then quotes, markup and punctuation at both ends.

"Yes" or "No" before a comma and a small letter is a sentence of its own ("No, he was not").
Limits, on purpose: other commas, dashes and colons never cut ("Yes, Minister"); lead-ins and
articles are English; a clause that cannot be read stays whole. `Anchor.sure` is False there, and
wherever something had to be chosen. Of another language than English, it says little.
"""

import re
from dataclasses import dataclass

from anchorscope.anchors import asking, clauses, edges, english, lead_ins, restated, sides
from anchorscope.anchors.english import TWO_SPELLINGS, without_quotations
from anchorscope.anchors.sentences import (
    MARKS,
    NEWLINES,
    SENTENCE_OPENERS,
    keeps_stop,
    sentence_end,
)
from anchorscope.anchors.words import words_of

MOST_NAME = 7  # words of a name that may stand in the question as well
MOST_WORDS = 15  # of an answer proper that is no clause
MOST_OPTION = 4  # of an answer that says the question's words again: "Poor Old Lu"

_BRACKETS = "()[]{}（）［］｛｝【】〔〕"
_INVISIBLE = "\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff"

_BLANK = re.compile(rf"[\s{_INVISIBLE}]")
_PAIRS = dict(zip("\"'“”„‘«»「『《*_`", "\"'””“’»«」』》*_`", strict=True))
_APOSTROPHES = frozenset("'’‘")
_CLOSING = frozenset(MARKS + ",;:،؛、，；：-–—")


_MOST_LEAD_INS = 8  # one after the other; a model that stutters on has said nothing
_ARTICLE = re.compile(r"(?i:the|an|a)\s+(?=\S)")
# A list starts at 1; "1. There is one" is an answer and a new sentence.
_NEW_SENTENCE = rf"(?!(?:There|{'|'.join(sorted(SENTENCE_OPENERS))})\b)"
_FIRST_ITEM = rf"1[.)][^\S{NEWLINES}]+{_NEW_SENTENCE}(?=[*_]*\w)"
_LIST = re.compile(r"\(?([1aA])([.)])\s+$")  # what stands before the first item
# `<b>`, `</s>`, `<|im_end|>`, `[/INST]`, LaTeX's `\boxed{`; "[USA]" alone is an answer in brackets.
_TAG = (
    r"<[/|]?[A-Za-z][^<>\n]{0,40}>(?:(?<=\|>)assistant\b)?|"
    r"\[/?[A-Z]{2,}\](?=[^\S\n]*\w)|\[/[A-Z]{2,}\]|\\[a-z]+\{"
)
_TAGS = re.compile(_TAG)
_THOUGHTS = re.compile(r"\s*<(think\w*)>.*?</\1>", re.DOTALL)
_MARKED = re.compile(r"<(?:final[ _-]?)?answer>|\\boxed\{", re.IGNORECASE)
_EMPHASIS = re.compile(r"(\*{1,3}|_{1,3})(?=[^\s*_])([^\n]*?[^\s*_])\1(?!\w)")
_CHOICE = r"\(?[A-Ea-e1-5]\)\s+(?=\w)|(?<=:\n)\n?[A-E]\.\s+(?=\w)"
_SKIP = re.compile(
    rf"(?:{_FIRST_ITEM}|{_TAG}|{_CHOICE}|[\s{_INVISIBLE}{re.escape(_BRACKETS)}]|"
    r"[-–—•*+>#]+(?=\s)|\.\.+(?=\w)|…|[¿¡,;:])+"
)
_YES_NO = re.compile(rf"[{re.escape(''.join(_PAIRS))}]*(?i:yes|no)(?=,\s+[^\W\d_A-Z])")

_HEADING_END = re.compile(r"[:：][\s*\"“]*(?:(?i:the|an?)\s)?[*\"“]*$")
_ASIDE = re.compile(r"(?<![\"”])\s*\([^()\n]*\)\s(?=\w)")
_PHRASE = re.compile(
    r"(?:In|On|At|During|For|From|Among|Between|By|Since) [^,.:;?!\n]{3,80},\s+(?=\w)"
)

# What a model adds to its answer: doubt, or what the answer is not.
_COPULA = re.compile(r"\b(?:is|was|are|were|be|been)\b|['’]s\b")
_REPEATED = re.compile(r"[^?？:：\n]{3,}[?？:：][\"”*_]*(?=\s)")
_I = r"I(?:['’][a-z]+)? "  # a first person's clause; titles go on with a capital
_AFTERTHOUGHT = re.compile(
    rf"\s*[,–—]\s?(?:(?:(?:but|though|although|if) )?{_I}[a-z]|but don['’]t )"
    rf"|(?:\s-)?\s(?:(?:but|though|although) {_I}[a-z]|{_I}(?:would )?{lead_ins.THINK}\b)"
    r"|\s*[,–—]\s?(?:(?:maybe|perhaps|probably|possibly|presumably)\W*$|(?:and )?not\s)"
)
_FIRST_PERSON = re.compile(rf"{_I}[a-z]")  # "I'm sorry, but I can't say": no answer before "but"


@dataclass(frozen=True)
class Anchor:
    """Where E_A stands."""

    start: int
    end: int  # characters [start, end); no white space at either edge
    sure: bool  # False where it is a clause or long, or where something had to be chosen


def find(answer: str, question: str = "") -> tuple[int, int] | None:
    """Characters [start, end) of the answer proper (E_A) in what a model wrote; None: nothing left.

    No white space stands at either edge.
    """
    anchor = locate(answer, question)
    return None if anchor is None else (anchor.start, anchor.end)


def locate(answer: str, question: str = "") -> Anchor | None:
    """E_A in what a model wrote, and whether the finder is sure of it; None: nothing left.

    Without the question, an answer that restates it is kept whole.
    """
    sentence = _after_request(answer, _skip(answer, _opening(answer)))
    start = sentence
    if question:
        start = _after_phrase(answer, _after_question(answer, sentence, question), question)
    for _ in range(_MOST_LEAD_INS):  # "A: The answer is: ..."
        if (after := _after_lead_in(answer, start)) == start:
            break
        start = _skip(answer, after)
    span = _proper(answer, start)
    if span is None:
        return None
    if question:
        span = _beyond_aside(answer, start, span, question)
        span = _added(answer, span, sentence, question)
    return Anchor(*span, _is_sure(answer, span, question))


def _is_sure(answer: str, span: tuple[int, int], question: str) -> bool:
    """Whether E_A is short, no clause, and nothing had to be chosen to find it.

    Nothing had to be where E_A is all that its sentence says, and either adds to the question or is
    as short as an option of it; or where the rest of the sentence only says the question's words
    again, and E_A none of them and no preposition. A yes/no question has "yes" or "no".
    """
    text = answer[slice(*span)]
    words = words_of(text)
    if len(text.split()) > MOST_WORDS or clauses.is_clause(text):
        return False
    if not question:
        return True
    start, end = sentence_of(answer, span[0])
    rest = words_of(answer[start : span[0]]), words_of(answer[span[1] : end])
    repeated = clauses.content_stems(text) & clauses.stems(question)
    plain = not any(word.lower in english.PREPOSITIONS | asking.GOVERNING for word in words)
    if not any(word.content for part in rest for word in part) and not rest[1]:
        heading = answer.startswith(":", span[1])
        return not heading and (not repeated or (plain and len(words) <= MOST_OPTION))
    if asking.answer_kind(words_of(question)) == asking.YES_NO:
        return text.lower() in ("yes", "no")
    adds = clauses.adds(answer[start : span[0]], question)
    adds = adds or clauses.adds(answer[span[1] : end], question)
    return plain and not repeated and not adds


def _beyond_aside(answer: str, start: int, span: tuple[int, int], question: str) -> tuple[int, int]:
    """The span up to the sentence's end where a bracket cut it before it said anything new.

    "The Gold Coast (Ghana) has its capital in | Accra"
    """
    aside = _ASIDE.match(answer, span[1])
    if aside is None or clauses.adds(answer[slice(*span)], question):
        return span
    whole = _proper(answer, start, brackets_from=aside.end())
    goes_on = whole is not None and clauses.adds(answer[aside.end() : whole[1]], question)
    return whole if whole is not None and goes_on else span


def _added(answer: str, span: tuple[int, int], sentence: int, question: str) -> tuple[int, int]:
    """What of a span answers the question, where that can be told; else the span."""
    if _FIRST_PERSON.match(answer, span[0]):
        return span
    lead_in = answer[sentence : span[0]]
    predicate = bool(_COPULA.search(lead_in)) and "?" not in lead_in
    announced = ":" in lead_in or english.denial(answer[slice(*span)]) is not None
    whole = _proper(answer, sentence) if predicate and not announced else None
    if whole is not None:
        text = answer[slice(*span)]
        is_name = text != text.lower() and len(text.split()) <= MOST_NAME
        repeats = not is_name and not clauses.adds(text, question)
        answers = repeats and clauses.adds(answer[whole[0] : span[0]], question)
        answered = restated.answered_before(answer[slice(*whole)], span[0] - whole[0], question)
        if answers or answered or restated.continues(answer[slice(*whole)], question):
            span, predicate = whole, False  # "The rabbit is the animal": the lead-in answers
    heading = "\n" in lead_in or _HEADING_END.search(lead_in)
    if heading and clauses.is_clause(answer[slice(*span)]):
        predicate = False  # "The author was:", and then a sentence of its own
    naming = edges.ends_with_naming(lead_in)
    place = restated.added(answer[slice(*span)], question, predicate=predicate, naming=naming)
    if place is None or place == (0, span[1] - span[0]):
        return span
    return _without_edges(answer, span[0] + place[0], span[0] + place[1]) or span


def sentence_of(answer: str, place: int) -> tuple[int, int]:
    """Characters [start, end) of the sentence of E_A, its lead-in included; E_A is at `place`."""
    start = _after_request(answer, _skip(answer, _opening(answer)))
    end = sentence_end(answer, start)
    return (start, end) if place < end else (place, sentence_end(answer, place))


def _proper(answer: str, start: int, *, brackets_from: int = 0) -> tuple[int, int] | None:
    """The answer that begins at a character, cut where it ends.

    `brackets_from`: the character from which on brackets end it.
    """
    emphasis = _EMPHASIS.match(answer, start)
    start = emphasis.start(2) if emphasis else start
    end = min(_cut(answer, start, brackets_from), emphasis.end(2) if emphasis else len(answer))
    return _without_edges(answer, start, end)


def _without_edges(answer: str, start: int, end: int) -> tuple[int, int] | None:
    """Without articles at the front, and punctuation, quotes and markup at both ends."""
    start, end = _strip(answer, start, end)
    while article := _ARTICLE.match(answer, start, end):
        start, end = _strip(answer, article.end(), end)
    return (start, end) if start < end else None


def _skip(text: str, start: int) -> int:
    """Past white space, bullets, brackets and what else stands before an answer."""
    skipped = _SKIP.match(text, start)
    return skipped.end() if skipped else start


def _opening(text: str) -> int:
    """Where to begin: behind the model's thoughts, or at its own mark of the answer."""
    thoughts = _THOUGHTS.match(text)
    start = thoughts.end() if thoughts else 0
    marked = _MARKED.search(text, start)
    return marked.end() if marked else start


def _after_request(text: str, start: int) -> int:
    """Past sentences about the request, if another sentence follows them."""
    for _ in range(_MOST_LEAD_INS):
        if not lead_ins.speaks_of_the_request(text, start):
            break
        after = _skip(text, sentence_end(text, start) + 1)
        if not text[after:].strip():
            break
        start = after
    return start


def _after_question(text: str, start: int, question: str) -> int:
    """Past a part of the question that the model repeats first: "The winner? Ada"."""
    repeated = _REPEATED.match(english.without_quotations(text), start)
    if repeated is None or not text[repeated.end() :].strip():
        return start
    repetition = text[start : repeated.end()]
    asks = repetition.rstrip()[-1] in "?？" or clauses.is_clause(repetition)
    whole = clauses.content_stems(question) <= clauses.content_stems(repetition)
    again = (asks or whole) and not clauses.adds(repetition, question)
    return _skip(text, repeated.end()) if again else start


def _after_phrase(text: str, start: int, question: str) -> int:
    """Past a phrase in front that only says the question's words: "In Norse mythology, Odin".

    Not where it is the answer: an option of the question, or all that the sentence says.
    """
    phrase = _PHRASE.match(text, start)
    if phrase is None or not clauses.content_stems(phrase[0]) or clauses.adds(phrase[0], question):
        return start
    option = phrase[0].strip(" ,").partition(" ")[2]
    rest = text[phrase.end() : sentence_end(text, start)]
    answers = sides.is_option(option, question) or not clauses.adds(rest, question)
    return start if answers else phrase.end()


def _after_lead_in(text: str, start: int) -> int:
    """Where a lead-in ends, else `start`; quotes and markup may open before it."""
    opened = _within_quotes(text, start)
    after = lead_ins.after(text, opened, sentence_end(text, opened))
    return start if after == opened else after


def _within_quotes(text: str, start: int) -> int:
    """Past quotes and markup that open at a character."""
    while start < len(text) and text[start] in _PAIRS:
        start += 1
    return start


def _cut(text: str, start: int, brackets_from: int) -> int:
    """Where the answer that starts at a character ends."""
    if yes_no := _YES_NO.match(text, start):
        return yes_no.end()
    end = sentence_end(text, start)
    end = min(end, _second_item(text, start))
    spellings = TWO_SPELLINGS.finditer(text, start, end)
    spelt_twice = {place for number in spellings for place in range(*number.span())}
    for place in range(start, end):
        bracket = text[place] in _BRACKETS and place not in spelt_twice
        bracket = bracket and place >= brackets_from
        if bracket or _TAGS.match(text, place):
            end = place
            break
    if _FIRST_PERSON.match(text, _within_quotes(text, start)):
        return end
    afterthought = _AFTERTHOUGHT.search(without_quotations(text), start + 1, end)
    return afterthought.start() if afterthought else end


def _second_item(text: str, start: int) -> int:
    """Where the next item of a list begins if the answer is the first: "1) Mercury 2) Venus"."""
    first = _LIST.search(text, 0, start)
    if first and first[0].strip() != "A.":  # its "B." may be an initial: "A. John B. Bo"
        number, closing = chr(ord(first[1]) + 1), re.escape(first[2])
        item = re.compile(rf"[^\S{NEWLINES}]+\(?{number}{closing}\s+{_NEW_SENTENCE}(?=\w)")
        if second := item.search(text, start):
            return second.start()
    return len(text)


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    """Without white space, punctuation, quotes and markup at both ends."""
    while start < end:
        before = (start, end)
        while start < end and _BLANK.match(text, start):
            start += 1
        while start < end and _BLANK.match(text, end - 1):
            end -= 1
        start, end = _strip_quotes(text, start, end)
        if start < end and text[end - 1] in _CLOSING:
            spelt = text[end - 1] == "." and keeps_stop(text[start:end], end - 1 - start)
            end -= not spelt
        if (start, end) == before:
            break
    return start, end


def _strip_quotes(text: str, start: int, end: int) -> tuple[int, int]:
    """Without quotes at the ends whose partner is not inside; an apostrophe goes in pairs only."""
    if end - start < 1:
        return start, end
    first, last = text[start], text[end - 1]
    inside = text[start + 1 : end - 1]
    if end - start > 1 and first in _PAIRS and last in {_PAIRS[first], first}:
        return (start, end) if _closes_within(inside, _PAIRS[first]) else (start + 1, end - 1)
    if first in _PAIRS and first not in _APOSTROPHES and _PAIRS[first] not in inside:
        return start + 1, end
    partners = {a for a, b in _PAIRS.items() if b == last}
    if partners and last not in _APOSTROPHES and not partners & set(inside):
        return start, end - 1
    return start, end


def _closes_within(inside: str, closing: str) -> bool:
    """Whether a quotation ends inside a text, and another begins: 'Up" and "Down' of '"Up" and'."""
    return bool(re.search(rf"\S{re.escape(closing)}\s.*\s[\"“'‘]\S", inside))
