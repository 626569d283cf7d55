"""No answer: whether a response answers its question at all, decided without gold answers.

A response is no answer where it is, in this order,

- `unfinished`: it was cut at its longest length inside E_A, or nothing is left of it but a
  preposition or an article;
- `echo of the question`: its sentence stands in the question word by word; or it is a question
  that says at least half of what was asked, or nothing else; or it says nothing that the question
  does not, and E_A is most of it, is only the words that ask ("The trail" of "Which trail"), was
  said before ("The family is the family"), or describes without a name ("The Grand Canyon is a
  river"). A name of up to 7 words that stands in the question, and one of its options, is an
  answer;
- `refusal`: it says that the answer is unknown, not given or not possible, that the model cannot
  tell, or what the answer is *not*; or it says "yes" or "no" where neither was asked for.
"""

import re

from anchorscope.anchors import answer_anchors, asking, clauses, english, restated, sides
from anchorscope.anchors.words import words_of

REFUSAL = "refusal"
ECHO = "echo of the question"
UNFINISHED = "unfinished"
REASONS = (UNFINISHED, ECHO, REFUSAL)
MOST_CUT = 5  # characters of a word that may be cut off right behind E_A

_GIVEN = (
    r"(?:mentioned|stated|given|known|specified|provided|revealed|disclosed|listed|available|"
    r"identified|clear|named|possible|found|recorded|documented|sure|certain|applicable|confirmed)"
)
_WHOLE = re.compile(
    rf"(?i:unknown|n/?a|not (?:\w+ly )?{_GIVEN}|unclear|uncertain|unspecified|undisclosed)"
    r"(?=\W*$|\s(?:to|in|by|at|from|for|on|if|whether|until|as|because|since|who|what)\b)"
)
_REFUSES = re.compile(
    rf"(?i:\b(?:is|are|was|were|remains?|be|been)(?:n['’]t| not| \w+ly| currently| still)* "
    rf"(?:unknown|unclear|uncertain|unspecified|undisclosed|(?<=not ){_GIVEN}|impossible))\b"
    rf"|(?i:\b(?:is|are|was|were|been)(?:n['’]t| not)(?: \w+ly)? {_GIVEN}\b)"
    r"|(?i:\bno (?:information|mention|answer|record|data|evidence|known|specific|such)\b)"
    r"|(?i:\b(?:does|do|did)(?:n['’]t| not) (?:\w+ly )?"
    r"(?:mention|provide|say|specify|state|contain|exist|know|have|give|include)\b)"
    r"|(?i:\b(?:cannot|can['’]t|can not|could not|couldn['’]t|unable to|not able to) (?:be )?"
    r"(?:\w+ly )?(?:answer|say|know|determine|find|provide|help|tell|identif|confirm|recall|give|"
    r"assist|access|verif|locate|remember)\w*)"
    r"|(?i:^(?:i['’]?m|i am) (?:sorry|afraid|not sure|unsure|not certain|not aware))"
    r"|(?i:^(?:i|you)(?:['’]m|['’]re| am| are) (?:an? |the )?(?:\w+ )?"
    r"(?:ai|language model|assistant)\b)"
    r"|(?i:^i (?:do not|don['’]t|did not|didn['’]t) \w+)"
)
_OF_THE_ANSWER = re.compile(r"(?i:\b(?:answer|question|information)\b)")
_DENIES = re.compile(
    r"(?:\b(?:not|Not(?= [a-z])|never|cannot|neither)\b|n['’]t\b)"
    r"(?!\s(?:only|just|merely|simply|until|till|before)\b)"
)


def no_answer(
    response: str, question: str, anchor: answer_anchors.Anchor | None, finished: bool
) -> str | None:
    """Why a response is no answer to its question, one of `REASONS`; None where it answers.

    Args:
        anchor: where its E_A stands, None where nothing is left.
        finished: whether the response ended by itself, not at its longest length.
    """
    left = "" if anchor is None else response[anchor.start : anchor.end].lower()
    if anchor is None or left in english.PREPOSITIONS | english.ARTICLES:
        return UNFINISHED
    if _echoes(response, question, anchor, finished):
        says_unknown = _refuses(response, question, anchor) and not _REFUSES.search(question)
        return REFUSAL if says_unknown else ECHO
    closed = response[anchor.end : anchor.end + 1] in tuple('"”»')
    rest = response[anchor.end :].strip(" ,;:-–")
    start, end = answer_anchors.sentence_of(response, anchor.start)
    goes_on = end == len(response) and not clauses.adds(response[start:end], question)
    if not finished and (
        not rest or goes_on or (not closed and rest.isalnum() and len(rest) < MOST_CUT)
    ):
        return UNFINISHED
    return REFUSAL if _refuses(response, question, anchor) else None


def _echoes(response: str, question: str, anchor: answer_anchors.Anchor, finished: bool) -> bool:
    """Whether the answer's sentence asks the question again, or repeats it and adds nothing."""
    start, end = answer_anchors.sentence_of(response, anchor.start)
    sentence, text = response[start:end], response[anchor.start : anchor.end]
    if not finished and end == len(response):
        sentence = sentence.rpartition(" ")[0]  # its last word may be cut
    said = clauses.content_stems(question)
    repeated = len(said & clauses.content_stems(sentence))
    is_clause = clauses.is_clause(sentence)
    if response[end : end + 1] in ("?", "？") or _first(sentence) == _first(question) != "":
        half = len(said) <= 2 * repeated or not clauses.adds(sentence, question)
        return bool(said) and half and (is_clause or _in_small(sentence))
    n_words = len(words_of(sentence))
    long = n_words > answer_anchors.MOST_NAME
    if long and _plain(sentence) in _plain(question):
        return True
    if clauses.adds(sentence, question) or not (long or is_clause):
        return False
    kind = asking.answer_kind(words_of(question))
    if _is_what_was_asked(text, question):
        return True
    if kind == asking.YES_NO or restated.continues(sentence, question):
        return False
    before = response[start : anchor.start]
    if _says_it_twice(before, text):
        return True
    if kind not in (asking.WHEN, *asking.HOW_MANY) and _describes(before, text, question):
        return True
    if kind in ("who", "what") and english.DATE.fullmatch(text):
        # A date of the question where none is asked for, unless it is a name: "1917 or Dunkirk?"
        return not sides.is_option(text, question)
    return 2 * repeated > len(said) and 2 * len(words_of(text)) > n_words


def _says_it_twice(before: str, text: str) -> bool:
    """Whether a text, no quotation, number or name, has no word that was not said before it."""
    if len(words_of(text)) > 1 and re.match(r"(?:the |an? )?" + re.escape(text), before, re.I):
        return True  # "The Ravens are named the Ravens"
    small = not any(char.isdigit() or char.isupper() for char in text)
    return small and not _quoted(before) and clauses.stems(text) <= clauses.stems(before)


def _is_what_was_asked(text: str, question: str) -> bool:
    """Whether a text only repeats the words that ask: "city" of "Which city is it?"."""
    words, asking_words = words_of(text), words_of(question)
    if not words or asking.answer_kind(asking_words) not in ("what", "who"):
        return False
    asked = [word.lower for word in asking.asked_phrase(asking_words)[: len(words)]]
    if clauses.is_clause(text) and _plain(text) in _plain(question):
        return True
    return words[0].lower in english.WH or [word.lower for word in words] == asked


def _describes(before: str, text: str, question: str) -> bool:
    """Whether a text behind a verb and an article names nothing and is no option of the question.

    "The Grand Canyon is a river that runs through it" names no river.
    """
    words, first = words_of(before), words_of(text)[:1]
    article = bool(words) and words[-1].lower in english.ARTICLES and not _quoted(before)
    if not article or not first or first[0].capital or sides.is_option(text, question):
        return False
    return clauses.is_clause(before) and not clauses.tells_an_act(before + text, question)


def _quoted(before: str) -> bool:
    """Whether a quotation opens where a text ends."""
    return before.endswith(tuple("\"“„«'‘"))


def _first(text: str) -> str:
    """The word that asks among the first two of a text, if there is one."""
    return next((word.lower for word in words_of(text)[:2] if word.lower in english.WH), "")


def _plain(text: str) -> str:
    """The words alone, between spaces."""
    return f" {' '.join(word.lower for word in words_of(text))} "


def _refuses(response: str, question: str, anchor: answer_anchors.Anchor) -> bool:
    """Whether the answer's sentence refuses, or tells only what the answer is not."""
    kind = asking.answer_kind(words_of(question))
    text = response[anchor.start : anchor.end]
    start, end = answer_anchors.sentence_of(response, anchor.start)
    if _refuses_first(response[start:end], question):
        return True
    if text.casefold() in ("yes", "no"):
        if kind not in (asking.YES_NO, None):
            return True
        text = response[start:end]
        if kind == asking.YES_NO and not _OF_THE_ANSWER.search(text):
            return False  # "No, they do not have wings"
    plain = english.without_quotations(text)
    if not _in_small(text):
        return False
    named = response[: anchor.start].endswith(("the ", "The "))  # "the fear of the unknown"
    if _WHOLE.match(text) and not named:
        return True
    refusal = _REFUSES.search(plain)
    denied = clauses.stems(refusal[0].split()[-1]) if refusal else frozenset()
    if refusal and not (kind == asking.YES_NO and denied <= clauses.stems(question)):
        return True
    if kind == asking.YES_NO or _DENIES.search(question):
        return False
    denial = _DENIES.search(plain)
    return denial is not None and not clauses.adds(text[: denial.start()], question)


def _refuses_first(sentence: str, question: str) -> bool:
    """Whether "X is not stated" stands before a "but" behind which no name or number is new."""
    first, _, rest = sentence.partition(", but ")
    refusal = _REFUSES.search(first)
    if not rest or refusal is None or refusal.end() < len(first):
        return False
    subject = first[: refusal.start()]
    new = clauses.content_stems(rest) - clauses.stems(question)
    names = clauses.content_stems(" ".join(re.findall(r"\b[^\W_a-z]\S*", rest)))
    about = clauses.content_stems(subject) & clauses.content_stems(question)
    return bool(about) and not clauses.adds(subject, question) and not new & names


def _in_small(text: str) -> bool:
    """Whether a text is no title: its first word, or most of the others, are written small."""
    words = words_of(text)
    if not words or not words[0].capital:
        return True
    return 2 * sum(word.capital for word in words[1:]) < len(words)
