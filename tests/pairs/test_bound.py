"""Pairs whose pair term is 0 by design once the exact question tokens are blocked."""

import numpy as np
from hypothesis import given, settings, strategies as st

from anchorscope.pairs.swapped import bound_by_design

Pair = tuple[tuple[int, int], tuple[int, int]]
"""Subject and frame of both questions."""
SUBJECTS, FRAMES = 6, 5
QUESTIONS = st.tuples(st.integers(0, SUBJECTS - 1), st.integers(0, FRAMES - 1))
PAIRS = st.lists(st.tuples(QUESTIONS, QUESTIONS), max_size=12)


def found(pairs: list[Pair]) -> tuple[list[bool], list[bool]]:
    """Which pairs share their frame, and which lie on a circle."""
    both = np.array(pairs, dtype=np.int64).reshape(-1, 2, 2)
    same, circle = bound_by_design(both[..., 0].T, both[..., 1].T)
    return same.tolist(), circle.tolist()


def reaches(start: int, end: int, edges: list[tuple[int, int]]) -> bool:
    """Whether one frame leads to another."""
    seen, new = {start}, [start]
    while new:
        here = new.pop()
        further = {there for a, there in edges if a == here} - seen
        seen |= further
        new += further
    return end in seen


@settings(max_examples=200, deadline=None)
@given(PAIRS)
def test_a_pair_is_found_exactly_where_its_frames_lead_back_to_where_they_started(
    pairs: list[Pair],
) -> None:
    same, mirrored = found(pairs)
    for pair, alike, on_circle in zip(pairs, same, mirrored, strict=True):
        one, other = sorted(pair, key=lambda question: question[0])
        subjects = (one[0], other[0])
        each = [sorted(two, key=lambda question: question[0]) for two in pairs]
        edges = [(a[1], b[1]) for a, b in each if (a[0], b[0]) == subjects]
        assert alike == (one[1] == other[1])
        assert on_circle == (not alike and reaches(other[1], one[1], edges))
