"""A text model of a pair: what the overlap of question and answer alone tells of the label.

The text floors add up question and answer, so that their pair term is 0. This one reads both
together, as far as letters go: what passes for reading the pair must be above what it finds.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from anchorscope.anchors.asking import answer_kind
from anchorscope.anchors.words import words_of

KINDS = ("number", "yes/no", "name", "words")
"""Sorts of answers that letters alone tell apart."""
PENALTIES = (0.01, 0.1, 1.0, 10.0)
ASKS = ("who", "when", "where", "what", "why", "yes/no", "how many", "how much", "how long")
"""Sorts of questions; there are others, alike to this model."""
_NUMBER = re.compile(r"\d")


def kind_of(answer: str) -> str:
    """The sort of an answer, one of `KINDS`: with a digit, yes or no, with a capital, or none."""
    if _NUMBER.search(answer):
        return "number"
    if answer.strip(" .!,").lower() in ("yes", "no"):
        return "yes/no"
    return "name" if any(char.isupper() for char in answer) else "words"


def features(questions: Sequence[str], answers: Sequence[str]) -> np.ndarray:
    """What letters tell of each question and answer together, float64 [n, features].

    Lengths and their product and difference; letters, pairs and triples of letters, and words that
    both share; whether both begin alike; the question word, the answer's kind, and both together.
    """
    return np.array([_features(*both) for both in zip(questions, answers, strict=True)])


@lru_cache(maxsize=2**14)  # every read-out of a cell asks for the same texts
def _features(question: str, answer: str) -> tuple[float, ...]:
    lengths = [np.log1p([len(text), len(text.split())]) for text in (question, answer)]
    lower = question.lower(), answer.lower()
    shared = [_shares(*(_grams(text, size) for text in lower)) for size in (1, 2, 3, 4)]
    words = [[word.lower for word in words_of(text)] for text in (question, answer)]
    first = [{word[0] for word in some} for some in words]
    same_initials = len(first[0] & first[1]) / max(1, len(first[1]))
    asks = answer_kind(words_of(question)) if words[0] else None
    kind = kind_of(answer)
    return (
        *lengths[0], *lengths[1], *(lengths[0] * lengths[1]), *np.abs(lengths[0] - lengths[1]),
        *(share for both in shared for share in both),
        *_shares(set(words[0]), set(words[1])), same_initials,
        float(bool(words[0] and words[1]) and words[0][0][0] == words[1][0][0]),
        *(float(asks == one) for one in ASKS), *(float(kind == one) for one in KINDS),
        *(float(asks == one and kind == other) for one in ASKS for other in KINDS),
    )  # fmt: skip


def _grams(text: str, size: int) -> set[str]:
    letters = "".join(char if char.isalnum() else " " for char in text)
    return {letters[place : place + size] for place in range(len(letters) - size + 1)}


def _shares(some: set[str], others: set[str]) -> tuple[float, float]:
    """What share of the others is among some, and of both together."""
    both = len(some & others)
    return both / max(1, len(others)), both / max(1, len(some | others))


def scores(
    questions: Sequence[str],
    answers: Sequence[str],
    z: np.ndarray,
    fold: np.ndarray,
    partner: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Logits of *wrong*, float64 [n], behind the own question and behind the partner's.

    Out of fold, the folds being the probes' own; of several penalties that of the lowest log-loss
    serves all folds. NaN behind the partner's question where `partner` (a place, int64 [n]) is -1.
    All are 0 where some fold leaves one class only to learn from.
    """
    own = features(questions, answers)
    others = features([questions[place] for place in partner], answers)
    train = [fold != one for one in np.unique(fold)]
    if any(len(np.unique(z[rows])) < 2 for rows in train):
        return np.zeros(len(z)), np.where(partner >= 0, 0.0, np.nan)
    every = [_out_of_fold(own, others, z, fold, c) for c in PENALTIES]
    clean, crossed = min(every, key=lambda one: np.logaddexp(0, (1 - 2 * z) * one[0]).mean())
    return clean, np.where(partner >= 0, crossed, np.nan)


def _out_of_fold(
    own: np.ndarray, others: np.ndarray, z: np.ndarray, fold: np.ndarray, c: float
) -> tuple[np.ndarray, np.ndarray]:
    # Here: pictures load this module, too, and can spare scikit-learn.
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    clean, crossed = np.empty(len(z)), np.empty(len(z))
    for one in np.unique(fold):
        train = fold != one
        scale = StandardScaler().fit(own[train])
        model = LogisticRegression(C=c, max_iter=1000).fit(scale.transform(own[train]), z[train])
        for s, x in ((clean, own), (crossed, others)):
            s[~train] = model.decision_function(scale.transform(x[~train]))
    return clean, crossed
