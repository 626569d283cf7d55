"""E_Q: the words of a question that name its frame, as character spans.

A user's own spans go first. Else there are two finders. The *metadata* finder is used where the
dataset names the subject: it marks the subject and the property asked for. The *offline* finder
reads the question alone, with a short list of English function words and no model: quoted text,
capitalised runs, titles that the row carries, content words of lower-case queries, and the words
that ask for the property. None of them sees gold answers, model answers or labels.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from anchorscope import own_anchors
from anchorscope.english import (
    ABBREVIATIONS,
    CONNECTORS,
    FUNCTION,
    LIGHT,
    OPENERS,
    RANKS,
    VERBS,
    WH,
    word_set,
)

SUBJECT, PROPERTY = own_anchors.SUBJECT, own_anchors.PROPERTY
COLUMN = "column"  # found_by of a user's own spans
LONGEST = 2000  # words; nobody asks a longer question, and the finders' time grows with the square

_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_CHUNK = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")
_POSSESSIVE = re.compile(r"['’][sS]$")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)")
_BREAK = re.compile(r"[,;?!()\[\]\"“”«»…\u3001\u3002]|[.:]\s|\s[-–—]+\s")
_SENTENCE_END = re.compile(r"[?!;]|\.[\"”']?\s|[.:]$|\s[-–—]+\s$|[-–—:]\s")
_QUOTES = re.compile(
    r"\"\"(?P<a>[^\"]+)\"\""
    r"|\"(?P<b>[^\"]+)\""
    r"|“(?P<c>[^“”]+)”"
    r"|«(?P<d>[^«»]+)»"
    r"|„(?P<e>[^„“”]+)[“”]"
    r"|[「『](?P<f>[^「」『』]+)[」』]"
    r"|‘(?P<g>(?:[^‘’]|(?<=\w)’(?=\w))+)’(?!\w)"
    r"|(?<![\w'])['`](?=[^\s'])(?P<h>(?:[^']|(?<=\w)'(?=\w))+?)(?<=\S)'(?![\w'])"
)


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, end) of a question, what they name, and which rule found them."""

    start: int
    end: int
    role: str
    found_by: str


@dataclass(frozen=True, slots=True)
class _Word:
    """A word without its edge punctuation and possessive, and what surrounds it."""

    start: int
    end: int
    lower: str
    capital: bool  # a capital, or a digit, or a script without case in a question that has case
    possessive: bool
    breaks: bool  # punctuation that ends a name stands before it
    joins: bool  # that punctuation may stand inside a name: "Star Trek: First", "Palmer, Jr."
    first: bool  # first of its sentence

    @property
    def function(self) -> bool:
        return self.lower in FUNCTION

    @property
    def content(self) -> bool:
        return self.lower not in FUNCTION and self.lower not in LIGHT

    @property
    def number(self) -> bool:
        return self.lower[:1].isdigit()


@dataclass(frozen=True, slots=True)
class _Candidate:
    span: Span
    rank: int  # lower goes first when the question has no room for all


def find(
    question: str,
    *,
    subject: str | None = None,
    property: str | None = None,
    titles: Sequence[str] = (),
    own: Sequence[Any] | None = None,
) -> list[Span]:
    """Spans of E_Q, sorted, none overlapping, none with whitespace or punctuation at its edges.

    With `own`: the user's spans, verbatim (only white space is taken off), and no others: where
    none of the entries marks anything, nothing is found.

    With `subject` (metadata): every occurrence of it, and the property asked for, whatever their
    length, since that is what E_Q means. Without it, or where it does not occur: the offline
    finder, which keeps its best spans within half of the question's words.

    Args:
        question: the question's text, verbatim.
        subject: the subject's name as the dataset gives it.
        property: the property's name; it is used where it occurs in the question.
        titles: titles that the row carries, for instance of its supporting articles.
        own: the user's own anchors, see `own_anchors.resolve`; None is none given.

    Returns:
        Character spans; empty where nothing is found, and in a question of more than `LONGEST`
        words without `own`.
    """
    if own is not None:
        return [Span(*place, COLUMN) for place in own_anchors.resolve(question, own)[0]]
    if len(word_places(question)) > LONGEST:
        return []
    words = _words(question)
    if subject and (found := _subject_spans(question, subject, words)):
        return sorted(found + _property_spans(question, property, words, found), key=_start)
    return _offline(question, words, titles)


def word_count(question: str) -> int:
    """Number of words; in scripts without spaces, of characters."""
    return sum(any(c.isalnum() for c in question[a:b]) for a, b in word_places(question))


def word_places(question: str) -> list[tuple[int, int]]:
    """Characters [start, end) of what stands between white space, or of unspaced characters."""
    return [chunk.span() for chunk in _CHUNK.finditer(question)]


def words_in(question: str, spans: Iterable[Span]) -> int:
    """Number of the question's words that a span touches."""
    spans = list(spans)
    return sum(
        any(s.start < end and start < s.end for s in spans) for start, end in word_places(question)
    )


def _start(span: Span) -> int:
    return span.start


def _subject_spans(question: str, subject: str, words: Sequence[_Word]) -> list[Span]:
    places = _occurrences(question, subject)
    # "What was What built for?": the asking word is not the name where the name comes again.
    if len(places) > 1 and words and words[0].lower in FUNCTION and places[0][0] == words[0].start:
        places = places[1:]
    return [Span(*_trim(question, a, b), SUBJECT, "metadata") for a, b in places]


def _property_spans(
    question: str, property: str | None, words: Sequence[_Word], taken: Sequence[Span]
) -> list[Span]:
    """The property's name where it occurs outside the subject, else the words that ask for it."""
    spans = []
    for a, b in _occurrences(question, property) if property else []:
        inside = [w for w in words if a <= w.start and w.end <= b and not w.function]
        if inside and _free(Span(a, b, PROPERTY, ""), taken):
            spans.append(Span(inside[0].start, inside[-1].end, PROPERTY, "metadata"))
    if spans:
        return spans
    chosen: list[Span] = []
    for candidate in sorted(_property_candidates(words, taken), key=lambda c: c.rank):
        if candidate.rank <= _RANK["verb"] and _free(candidate.span, [*taken, *chosen]):
            chosen.append(candidate.span)
    return chosen


def _occurrences(text: str, name: str) -> list[tuple[int, int]]:
    """Whole-word occurrences of a name, in its own case if there are any, else in any case."""
    for form in dict.fromkeys((name, unicodedata.normalize("NFC", name), _nfd(name))):
        if not (pieces := form.split()):
            return []
        body = r"\s+".join(re.sub("['’]", "['’]", re.escape(p)) for p in pieces)
        left = r"(?<!\w)" if pieces[0][0].isalnum() and not _unspaced(pieces[0][0]) else ""
        right = r"(?!\w)" if pieces[-1][-1].isalnum() and not _unspaced(pieces[-1][-1]) else ""
        for flags in (0, re.IGNORECASE):
            if found := [m.span() for m in re.finditer(left + body + right, text, flags)]:
                return found
    return []


def _nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def _unspaced(char: str) -> bool:
    return bool(re.match(f"[{_UNSPACED}]", char))


# Rules of the offline finder, the surest first; `found_by` holds their names.
_RULES = (
    "title",
    "quoted",
    "capitalised run",
    "capitalised word",
    "query words",  # content words of a question without names
    "asked words",
    "verb",
    "restriction",  # "Which European city": restricts what is asked for
    "number",
    "more words",
)
_RANK = {rule: rank for rank, rule in enumerate(_RULES)}
_NEVER_ALONE = WH | word_set("i a not and or")  # as names, although written with a capital
PROPERTY_WORDS = 4  # more than these describe the question, not its property
_DEMONYM = re.compile(
    r"\w+(?:an|ish|ese)|french|greek|dutch|welsh|swiss|czech|scots|thai|uk|us|u\.s|u\.k"
)


def _offline(question: str, words: Sequence[_Word], titles: Sequence[str]) -> list[Span]:
    if not words:
        return []
    cased = _case_tells(words)
    names = _merge([*_titles(question, titles), *_quoted(question), *_names(words, cased)])
    named = any(c.rank <= _RANK["capitalised word"] for c in names)
    if not named:  # the numbers then belong to the query's words: "2014 world cup"
        names = [c for c in names if c.span.found_by != "number"]
    spans = [c.span for c in names]
    candidates = names + _property_candidates(words, spans, with_subject=not named)
    return _within_half(question, words, _with_a_subject(candidates))


def _with_a_subject(candidates: list[_Candidate]) -> list[_Candidate]:
    """Of a question that has asked words only, let the last be the subject."""
    if not candidates or any(c.span.role == SUBJECT for c in candidates):
        return candidates
    last = max(candidates, key=lambda c: c.span.start)
    rest = [c for c in candidates if c is not last]
    return [*rest, _candidate(last.span.start, last.span.end, SUBJECT, "query words")]


def _words(question: str) -> list[_Word]:
    words: list[_Word] = []
    mixed = any(c.isupper() or c.islower() for c in question)
    previous_end = 0
    for chunk in _CHUNK.finditer(question):
        start, end = _trim(question, *chunk.span())
        if not any(c.isalnum() for c in question[start:end]):
            continue
        text = question[start:end]
        between = question[previous_end:start]
        dotted = bool(words) and _abbreviated(question[words[-1].start : words[-1].end])
        if dotted:
            between = between.replace(".", "", 1)
        lower = text.lower().replace("’", "'")
        words.append(
            _Word(
                start,
                end,
                "の" if "\u3040" <= text <= "\u309f" else lower,
                _capital(text, mixed),
                bool(_POSSESSIVE.match(question[end : end + 2])),
                bool(_BREAK.search(between)) or not words,
                _joins(text, between),
                not words or bool(_SENTENCE_END.search(between)),
            )
        )
        previous_end = end
    return words


def _joins(text: str, between: str) -> bool:
    """Whether a name may go on with `text` after a colon, or after a comma with a rank."""
    if between == ": ":
        return text[:1].isupper()
    return between == ", " and (text.lower() in RANKS or bool(_ORDINAL.fullmatch(text)))


def _abbreviated(text: str) -> bool:
    """Whether a full stop after `text` belongs to it: initials, `Mr`, `St`, `D.C`."""
    return (
        "." in text
        or len(text) == 1
        or (len(text) <= 3 and text[:1].isupper())
        or text.lower() in ABBREVIATIONS
    )


def _capital(text: str, mixed: bool) -> bool:
    if any(c.isupper() or c.istitle() for c in text) or text[0].isdigit():
        return True
    return mixed and not any(c.islower() for c in text)


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Take whitespace, punctuation, symbols and a possessive off both ends, if anything is left."""
    a, b = start, end
    while True:
        while a < b and not _letterlike(text[a]):
            a += 1
        while b > a and not _letterlike(text[b - 1]):
            b -= 1
        if a == b:
            return start, end
        if b - a <= 2 or not _POSSESSIVE.match(text[b - 2 : b]):
            return a, b
        start, end, b = a, b - 2, b - 2  # "James's": the possessive goes, too


@lru_cache(maxsize=4096)
def _letterlike(char: str) -> bool:
    return unicodedata.category(char)[0] in "LNM"


def _case_tells(words: Sequence[_Word]) -> bool:
    """Whether capitals mark names here: not in `who wrote hamlet`, nor in `Who Wrote Hamlet`."""
    inner = [w for w in words if not w.first and any(c.isalpha() for c in w.lower)]
    return any(not w.capital for w in inner) or len(inner) < 2


def _titles(question: str, titles: Sequence[str]) -> Iterator[_Candidate]:
    for title in dict.fromkeys(titles):
        # Encyclopedia titles carry a note in brackets that no question repeats.
        for form in dict.fromkeys((title, re.sub(r"\s*\([^)]*\)$", "", title))):
            if places := _occurrences(question, form):
                for a, b in places:
                    if form.lower() not in FUNCTION:
                        yield _candidate(*_trim(question, a, b), SUBJECT, "title")
                break


def _quoted(question: str) -> Iterator[_Candidate]:
    text = question
    stripped = text.strip()
    # A whole question in quotes is a leftover of a CSV file; what it quotes is doubled inside.
    if stripped[:1] == '"' and ('""' in stripped or stripped.count('"') <= 2):
        at = text.index('"')
        closing = text.rindex('"')
        text = f"{text[:at]} {text[at + 1 :]}"
        at_end = not question[closing + 1 :].strip()
        if closing > at and at_end and text.count('"') % 2:
            text = f"{text[:closing]} {text[closing + 1 :]}"
    for match in _QUOTES.finditer(text):
        start, end = _trim(question, *match.span(match.lastgroup or 0))
        if any(c.isalnum() for c in question[start:end]):
            yield _candidate(start, end, SUBJECT, "quoted")


def _candidate(start: int, end: int, role: str, found_by: str) -> _Candidate:
    return _Candidate(Span(start, end, role, found_by), _RANK[found_by])


def _names(words: Sequence[_Word], cased: bool) -> Iterator[_Candidate]:
    """Runs of capitalised words, joined over small words such as `of the`."""
    i = 0
    while cased and i < len(words):
        if not _begins_name(words, i):
            i += 1
            continue
        last = _run_end(words, i)
        yield _name(words, i, last)
        i = last + 1


def _begins_name(words: Sequence[_Word], i: int) -> bool:
    word = words[i]
    if not word.capital:
        return False
    if not word.first and word.function:
        return not word.breaks and (_titled(words, i) or word.lower not in _NEVER_ALONE)
    if not word.first:
        return not word.number or len(word.lower) > 2 or _titled(words, i)
    if word.function or word.lower in OPENERS:
        return False
    following = words[i + 1] if i + 1 < len(words) else None
    participle = word.lower.endswith(("ing", "ed")) and following and following.function
    return not participle


def _titled(words: Sequence[_Word], i: int) -> bool:
    """Whether word i goes on with a capital, as in `When I Met U`."""
    return i + 1 < len(words) and words[i + 1].capital and not words[i + 1].breaks


def _run_end(words: Sequence[_Word], i: int) -> int:
    """Index of the last word of the name that begins at word i."""
    last = j = i
    while j + 1 < len(words):
        following = words[j + 1]
        if following.breaks and not (following.joins and last == j and not words[j].number):
            break
        j += 1
        if words[j].capital:
            last = j
        elif words[j].lower not in CONNECTORS or j - last > 2 or words[last].number:
            break
    return last


def _name(words: Sequence[_Word], first: int, last: int) -> _Candidate:
    run = words[first : last + 1]
    before = words[first - 1].lower if first else ""
    if all(w.number for w in run):
        kind = "number"
    elif len(run) > 1:
        kind = "capitalised run"
    elif _followed(words, last) and (before in ("which", "what") or _demonym(run[0])):
        kind = "restriction"
    else:
        kind = "capitalised word"
    return _candidate(run[0].start, run[-1].end, SUBJECT, kind)


def _demonym(word: _Word) -> bool:
    return not word.possessive and bool(_DEMONYM.fullmatch(word.lower))


def _followed(words: Sequence[_Word], i: int) -> bool:
    """Whether word i stands before a noun that it may qualify."""
    return i + 1 < len(words) and not words[i + 1].breaks and not words[i + 1].function


def _merge(candidates: Iterable[_Candidate]) -> list[_Candidate]:
    """Unite candidates that overlap, under the name of the best rule among them."""
    merged: list[_Candidate] = []
    for candidate in sorted(candidates, key=lambda c: (c.span.start, c.rank)):
        if merged and candidate.span.start < merged[-1].span.end:
            best = min(merged[-1], candidate, key=lambda c: c.rank)
            start = merged[-1].span.start
            end = max(merged[-1].span.end, candidate.span.end)
            merged[-1] = _Candidate(replace(best.span, start=start, end=end), best.rank)
        else:
            merged.append(candidate)
    return merged


def _property_candidates(
    words: Sequence[_Word], taken: Sequence[Span], with_subject: bool = False
) -> list[_Candidate]:
    """Runs of content words outside `taken`: what asks for the property, and the rest.

    With `with_subject` the rest is the subject of a query without names, else mere filler.
    """
    free = [_free(Span(w.start, w.end, "", ""), taken) for w in words]
    rest = (SUBJECT, "query words") if with_subject else (PROPERTY, "more words")
    kinds = {i: rest for i, word in enumerate(words) if free[i] and _counts(words, i)}
    asked = {
        **{i: (PROPERTY, "verb") for i in kinds if _verb(words, free, i)},
        **dict.fromkeys(_asked(words, free), (PROPERTY, "asked words")),
    }
    kinds.update({i: kind for i, kind in asked.items() if i in kinds})
    return [
        _candidate(words[run[0]].start, words[run[-1]].end, *kinds[run[0]])
        for run in _runs(words, kinds)
    ]


def _asked(words: Sequence[_Word], free: Sequence[bool]) -> set[int]:
    """Words that name the property: the phrase after the question word, after `'s`, before `of`."""
    wh = _question_word(words)
    asked = set() if wh is None else set(_phrase_after(words, free, wh))
    for i in range(len(words)):
        owned = i > 0 and words[i - 1].possessive and not words[i - 1].function
        owns = i + 2 < len(words) and words[i + 1].lower in ("of", "for") and not free[i + 2]
        if owned or owns:
            asked.add(i)
    return asked


def _verb(words: Sequence[_Word], free: Sequence[bool], i: int) -> bool:
    """Whether word i is a verb of the question, not one inside a title written in small letters."""
    if not _verblike(words[i]):
        return False
    last = i + 1 == len(words)
    return last or words[i + 1].breaks or words[i + 1].function or not free[i + 1]


def _verblike(word: _Word) -> bool:
    return word.lower in VERBS or (len(word.lower) > 4 and word.lower.endswith("ed"))


def _question_word(words: Sequence[_Word]) -> int | None:
    """The word that asks: at the start (also after a preposition), else the last one."""
    for i, word in enumerate(words[:2]):
        if word.lower in WH and all(w.function for w in words[:i]):
            return i
    places = [i for i, word in enumerate(words) if word.lower in WH]
    return places[-1] if places else None


def _phrase_after(words: Sequence[_Word], free: Sequence[bool], wh: int) -> list[int]:
    """The noun phrase that the question word asks for: its last words, three at most."""
    following = words[wh + 1].lower if wh + 1 < len(words) else ""
    # "When was X built", "What does X mean": the subject stands here, not the property.
    if words[wh].lower in ("when", "where", "why") or following in ("do", "does", "did"):
        return []
    i = wh + 1
    while i < len(words) and not _counts(words, i):
        i += 1
    who_does = words[wh].lower == "who" and i == wh + 1
    if i < len(words) and free[i] and (who_does or _verblike(words[i])):
        return [i]
    group: list[int] = []
    while i < len(words) and (words[i].content or not free[i]):
        if group and (words[i].breaks or _verblike(words[i])):
            break
        # Words before a name describe it: "late singer Michael Jackson's first single".
        group = [*group, i] if free[i] else []
        i += 1
    return group[-3:]


def _runs(words: Sequence[_Word], kinds: Mapping[int, tuple[str, str]]) -> Iterator[list[int]]:
    """Longest stretches of neighbouring words of one kind, cut at punctuation."""
    run: list[int] = []
    for i in sorted(kinds):
        if run and i == run[-1] + 1 and kinds[i] == kinds[run[-1]] and not words[i].breaks:
            run.append(i)
            continue
        if run:
            yield run
        run = [i]
    if run:
        yield run


def _counts(words: Sequence[_Word], i: int) -> bool:
    """Content words; `us` after `the` is the country, not the pronoun."""
    word = words[i]
    return word.content or (word.lower == "us" and i > 0 and words[i - 1].lower == "the")


def _free(span: Span, taken: Iterable[Span]) -> bool:
    return all(span.end <= t.start or t.end <= span.start for t in taken)


def _pieces(text: str) -> int:
    """A rough number of a text's subword tokens: long words break, punctuation counts."""
    return sum(1 + len(piece) // 8 for piece in re.findall(r"\w+|[^\w\s]", text))


def _within_half(
    question: str, words: Sequence[_Word], candidates: Sequence[_Candidate]
) -> list[Span]:
    """The best candidates that fit into half of the question's words.

    A name that is too long for that is thinned to its content words. Other runs are cut to their
    last words, and to half of the question's tokens as well as they can be guessed, so that a
    random knockout of as many other tokens is possible.
    """
    room = word_count(question) // 2
    # Which words of a query are its subject is a guess, so one word is kept for the property.
    reserve = int(room > 2 and any(c.span.role == PROPERTY for c in candidates))
    half = _pieces(question) // 2
    chosen = _Chosen.none(question)
    for candidate in sorted(candidates, key=lambda c: (c.rank, c.span.start)):
        span = candidate.span
        kept_free = reserve if span.found_by == "query words" else 0
        left = room - len(chosen.words) - kept_free
        left = min(left, _property_room(chosen, candidate))
        if left <= 0 or not _free(span, chosen.spans):
            continue
        if span.found_by in ("query words", "asked words", "more words"):
            inside = _inside(span, words)[-left:]
            chosen.add(_tail(question, span, inside, half - kept_free - chosen.pieces, chosen))
        elif len(chosen.touched(span)) <= left:
            chosen.add([span])
        elif not chosen.spans and candidate.rank < _RANK["query words"]:
            chosen.add(_thinned(question, span, words, left))
    return sorted(chosen.spans, key=_start)


@dataclass
class _Chosen:
    """Spans chosen so far, with the words they touch: counted once, not anew for each candidate."""

    question: str
    starts: list[int]
    ends: list[int]
    spans: list[Span] = field(default_factory=list)
    words: set[int] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)
    pieces: int = 0

    @classmethod
    def none(cls, question: str) -> "_Chosen":
        places = word_places(question)
        return cls(question, [start for start, _ in places], [end for _, end in places])

    def touched(self, span: Span) -> range:
        """The question's words that hold a character of the span."""
        return range(bisect_right(self.ends, span.start), bisect_left(self.starts, span.end))

    def add(self, spans: Iterable[Span]) -> None:
        for span in spans:
            self.spans.append(span)
            self.words.update(self.touched(span))
            self.pieces += _pieces(self.question[span.start : span.end])
            if span.role == PROPERTY:
                self.asked.update(self.touched(span))


def _property_room(chosen: _Chosen, candidate: _Candidate) -> int:
    """How many more words may ask for the property; filler only where none does yet."""
    if candidate.span.role == SUBJECT:
        return len(chosen.question)
    asked = len(chosen.asked)
    return 0 if asked and candidate.span.found_by == "more words" else PROPERTY_WORDS - asked


def _inside(span: Span, words: Sequence[_Word]) -> list[_Word]:
    return [w for w in words if span.start <= w.start and w.end <= span.end]


def _tail(
    question: str, span: Span, words: Sequence[_Word], free: int, chosen: _Chosen
) -> list[Span]:
    """The last words of a span that fit; English puts the head of a noun phrase there."""
    for word in words:
        if _pieces(question[word.start : span.end]) <= free:
            return [replace(span, start=word.start)]
    return [] if chosen.spans else [replace(span, start=words[-1].start)]


def _thinned(question: str, span: Span, words: Sequence[_Word], room: int) -> list[Span]:
    """Content words of a name that is longer than half of the question, as many as fit."""
    inside = _inside(span, words)
    kept = [w for w in inside if not w.function][:room] or inside[:room]
    thin: list[Span] = []
    for word in kept:
        if thin and question[thin[-1].end : word.start].isspace():
            thin[-1] = replace(thin[-1], end=word.end)
        else:
            thin.append(Span(word.start, word.end, span.role, f"{span.found_by}, thinned"))
    return thin
