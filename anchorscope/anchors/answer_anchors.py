r"""Find E_A, the answer proper, in a short reply, and recognise replies that give no answer.

The finder does not see gold answers. It uses one procedure for every reply: skip bullets, lead-ins
and a repeated question, then take the first of these that applies:

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
from functools import lru_cache
from itertools import permutations

from anchorscope.anchors import english
from anchorscope.anchors.sentences import TITLED, keeps_stop, sentence_end

MOST_WORDS = 8  # most words of an answer that the finder is sure of
MOST_OPTION = 4  # the same for an answer of which all words are in the question: "Poor Old Lu"
MOST_CUT = 5  # characters; shorter text after E_A may be a word that the length limit cut off
REFUSAL, ECHO, UNFINISHED = REASONS = ("refusal", "echo of the question", "unfinished")

# Openings of a model's thoughts. Some templates write an empty pair of tags, which does not count.
_THINKS = re.compile(
    r"(?is:\s*(?!<(think\w*)>\s*</\1>)(?:</?\|?(?:\w+:)?(?:think|thought|reason|reflect|scratchpad)"
    r"|\[/?think|◁/?think|<\|channel\|>\s*(?:analysis|commentary)|<unused\d+>\s*thought))"
)
_BEFORE = re.compile(
    r"(?is)\s*<(think\w*)>\s*</\1>|.*?(?:<(?:final[ _-]?)?answer>|\\(?:boxed|text)\{)"
)
# `<b>`, `</s>`, `<|im_end|>`, `[/INST]`
_TAG = r"<[/|]?[A-Za-z][^<>\n]{0,40}>|\[/?[A-Z]{3,}\]"
_FRONT = re.compile(
    rf"(?:{_TAG}|[\s\u200b-\u200f\ufeff,;:¿¡…]|\.\.+|[-–—•*+>#]+\s|[*_`]+"
    r"|\(?(?:[A-Ea-e]|1)\)\s+(?=\w)|1\.\s+(?=[\w*]))+"
)
_LEAD_IN = re.compile(
    r"(?i:(?:so,? |and )?(?:the |my )?(?:(?:only|best|correct|right|final|short|shortest|possible|"
    r"available) )*ans(?:wer)?(?: (?:to|for)\b[^:.\n]{0,200}?| \([^()]{0,200}\))?"
    r"(?:[*_]*\s?:| (?:is|was|would be)\b:?))"
    r"|(?:A|Q|(?i:question|response|output|result|solution|assistant))[*_]*:(?=\s|$)"
    r"|(?i:(?:final )?answer)[*_]*[^\S\n]*\n\s*+(?=\S)"
    r"|(?i:sure|certainly|of course|hmm+|(?:great|good) question)[!,.:…](?=\s+\w)"
    r"|(?i:as of|according to|based on)\b[^,.\n]{1,60},(?=\s)"
    r"|(?:I\b|[Nn]ot) ?[^.,;\n]{0,60}?(?:sure|certain|know)\b[^.,;\n]{0,20},? but,?(?=\s)"
    r"|I(?:['’]d| would)? (?:think|believe|guess|say|suppose)(?: that\b)?[,:]?"
    r"(?: it(?:['’]s| is))?(?=\s)"
    r"|(?:[Pp]robably|[Pp]ossibly|[Pp]erhaps|[Mm]aybe),?(?=\s)"
    r"|[Ii]t(?:['’]s(?=\s(?!an?\s[A-Z])[a-z])| is(?=\s[A-Z]))"
)
_HEADING = re.compile(r"([^\n:.!?]{0,160}):[*_]*[^\S\n]*\n\s*+(?=\S)")
_ABOUT_THE_ANSWER = re.compile(r"(?i)\b(?:answer|following|here|sure)\b")
# "A." marks an option in "A. Paris", not in "A. A. Milne", nor in "A. Milne" for a "who" question.
_CHOICE = re.compile(r"\(?[A-E][.:]\s+(?=\w)(?![^\W\d_]\.)")
_HAS_CHOICES = re.compile(r"\bA[.):].*\bB[.):]", re.DOTALL)
_ASKS_WHO = re.compile(r"(?i)\bwho(?:m|se)?\b")
_AGAIN = re.compile(r"[^?]{3,1000}\?[\"”'*_]*")
_YES_NO = re.compile(r"(?i:yes|no)(?=\W|$)(?! one\b)")
_CUT = re.compile(
    rf"{_TAG}|\}}|,?\s\(?[2bB]\)\s|"
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
_ARTICLE = re.compile(rf"(?:(?:(?i:the|an?)|in|on|at|by|from|during)\s+|{_TAG})(?=\S)")
# Hedges. A title may begin with one: "Maybe Baby", "I think we're alone now".
_HEDGED = re.compile(r"(?i:maybe|perhaps|probably|possibly|\bi (?:think|believe|guess))\s*$")
# A doubt behind an answer, which does not make it a refusal.
_DOUBT = re.compile(r",? (?:but|though|although) I(?:['’]m| am) not (?:sure|certain)\W*$")
_LAST_BRACKET = re.compile(r"(?<=\S)\s*[(\[（［][^()\[\]（）［］]*[)\]）］]\W*$")
_BEHIND_BRACKET = re.compile(r"\s*[(\[][^()\[\]\n]{0,200}[)\]]\s*\w")
# A match of DATE or NUMBER that is a part of "14/4/1912", "1990's" or "1951–52"
_PARTED = re.compile(r"[/–-]\d|\W?\d+['’/–-]\w")
_ASKS_DATE = re.compile(r"(?i:^when\b|\b(?:what|which) (?:year|date|day|month|decade)\b)")
# Two names at the end of a question: ", Ann Bo or Cy Day?"
_OFFER = re.compile(
    r"[,:]\s(?:[Tt]he )?[\"“']?([^\W_a-z][^,:?]*?)[\"”']?,? or (?:[Tt]he )?[\"“']?"
    r"([^\W_a-z][^,:?]*?)[\"”']?\s*\??\s*$"
)
# Words that turn a comparison: "X is younger than Y" for "who is older?"
_LESSER = re.compile(
    r"\b(?:younger|newer|later|after|less|fewer|smaller|shorter|lower|(?:lost|second) to|beaten)\b"
)
_ASKS_NUMBER = re.compile(r"(?i:\bhow (?:many|much)\b)")
_PAIRS = dict(zip("\"“„«「『'‘([{", "\"””»」』'’)]}", strict=True))
_CLOSING = ".,;:!?…。．！？，،؛؟।-–—*_`\u200e\u200f"
_PUNCTUATION = frozenset([*_CLOSING, *_PAIRS, *_PAIRS.values(), " "])
# Words that make a text a clause, or refer to the speaker.
_CLAUSE = re.compile(
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
_WORD = re.compile(r"[^\W_](?:[^\s,;:!?()\[\]\"“”«»—–]*[^\W_])?")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|e|s|ers?|ors?|ly)$")
_NAME = re.compile(r"\b[^\W_a-z]\S*")
_QUOTED = re.compile(rf"\"[^\"\n]+\"|“[^“”\n]+”|{english.TWO_SPELLINGS.pattern}")
_REFUSES = re.compile(
    r"(?i:\b(?:un(?:known|clear|certain|specified|disclosed|available)|n/a)\b"
    r"|(?:\bnot|n['’]t|\bnever) (?:\w+ly |yet |been |be )*(?:mention|stat|giv|know|specif|provid|"
    r"reveal|disclos|list|availab|identif|clear|possib|found|record|sure|certain|aware|applicab|able|"
    r"say|exist|answer|have (?:\w+ )?(?:information|data|access|knowledge|answer))"
    r"|\bno (?:information|mention|answer|record|data|evidence|such|specific|known|idea)\b"
    r"|\b(?:nobody|no one|only god) knows\b|\bunsure\b|^idk\b"
    r"|\b(?:cannot|can['’]t|could not|couldn['’]t|unable to)\b|^i['’]?a?m? sorry"
    r"|^(?:i|you)(?:['’]m|['’]re| am| are) (?:not )?(?:an? |the )?(?:\w+ )?(?:ai|assistant)\b)"
)
_DENIES = re.compile(
    r"\b(?:is|was|are|were|did|does|do)(?: not\b|n['’]t\b)(?! (?:only|just|until|till|before)\b)"
    r"(?!.{0,80}\bbut\b)|^not\b"
)


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
    start = _begin(reply, question)
    first, last = _trim(reply, start, _cut(reply, start))
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


@lru_cache(maxsize=65536)
def trimmed(gold: str, *, bracket: bool = True) -> tuple[int, int]:
    """Trim a gold answer as the finder trims E_A; return its characters [start, end).

    With `bracket`, a remark in brackets at the end is removed, too.
    """
    remark = _LAST_BRACKET.search(gold) if bracket else None
    start, end = _trim(gold, 0, remark.start() if remark else len(gold))
    return (start, end) if start < end else (0, len(gold))


def no_answer(reply: str, question: str, anchor: Anchor | None, finished: bool) -> str | None:
    """Return the reason (`REASONS`) why a reply does not answer its question, or None if it does.

    `anchor` is the place of E_A. `finished` says whether the reply ended before the length limit.
    """
    text = "" if anchor is None else reply[anchor.start : anchor.end]
    if anchor is None or thinks(reply):
        return UNFINISHED
    if text in english.ARTICLES | english.PREPOSITIONS or (not finished and text.lower() == "the"):
        return UNFINISHED
    start = min(_begin(reply, question), anchor.start)
    behind = reply[anchor.end : sentence_end(reply, anchor.start)]
    sentence = reply[start : anchor.end] + _DOUBT.sub("", behind)
    decided = text.lower() in ("yes", "no")
    if decided and not asks_yes_no(question):
        return REFUSAL
    if not decided and _refuses(sentence, text, question):
        return REFUSAL
    if not decided and not asks_yes_no(question) and _echoes(reply, start, anchor, question):
        return ECHO
    if reply[anchor.end :].strip(" *_\n") == ":":
        return UNFINISHED
    rest = reply[anchor.end :].strip(" ,;:-–\n")
    if not finished and (not rest or (rest.isalnum() and len(rest) < MOST_CUT)):
        return UNFINISHED
    return None


def _refuses(sentence: str, text: str, question: str) -> bool:
    """Return whether a sentence refuses ("It is unknown") or only denies ("It is not Paris")."""
    plain = _hidden(sentence)
    refused = _REFUSES.search(plain) or (not asks_yes_no(question) and _DENIES.search(plain))
    return bool(refused) and _in_small(text) and not _REFUSES.search(question)


def _echoes(reply: str, start: int, anchor: Anchor, question: str) -> bool:
    """Return whether the sentence around `anchor` only repeats the question."""
    text, end = reply[anchor.start : anchor.end], sentence_end(reply, anchor.start)
    said, asked = _stems(reply[start:end]), _stems(question)
    asks = reply.startswith("?", end)
    first = question.lower().partition(" ")[0]
    if asks and reply[start:end].lower().startswith(first) and len(said & asked) >= len(asked) / 2:
        return True
    if not _stems(text) or _adds(reply[start:end], question):
        return False
    if asks or len(text.split()) > MOST_WORDS:
        return True
    described = _in_small(text) and _stems(reply[start : anchor.start])
    return " or " not in question and bool(described or _CLAUSE.search(text))


def thinks(reply: str) -> bool:
    """Return whether a reply opens with the model's thoughts."""
    return bool(_THINKS.match(reply))


def asks_yes_no(question: str) -> bool:
    """Return whether a question opens with an auxiliary: "Is it ...?"."""
    first = question.lower().replace("’", "'").lstrip().partition(" ")[0]
    known = english.AUXILIARIES | {"must", "shall"}
    return first in known or (first != "don't" and first.removesuffix("n't") in known)


def _begin(reply: str, question: str) -> int:
    """Return the place where the answer's sentence begins, after lead-ins."""
    before = _BEFORE.match(reply)
    start = before.end() if before else 0
    for _ in range(8):  # "Q: ...? A: The answer is: ..."
        front = _FRONT.match(reply, start)
        start = front.end() if front else start
        inside = start + reply.startswith(('"', "“", "'"), start)
        lead_in = (
            _LEAD_IN.match(reply, inside)
            or _heading(reply, inside, question)
            or _choice(reply, inside, question)
        )
        end = lead_in.end() if lead_in else _behind_question(reply, inside, question)
        if end == inside:
            break
        start = end
    return start


def _heading(reply: str, start: int, question: str) -> re.Match[str] | None:
    """Match a line that ends in a colon and says no more than the question: "The author is:"."""
    line = _HEADING.match(reply, start) if question else None
    if line is None or _adds(_ABOUT_THE_ANSWER.sub("", line[1]), question):
        return None
    offer = _OFFER.search(question)
    return None if offer and line[1] in offer.groups() else line


def _choice(reply: str, start: int, question: str) -> re.Match[str] | None:
    """Match the letter of a multiple choice before an answer."""
    letter = _CHOICE.match(reply, start) if question else None
    if letter is None or _HAS_CHOICES.search(question):
        return letter
    return None if _ASKS_WHO.search(question) or reply[letter.end()].islower() else letter


def _behind_question(reply: str, start: int, question: str) -> int:
    """Return the place after a repeated question if more text follows, else `start`."""
    again = _AGAIN.match(reply, start) if question else None
    repeats = again and not _adds(again[0], question) and reply[again.end() :].strip()
    return again.end() if again and repeats else start


def _cut(reply: str, start: int) -> int:
    """Return the last possible end of the answer that begins at `start`."""
    end = sentence_end(reply, start)
    opening = re.compile(r"\W*").match(reply, start)  # "(What's the Story) Morning Glory?"
    cut = _CUT.search(_hidden(reply), min(opening.end() + 1, end) if opening else start, end)
    return cut.start() if cut else end


def _offered(reply: str, start: int, question: str) -> Anchor | None:
    """Find the name at the start that the question offers, "X or Y?" (rule 1 of the module)."""
    offer, end = _OFFER.search(question), sentence_end(reply, start)
    if not offer or english.denial(reply, start, end):
        return None
    for name, other in permutations(sorted(offer.groups(), key=len, reverse=True)):
        named = rf"(?i:the )?[\"“']?{re.escape(name)}(?![\w/&-]|['’]s\b)"
        if said := re.compile(named, re.IGNORECASE).match(reply, start):
            first, last = _trim(reply, *said.span())
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
    first, last = _trim(reply, *new[0].span())
    before, behind = reply[start:first], reply[last:end]
    only = not _adds(f"{before} {behind}", question)
    if pattern is english.DATE or _CLAUSE.search(reply, start, end):
        return Anchor(first, last, only)
    # "12 people": a number and words of the question; "$12", "12%" and "over 12 people" have more
    counts = only and not re.search(r"\w", before) and re.fullmatch(r"[\w\s.,!*'’]*", behind)
    return Anchor(first, last, sure=True) if counts else None


def _behind_copula(reply: str, start: int, question: str) -> Anchor | None:
    """Find the answer after the first is/was/are/were (rule 3 of the module)."""
    copula = _COPULA.search(_hidden(reply), start, sentence_end(reply, start))
    if copula is None or _WITHIN.search(reply, start, copula.start()):
        return None
    if english.denial(reply, start, copula.end()):
        return None
    before, first = reply[start : copula.start()], copula.end()
    pause = _PAUSE.search(_BRACKETS.sub(lambda found: "x" * len(found[0]), _hidden(before)))
    enclosed = before.rstrip().endswith((",", ")", "–", "—", "-"))  # "The capital, Paris, is"
    opening = before[: pause.start()] if pause and not enclosed else ""
    opener = opening.partition(" ")[0].lower()
    if opener not in english.SEPARATORS | {"to"} and _adds(opening, question):
        return None
    names = " ".join(_NAME.findall(_BRACKETS.sub("", before)))
    while lead := _LEADS_ON.match(reply, first):
        first = lead.end()
    first, last = _trim(reply, first, _cut(reply, first))
    tail = _TAIL.search(_hidden(reply), first + 1, last)
    first, last = _trim(reply, first, tail.start()) if tail else (first, last)
    text = reply[first:last]
    elsewhere = _adds(names, question) or (_adds(before, question) and not _adds(text, question))
    if not text or elsewhere:
        return None
    return Anchor(first, last, not tail and _sure(text, question, repeated=0))


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Trim white space, articles, quotation marks, brackets and punctuation from both edges."""
    before = None
    while start < end and before != (start, end):
        before = (start, end)
        start += len(text[start:end]) - len(text[start:end].lstrip().lstrip("*_`\u200e\u200f"))
        end = start + len(text[start:end].rstrip())
        start, end = _without_quotes(text, start, end)
        if start < end and text[end - 1] in _CLOSING:
            end -= not (text[end - 1] == "." and keeps_stop(text[start:end], end - 1 - start))
        article = _ARTICLE.match(text, start, end)
        if article and text[article.end() : end].lower() not in english.ARTICLES:  # "The The"
            start = article.end()
    said = start < end and not _PUNCTUATION.issuperset(text[start:end])
    return (start, end) if said else (start, start)


def _without_quotes(text: str, start: int, end: int) -> tuple[int, int]:
    """Trim an outer pair of quotes or brackets, or a lone mark at an edge: "(Rome" → "Rome"."""
    if start >= end:
        return start, end
    first, last, inside = text[start], text[end - 1], text[start + 1 : end - 1]
    closing, openings = _PAIRS.get(first), {a for a, b in _PAIRS.items() if b == last}
    if closing and closing == last and end - start > 1:
        return (start, end) if closing in inside else (start + 1, end - 1)
    if closing and first not in "'‘" and closing not in inside:
        return start + 1, end
    lonely = openings and last not in "'’" and not openings & {first, *inside}
    return start, end - bool(lonely)


def _sure(text: str, question: str, *, repeated: int = 1) -> bool:
    """Return whether E_A is short, is no clause, and repeats few words of the question."""
    n_words = len(text.split())
    clause = _CLAUSE.search(_hidden(text)) or _MORE.search(text)
    if n_words > MOST_WORDS or clause or asks_yes_no(question):
        return False
    if question and not _adds(text, question):
        return 0 < n_words * repeated <= MOST_OPTION
    return n_words <= 2 * repeated or len(_stems(text) & _stems(question)) <= repeated


def _in_small(text: str) -> bool:
    """Return whether a text has few capitals: "the king", "Paris", but not "Poor Old Lu"."""
    words = text.split()
    return words[0].islower() or 2 * sum(w[0].isupper() for w in words[1:]) < len(words)


def _hidden(text: str) -> str:
    """Replace every quoted character by "x", so that the indices of characters stay the same."""
    return _QUOTED.sub(lambda quotation: "x" * len(quotation[0]), text)


def _adds(text: str, question: str) -> bool:
    """Return whether a text has a content word that the question lacks."""
    return bool(_stems(text) - _stems(question, function=True))


def _stems(text: str, *, function: bool = False) -> frozenset[str]:
    """Return the words of a text, each without its ending. `function` includes function words."""
    words = [word.lower().replace("’", "'").removesuffix("'s") for word in _WORD.findall(text)]
    chosen = [word for word in words if function or word not in english.FUNCTION]
    return frozenset(_ENDING.sub("", part) for word in chosen for part in word.split("-"))
