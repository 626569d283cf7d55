"""Divide rows of tokens into calls of a model with little padding."""

from collections.abc import Iterable, Sequence
from itertools import pairwise, takewhile

WORTH_A_CALL = 40
"""One more call of the model costs as much as this many padding tokens on a CPU."""


def common(rows: Iterable[Sequence[int]]) -> int:
    """Return the length, in tokens, of the beginning that all rows share."""
    return sum(1 for _ in takewhile(lambda tokens: len({*tokens}) == 1, zip(*rows, strict=False)))


def split(widths: Sequence[int], price: float) -> list[slice]:
    """Split rows into runs of consecutive rows, one call each, at the least total cost.

    `widths` holds each row's number of tokens. A run is padded to its widest row. The run costs
    (number of rows) × (width of the widest row) + `price` tokens.
    """
    # best[end]: the least cost of passing the rows before `end`, and where their last run starts
    best: list[tuple[float, int]] = [(0, 0)]
    for end in range(1, len(widths) + 1):
        widest = 0
        candidates = []
        for start in reversed(range(end)):
            widest = max(widest, widths[start])
            candidates.append((best[start][0] + widest * (end - start) + price, start))
        best.append(min(candidates))
    ends = [len(widths)]
    while ends[-1]:
        ends.append(best[ends[-1]][1])
    return [slice(start, end) for start, end in pairwise(reversed(ends))]


def grouped(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Group items by size. Return the indices of the items of each group.

    In a group, (number of items) × (largest size) is at most `most`. An item larger than `most` is
    a group by itself. Large items come first, so that what does not fit in memory fails at once.
    """
    groups: list[list[int]] = []
    for number in sorted(range(len(sizes)), key=lambda n: (-sizes[n], n)):
        if groups and (len(groups[-1]) + 1) * sizes[groups[-1][0]] <= most:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups
