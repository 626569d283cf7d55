"""Decide whether an answer matches a gold answer. The label z is 0 if it does, else 1.

Both texts are normalised as in SQuAD. Further rules, which SQuAD lacks, cover the order of a date,
spaces between initials, accents, signs in numbers, a number spelt twice ("twelve (12)"), and the
forms that `spelling` unifies. Gold answers are trimmed as the finder trims E_A. Words that an
answer denies do not count. Some scripts put no spaces between words. There, a word ends where the
script changes, at punctuation, and next to a joining character such as a particle (`_JOINTS`).
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, pairwise, product
from unicodedata import category, normalize

from anchorscope.anchors.answer_anchors import locate
from anchorscope.anchors.answer_text import stems, trimmed
from anchorscope.anchors.english import (
    MONTH_NAME,
    MONTHS,
    TWO_SPELLINGS,
    denial,
    without_quotations,
)
from anchorscope.anchors.spelling import SCALE, folded, keep_signs, respell
from anchorscope.anchors.words import UNSPACED

MIN_CONTAINED = 3  # characters; a shorter gold (`US`, `no`, `W`) must be the whole answer
MIN_IDEOGRAPHS = 2  # the same for Chinese and Japanese, whose names are short
IN_QUESTION = "gold answer in the question"  # why a label is not sure, see `only_repeats`

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_MONTH = rf"(?P<month>{MONTH_NAME})\b\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?:(?:,?[\s-]|,)(?P<year>\d{4}))?"
_DATES = (
    re.compile(rf"\b{_DAY}\.?[\s-](?:of\s)?{_MONTH}{_YEAR}\b", re.IGNORECASE),
    re.compile(rf"\b{_MONTH}\s(?:the\s)?{_DAY}{_YEAR}\b", re.IGNORECASE),
    re.compile(r"\b(?P<year>\d{4})-(?P<month>0[1-9]|1[0-2])-(?P<day>\d\d)\b"),
)
# "J. K." becomes "J.K." and "J K" becomes "JK". Both then normalise to "jk".
_INITIAL = re.compile(
    r"(?<![\w'’])(?:([^\W\d_]\.)\s+(?=[^\W\d_]\.)|([A-Z]\.?)\s+(?=[A-Z](?!['’\w])))"
)
_LETTER = re.compile(r"\W*(?:(?:[Tt]he )?(?:answer|option) is:? )?\W*([A-E])[).:][\s*]*$")
_PHRASE_END = re.compile(r"[.!?;](?=\s)|[\n(]")
_CLAUSE_END = re.compile(
    r"([,;:](?=\s)|\s[–—-]\s|\b(?:but|who|which|although|though|because|while)\b)"
)
_IDENTITY = re.compile(r"\b(?:is|was|are|were)\s?$")
_OFFERS = re.compile(r"(?i)\bor\b")
_POSSESSIVE = re.compile(r"(?<=\w)['’](?:s\b|(?!\w))")
_DENIED = "¦"  # replaces denied words and separates the words beside them
_WITHOUT_SPACES = re.compile(f"[{UNSPACED}]")
_IDEOGRAPHS = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")
# Scripts of Chinese and Japanese words: ideographs, hiragana, katakana.
_SCRIPTS = ("\u3400-\u4dbf\u4e00-\u9fff々", "\u3040-\u309f", "\u30a0-\u30ff")
_SCRIPT = re.compile("|".join(f"([{script}])" for script in _SCRIPTS))
# Characters that join words: copulas, prepositions, particles.
_JOINTS = frozenset("是在为為于於叫的和与與或及即由はがをにでとのもやへ")
_UNDIVIDED = 0  # Thai, Lao, Khmer, Burmese: any letter may begin a word, a mark may not
_PAUSES = re.compile("[、，。．！？；：,;:!?…「」『』《》〈〉（）()\\s]+")
_ASCII_SYMBOLS = frozenset("$+<=>^`|~´")
_ACCENTS = re.compile("[\u0300-\u036f]")
_STROKES = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ı": "i", "æ": "ae", "œ": "oe"})
# Words that change the value of the number or date before them.
_OTHER_NUMBER = rf" {SCALE}\b| [x×] ?10|(?<=\d) bce?\b|(?<=century) bce?\b"
_SPACES = re.compile(r" (?!\d)|(?<!\d) ")  # spaces, except between two digits


@lru_cache(maxsize=65536)
def squad_normalise(text: str) -> str:
    """Convert to lower case and remove punctuation, articles and superfluous white space.

    On ASCII text, SQuAD's evaluation script gives the same result. Beyond ASCII, compatibility
    forms are folded (NFKC), and characters without a width are removed. Accents stay.
    """
    return " ".join(_ARTICLES.sub(" ", _without_punctuation(text)).split())


def _without_punctuation(text: str) -> str:
    folded = normalize("NFKC", normalize("NFKC", text).casefold())
    kept = "".join(
        c for c in folded if c not in _ASCII_SYMBOLS and not category(c).startswith(("P", "Cf"))
    )
    return normalize("NFKC", kept)  # characters may combine after a removal


def is_right(proper: str, reply: str, golds: Sequence[str]) -> bool:
    """Return whether a gold answer matches E_A, or equals the reply or the reply from E_A on.

    A gold answer may also go on where E_A ends ("26 episodes" in "26 episodes in all"), or equal a
    letter of a multiple choice right before E_A ("B. Rome").
    """
    golds = [gold if says_something(gold) else "" for gold in golds]  # each keeps its place
    start = max(reply.find(proper), 0)
    replies = [reply, reply[start:]]  # "The answer is Rome (Lazio)."
    if letter := _LETTER.match(reply[:start]):
        replies.append(letter[1])
    begin, phrase = (_normalise(text) for text in (proper, _PHRASE_END.split(reply[start:])[0]))
    for gold in map(_normalise, golds):
        if gold.startswith(f"{begin} ") and f"{phrase} ".startswith(f"{gold} "):
            return True
    return matches(proper, golds) or any(
        _equal(*map(_normalise, pair))
        for said, gold in product(replies, golds)
        for pair in ((said, gold), (respell(said), respell(gold)))
    )


def only_repeats(proper: str, reply: str, question: str, golds: Sequence[str]) -> bool:
    """Return whether an answer matches only golds that stand in its question.

    "Annie Mae Bullock" is an alias of Tina Turner, but no answer to "By what name is Annie Mae
    Bullock better known?". A question that offers a choice ("X or Y?"), or that holds all its
    golds, contains its right answer; this then returns False.
    """
    if _OFFERS.search(question) or not is_right(proper, reply, golds):
        return False
    # An empty text keeps the place of a gold: only the first one loses its remark in brackets.
    others = ["" if _stands_in(question, gold) else gold for gold in golds]
    return any(others) and not is_right(proper, reply, others)


def _stands_in(question: str, gold: str) -> bool:
    """Return whether a gold with a content word, or its trimmed form, stands in the question."""
    names = {gold, gold[slice(*trimmed(gold))]}
    texts = {question, _POSSESSIVE.sub("", question)}
    return any(
        _has_words(*map(_normalise, pair)) or _contains_unspaced(pair[0], _normalise(pair[1]))
        for text, name in product(texts, filter(stems, names))
        for pair in ((text, name), (respell(text), respell(name)))
    )


def _has_words(text: str, words: str) -> bool:
    """Return whether a text has whole words, also spaced otherwise: "thigh bone", "thighbone"."""
    letters = words.replace(" ", "")
    if not letters or letters not in text.replace(" ", ""):
        return False
    return bool(re.search(rf"(?<!\S){' ?'.join(map(re.escape, letters))}(?!\S)", text))


def judge(reply: str, question: str, golds: Sequence[str]) -> bool:
    """Return whether a whole reply to a question is right."""
    found = locate(reply, question)
    return is_right(reply[found.start : found.end] if found else reply, reply, golds)


def matches(answer: str, golds: Iterable[str]) -> bool:
    """Return whether the answer equals a gold, or contains it as whole words (see `_long_enough`).

    Both texts are normalised and compared, then compared again after `respell`. Each gold is tried
    twice: unchanged, and `trimmed` like E_A. A remark in brackets is trimmed from the first gold
    only. The other golds are aliases, whose remarks tell meanings apart: "Jim Grant (author)".
    Denied words of the answer ("not Paris") match only golds with a denial ("Not Fade Away").
    """
    spans = ((gold, trimmed(gold, bracket=place == 0)) for place, gold in enumerate(golds))
    forms = ((gold, gold[slice(*span)]) for gold, span in spans)
    for gold in filter(says_something, dict.fromkeys(chain.from_iterable(forms))):
        claimed = answer if denial(gold) else _without_denials(answer)
        for said, whole, wanted in ((claimed, answer, gold), map(respell, (claimed, answer, gold))):
            if _says(said, whole, _normalise(wanted)):
                return True
        if _contains_unspaced(claimed, _normalise(gold)):
            return True
    return False


def says_something(gold: str) -> bool:
    """Return whether anything is left of a gold answer after normalisation."""
    return bool(_normalise(gold))


def _says(claimed: str, answer: str, gold: str) -> bool:
    """Return whether a normalised `gold` equals `answer`, or is in its undenied part `claimed`."""
    readings = _readings(claimed)
    if any(_equal(text, gold) for text in (_normalise(answer), *readings)):
        return True
    return _long_enough(gold) and any(_contains(text, gold) for text in readings)


def _equal(answer: str, gold: str) -> bool:
    return bool(gold) and _SPACES.sub("", answer) == _SPACES.sub("", gold)


@lru_cache(maxsize=65536)
def _normalise(text: str) -> str:
    """Normalise as SQuAD does, join initials, order dates, keep signs in numbers, drop accents.

    Articles stay if nothing else is left: "The The", or the letter A of a multiple choice.
    """
    text = folded(text)
    for pattern in _DATES:
        text = pattern.sub(_day_first, text)
    text = keep_signs(_INITIAL.sub(r"\1\2", text))
    plain = squad_normalise(text) or " ".join(_without_punctuation(text).split())
    return normalize("NFC", _ACCENTS.sub("", normalize("NFD", plain))).translate(_STROKES)


def _day_first(date: re.Match[str]) -> str:
    """Return a date in the form "4 july 1776"; the year may be missing."""
    month = date["month"]
    if month.isdecimal():
        name = MONTHS[int(month) - 1]
    else:
        name = next(name for name in MONTHS if name.startswith(month[:3].lower()))
    return f"{int(date['day'])} {name} {date['year'] or ''}".strip()


@lru_cache(maxsize=4096)
def _readings(answer: str) -> tuple[str, ...]:
    """Return the normalised answer, and its variants if it spells a number twice: "twelve (12)"."""
    alone = (text for number in TWO_SPELLINGS.finditer(answer) for text in number.groups(""))
    inside = (TWO_SPELLINGS.sub(one, answer) for one in (r"\1\3", r"\2\4"))
    return tuple(map(_normalise, dict.fromkeys((answer, *alone, *inside))))


@lru_cache(maxsize=4096)
def _without_denials(answer: str) -> str:
    """Remove from each clause the first word that denies, and all words after it.

    "X is not Y" loses X as well, since the model gives neither X nor Y as its answer.
    """
    plain = without_quotations(answer)
    borders = [place for end in _CLAUSE_END.finditer(plain) for place in end.span()]
    claimed = ""
    for start, end in pairwise([0, *borders, len(answer)]):
        clause = answer[start:end]
        if denied := denial(plain[start:end]):
            before = clause[: denied.start()]
            clause = f"{'' if _IDENTITY.search(before) else before} {_DENIED} "
        claimed += clause
    return claimed


def _contains(text: str, words: str) -> bool:
    """Return whether a text contains `words` as whole words; "1.5 million" lacks "1.5"."""
    if f" {words} " not in f" {text} ":
        return False
    return bool(re.search(rf"(?<!\S){re.escape(words)}(?!\S|{_OTHER_NUMBER})", text))


def _long_enough(gold: str) -> bool:
    """Return whether a normalised gold is long enough to be searched for in a longer answer."""
    return len(gold) >= (MIN_IDEOGRAPHS if _IDEOGRAPHS.fullmatch(gold) else MIN_CONTAINED)


def _contains_unspaced(answer: str, gold: str) -> bool:
    """Return whether an answer in a script without spaces contains a normalised gold as a word."""
    if not _long_enough(gold) or not _WITHOUT_SPACES.search(answer):
        return False
    parts = map(_normalise, _PAUSES.split(answer))
    return any(
        _word_ends(part, place.start()) and _word_ends(part, place.end())
        for part in parts
        for place in re.finditer(re.escape(gold), part)
    )


def _word_ends(text: str, place: int) -> bool:
    """Return whether a word may begin or end between text[place - 1] and text[place]."""
    if place in (0, len(text)) or " " in text[place - 1 : place + 1]:
        return True
    before, after = text[place - 1], text[place]
    scripts = [_script(before), _script(after)]
    if category(after).startswith("M") or scripts == [None, None]:
        return False
    if scripts[0] != scripts[1] or scripts[0] == _UNDIVIDED:
        return True
    return before in _JOINTS or after in _JOINTS


def _script(char: str) -> int | None:
    """Return the index of a character's script, or None if the script has spaces between words."""
    if divided := _SCRIPT.match(char):
        return divided.lastindex
    return _UNDIVIDED if _WITHOUT_SPACES.match(char) else None


def repeats_subject(answer: str, subject: str | None) -> bool:
    """Return whether the answer repeats the subject as whole words; False without a subject."""
    name = squad_normalise(subject or "")
    said = squad_normalise(answer)
    return bool(name) and (_contains(said, name) or _contains_unspaced(answer, name))
