"""What a question asks for, as its question word tells: a kind of answer, and who does what."""

from collections.abc import Sequence
from itertools import takewhile

from anchorscope.anchors.english import AUXILIARIES, BE, TIMES, WH, word_set
from anchorscope.anchors.properties import verblike
from anchorscope.anchors.words import Word

# Prepositions by which a question asks at its front or at its end.
GOVERNING = word_set(
    "of in on at by from to as for with against into about under over through after"
)

YES_NO = "yes/no"
WHEN = "when"
HOW_MANY = ("how many", "how much")


def question_word(words: Sequence[Word]) -> int | None:
    """Index of the word that asks: among the first two words, else the last; None if none asks."""
    places = [i for i, word in enumerate(words) if word.lower in WH]
    if not places:
        return None
    return places[0] if places[0] < 2 else places[-1]


def answer_kind(words: Sequence[Word]) -> str | None:
    """The kind of answer that a question of these words asks for; None where no word asks.

    One of "yes/no", "who", "what", "when", "where", "why", "how" with the word behind it.
    """
    at = question_word(words)
    if words and words[0].lower in AUXILIARIES and (at is None or at > 1):
        return YES_NO
    if at is None:
        return None
    asking = words[at].lower
    following = words[at + 1].lower if at + 1 < len(words) else ""
    if asking == "how":
        return f"how {following}"
    if asking in ("what", "which"):
        return WHEN if following.removesuffix("s") in TIMES else "what"
    return "who" if asking in ("whom", "whose") else asking


def is_verb(word: Word) -> bool:
    """Whether a word in small letters may be a verb of its clause."""
    return not word.capital and (word.lower in AUXILIARIES or verblike(word))


def doing(words: Sequence[Word]) -> str | None:
    """The verb of which the answer is the subject ("wrote" in "Who wrote it?"); None without.

    In "What did he write?" and "Who was he?" the answer is no subject.
    """
    at = question_word(words)
    if at is None or words[at].lower not in ("who", "what", "which"):
        return None
    verb = next((w.lower for w in words[at + 1 :] if is_verb(w)), None)
    return None if verb is None or verb in BE | {"do", "does", "did"} else verb


def asked_phrase(words: Sequence[Word]) -> Sequence[Word]:
    """What the question word goes with: "Dutch city" of "In which Dutch city is it?"."""
    at = question_word(words)
    if at is None or words[at].lower not in ("what", "which"):
        return ()
    end = at + 1
    while end < len(words) and not is_verb(words[end]):
        end += 1
    return words[at + 1 : end]


def asked_noun(words: Sequence[Word]) -> str | None:
    """The last noun of the asked phrase: "city" of "Which Dutch city near Ely is it?"."""
    nouns = takewhile(lambda word: not word.function, asked_phrase(words))
    return next((word.lower for word in reversed([*nouns])), None)


def prepositions(words: Sequence[Word]) -> frozenset[str]:
    """Those that go with the question word: "of" of "What is it a kind of?"."""
    at = question_word(words)
    if at is None:
        return frozenset()
    beside = (words[at - 1].lower if at else "", words[-1].lower)
    return frozenset(word for word in beside if word in GOVERNING)
