"""A clause of an answer, its words compared with those of the question.

A word is new if it says something and the question has no word of the same stem. A name of the
question at the front counts as repeated even where it is misspelt, if the clause adds something
else and the question does not ask who: relatives share surnames ("Hanna Bo is the sister of Anna
Bo").
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from anchorscope.anchors import asking, english
from anchorscope.anchors.properties import acts
from anchorscope.anchors.words import Word, words_of

_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|e|s|ers?|ors?|ly)$")
_DOUBLED = re.compile(r"(?<=\w\w)([bdgklmnprt])\1$")
_BESIDE_VERBS = english.word_set("also been be first out up off down away over back")
# Words by which an answer speaks of itself.
_OF_ITSELF = english.word_set("answer question correct right only available final possible")
MISSPELT = 0.7  # least likeness (difflib's ratio) of a name that the answer spells otherwise


@dataclass(frozen=True)
class Clause:
    """The words of an answer, compared with those of its question."""

    text: str
    question: frozenset[str]  # stems of the question's words
    words: Sequence[Word]
    quoted: Sequence[bool]  # whether each stands in a quotation
    content: Sequence[bool]  # whether each says something
    new: Sequence[bool]  # whether it says something that the question does not
    verbs: Sequence[int]  # indices of the words that may be verbs

    def count(self, start: int, end: int) -> tuple[int, int]:
        """Of words [start, end): how many say something, and how many something new."""
        return sum(self.content[start:end]), sum(self.new[start:end])

    def new_places(self, first: int, last: int) -> list[int]:
        """Where the new words begin that begin in characters [first, last)."""
        words = zip(self.words, self.new, strict=True)
        return [word.start for word, new in words if new and first <= word.start < last]

    def after_verbs(self, verb: int) -> int:
        """Index of the word behind a verb and those that follow it: "has been called |"."""
        end = verb + 1
        while end in self.verbs or (
            end < len(self.words) and self.words[end].lower in _BESIDE_VERBS
        ):
            end += 1
        return end


def read_clause(text: str, question: str) -> Clause:
    """The words of a text, compared with those of a question."""
    words, question_stems = words_of(text), stems(question)
    plain = english.without_quotations(text)
    quoted = [plain[word.start : word.end] != text[word.start : word.end] for word in words]
    verbs = [
        i
        for i, (word, inside) in enumerate(zip(words, quoted, strict=True))
        if not inside
        and _may_be_verb(word, question_stems)
        and not (i and words[i - 1].lower in english.ARTICLES)  # "a play by Arthur Miller"
    ]
    content = [
        inside or (says_something(word) and word.lower not in _OF_ITSELF)
        for word, inside in zip(words, quoted, strict=True)
    ]
    new = [
        content[i]
        and i not in verbs
        and (word.capital or not word.function)
        and word.lower not in english.ARTICLES
        and not repeats(word.lower, question_stems)
        for i, word in enumerate(words)
    ]
    if _opens_with_a_name(words, content, new, verbs) and any(new[1:]) and not _asks_who(question):
        new[0] = not misspells(words[0].lower, question_stems)  # "Ana Bo is", asked of Anna Bo
    return Clause(text, question_stems, words, quoted, content, new, verbs)


def is_clause(text: str) -> bool:
    """Whether a text holds what may be a verb in small letters, outside quotations."""
    return bool(read_clause(text, "").verbs)


def adds(text: str, question: str) -> bool:
    """Whether a text says something that the question does not."""
    return any(read_clause(text, question).new)


def tells_an_act(text: str, question: str) -> bool:
    """Whether a text has a verb, no auxiliary, that the question lacks: "She was killed in it"."""
    clause = read_clause(text, question)
    verbs = {clause.words[i].lower for i in clause.verbs} - english.AUXILIARIES
    return any(not repeats(verb, clause.question) for verb in verbs)


def stems(text: str) -> frozenset[str]:
    """The stems of all words of a text, and of the parts of those with a hyphen."""
    words = [word.lower for word in words_of(text)]
    parts = [part for word in words if "-" in word for part in word.split("-")]
    return frozenset(map(stem, words + parts))


def content_stems(text: str) -> frozenset[str]:
    """The stems of the words that say something."""
    clause = read_clause(text, "")
    words = zip(clause.words, clause.content, strict=True)
    return frozenset(stem(word.lower) for word, content in words if content)


def says_something(word: Word) -> bool:
    """Content words, and function words in capitals that begin no sentence ("The Who")."""
    return word.content or (word.capital and not word.first)


def stem(word: str) -> str:
    word = english.IRREGULAR.get(word, word)
    return _DOUBLED.sub(r"\1", _ENDING.sub("", word.removesuffix("'s")))


def repeats(word: str, question: frozenset[str]) -> bool:
    """Whether the question has a word, or all parts of one with a hyphen ("shoot-out")."""
    return stem(word) in question or all(stem(part) in question for part in word.split("-"))


def misspells(word: str, question: frozenset[str]) -> bool:
    """Whether the question has a word that shares most letters with this one: "Ana" of "Anna"."""
    return bool(get_close_matches(stem(word), question, n=1, cutoff=MISSPELT))


def _opens_with_a_name(
    words: Sequence[Word], content: Sequence[bool], new: Sequence[bool], verbs: Sequence[int]
) -> bool:
    """Whether a text begins with a new word, and a verb or a name of the question follows it."""
    if len(words) < 2 or not new[0]:
        return False
    return (words[1].capital and content[1] and not new[1]) or (words[0].capital and 1 in verbs)


def _asks_who(question: str) -> bool:
    """Whether a question asks for a person, whose name may be much like one of the question's."""
    return asking.answer_kind(words_of(question)) == "who"


def _may_be_verb(word: Word, question: frozenset[str]) -> bool:
    """Whether a word may be a verb: by its form, or as a verb that the question has as well."""
    listed = acts(word) or word.lower in english.IRREGULAR or word.lower in ("mean", "means")
    repeated = listed and stem(word.lower) in question
    return asking.is_verb(word) or (repeated and not word.capital)
