"""The side of a verb that answers the question, in a clause that says the question's words again.

It is the side that adds words: behind the last verb before which nothing is new ("The bridge
connecting Detroit to Windsor is | the Niagara Falls Bridge"), or before the first verb behind which
nothing is new. Where both sides add words, or neither, the question tells: who did it stands before
the question's own verb, and what it asks for with a preposition stands behind that preposition.
"""

import re
from collections.abc import Sequence

from anchorscope.anchors import asking, english
from anchorscope.anchors.clauses import Clause, stem, stems
from anchorscope.anchors.words import Word, words_of

_PRONOUNS = english.word_set("it he she they this that these those there i")
_PARTICIPLES = english.word_set("made built written sung known held found set won led drawn given")
_IS_NAMED = re.compile(
    r"\b(?:is|are|was|were|been)\s(?:\w+ly\s|also\s|often\s)?"
    r"(?:called|named|titled|nicknamed|dubbed|known\sas|referred\sto\sas)\s"
)
SAME_WORDS = 3  # of answer and question, right before what is asked for


def side_of(clause: Clause, question: Sequence[Word]) -> tuple[int, int] | None:
    """Words [start, end) on the side of a verb that answers the question; start 0: before it."""
    size, doer = len(clause.words), asking.answer_kind(question) == "who"
    doer = doer or any(word.lower == "by" for word in question)
    if not clause.verbs:
        return None
    if option(clause, question):
        return (0, clause.verbs[0])
    before: tuple[int, int] | None = None
    behind: tuple[int, int] | None = None
    for verb in clause.verbs:
        after = clause.after_verbs(verb)
        left, left_new = clause.count(0, verb)
        right_new = clause.count(after, size)[1]
        if right_new and doer and _passive(clause, verb, after):
            return (after, size)
        if behind is not None and _is_participle(clause, verb):
            continue  # "is a boat | built of oak"
        restates = left - left_new > 0 or any(w.lower in _PRONOUNS for w in clause.words[:verb])
        if not left_new and restates and right_new:
            behind = (after, size)
        if before is None and left_new and not right_new:
            before = (0, verb)
    return (
        behind
        or before
        or _named(clause)
        or _side_by_the_question(clause, asking.doing(question), doer)
    )


def _is_participle(clause: Clause, verb: int) -> bool:
    """Whether a verb describes the noun right before it, behind a "be": "is a boat | built of"."""
    before, word = clause.words[verb - 1], clause.words[verb].lower
    form = word.endswith("ed") or word in _PARTICIPLES
    linked = any(clause.words[i].lower in english.BE for i in clause.verbs if i < verb)
    return form and linked and verb - 1 not in clause.verbs and not before.function


def _named(clause: Clause) -> tuple[int, int] | None:
    """Words behind the one "is called" or the like, if new: "is known as | the Valkyries"."""
    places = [*_IS_NAMED.finditer(english.without_quotations(clause.text))]
    if len(places) != 1:
        return None
    start = sum(word.end <= places[0].end() for word in clause.words)
    return (start, len(clause.words)) if any(clause.new[start:]) else None


def option(clause: Clause, question: Sequence[Word]) -> tuple[int, int] | None:
    """Characters of the subject if it is one of two options: "Ada is older" of "Ada or Bob"."""
    subject = clause.words[: clause.verbs[0]] if clause.verbs else ()
    if not subject or not _between_or(subject, question):
        return None
    return subject[0].start, subject[-1].end


def is_option(text: str, question: str) -> bool:
    """Whether a text is one of two options that a question offers: "gold" of "gold or silver"."""
    return _between_or(words_of(text), words_of(question))


def _between_or(words: Sequence[Word], question: Sequence[Word]) -> bool:
    """Whether words stand in a question right before or behind an "or"."""
    option = " ".join(word.lower for word in words)
    whole = " ".join(word.lower for word in question)
    return f" {option} or " in f" {whole}" or f" or {option} " in f"{whole} "


def _side_by_the_question(clause: Clause, doing: str | None, doer: bool) -> tuple[int, int] | None:
    """The side of a verb where both sides add words to the question, or neither does."""
    size = len(clause.words)
    for verb in clause.verbs:
        word, after = clause.words[verb].lower, clause.after_verbs(verb)
        left, left_new = clause.count(0, verb)
        right, right_new = clause.count(after, size)
        if doer and _passive(clause, verb, after):
            return (after, size)
        names = any(word.capital for word in clause.words[after:])
        if doing is None and stem(word) in clause.question and names and not left_new + right_new:
            return (after, size)  # "Iron ore comes from Australia"
        content = [i for i in range(after, size) if clause.content[i]]
        if word in english.BE and left == left_new > 0 and content and not clause.new[content[0]]:
            return (0, verb)  # "Jupiter is the largest planet of our solar system"
        if doing is not None and stem(word) == stem(doing) and left:
            return (0, verb)
        if word in english.BE and right and left and (2 * left_new < left or not right_new):
            return None if _says_it_twice(clause, verb, after) else (after, size)
    return None


def behind_preposition(clause: Clause, prepositions: frozenset[str]) -> tuple[int, int] | None:
    """Words behind the one preposition by which the question asks: "fought it against | Ada"."""
    places = [i for i, word in enumerate(clause.words) if word.lower in prepositions]
    if len(places) != 1 or not clause.verbs or places[0] < clause.verbs[0]:
        return None
    if not any(clause.new[places[0] + 1 :]):
        return None
    return places[0] + 1, len(clause.words)


def _passive(clause: Clause, verb: int, after: int) -> bool:
    """Whether a verb of the question is followed by "by": "was written by"."""
    by = after < len(clause.words) and clause.words[after].lower == "by"
    return by and stem(clause.words[after - 1].lower) in clause.question


def _says_it_twice(clause: Clause, verb: int, after: int) -> bool:
    """Whether "X is Y" has no word in Y that X lacks, and no name in it or quotation."""
    text, edge = clause.text, clause.words[verb].start
    behind = text[clause.words[after].start :]
    if any(word.capital for word in clause.words[after:]):
        return False
    return stems(behind) <= stems(text[:edge]) and behind == english.without_quotations(behind)


def final_preposition(question: Sequence[Word]) -> str | None:
    """The preposition that ends a question: "of" of "What is it a kind of?"."""
    last = question[-1].lower if question else ""
    return last if last in asking.GOVERNING else None


def continuation(clause: Clause, question: Sequence[Word]) -> int | None:
    """Index of the word behind what the answer repeats of a question that asks at its end."""
    at = asking.question_word(question)
    if at is None or at < SAME_WORDS or any(w.lower in english.AUXILIARIES for w in question[at:]):
        return None
    before = [word.lower for word in question[at - SAME_WORDS : at]]
    words = [word.lower for word in clause.words]
    for start in range(SAME_WORDS, len(words)):
        if words[start - SAME_WORDS : start] == before and words[start] not in english.WH:
            return None if _new_behind_verb(clause, start) else start
    return None


def _new_behind_verb(clause: Clause, start: int) -> bool:
    """Whether, from a word on, only what stands behind a "be" is new: "the sea | is the Baltic"."""
    for verb in clause.verbs:
        if verb >= start and clause.words[verb].lower in english.BE:
            return not clause.count(start, verb)[1] and clause.count(verb, len(clause.words))[1] > 0
    return False
