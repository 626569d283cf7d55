"""Unify the spelling of numbers, ordinals, "&" and abbreviations, so that texts can be compared."""

import re
from collections.abc import Callable, Iterable
from decimal import Context, Decimal
from functools import lru_cache
from html import unescape
from itertools import product
from unicodedata import normalize

_POINT, _SLASH, _DASH, _MINUS = "\u22c5", "\u2044", "\u223c", "\u2212"
_PLUS, _SHARP = "\u2295", "\u266f"
_SIGNS = (
    (re.compile(_MINUS), "-"),
    (re.compile(r"(?<![\w.])\.(?=\d)"), f"0{_POINT}"),
    # A comma before one or two digits is a decimal comma, unlike the one in "1,000".
    (re.compile(r"(?<=\d)(?:[.:](?=\d)|,(?=\d\d?(?![\d,])))"), _POINT),
    (re.compile(rf"(?<=\d)[/{_SLASH}](?=\d)"), _SLASH),
    (re.compile(r"(?<=\d)[-–—](?=\d)"), _DASH),
    (re.compile(r"(?<!\w)(?<!\d\s)[-–](?=[$€£]?\d)"), _MINUS),
    # "C++" and "C#" are not "C".
    (re.compile(rf"(?<=[^\W\d_])\+(?!\w)|(?<={_PLUS})\+"), _PLUS),
    (re.compile(r"(?<=[^\W\d_])#(?!\w)"), _SHARP),
)
FLOAT_DIGITS = 15  # decimal digits of a 64-bit float
_SUPERSCRIPT = re.compile("(?<=\\b10)[\u207a\u207b]?[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+")
_FRACTION = re.compile("(?<=\\d)(?=[\u00bc-\u00be\u2150-\u215e])")
_UNITS = "one two three four five six seven eight nine".split()
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_NTH_UNITS = "first second third fourth fifth sixth seventh eighth ninth".split()
_NTH_TEENS = (
    "tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth "
    "nineteenth"
).split()
_CARDINALS = {word: n for n, word in enumerate(["zero", *_UNITS, *_TEENS])}
_CARDINALS |= {word: 10 * n for n, word in enumerate(_TENS, 2)}
_ORDINALS = {word: n for n, word in enumerate([*_NTH_UNITS, *_NTH_TEENS], 1)}
_ORDINALS |= {f"{word[:-1]}ieth": n for word, n in _CARDINALS.items() if word in _TENS}
_SCALES = {"hundred": 100, "thousand": 1000}
_SCALES |= {word: 1000**n for n, word in enumerate(("million", "billion", "trillion"), 2)}
_ONES = ("", *"I II III IV V VI VII VIII IX".split())
_ROMAN = {ten + one: n for n, (ten, one) in enumerate(product(("", "X", "XX", "XXX"), _ONES))}
_MONEY = {"$": "dollars", "€": "euros", "£": "pounds"}
_FULL = {"st": "saint", "mt": "mount", "ft": "fort", "dr": "doctor", "jr": "junior", "sr": "senior"}


def either(words: Iterable[str]) -> str:
    """Return a regular expression that matches any of the words."""
    return f"(?:{'|'.join(words)})"


SCALE = either(_SCALES)


def _number(words: re.Match[str]) -> str:
    """Turn a number in words, up to 99, into digits. All ordinals get "th": "first" → "1th"."""
    parts = re.split(r"[\s-]", words[0].lower())
    value = sum(_CARDINALS.get(part) or _ORDINALS.get(part, 0) for part in parts)
    return f"{value}th" if parts[-1] in _ORDINALS else str(value)


def _scaled(number: re.Match[str]) -> str:
    """Turn a number with words such as "million" into digits: "1.5 million" → "1500000"."""
    value = Decimal(number[1].replace(",", ""))
    for word in re.findall(r"\w+", number[2].lower()):
        value *= _SCALES[word]
    return f"{value.normalize():f}"


def _power(number: re.Match[str]) -> str:
    """Write a number with an exponent in digits: "6.02e23", "10^23"."""
    return f"{Decimal(number[1] or 1).scaleb(int(number[2].replace(_MINUS, '-'))):f}"


def _rounded(number: re.Match[str]) -> str:
    """Round a fraction to the digits that a float holds: 0.30000000000000004 → 0.3."""
    return f"{Context(prec=FLOAT_DIGITS).create_decimal(number[0]).normalize():f}"


_WORDS = rf"{either(_TENS)}[\s-]{either([*_UNITS, *_NTH_UNITS])}|{either(_CARDINALS | _ORDINALS)}"
_APPROXIMATELY = "about|around|approximately|circa|ca?\\.|by|in|on|at|from|during|since"
_EXPONENT = rf"[-+{_MINUS}]?\d{{1,2}}(?!\d)"
# Patterns (case-insensitive) and their replacements, applied in this order.
_RESPELLINGS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"\s?&\s?", " and "),
    (rf"\b({either(_FULL)})\b\.?", lambda short: _FULL[short[1].lower()]),
    (r"\s?%|\s?\bper\s?cent\b", " percent"),
    (r"(?:\bno\.?\s|#)(?=\d)", "number "),
    (r"\bv\.\s|\bvs\.?\s", "versus "),
    (r"(?<=[^\W\d_])\+(?!\S)", " plus"),
    (r"(?<=\d)\s?b\.?\s?c\.?\s?e\b\.?", " bc"),
    (r"(?<=\d)\s?c\.?\s?e\b\.?", " ad"),
    (r"\ba\.?\s?d\.?\s(\d+)\b", r"\1 ad"),
    (r"(?<=\d):00(?=\s?[ap]\.?m\b)", ""),
    (rf"\b(?:{_WORDS})\b", _number),
    (r"\b(\d+)(?:st|nd|rd|th)\b", r"\1th"),
    (r"(?<=\w\s)the\s(\d+)th\b(?!\s\w)", r"\1"),  # "Henry the 8th"
    (rf"\ban?(?=\s{SCALE}\b)", "1"),
    # "1 000 000" and "1.000.000"
    (r"\b\d{1,3}(?:(?:\s\d{3})+|(?:\.\d{3}){2,})\b", lambda number: re.sub(r"\D", "", number[0])),
    # Not "one hundred and one", whose parts add up.
    (rf"(?<![\w.,])(\d[\d,]*(?:\.\d+)?)((?:[\s-]{SCALE}\b)++)(?!\s(?:and\s)?\d)", _scaled),
    (r"\b(?:minus|negative)\s(?=\d)", "-"),
    (r"([$€£])\s?(\d[\d,]*(?:\.\d+)?)(?!\w)", lambda money: f"{money[2]} {_MONEY[money[1]]}"),
    (rf"^(?:{_APPROXIMATELY})\s(?=[$€£]?\d)", ""),
    (rf"(?<![\w.,])(\d+(?:\.\d+)?)e({_EXPONENT})\b", _power),
    (rf"(?<![\w.,])(?:(\d+(?:\.\d+)?)\s?[x×*·]\s?)?10\^({_EXPONENT})\b", _power),
    (rf"\b\d+\.\d{{{FLOAT_DIGITS},}}\b", _rounded),
    # "7.40 km", but not "7.30 pm", "1.10.2"
    (r"^(-?\d[\d,]*)(?:\.0+|(\.\d*?[1-9])0+)(?![\w.,:/-]|\s?[ap]\.?m\b)", r"\1\2"),
    # Only after a word: a Roman number that stands alone may be the whole answer.
    (
        r"(?<=\w\s)(?:[ivx]{2,}|(?-i:[IVX]))\b",
        lambda roman: str(_ROMAN.get(roman[0].upper(), roman[0])),
    ),
)
_COMPILED = [(re.compile(pattern, re.IGNORECASE), written) for pattern, written in _RESPELLINGS]


def folded(text: str) -> str:
    """Apply Unicode's NFKC normalisation, but keep fractions apart: "3½" becomes "3 1⁄2"."""
    return normalize("NFKC", _FRACTION.sub(" ", text))


def keep_signs(text: str) -> str:
    """Replace signs in numbers ("1.5", "-5") and names ("C#") by symbols that are no punctuation.

    Thus "1.5" still differs from "15", and "C#" from "C", after punctuation is removed.
    """
    for pattern, sign in _SIGNS:
        text = pattern.sub(sign, text)
    return text


@lru_cache(maxsize=65536)
def respell(text: str) -> str:
    """Write numbers in digits ("five million", "first", "Henry V"), "&" as "and", "St." in full."""
    text = _SUPERSCRIPT.sub(lambda power: f"^{power[0]}", unescape(text))
    text = folded(text)
    for pattern, written in _COMPILED:
        text = pattern.sub(written, text)
    return text
