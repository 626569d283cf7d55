"""The text of an answer: its edges, its quotations and its content words."""

import re
from functools import lru_cache

from anchorscope.anchors import english
from anchorscope.anchors.sentences import keeps_stop

# `<b>`, `</s>`, `<|im_end|>`, `[/INST]`
TAG = r"<[/|]?[A-Za-z][^<>\n]{0,40}>|\[/?[A-Z]{3,}\]"
_ARTICLE = re.compile(rf"(?:(?:(?i:the|an?)|in|on|at|by|from|during)\s+|{TAG})(?=\S)")
_LAST_BRACKET = re.compile(r"(?<=\S)\s*[(\[（［][^()\[\]（）［］]*[)\]）］]\W*$")
_PAIRS = dict(zip("\"“„«「『'‘([{", "\"””»」』'’)]}", strict=True))
_CLOSING = ".,;:!?…。．！？，،؛؟।-–—*_`\u200e\u200f"
_PUNCTUATION = frozenset([*_CLOSING, *_PAIRS, *_PAIRS.values(), " "])
_WORD = re.compile(r"[^\W_](?:[^\s,;:!?()\[\]\"“”«»—–]*[^\W_])?")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|e|s|ers?|ors?|ly)$")
_QUOTED = re.compile(rf"\"[^\"\n]+\"|“[^“”\n]+”|{english.TWO_SPELLINGS.pattern}")


@lru_cache(maxsize=65536)
def trimmed(gold: str, *, bracket: bool = True) -> tuple[int, int]:
    """Trim a gold answer as the finder trims E_A; return its characters [start, end).

    With `bracket`, a remark in brackets at the end is removed, too.
    """
    remark = _LAST_BRACKET.search(gold) if bracket else None
    start, end = trim(gold, 0, remark.start() if remark else len(gold))
    return (start, end) if start < end else (0, len(gold))


def trim(text: str, start: int, end: int) -> tuple[int, int]:
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


def hidden(text: str) -> str:
    """Replace every quoted character by "x", so that the indices of characters stay the same."""
    return _QUOTED.sub(lambda quotation: "x" * len(quotation[0]), text)


def in_small(text: str) -> bool:
    """Return whether a text has few capitals: "the king", "Paris", but not "Poor Old Lu"."""
    words = text.split()
    return words[0].islower() or 2 * sum(w[0].isupper() for w in words[1:]) < len(words)


def adds(text: str, question: str) -> bool:
    """Return whether a text has a content word that the question lacks."""
    return bool(stems(text) - stems(question, function=True))


def stems(text: str, *, function: bool = False) -> frozenset[str]:
    """Return the words of a text, each without its ending. `function` includes function words."""
    words = [word.lower().replace("’", "'").removesuffix("'s") for word in _WORD.findall(text)]
    chosen = [word for word in words if function or word not in english.FUNCTION]
    return frozenset(_ENDING.sub("", part) for word in chosen for part in word.split("-"))
