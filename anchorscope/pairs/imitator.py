"""Text imitator: predicts a probe's pair terms from the overlap of question and answer.

Text models (floors) add a score of the question to a score of the answer, so their pair term is 0.
The imitator sees which letters and words question and answer share. The claim that a probe compares
question and answer requires pair terms above the imitator's.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from anchorscope.anchors.asking import KINDS, answer_kind, kind_of
from anchorscope.anchors.words import words_of
from anchorscope.claims.estimates import PAIR, term

PENALTY = 10.0
"""Ridge penalty on standardised features. With a hundred pairs or more, it has almost no effect."""
ASKS = ("who", "when", "where", "what", "why", "yes/no", "how many", "how much", "how long")
"""Question words with a feature of their own."""


def pair_terms(
    scores: np.ndarray, features: np.ndarray, kind: np.ndarray, fold: np.ndarray
) -> np.ndarray:
    """Predict the pair terms of `scores` from those of `features`, by ridge regression.

    All kinds of pairs (right, wrong, gold) share one set of weights. Before the fit, the mean of
    each kind is subtracted. Otherwise the features would explain the mean pair term: all answers
    overlap more with their own questions, and also score higher after them. Each fold is predicted
    from the others.

    `scores` are [4, ..., pairs] without NaN, `features` [4, pairs, features]. `kind` [pairs] gives
    each pair's kind as a number. `fold` [pairs] is the outer fold; no question is in two folds.
    Return the predicted pair terms, [..., pairs]. They are 0 if all pairs are in one fold.
    """
    read, given = term(PAIR, features), term(PAIR, scores)
    targets = given.reshape(-1, given.shape[-1]).T  # [pairs, targets]
    found = np.zeros_like(targets)
    folds = np.unique(fold)
    for one in folds if len(folds) > 1 else ():
        train = fold != one
        x, y = (_within(values[train], kind[train]) for values in (read, targets))
        spread = x.std(0)
        spread[spread < 1e-9] = 1.0
        x /= spread
        weights = np.linalg.solve(x.T @ x + PENALTY * np.eye(x.shape[1]), x.T @ y)
        found[~train] = (read[~train] / spread) @ weights
    return found.T.reshape(given.shape)


def _within(values: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """Subtract the mean of each kind from values [pairs, n]."""
    centred = np.empty_like(values)
    for one in np.unique(kind):
        centred[kind == one] = values[kind == one] - values[kind == one].mean(0)
    return centred


def features(questions: Sequence[str], answers: Sequence[str]) -> np.ndarray:
    """Return surface features of each question with its answer, float64 [n, features].

    The features are: lengths, with their products and differences; shared runs of 1 to 4 letters;
    shared words; shared initials; whether both begin with the same letter; the question word;
    the kind of answer (see `KINDS`), such as a number; each combination of question word and kind.
    """
    return np.array([_features(*both) for both in zip(questions, answers, strict=True)])


@lru_cache(maxsize=2**14)  # every read-out of a cell has the same texts
def _features(question: str, answer: str) -> tuple[float, ...]:
    lengths = [np.log1p([len(text), len(text.split())]) for text in (question, answer)]
    letters = [_letters(text) for text in (question, answer)]
    shared = [_shares(*(_grams(text, size) for text in letters)) for size in (1, 2, 3, 4)]
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


def _letters(text: str) -> str:
    """Return a text in lower case, with a space for each character but letters and digits."""
    return "".join(char if char.isalnum() else " " for char in text.lower())


def _grams(letters: str, size: int) -> set[str]:
    return {letters[place : place + size] for place in range(len(letters) - size + 1)}


def _shares(some: set[str], others: set[str]) -> tuple[float, float]:
    """Return |some ∩ others| / |others| and |some ∩ others| / |some ∪ others|."""
    both = len(some & others)
    return both / max(1, len(others)), both / max(1, len(some | others))
