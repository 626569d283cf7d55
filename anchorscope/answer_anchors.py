"""E_A: the answer proper inside what a model wrote, found without looking at gold or label.

One procedure for every answer, right or wrong:

1. skip spaces, bullets, the "1." of a list, opening punctuation and a courtesy ("Sure! ...");
2. strip a lead-in (`LEAD_INS`: "The answer is", "A:", "It was written by", "The capital of X is");
3. cut at the first line break, bracket or sentence end;
4. drop articles, then quotes, markup and punctuation at both ends.

A full stop ends a sentence where white space, a closing quote or the end of the text follows,
unless it belongs to an abbreviation: a single letter ("J. R. R. Tolkien"), dotted letters ("U.S."),
a title or the like ("St. Louis"), "No." before a digit. Even then it ends the sentence where a word
such as "It" or "The" follows ("U.S. It is ..."), and always where a space stands before it. A full
stop inside a number or word ("3.5", "S.p.A") has no space after it. `!` and `?` end a sentence
unless a small letter follows ("Panic! at the Disco").

"Yes" or "No" before a comma and a small letter is a sentence of its own ("No, he was not").
Limits, on purpose: other commas, dashes and colons never cut ("Yes, Minister"); lead-ins and
articles are English.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

NEWLINES = "\n\r\v\f\x85\u2028\u2029"
FULL_STOPS = ".。．｡।۔։"
_MARKS = FULL_STOPS + "!?！？؟…"
_UNSPACED_MARKS = "。．｡！？।۔؟"  # end a sentence whatever follows
_BRACKETS = "()[]{}（）［］｛｝【】〔〕"
_INVISIBLE = "\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff"

_PAIRS = {
    '"': '"',
    "'": "'",
    "“": "”",
    "”": "”",
    "„": "“",
    "‘": "’",
    "«": "»",
    "»": "«",
    "「": "」",
    "『": "』",
    "《": "》",
    "*": "*",
    "_": "_",
    "`": "`",
}
_OPENERS = frozenset(_PAIRS)
_CLOSERS = frozenset(_PAIRS.values())
_APOSTROPHES = frozenset("'’‘")
_CLOSING = frozenset(_MARKS + ",;:،؛、，；：-–—")

_ABBREVIATIONS = frozenset(
    "st mr mrs ms dr prof rev fr hon gov sen rep gen col maj capt cpt lt sgt adm cmdr pres "
    "jr sr bros mt ft ave blvd vs vol approx ca pop etc inc ltd co corp "
    "jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
_KEEP_STOP = frozenset("jr sr bros inc ltd co corp etc".split())
_SENTENCE_OPENERS = frozenset(
    "The It He She This That These They There His Her Its Their However In On At As If".split()
)

_AFTER_STOP = re.compile(r"[\"'”’»」』)\]*_`]*(?:\s|$)")
_LAST_WORD = re.compile(r"[^\s\"“”„«»(\[{*_]*$")
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]{1,2}")
_NEXT_WORD = re.compile(rf"[^\S{NEWLINES}]*[\"'“‘]?(\w+)")  # on the same line

_COPULA = r"(?:is|was|are|were|has been|would be)"
_PASSIVE = (
    r"(?:(?:born|located|situated|based|found|held|set|written|directed|produced|composed|created|"
    r"invented|discovered|founded|painted|designed|built|performed|sung|recorded|played|portrayed|"
    r"voiced|published|released|developed|called|named)\b(?: (?:in|at|on|by|from))?)"
)
LABELS = (
    re.compile(
        r"(?i:(?:so,? |and )?(?:the |my )?(?:correct |right |final |short |best )?answer"
        r"(?: to (?:the|this|that|your) question)?)(?:\s*[:：]| (?:is|was|would be)\b:?)"
    ),
    re.compile(r"(?:A|a)\s*[:：](?=\s|$)"),
)
# Case matters in the copula: "It is Paris" leads in, the title "It Is What It Is" does not.
LEAD_INS = (
    *LABELS,
    re.compile(rf"(?:[Ii]t|[Hh]e|[Ss]he|[Tt]hey) {_COPULA}(?: {_PASSIVE})?(?=\s|$)"),
    # "The <lower-case word> ... is": a clause; "The Who ...": a name.
    re.compile(rf"[Tt]he [a-z][^,;]{{0,80}}? {_COPULA}(?: {_PASSIVE})?:?(?=\s)"),
    re.compile(rf"[^,;]{{1,60}}?['’]s? [a-z]+(?: [a-z]+)? {_COPULA}(?: {_PASSIVE})?:?(?=\s)"),
    re.compile(rf"[^,;]{{1,80}}? {_COPULA} {_PASSIVE}(?=\s)"),
)
_MOST_LEAD_INS = 8  # one after the other; a model that stutters on has said nothing
_ARTICLE = re.compile(r"(?i:the|an|a)\s+(?=\S)")
# A list starts at 1; "1. There is one" is an answer and a new sentence.
_FIRST_ITEM = rf"1[.)][^\S{NEWLINES}]+(?!(?:There|{'|'.join(sorted(_SENTENCE_OPENERS))})\b)(?=\w)"
_SKIP = re.compile(rf"(?:{_FIRST_ITEM}|[\s{_INVISIBLE}]|[-–—•*+>#]+(?=\s)|\.\.+(?=\w)|…|[¿¡,;:])+")

_COURTESY = re.compile(r"(?i:sure|certainly|of course)[!,.:][^\S\n]+(?=[^\W_])")
_YES_NO = re.compile(rf"[{re.escape(''.join(_OPENERS))}]*(?i:yes|no)(?=,\s+[^\W\d_A-Z])")


def find(answer: str) -> tuple[int, int] | None:
    """Where the answer proper (E_A) stands in an answer.

    Args:
        answer: the text that a model wrote, or the start of it; gold answers are not asked for.

    Returns:
        Characters [start, end), no white space at either edge; None if nothing is left.
    """
    start = _skip(answer, 0)
    if courtesy := _COURTESY.match(answer, start):
        start = _skip(answer, courtesy.end())
    end = _cut(answer, start)
    for _ in range(_MOST_LEAD_INS):  # "A: The answer is: ..."
        if (after := _after_lead_in(answer, start, end)) == start:
            break
        start = _skip(answer, after)
        end = _cut(answer, start)
    start, end = _strip(answer, start, end)
    while article := _ARTICLE.match(answer, start, end):
        start, end = _strip(answer, article.end(), end)
    return (start, end) if start < end else None


@dataclass(frozen=True)
class Success:
    """In how many right and wrong answers an E_A was found.

    Attributes:
        right, wrong: answers of the class.
        right_found, wrong_found: those of them in which an E_A was found.
    """

    right: int
    right_found: int
    wrong: int
    wrong_found: int

    @property
    def right_rate(self) -> float:
        """Share of right answers with an E_A; NaN without any."""
        return self.right_found / self.right if self.right else float("nan")

    @property
    def wrong_rate(self) -> float:
        """Share of wrong answers with an E_A; NaN without any."""
        return self.wrong_found / self.wrong if self.wrong else float("nan")

    @property
    def difference(self) -> float:
        """Right minus wrong, in percentage points."""
        return 100 * (self.right_rate - self.wrong_rate)


def success(notes: Mapping[str, int]) -> Success:
    """The finder's success in each class, from the notes that the answers stage counts.

    A label-blind finder may still succeed more often in one class than in the other, and a probe
    could then read that; so the two rates are reported side by side. Where no E_A was found, the
    class is that of the whole text.

    Args:
        notes: of the answers' counts, as their provenance record keeps them, too.
    """
    found, missed = (
        [notes.get(f"answer anchor {state}, {label}", 0) for label in ("right", "wrong")]
        for state in ("found", "not found")
    )
    return Success(found[0] + missed[0], found[0], found[1] + missed[1], found[1])


def closer(text: str, start: int) -> int | None:
    """The first line break or sentence-ending full stop at or after a character, None without."""
    for place in range(start, len(text)):
        if text[place] in NEWLINES:
            return place
        if text[place] in FULL_STOPS and ends_sentence(text, place):
            return place
    return None


def ends_sentence(text: str, place: int) -> bool:
    """Whether the mark at a character ends its sentence (rules above)."""
    mark = text[place]
    if mark in _UNSPACED_MARKS:
        return True
    if mark not in _MARKS or not _AFTER_STOP.match(text, place + 1):
        # "..." ends a sentence as a whole, at its first dot
        return mark == "." and bool(re.match(r"\.+\s", text[place : place + 8])) and place > 0
    if mark in "!?":
        following = _NEXT_WORD.match(text, place + 1)
        return following is None or not following[1][0].islower()
    if mark != "." or place == 0 or text[place - 1].isspace():
        return True
    return not _abbreviated(text, place)


def _abbreviated(text: str, place: int) -> bool:
    """Whether the full stop belongs to the word before it and the sentence goes on."""
    following = _NEXT_WORD.match(text, place + 1)
    if following is None:
        return _keeps_stop(text, place)
    if following[1] in _SENTENCE_OPENERS:
        return False
    word = _last_word(text, place)
    if word.casefold() == "no":
        return following[1][0].isdigit()
    one_letter = len(word) == 1 and word.isalpha()
    return one_letter or bool(_DOTTED.fullmatch(word)) or word.casefold() in _ABBREVIATIONS


def _keeps_stop(text: str, place: int) -> bool:
    """Whether the full stop is the spelling of the last word: "U.S.", "Jr."."""
    word = _last_word(text, place)
    return bool(_DOTTED.fullmatch(word)) or word.casefold() in _KEEP_STOP


def _last_word(text: str, place: int) -> str:
    found = _LAST_WORD.search(text[max(0, place - 40) : place])
    return found[0].lstrip("'‘’") if found else ""


def _skip(text: str, start: int) -> int:
    """Past white space, bullets, brackets and quotes whose partner ends the text."""
    while True:
        found = _SKIP.match(text, start)
        after = found.end() if found else start
        if after < len(text) and text[after] in _BRACKETS:
            after += 1
        if after == start:
            return start
        start = after


def _cut(text: str, start: int) -> int:
    """The first line break, bracket or sentence end at or after a character."""
    if yes_no := _YES_NO.match(text, start):
        return yes_no.end()
    for place in range(start, len(text)):
        if text[place] in NEWLINES or text[place] in _BRACKETS or ends_sentence(text, place):
            return place
    return len(text)


def _after_lead_in(text: str, start: int, end: int) -> int:
    """Where a lead-in ends, else `start`; a line break after its colon is no end of the answer."""
    opened = start
    while opened < end and text[opened] in _OPENERS:
        opened += 1
    for lead_in in LEAD_INS:
        found = lead_in.match(text, opened)
        if found and found.end() <= end:
            # Of "Answer:" nothing is left; a whole clause without an object is the answer itself.
            empty = not text[found.end() : end].strip()
            return start if empty and lead_in not in LABELS else found.end()
    return start


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    """Without white space, punctuation, quotes and markup at both ends."""
    while start < end:
        before = (start, end)
        start, end = _strip_spaces(text, start, end)
        start, end = _strip_quotes(text, start, end)
        if end > start and text[end - 1] in _CLOSING and not _spelt(text, start, end):
            end -= 1
        if (start, end) == before:
            break
    return start, end


def _spelt(text: str, start: int, end: int) -> bool:
    return (
        text[end - 1] == "." and end - 1 > start and _keeps_stop(text[start:end], end - 1 - start)
    )


def _strip_spaces(text: str, start: int, end: int) -> tuple[int, int]:
    found = re.search(rf"[^\s{_INVISIBLE}]", text[start:end])
    if found is None:
        return start, start
    start += found.start()
    while text[end - 1].isspace() or re.match(f"[{_INVISIBLE}]", text[end - 1]):
        end -= 1
    return start, end


def _strip_quotes(text: str, start: int, end: int) -> tuple[int, int]:
    """Without quotes at the ends whose partner is not inside; an apostrophe goes in pairs only."""
    if end - start < 1:
        return start, end
    first, last = text[start], text[end - 1]
    if end - start > 1 and first in _OPENERS and last in {_PAIRS[first], first}:
        return start + 1, end - 1
    inside = text[start + 1 : end - 1]
    if first in _OPENERS and first not in _APOSTROPHES and _PAIRS[first] not in inside:
        return start + 1, end
    partners = {a for a, b in _PAIRS.items() if b == last}
    if last in _CLOSERS and last not in _APOSTROPHES and not partners & set(inside):
        return start, end - 1
    return start, end
