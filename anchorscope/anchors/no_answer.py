"""Recognise replies that give no answer: refusals, echoes of the question, unfinished replies."""

import re

from anchorscope.anchors import english
from anchorscope.anchors.answer_anchors import CLAUSE, MOST_WORDS, Anchor, asks_yes_no
from anchorscope.anchors.answer_text import adds, hidden, in_small, stems
from anchorscope.anchors.lead_ins import begin
from anchorscope.anchors.sentences import sentence_end

MOST_CUT = 5  # characters; shorter text after E_A may be a word that the length limit cut off
REFUSAL, ECHO, UNFINISHED = REASONS = ("refusal", "echo of the question", "unfinished")
# Openings of a model's thoughts. Some templates write an empty pair of tags, which does not count.
_THINKS = re.compile(
    r"(?is:\s*(?!<(think\w*)>\s*</\1>)(?:</?\|?(?:\w+:)?(?:think|thought|reason|reflect|scratchpad)"
    r"|\[/?think|◁/?think|<\|channel\|>\s*(?:analysis|commentary)|<unused\d+>\s*thought))"
)
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
# A doubt behind an answer, which does not make it a refusal.
_DOUBT = re.compile(r",? (?:but|though|although) I(?:['’]m| am) not (?:sure|certain)\W*$")


def reason(reply: str, question: str, anchor: Anchor | None, finished: bool) -> str | None:
    """Return the reason (`REASONS`) why a reply does not answer its question, or None if it does.

    `anchor` is the place of E_A. `finished` says whether the reply ended before the length limit.
    """
    text = "" if anchor is None else reply[anchor.start : anchor.end]
    if anchor is None or thinks(reply):
        return UNFINISHED
    if text in english.ARTICLES | english.PREPOSITIONS or (not finished and text.lower() == "the"):
        return UNFINISHED
    start = min(begin(reply, question), anchor.start)
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


def thinks(reply: str) -> bool:
    """Return whether a reply opens with the model's thoughts."""
    return bool(_THINKS.match(reply))


def _refuses(sentence: str, text: str, question: str) -> bool:
    """Return whether a sentence refuses ("It is unknown") or only denies ("It is not Paris")."""
    plain = hidden(sentence)
    refused = _REFUSES.search(plain) or (not asks_yes_no(question) and _DENIES.search(plain))
    return bool(refused) and in_small(text) and not _REFUSES.search(question)


def _echoes(reply: str, start: int, anchor: Anchor, question: str) -> bool:
    """Return whether the sentence around `anchor` only repeats the question."""
    text, end = reply[anchor.start : anchor.end], sentence_end(reply, anchor.start)
    said, asked = stems(reply[start:end]), stems(question)
    asks = reply.startswith("?", end)
    first = question.lower().partition(" ")[0]
    if asks and reply[start:end].lower().startswith(first) and len(said & asked) >= len(asked) / 2:
        return True
    if not stems(text) or adds(reply[start:end], question):
        return False
    if asks or len(text.split()) > MOST_WORDS:
        return True
    described = in_small(text) and stems(reply[start : anchor.start])
    return " or " not in question and bool(described or CLAUSE.search(text))
