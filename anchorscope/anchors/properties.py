"""Find the words that ask for the property and, in a query, the names.

A query is a question without capitals. Verbs, prepositions and words before titles show where its
names end: `where did emma live in 1815`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from anchorscope.anchors import english
from anchorscope.anchors.asking import question_word
from anchorscope.anchors.words import PROPERTY, SUBJECT, Span, Word, is_free

LONGEST_NAME = 0.8  # largest share of a question's words in one phrase


def property_candidates(
    words: Sequence[Word], taken: Sequence[Span], with_subject: bool = False
) -> list[Span]:
    """Return spans of the words that ask for the property, and of the other words.

    `taken` are names found before; they get no span. With `with_subject`, the other words become
    possible subjects. Without it, they become property spans that are chosen last.
    """
    free = {i for i, w in enumerate(words) if is_free(Span(w.start, w.end, "", ""), taken)}
    property_words = _property_words(words, free)
    verbs = {i for i in free if _verb(words, free, i)}
    names: list[range] = []
    rules: dict[int, str] = {}
    if with_subject:
        names, behind = _phrases(words, (set(range(len(words))) - free) | property_words)
        verbs = (verbs | behind) - {i for run in names for i in run}
    else:
        rules = {i: "more words" for i in free if _has_content(words, i)}
    rules |= {i: "asked words" for i in property_words & free if _has_content(words, i)}
    rules |= {i: "verb" for i in verbs - property_words if words[i].content}

    def span(run: Sequence[int], role: str, rule: str) -> Span:
        return Span(words[run[0]].start, words[run[-1]].end, role, rule)

    properties = [span(run, PROPERTY, rules[run[0]]) for run in _runs(words, rules)]
    return properties + [span(run, SUBJECT, "query words") for run in names]


def _property_words(words: Sequence[Word], free: Collection[int]) -> set[int]:
    """Return the words after the question word, after `'s`, or before `of` or `for`."""
    wh = question_word(words)
    property_words = set() if wh is None else set(_phrase_after(words, free, wh))
    # "who is jack's mother" asks for a property, but "in assassin's creed" holds a title.
    begins = wh + 2 if wh is not None and words[wh].lower in ("who", "what") else 0
    for i in range(len(words)):
        owner = words[i - 1] if i else None
        behind_owner = owner and owner.possessive and not owner.function
        behind_owner = behind_owner and not (i - 1 in free and i - 1 > begins)
        before_of = i + 2 < len(words) and words[i + 1].lower in ("of", "for") and i + 2 not in free
        if behind_owner or before_of:
            property_words.add(i)
    return property_words


def _verb(words: Sequence[Word], free: Collection[int], i: int) -> bool:
    """Return whether word i is a verb of the question, rather than of a title in small letters."""
    if not verblike(words[i]):
        return False
    last = i + 1 == len(words)
    return last or words[i + 1].breaks or words[i + 1].function or i + 1 not in free


def _phrase_after(words: Sequence[Word], free: Collection[int], wh: int) -> list[int]:
    """Return the indices of the last words (at most three) of the noun phrase after word `wh`."""
    following = words[wh + 1].lower if wh + 1 < len(words) else ""
    # "When was X built", "What does X mean": the subject follows, not the property.
    if words[wh].lower in ("when", "where", "why") or following in ("do", "does", "did"):
        return []
    i = wh + 1
    while i < len(words) and not _has_content(words, i):
        much = words[wh].lower == "how" and words[i].lower in english.AUXILIARIES
        if much or (words[i].lower in english.PREPOSITIONS and words[i].lower != "as"):
            return []
        i += 1
    who_does = words[wh].lower == "who" and i == wh + 1
    if not who_does and _is_name(words, free, wh, i):
        return []
    if i in free and (who_does or verblike(words[i])):
        return [i]
    group: list[int] = []
    while i < len(words) and (words[i].content or i not in free):
        if group and (words[i].breaks or verblike(words[i])):
            break
        # Words before a name describe it: "late singer Michael Jackson's first single".
        group = [*group, i] if i in free else []
        i += 1
    return group[-3:]


def _is_name(words: Sequence[Word], free: Collection[int], wh: int, i: int) -> bool:
    """Return whether a subject begins at word i: `who is jack black`, not `who is king of siam`."""
    between = [w.lower for w in words[wh + 1 : i]]
    bare = len(between) == 1 or between[1:] in (["a"], ["an"])
    if not (i in free and bare and between[0] in english.AUXILIARIES):
        return False
    end = next((j for j in range(i, len(words)) if words[j].function), len(words))
    heads = end < len(words) and words[end].lower in ("of", "for", "to")
    # In "what are cows raised for", the verb before "for" shows that "cows" is a subject.
    return not heads or any(verblike(w) or not w.content for w in words[i:end])


def _runs(words: Sequence[Word], rules: Mapping[int, str]) -> list[list[int]]:
    """Return runs of neighbouring indices with the same rule and no punctuation between them."""
    runs: list[list[int]] = []
    for i in sorted(rules):
        if not words[i].breaks and rules.get(i - 1) == rules[i]:
            runs[-1].append(i)
        else:
            runs.append([i])
    return runs


def _has_content(words: Sequence[Word], i: int) -> bool:
    """Return whether word i has content. `us` after `the` is the country, not the pronoun."""
    word = words[i]
    return word.content or (word.lower == "us" and i > 0 and words[i - 1].lower == "the")


def verblike(word: Word) -> bool:
    """Return whether a word may be the verb of a question."""
    regular = len(word.lower) > 4 and word.lower.endswith("ed") and "-" not in word.lower
    return word.lower in english.VERBS or (regular and word.lower not in english.NO_VERBS)


def acts(word: Word) -> bool:
    """Return whether a word may be a verb in a query, even if it can be a noun, too: "stop"."""
    stem = word.lower.removesuffix("s").removesuffix("ing")
    return verblike(word) or not {word.lower, stem, f"{stem}e"}.isdisjoint(english.QUERY_VERBS)


def _phrases(words: Sequence[Word], taken: Collection[int]) -> tuple[list[range], set[int]]:
    """Return (phrases, verbs) outside `taken`: phrases are index ranges, verbs are indices.

    Subjects of verbs come first. Other phrases follow, longer ones first. Phrases of more than half
    of the question's words come last.
    """
    subjects: list[range] = []
    others: list[range] = []
    verbs: set[int] = set()
    for start, end in _stretches(words, taken):
        titled = _title(words, start, end) == start
        if start - 1 in taken and acts(words[start]) and not titled:  # "which apostle spoke at"
            verbs.add(start)
            start += 1
        first, rest, stretch_verbs = _read(words, start, end)
        subjects += first
        others += rest
        verbs |= stretch_verbs
    runs = [part for run in subjects for part in _short(words, run)]
    parts = [part for run in others for part in _short(words, run)]
    runs += sorted(parts, key=lambda run: (2 * len(run) > len(words), -len(run), -run.start))
    return [run for run in runs if any(_has_content_in_query(words, i) for i in run)], verbs


def _read(words: Sequence[Word], start: int, end: int) -> tuple[list[range], list[range], set[int]]:
    """Split words [start, end) into (subject, other phrases, verbs). The subject may be empty."""
    before_title = range(start, _title(words, start, end))
    opening = next((i for i in before_title if words[i].lower in english.AUXILIARIES), None)
    verb = None if opening is None else _main_verb(words, opening, end)
    if opening is not None and verb is not None:
        joined = verb + 2 < end and words[verb + 1].lower == "and"  # "when did it begin and end"
        last = verb + 2 if joined and verblike(words[verb + 2]) else verb
        others = [*_parts(words, start, opening), *_parts(words, last + 1, end)]
        return [_trimmed(words, range(opening + 1, verb))], others, {verb, last}
    asking = english.WH | english.SEPARATORS | english.AUXILIARIES
    if start == 0 and words[0].lower not in asking:  # a statement
        parts = _parts(words, start, end)
        return parts[:1], parts[1:], set()
    if opening is None:
        return [], _parts(words, start, end), set()
    parts = _parts(words, opening, end)  # "where in the bible are the disciples"
    return parts[:1], [*_parts(words, start, opening), *parts[1:]], set()


def _stretches(words: Sequence[Word], taken: Collection[int]) -> Iterator[tuple[int, int]]:
    """Cut the words at punctuation and at words in `taken`; yield each stretch [start, end)."""
    start = 0
    for i in range(len(words) + 1):
        if i == len(words) or i in taken or words[i].breaks:
            if start < i:
                yield start, i
            start = i + 1 if i in taken else i


def _main_verb(words: Sequence[Word], opening: int, end: int) -> int | None:
    """Return the main verb's index: `released` in `when was how deep is your love released`."""
    lower = [w.lower for w in words[:end]]
    if lower[opening + 1 : opening + 2] and lower[opening + 1] in english.SUBJECT_PRONOUNS:
        return next((i for i in range(opening + 2, end) if not words[i].function), None)
    asks = opening > 0 and lower[opening - 1] in ("who", "what", "that")
    if asks and opening + 1 < end and acts(words[opening + 1]):  # "who has won the cup"
        return opening + 1
    verbs = [i for i in range(opening + 2, end) if acts(words[i])]
    behind = english.PARTICLES | english.SEPARATORS
    closing = [i for i in verbs if i + 1 == end or lower[i + 1] in behind]
    if closing:
        last = closing[-1]
        return last - 2 if lower[last - 1] == "and" and last - 2 in verbs else last
    if lower[opening] in english.BE:  # "is pistachio flavoured ice cream"
        return next((i for i in verbs if words[i + 1].function), None)
    if verbs or lower[opening] in ("has", "have", "had"):
        return next(iter(verbs), None)
    inner = range(opening + 2, end - 1)  # "did france and belgium invade the ruhr"
    return next((i for i in inner if words[i].content and lower[i + 1] in english.ARTICLES), None)


def _parts(words: Sequence[Word], start: int, end: int) -> list[range]:
    """Cut a stretch into phrases, see `_cuts`. A title that ends the stretch stays whole."""
    title = _title(words, start, end)
    cuts = [i for i in range(start, title) if _cuts(words, i)]
    inner = [range(a, b) for a, b in pairwise([start, *cuts, title])]
    runs = [_trimmed(words, run[1:] if run.start in cuts else run) for run in inner]
    while title < end and words[title].lower in english.ARTICLES | {"of", "to"}:
        title += 1
    return [run for run in (*runs, range(title, end)) if run]


def _title(words: Sequence[Word], start: int, end: int) -> int:
    """Return the index of the first word of a title that ends the stretch, or `end`."""
    performs = False
    for i in range(start, end):
        before = words[i - 1].lower if i else ""
        performs = performs or before in english.PERFORMING
        by_work = performs and before in ("in", "on") and not words[i].number
        by_verb = before in english.TITLE_VERBS and words[i].lower not in english.PREPOSITIONS
        if by_work or by_verb:
            return i
        announced = before in english.TITLE_NOUNS and i > start and not _cuts(words, i)
        if announced or (words[i].lower in english.IN_TITLES and before not in english.AUXILIARIES):
            return next((j + 1 for j in range(i, start - 1, -1) if _cuts(words, j)), start)
    return end


def _cuts(words: Sequence[Word], i: int) -> bool:
    """Return whether word i separates two phrases."""
    lower, before = words[i].lower, words[i - 1].lower if i else ""
    after = words[i + 1].lower if i + 1 < len(words) else ""
    if lower in english.SEPARATORS:  # "in when calls the heart"
        return lower in english.PREPOSITIONS or before not in english.PREPOSITIONS
    if lower == "to" or before == "to":  # "warned europe to stay out"
        return (after if lower == "to" else lower) in english.QUERY_VERBS
    participle = verblike(words[i]) and after in english.SEPARATORS  # "unix created in the 1990s"
    light = lower in english.LIGHT and after in english.ARTICLES  # "... means the making of"
    dated = lower in english.ARTICLES and before in english.TIMES
    return lower in english.AUXILIARIES or participle or light or dated


def _trimmed(words: Sequence[Word], run: range) -> range:
    """Trim small words at both ends of a run, except words that belong to a title."""
    start, end = run.start, run.stop
    while start < end and _falls_off(words, start, run.start):
        start += 1
    while start < end and not _closes(words, end - 1):
        end -= 1
    behind = words[end].lower if end < run.stop else ""
    follows = behind in english.PARTICLES | english.PREPOSITIONS
    if follows and end - start > 1 and acts(words[end - 1]):
        end -= 1  # "the roadrunner belongs to"
    return range(start, end)


def _falls_off(words: Sequence[Word], i: int, first: int) -> bool:
    """Return whether to drop word i at the front of a phrase: `the`, `name of`, `called the`."""
    lower = words[i].lower
    joint = i == first > 0 and lower in english.SEPARATORS | english.WH
    if joint or lower in english.IN_TITLES or _has_content_in_query(words, i):
        return False
    behind = words[i + 1].lower if i + 1 < len(words) else ""
    if lower == "one":
        return behind == "of"
    names = behind in english.ARTICLES | {"to"} or (behind == "of" and lower in english.NAMING)
    return words[i].function or lower in english.PASSIVES or names


def _closes(words: Sequence[Word], i: int) -> bool:
    """Return whether word i may end a phrase, as in `world war one` or `darling buds of may`."""
    lower = words[i].lower
    behind_of = words[i - 1].lower == "of" and lower not in english.WH
    if behind_of or lower in english.IN_TITLES | {"us", "one"}:
        return True
    return not words[i].function and lower not in english.PASSIVES


def _has_content_in_query(words: Sequence[Word], i: int) -> bool:
    return words[i].content or words[i].lower == "us"


def _short(words: Sequence[Word], run: range) -> list[range]:
    """If a run holds most words of the question, cut it in two at `of`, `to`, `with` or `and`."""
    if len(run) <= LONGEST_NAME * len(words):
        return [run]
    for joint in ("of", "to", "with", "and"):
        if at := next((i for i in run[1:] if words[i].lower == joint), None):
            parts = [_trimmed(words, range(run.start, at)), _trimmed(words, range(at, run.stop))]
            return sorted(parts, key=len, reverse=True)
    return [run]
