"""Find E_A, the answer proper, in a short reply.

The finder does not see gold answers. It uses one procedure for every reply: skip text before a
marked answer ("Final answer: X"), bullets, lead-ins and a repeated question, then take the first of
these that applies:

1. a "yes" or "no" at the start, if the question asks for it, or one of the names that the question
   offers ("X or Y?");
2. if the question asks "when" or "how many", the one date or number that the sentence contains and
   the question lacks;
3. the words after the first is/was/are/were, if no new name or number precedes the verb. A "called"
   or "born in" after the verb is skipped. The answer ends before a relative clause or preposition;
4. everything up to the end of the sentence or line, a bracket, or an afterthought ("X, I think").

Articles, quotation marks and closing punctuation are removed. Prompts show how short an answer
should be, so it is shortened no further. `Anchor.sure` is False if the span may exceed the answer:
if it is long, is a clause, continues with a preposition, or repeats the question.
"""

import re
from dataclasses import dataclass
from itertools import permutations

from anchorscope.anchors import english
from anchorscope.anchors.answer_text import TAG, adds, hidden, stems, trim
from anchorscope.anchors.lead_ins import OFFER, begin
from anchorscope.anchors.sentences import TITLED, sentence_end

MOST_WORDS = 8  # most words of an answer that the finder is sure of
MOST_OPTION = 4  # the same for an answer of which all words are in the question: "Poor Old Lu"
_YES_NO = re.compile(r"(?i:yes|no)(?=\W|$)(?! one\b)")
_CUT = re.compile(
    rf"{TAG}|\}}|,?\s\(?[2bB]\)\s|"
    r"(?<=\S)\s*[(\[{（［]|(?<=\w)[*_]+(?!\w)|,\s(?:but|though|although)\s"
    rf"|\s(?:but|though|although)\s(?!{TITLED})"
    r"|[,–—-]?\s(?:if )?I(?:['’][a-z]+)? (?:[a-z]+ )?(?:think|guess|believe|suppose|sure|remember|"
    r"mistaken)\b|,\s(?:not\b|(?:maybe|perhaps|probably|possibly)\W*$)"
)
_COPULA = re.compile(
    r"(?<!\bthat )(?<!\bwhich )(?<!\bwho )\b(?:is|was|are|were|(?:has|have) been|"
    r"(?:could|might|may|would) (?:have )?be(?:en)?)\b(?!\s+not\b)"
)
# A pause. What follows may be a new clause, which is not about the text before.
_PAUSE = re.compile(r"[,;]\s|\s[–—-]\s|\s?[(\[（［]|\s(?:and|but) (?=(?:he|she|it|they|was|is)\b)")
_BRACKETS = re.compile(r"\([^()]*\)")
_WITHIN = re.compile(r"\b(?:when|while|because|if|where)\b")  # open another clause
_LEADS_ON = re.compile(
    r"[\s:]*(?:(?:[a-z]+ly|also|first|the|an?)\s)?(?:[a-z ]{0,40}\b(?:called|named|titled|by the "
    r"name of)|(?:[a-z]+ed|born|known|held|found|written|made|won|set|built|sung|led)"
    r"\s(?:by|in|at|on|from|to|as)|by|in|at|on|from|as|for|during|about|around|approximately)[\s:]+"
)
_TAIL = re.compile(
    r",?\s(?:who|which|that|whose|where|when)\b|,\s(?:an?|the|one of)\s"
    r"|\s(?:(?:[a-z]+ed|written|known|made|found|held|born) )?(?:by|in|at|on|from|during|since|"
    r"before|after|for|as)\s"
)
# Hedges. A title may begin with one: "Maybe Baby", "I think we're alone now".
_HEDGED = re.compile(r"(?i:maybe|perhaps|probably|possibly|\bi (?:think|believe|guess))\s*$")
_BEHIND_BRACKET = re.compile(r"\s*[(\[][^()\[\]\n]{0,200}[)\]]\s*\w")
# A match of DATE or NUMBER that is a part of "14/4/1912", "1990's" or "1951–52"
_PARTED = re.compile(r"[/–-]\d|\W?\d+['’/–-]\w")
_ASKS_DATE = re.compile(r"(?i:^when\b|\b(?:what|which) (?:year|date|day|month|decade)\b)")
# Words that turn a comparison: "X is younger than Y" for "who is older?"
_LESSER = re.compile(
    r"\b(?:younger|newer|later|after|less|fewer|smaller|shorter|lower|(?:lost|second) to|beaten)\b"
)
_ASKS_NUMBER = re.compile(r"(?i:\bhow (?:many|much)\b)")
# Words that make a text a clause, or refer to the speaker.
CLAUSE = re.compile(
    r"\b(?:is|was|are|were|be|been|has|had|have|will|would|can|could|did|does|do|not|who|which|"
    r"that|where|when|because|while|wrote|won|made|sang|became|began|[a-z]{2,}(?<!hundr)ed)\b"
    r"|n['’]t\b|^(?:I(?:['’][a-z]+)? [a-z]|Not\b|(?i:let)(?:['’]s| me| us)\b|(?i:okay|hmm+|well),)"
)
# Words and signs that introduce more than the answer proper.
_MORE = re.compile(
    r"\s(?:in|on|at|by|from|for|with|before|during|after|as|since|until)\s|,\s(?:an?|the)\s"
    r"|\s(?:or|aka)\s|\s/\s|\sof course\b|\b(?:probably|perhaps|possibly)\b|[\\{}|=]"
    r"|^(?i:it|that|he|she|they|there)['’](?:s|re)\s"
    r"|[a-z]:\s|\w\s[\"“]|\b[2bB][.)](?:\s|$)"
)
_NAME = re.compile(r"\b[^\W_a-z]\S*")


@dataclass(frozen=True)
class Anchor:
    """Characters [start, end) of E_A in a reply, without white space at either edge."""

    start: int
    end: int
    sure: bool  # False if the span may contain more than the answer


def locate(reply: str, question: str = "") -> Anchor | None:
    """Find E_A in a reply; return None if nothing is left after trimming.

    Without `question`, a sentence that repeats the question is kept whole.
    """
    start = begin(reply, question)
    first, last = trim(reply, start, _cut(reply, start))
    verdict = _YES_NO.match(reply, first)
    if verdict and (asks_yes_no(question) or re.match(r", [a-z]", reply[verdict.end() :])):
        return Anchor(*verdict.span(), sure=True)
    for find in (_offered, _asked_for, _behind_copula):
        if question and (found := find(reply, start, question)):
            return found
    bracket = _BEHIND_BRACKET.match(reply, last, sentence_end(reply, last))
    more = bracket or _HEDGED.search(reply, max(0, first - 20), first)
    sure = _sure(reply[first:last], question) and not more
    return Anchor(first, last, sure) if first < last else None


def asks_yes_no(question: str) -> bool:
    """Return whether a question opens with an auxiliary: "Is it ...?"."""
    first = question.lower().replace("’", "'").lstrip().partition(" ")[0]
    known = english.AUXILIARIES | {"must", "shall"}
    return first in known or (first != "don't" and first.removesuffix("n't") in known)


def _cut(reply: str, start: int) -> int:
    """Return the last possible end of the answer that begins at `start`."""
    end = sentence_end(reply, start)
    opening = re.compile(r"\W*").match(reply, start)  # "(What's the Story) Morning Glory?"
    cut = _CUT.search(hidden(reply), min(opening.end() + 1, end) if opening else start, end)
    return cut.start() if cut else end


def _offered(reply: str, start: int, question: str) -> Anchor | None:
    """Find the name at the start that the question offers, "X or Y?" (rule 1 of the module)."""
    offer, end = OFFER.search(question), sentence_end(reply, start)
    if not offer or english.denial(reply, start, end):
        return None
    for name, other in permutations(sorted(offer.groups(), key=len, reverse=True)):
        named = rf"(?i:the )?[\"“']?{re.escape(name)}(?![\w/&-]|['’]s\b)"
        if said := re.compile(named, re.IGNORECASE).match(reply, start):
            first, last = trim(reply, *said.span())
            rest = reply[last:end]
            both = re.match(r"\W* (?:or|and)\b", rest)  # "X or Y"
            turned = bool(_LESSER.search(rest)) != bool(_LESSER.search(question))
            if both or (other in rest and turned):
                return None
            alone = not re.search(r"\w", rest)
            return Anchor(first, last, alone and _sure(reply[first:last], question))
    return None


def _asked_for(reply: str, start: int, question: str) -> Anchor | None:
    """Find the date or number that the question asks for (rule 2 of the module)."""
    end = sentence_end(reply, start)
    by_number = _ASKS_NUMBER.search(question)
    pattern = english.DATE if _ASKS_DATE.search(question) else english.NUMBER if by_number else None
    found = pattern.finditer(reply, start, end) if pattern else ()
    if english.denial(reply, start, end):
        return None
    new = [match for match in found if match[0].lower() not in question.lower()]
    in_parts = any(_PARTED.match(reply, max(0, one.start() - 1), one.end() + 2) for one in new)
    if len({match[0] for match in new}) != 1 or in_parts:
        return None
    first, last = trim(reply, *new[0].span())
    before, behind = reply[start:first], reply[last:end]
    only = not adds(f"{before} {behind}", question)
    if pattern is english.DATE or CLAUSE.search(reply, start, end):
        return Anchor(first, last, only)
    # "12 people": a number and words of the question; "$12", "12%" and "over 12 people" have more
    counts = only and not re.search(r"\w", before) and re.fullmatch(r"[\w\s.,!*'’]*", behind)
    return Anchor(first, last, sure=True) if counts else None


def _behind_copula(reply: str, start: int, question: str) -> Anchor | None:
    """Find the answer after the first is/was/are/were (rule 3 of the module)."""
    copula = _COPULA.search(hidden(reply), start, sentence_end(reply, start))
    if copula is None or _WITHIN.search(reply, start, copula.start()):
        return None
    if english.denial(reply, start, copula.end()):
        return None
    before, first = reply[start : copula.start()], copula.end()
    pause = _PAUSE.search(_BRACKETS.sub(lambda found: "x" * len(found[0]), hidden(before)))
    enclosed = before.rstrip().endswith((",", ")", "–", "—", "-"))  # "The capital, Paris, is"
    opening = before[: pause.start()] if pause and not enclosed else ""
    opener = opening.partition(" ")[0].lower()
    if opener not in english.SEPARATORS | {"to"} and adds(opening, question):
        return None
    names = " ".join(_NAME.findall(_BRACKETS.sub("", before)))
    while lead := _LEADS_ON.match(reply, first):
        first = lead.end()
    first, last = trim(reply, first, _cut(reply, first))
    tail = _TAIL.search(hidden(reply), first + 1, last)
    first, last = trim(reply, first, tail.start()) if tail else (first, last)
    text = reply[first:last]
    elsewhere = adds(names, question) or (adds(before, question) and not adds(text, question))
    if not text or elsewhere:
        return None
    return Anchor(first, last, not tail and _sure(text, question, repeated=0))


def _sure(text: str, question: str, *, repeated: int = 1) -> bool:
    """Return whether E_A is short, is no clause, and repeats few words of the question."""
    n_words = len(text.split())
    clause = CLAUSE.search(hidden(text)) or _MORE.search(text)
    if n_words > MOST_WORDS or clause or asks_yes_no(question):
        return False
    if question and not adds(text, question):
        return 0 < n_words * repeated <= MOST_OPTION
    return n_words <= 2 * repeated or len(stems(text) & stems(question)) <= repeated
