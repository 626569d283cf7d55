"""Names in a question: titles given by the dataset, quoted text, runs of capitalised words."""

import re
from collections.abc import Iterator, Sequence

from anchorscope.anchors import english
from anchorscope.anchors.words import SUBJECT, Span, Word, case_tells, occurrences, trim, united

_QUOTES = re.compile(
    r"\"\"([^\"]+)\"\""
    r"|\"([^\"]+)\""
    r"|“([^“”]+)”"
    r"|«([^«»]+)»"
    r"|„([^„“”]+)[“”]"
    r"|[「『]([^「」『』]+)[」』]"
    r"|‘((?:[^‘’]|(?<=\w)’(?=\w))+)’(?!\w)"
    r"|(?<![\w'])['`](?=[^\s'])((?:[^']|(?<=\w)'(?=\w))+?)(?<=\S)'(?![\w'])"
)
_NEVER_ALONE = english.WH | {"i", "a", "not", "and", "or"}  # no names, although capitalised
_DEMONYM = re.compile(
    r"\w{3,}(?:ian|ish|ese)|\w+(?:ean|ican)|(?:afr|mor)\w+can|german|roman|cuban|french|greek|dutch|welsh|swiss|czech|scots|thai|uk|us|u\.s|u\.k"
)


def name_candidates(question: str, words: Sequence[Word], titles: Sequence[str]) -> list[Span]:
    """Return the names that the rules find in a question, in order and without overlaps."""
    titled, quoted = _titles(question, titles), _quoted(question)
    return united([*titled, *quoted, *_names(words, case_tells(words))])


def is_aside(words: Sequence[Word], name: Span) -> bool:
    """Return whether a name only gives a place or time: `in Scotland`, `during the Great War`."""
    before = [w.lower for w in words if w.end <= name.start and w.lower not in english.ARTICLES]
    return bool(before) and before[-1] in ("in", "at", "during", "on")


def _titles(question: str, titles: Sequence[str]) -> Iterator[Span]:
    for title in dict.fromkeys(titles):
        # A note in brackets at the end of an encyclopedia's title is not repeated in questions.
        for form in dict.fromkeys((title, re.sub(r"\s*\([^)]*\)$", "", title))):
            if places := occurrences(question, form):
                if form.lower() not in english.FUNCTION:
                    yield from (Span(*trim(question, *p), SUBJECT, "title") for p in places)
                break


def _quoted(question: str) -> Iterator[Span]:
    text, stripped = question, question.strip()
    # If quotes enclose a whole question, it comes from a CSV file, which doubles the quotes inside.
    if stripped[:1] == '"' and ('""' in stripped or stripped.count('"') <= 2):
        text = text.replace('"', " ", 1)
        if stripped[1:].endswith('"') and text.count('"') % 2:
            text = " ".join(text.rsplit('"', 1))
    for match in _QUOTES.finditer(text):
        start, end = trim(question, *match.span(match.lastindex or 0))
        if any(c.isalnum() for c in question[start:end]):
            yield Span(start, end, SUBJECT, "quoted")


def _names(words: Sequence[Word], cased: bool) -> Iterator[Span]:
    """Yield runs of capitalised words. A run may contain small words: `War of the Worlds`."""
    last = -1
    for i in range(len(words) if cased else 0):
        if i > last and _begins_name(words, i):
            last = _run_end(words, i)
            yield _name(words, i, last)


def _begins_name(words: Sequence[Word], i: int) -> bool:
    word = words[i]
    if not word.capital:
        return False
    if not word.first and word.function:
        return not word.breaks and (_titled(words, i) or word.lower not in _NEVER_ALONE)
    if not word.first:
        return not word.number or len(word.lower) > 2 or _titled(words, i)
    if word.function or word.lower in english.OPENERS:
        return False
    participle = word.lower.endswith(("ing", "ed"))
    return not (participle and i + 1 < len(words) and words[i + 1].function)


def _titled(words: Sequence[Word], i: int) -> bool:
    """Return whether a capitalised word follows word i, as in `When I Met U`."""
    return i + 1 < len(words) and words[i + 1].capital and not words[i + 1].breaks


def _run_end(words: Sequence[Word], i: int) -> int:
    """Return the index of the last word of the name that begins at word i."""
    last = j = i
    while j + 1 < len(words):
        following = words[j + 1]
        if following.breaks and not (following.joins and last == j and not words[j].number):
            break
        j += 1
        if words[j].capital and not (words[j].number and words[j - 1].lower in english.JOINING):
            last = j
        elif words[last].number or j - last > 2 or not _connects(words, i, last, j):
            break
    return last


def _connects(words: Sequence[Word], first: int, last: int, j: int) -> bool:
    """Return whether a name goes on after word j: `wrote War and Peace`, not `both Ann and Bob`."""
    lower = words[j].lower
    if lower in english.CONNECTORS:
        return True
    before = words[first - 1].lower if first else ""
    two_names = before in english.AUXILIARIES or before in ("between", "both")
    adjacent = words[j].start - words[j - 1].end == 1 and not words[j].breaks
    return lower in english.JOINING and first == last and adjacent and not two_names


def _name(words: Sequence[Word], first: int, last: int) -> Span:
    run = words[first : last + 1]
    before = words[first - 1].lower if first else ""
    demonym = not run[0].possessive and _DEMONYM.fullmatch(run[0].lower)
    # The last word may qualify the noun after it, as in "which European city".
    qualifies = not (last + 1 == len(words) or words[last + 1].breaks or words[last + 1].function)
    if all(w.number for w in run):
        rule = "number"
    elif len(run) > 1:
        rule = "capitalised run"
    elif qualifies and (before in ("which", "what") or demonym):
        rule = "restriction"
    else:
        rule = "capitalised word"
    return Span(run[0].start, run[-1].end, SUBJECT, rule)
