"""Pairs of swapped answers whose scores are planted."""

from typing import Any

import numpy as np
from handmade import HOME

from anchorscope.claims.claim import Evidence
from anchorscope.claims.estimates import Answers, Pairs


def ids(n: int, first: int = 0) -> np.ndarray:
    """All distinct, [2, n]."""
    return first + np.arange(2 * n).reshape(2, n)


def pairs(n: int, *others: np.ndarray) -> Pairs:
    """Return pairs that share nothing, or only the given subjects, answers or others."""
    return Pairs.of(*(others or (ids(n), ids(n))), level=0.95)


def scored(n: int, seed: int = 0, home: float = 0.0, noise: float = 0.3, **more: Any) -> Answers:
    """Sums of question and answer with noise, and so much more after the own question."""
    random = np.random.default_rng(seed)
    question, answer = random.normal(size=(2, 2, n))
    sums = np.stack([question[i] + answer[j] for j in (0, 1) for i in (0, 1)])
    scores = (sums + home * HOME + noise * random.normal(size=(4, n)))[:, None]
    return Answers(
        **{
            "scores": scores,
            "subjects": ids(n),
            "texts": ids(n),
            "fold": np.arange(n) % 5,
            "imitated": np.zeros(n),
            "bound": np.zeros(n, dtype=bool),
        }
        | more
    )


def swapped(**sides: dict[str, Answers] | Answers) -> Evidence:
    """Evidence of these sides; a side is its arms, or its answers with nothing blocked."""
    arms = {
        side: {"clean": some} if isinstance(some, Answers) else some for side, some in sides.items()
    }
    return Evidence(answers=arms)
