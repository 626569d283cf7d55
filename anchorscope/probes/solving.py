"""How many layers and probes are solved at once, and by how many threads."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import torch

from anchorscope.probes import matmul
from anchorscope.probes.lbfgs import MEMORY
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.room import ABREAST_BYTES

MOST_BYTES = 16 << 30
"""Most that a block of layers takes of a GPU: in a larger one more layers wait for the slowest."""
SHARE = 0.5
"""Of a GPU's memory: what a block is reckoned to take leaves the solver's workspaces out. Not of
what happens to be free: the size of a block shows in the last digits."""
STATE_BYTES = 32 << 20
"""What the problems that a thread of a CPU solves at once may take: more would not stay in its
cache, and memory would grow with the samples."""
ROWS_AT_ONCE = 1024
"""Rows whose statistics are taken at once."""

Result = TypeVar("Result")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sizes:
    """How many layers, and how many problems of theirs, are solved at once."""

    layers: int
    problems: int


def that_fit(
    shape: Sequence[int], problems: int, device: torch.device, budget_bytes: int | None
) -> Sizes:
    """What fits; `shape` is [layers, n, width].

    Half of a GPU's memory, at most `MOST_BYTES`. On a CPU each thread's share of the layers, of
    `ABREAST_BYTES`, and of problems what takes `STATE_BYTES`: a single layer at least.
    """
    layers, n, width = shape
    if device.type != "cpu":
        budget = _room(device) if budget_bytes is None else budget_bytes
        together = _layers_at_once(n, width, problems, budget)
        return Sizes(together, _problems_at_once(n, width, budget))
    threads = torch.get_num_threads()
    state = _problems_at_once(n, width, _within(budget_bytes, STATE_BYTES))
    room = _within(budget_bytes, ABREAST_BYTES)
    most = room // (threads * matmul.layer_bytes(shape, device))
    return Sizes(max(1, min(most, state // problems, math.ceil(layers / threads))), state)


def _within(budget_bytes: int | None, most: int) -> int:
    return most if budget_bytes is None else min(budget_bytes, most)


def _room(device: torch.device) -> int:
    """Bytes that a block may take."""
    if device.type != "cuda":
        return MOST_BYTES
    _, whole = torch.cuda.mem_get_info(device)
    return min(MOST_BYTES, int(SHARE * whole))


def smaller(layers: int, problems: int) -> Sizes:
    """Half of the layers that did not fit; of a single layer half of the problems.

    Raises:
        AnchorscopeError: it was one problem of one layer.
    """
    if layers == problems == 1:
        raise AnchorscopeError(
            "one probe of one layer does not fit by itself",
            "memory of the device",
            "free the GPU of other jobs, or set ANCHORSCOPE_CPU=1 and let the stage run on the CPU",
            see="out-of-memory",
        )
    log.warning("%d probes of %d layers do not fit in memory: halved", problems, layers)
    return Sizes(layers // 2, problems) if layers > 1 else Sizes(1, problems // 2)


def _layers_at_once(n: int, width: int, problems: int, budget_bytes: int) -> int:
    states = problems * _state_bytes(n, width)
    once = 4 * n * width + 8 * 4 * min(n, ROWS_AT_ONCE) * width  # one layer's, as it is read
    layer = 4 * (2 * n * width + width * min(n, width)) + states
    return max(1, (budget_bytes - once) // layer)


def _problems_at_once(n: int, width: int, budget_bytes: int) -> int:
    return max(1, budget_bytes // _state_bytes(n, width))


def _state_bytes(n: int, width: int) -> int:
    """What the solver keeps of one problem of one layer."""
    return 4 * (5 * n + (2 * MEMORY + 8) * (width + 1))


def workers(
    shape: Sequence[int], together: int, device: torch.device, budget_bytes: int | None
) -> int:
    """How many threads take blocks of `together` layers each of features `shape`.

    A thread that has a block of its own waits for no other after every small product. Where there
    are fewer blocks than threads, as many work on each.
    """
    if device.type != "cpu":
        return 1
    threads = torch.get_num_threads()
    room = _within(budget_bytes, ABREAST_BYTES)
    layer = matmul.layer_bytes(shape, device)
    most = min(math.ceil(shape[0] / together), room // (layer * together))
    return max((count for count in range(1, most + 1) if threads % count == 0), default=1)


def spans(layers: int, most: int, workers: int) -> list[range]:
    """The layers in spans of at most so many, as even as can be, as many for each worker."""
    count = min(layers, workers * math.ceil(layers / (workers * most)))
    ends = [layers * number // count for number in range(count + 1)]
    return [range(*span) for span in pairwise(ends)]


def abreast(
    work: Callable[[range], Result], spans: Sequence[range], workers: int
) -> Iterator[Result]:
    """`map` by so many threads, in order; by this one if it is one."""
    if workers == 1:
        yield from map(work, spans)
        return
    threads = torch.get_num_threads()
    share = threads // workers
    try:
        with ThreadPoolExecutor(workers, "probes", torch.set_num_threads, (share,)) as pool:
            yield from pool.map(work, spans)
    finally:
        torch.set_num_threads(threads)
