"""The four scores of a pair's two answers behind both questions, split into four terms.

Four of anything, [4, ...], come in the order s(q, y), s(q′, y), s(q, y′), s(q′, y′), where y is the
answer to q, and y′ the one to q′. They are sums and differences of the four terms.
"""

import numpy as np

MEAN, QUESTION, ANSWER, PAIR = (
    np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 4
)


def term(which: np.ndarray, four: np.ndarray) -> np.ndarray:
    """One of the terms, [...], of four scores [4, ...]."""
    return np.tensordot(which, four, 1)
