"""Four terms of the scores of a pair's two answers behind both questions.

Arrays [4, ...] are in the order s(q, y), s(q′, y), s(q, y′), s(q′, y′), where y is the answer to q
and y′ the answer to q′. The four scores are sums and differences of the four terms.
"""

import numpy as np

MEAN, QUESTION, ANSWER, PAIR = (
    np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 4
)


def term(which: np.ndarray, four: np.ndarray) -> np.ndarray:
    """Return one of the terms, [...], of four scores [4, ...]."""
    return np.tensordot(which, four, 1)
