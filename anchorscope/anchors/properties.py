"""What a question asks for: the words that name the property, and those left over."""

from collections.abc import Collection, Mapping, Sequence

from anchorscope.anchors.english import AUXILIARIES, PREPOSITIONS, WH
from anchorscope.anchors.queries import phrases, verblike
from anchorscope.anchors.words import PROPERTY, SUBJECT, Span, Word, is_free


def property_candidates(
    words: Sequence[Word], taken: Sequence[Span], with_subject: bool = False
) -> list[Span]:
    """Runs of words outside the names `taken`: what asks for the property, and the rest.

    `with_subject`: the rest is the subject of a query without names, else mere filler.
    """
    free = {i for i, w in enumerate(words) if is_free(Span(w.start, w.end, "", ""), taken)}
    asked = _asked(words, free)
    verbs = {i for i in free if _verb(words, free, i)}
    names: list[range] = []
    rules: dict[int, str] = {}
    if with_subject:
        names, behind = phrases(words, (set(range(len(words))) - free) | asked)
        verbs = (verbs | behind) - {i for run in names for i in run}
    else:
        rules = {i: "more words" for i in free if _counts(words, i)}
    rules |= {i: "asked words" for i in asked & free if _counts(words, i)}
    rules |= {i: "verb" for i in verbs - asked if words[i].content}
    found = [(run, PROPERTY, rules[run[0]]) for run in _runs(words, rules)]
    found += [([*run], SUBJECT, "query words") for run in names]
    return [Span(words[run[0]].start, words[run[-1]].end, *rule) for run, *rule in found]


def _asked(words: Sequence[Word], free: Collection[int]) -> set[int]:
    """Words that name the property: the phrase after the question word, after `'s`, before `of`."""
    wh = _question_word(words)
    asked = set() if wh is None else set(_phrase_after(words, free, wh))
    # "who is jack's mother", not "in assassin's creed"
    begins = wh + 2 if wh is not None and words[wh].lower in ("who", "what") else 0
    for i in range(len(words)):
        owner = words[i - 1] if i else None
        owned = owner and owner.possessive and not owner.function
        owned = owned and not (i - 1 in free and i - 1 > begins)
        owns = i + 2 < len(words) and words[i + 1].lower in ("of", "for") and i + 2 not in free
        if owned or owns:
            asked.add(i)
    return asked


def _verb(words: Sequence[Word], free: Collection[int], i: int) -> bool:
    """Whether word i is a verb of the question, not one inside a title written in small letters."""
    if not verblike(words[i]):
        return False
    last = i + 1 == len(words)
    return last or words[i + 1].breaks or words[i + 1].function or i + 1 not in free


def _question_word(words: Sequence[Word]) -> int | None:
    """The word that asks: at the start (also after a preposition), else the last one."""
    for i, word in enumerate(words[:2]):
        if word.lower in WH and all(w.function for w in words[:i]):
            return i
    places = [i for i, word in enumerate(words) if word.lower in WH]
    return places[-1] if places else None


def _phrase_after(words: Sequence[Word], free: Collection[int], wh: int) -> list[int]:
    """The noun phrase that the question word asks for: its last words, three at most."""
    following = words[wh + 1].lower if wh + 1 < len(words) else ""
    # "When was X built", "What does X mean": the subject stands here, not the property.
    if words[wh].lower in ("when", "where", "why") or following in ("do", "does", "did"):
        return []
    i = wh + 1
    while i < len(words) and not _counts(words, i):
        much = words[wh].lower == "how" and words[i].lower in AUXILIARIES
        if much or (words[i].lower in PREPOSITIONS and words[i].lower != "as"):
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
    """Whether the phrase behind `who is` is the subject: no `the` before it, no `of` behind."""
    between = [w.lower for w in words[wh + 1 : i]]
    bare = len(between) == 1 or between[1:] in (["a"], ["an"])
    if not (i in free and bare and between[0] in AUXILIARIES):
        return False
    end = next((j for j in range(i, len(words)) if words[j].function), len(words))
    heads = end < len(words) and words[end].lower in ("of", "for", "to")
    # "what are bulls used for"
    return not heads or any(verblike(w) or not w.content for w in words[i:end])


def _runs(words: Sequence[Word], rules: Mapping[int, str]) -> list[list[int]]:
    """Longest stretches of neighbouring words of one rule, cut at punctuation."""
    runs: list[list[int]] = []
    for i in sorted(rules):
        if not words[i].breaks and rules.get(i - 1) == rules[i]:
            runs[-1].append(i)
        else:
            runs.append([i])
    return runs


def _counts(words: Sequence[Word], i: int) -> bool:
    """Content words; `us` after `the` is the country, not the pronoun."""
    word = words[i]
    return word.content or (word.lower == "us" and i > 0 and words[i - 1].lower == "the")
