"""A text model of a pair: what the overlap of question and answer alone tells of the label.

The text floors add up question and answer, so that their pair term is 0. This one reads both
together, as far as letters go: what passes for reading the pair must be above what it finds.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from anchorscope.anchors.asking import KINDS, answer_kind, kind_of
from anchorscope.anchors.words import words_of
from anchorscope.probes.newton import logistic_regressions

PENALTIES = np.array([100.0, 10.0, 1.0, 0.1])
"""Of the squared weights, standardised; 1/C."""
ASKS = ("who", "when", "where", "what", "why", "yes/no", "how many", "how much", "how long")
"""Sorts of questions; there are others, alike to this model."""


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
    clean, crossed = _out_of_fold(own, others, z, fold)
    best = np.logaddexp(0, (1 - 2 * z) * clean).mean(-1).argmin()
    return clean[best], np.where(partner >= 0, crossed[best], np.nan)


def _out_of_fold(
    own: np.ndarray, others: np.ndarray, z: np.ndarray, fold: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Logits [penalties, n] of features [n, features], standardised over the training rows."""
    clean, crossed = (np.empty((len(PENALTIES), len(z))) for _ in range(2))
    for one in np.unique(fold):
        train = fold != one
        mean, spread = own[train].mean(0), own[train].std(0)
        spread[spread < 1e-9] = 1.0
        own_rows, other_rows = (_with_constant((x - mean) / spread) for x in (own, others))
        penalty = np.full((len(PENALTIES), own_rows.shape[1]), PENALTIES[:, None])
        penalty[:, -1] = 0.0
        rows = np.broadcast_to(own_rows[train].T, (*penalty.shape, train.sum()))
        w = logistic_regressions(rows, z[train], np.ones(train.sum()), penalty=penalty)
        clean[:, ~train] = w @ own_rows[~train].T
        crossed[:, ~train] = w @ other_rows[~train].T
    return clean, crossed


def _with_constant(x: np.ndarray) -> np.ndarray:
    return np.column_stack([x, np.ones(len(x))])
