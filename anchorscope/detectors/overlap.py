"""Which answers share a question or a subject, as folds compare them.

Texts are hashed, so that a saved detector can name what it was fitted to without holding it.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd

from anchorscope.questions import folds


def keys(answers: pd.DataFrame) -> frozenset[int]:
    """Hashes of the questions and the subjects of some answers."""
    return frozenset().union(*_of_rows(answers))


def shared(answers: pd.DataFrame, others: frozenset[int]) -> np.ndarray:
    """Which answers share their question or subject with others, bool [n].

    Args:
        others: what `keys` gave of them.
    """
    return np.array([not own.isdisjoint(others) for own in _of_rows(answers)], dtype=bool)


def _of_rows(answers: pd.DataFrame) -> list[frozenset[int]]:
    """The hashes of each answer."""
    rows = []
    for question, subject in zip(answers["question"], answers["subject"], strict=True):
        named = (("q", folds.key(question)), ("s", folds.key(subject)))
        rows.append(frozenset(_hash(f"{kind} {text}") for kind, text in named if text is not None))
    return rows


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)
