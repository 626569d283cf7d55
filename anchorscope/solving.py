"""How many layers and probes are solved at once, and by how many threads."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch

from anchorscope import matmul
from anchorscope.errors import AnchorscopeError
from anchorscope.lbfgs import MEMORY
from anchorscope.room import ABREAST_BYTES

MOST_BYTES = 16 << 30
"""Most that a block of layers takes of a GPU: in a larger one more layers wait for the slowest."""
SHARE = 0.5
"""Of a GPU's memory: what a block is reckoned to take leaves the solver's workspaces out. Not of
what happens to be free: the size of a block shows in the last digits."""
LAYERS_BYTES = 24 << 20
"""Features that a thread of a CPU solves at once, or one layer where that is more: with more,
memory would grow with the samples; layers one by one leave threads waiting for the interpreter."""
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

    Half of a GPU's memory, at most `MOST_BYTES`. On a CPU as many layers as leave one block or more
    to each thread, `LAYERS_BYTES` of features and `STATE_BYTES` of what the problems take; of a
    single layer as many problems.
    """
    layers, n, width = shape
    budget = _room(device) if budget_bytes is None else budget_bytes
    if device.type != "cpu":
        return Sizes(
            _layers_at_once(n, width, problems, budget), _problems_at_once(n, width, budget)
        )
    state = _problems_at_once(n, width, min(budget, STATE_BYTES))
    features = matmul.layer_bytes(shape, device)
    most = max(1, min(min(budget, LAYERS_BYTES) // features, state // problems))
    threads = torch.get_num_threads()
    rounds = math.ceil(layers / (threads * most))
    return Sizes(math.ceil(layers / (threads * rounds)), state)


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
    doubles = 8 * 4 * min(n, ROWS_AT_ONCE) * width
    return max(1, budget_bytes // (4 * (2 * n * width + width * min(n, width)) + doubles + states))


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
    layers, n, width = shape
    threads = torch.get_num_threads()
    room = ABREAST_BYTES if budget_bytes is None else min(ABREAST_BYTES, budget_bytes)
    most = min(-(-layers // together), room // (4 * n * width * together))
    return max((count for count in range(1, most + 1) if threads % count == 0), default=1)


def abreast(work: Callable[[int], Result], starts: Sequence[int], workers: int) -> Iterator[Result]:
    """`map` by so many threads, in order; by this one if it is one."""
    if workers == 1:
        yield from map(work, starts)
        return
    threads = torch.get_num_threads()
    share = threads // workers
    try:
        with ThreadPoolExecutor(workers, "probes", torch.set_num_threads, (share,)) as pool:
            yield from pool.map(work, starts)
    finally:
        torch.set_num_threads(threads)
