"""Measure the time and peak memory of calls. Needs only torch."""

import ctypes
import gc
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import truediv
from pathlib import Path
from typing import Any, TypeVar

import torch

Found = TypeVar("Found")
STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Way:
    """One way to do some work.

    Attributes:
        run: Does the work and returns its result.
        scale: Factor on the time of a way that does only a part of the work.
    """

    run: Callable[[], Any]
    scale: float = 1.0


@dataclass(frozen=True)
class Taken:
    """Time and peak memory of one call. `peak_mb` counts the whole process; NaN if unknown."""

    seconds: float
    peak_mb: float


def compare(
    ways: Mapping[str, Way],
    plain: str,
    rounds: int,
    differences: Callable[[Mapping[str, Any]], Mapping[str, float]],
) -> list[dict[str, Any]]:
    """Time each way once per round. Every second round reverses their order.

    Args:
        ways: Name → way.
        plain: Name of the way that the others are compared with.
        rounds: Number of rounds.
        differences: Takes the results of one round, and returns each way's largest difference from
            the expected result.

    Returns:
        One row per way: `way`, `seconds` and `ratio` (to the plain way's seconds in the same round;
        both are medians over the rounds), `max_difference`, `peak_mb` and `rounds`.
    """
    taken: dict[str, list[Taken]] = {name: [] for name in ways}
    differs: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        found = {}
        for name in reversed(ways) if number % 2 else ways:
            found[name], one = timed(ways[name].run)
            taken[name].append(one)
        for name, difference in differences(found).items():
            differs[name].append(difference)
    seconds = {name: [way.scale * one.seconds for one in taken[name]] for name, way in ways.items()}
    return [
        {
            "way": name,
            "seconds": statistics.median(seconds[name]),
            "ratio": statistics.median(map(truediv, seconds[name], seconds[plain])),
            "max_difference": float(torch.tensor(differs[name]).max()),  # NaN if any is NaN
            "peak_mb": max(one.peak_mb for one in taken[name]),
            "rounds": rounds,
        }
        for name in ways
    ]


def timed(work: Callable[[], Found]) -> tuple[Found, Taken]:
    """Call `work` once. Return its result, time and peak memory."""
    _forget_peak()
    start = time.perf_counter()
    found = work()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return found, Taken(time.perf_counter() - start, peak_mb())


def _forget_peak() -> None:
    """Give freed memory back and reset the kernel's peak, if possible."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> float:
    """Return the peak memory in MB (of the GPU if one is used) since the last `timed` began."""
    if torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated() / 1e6
    with suppress(OSError, StopIteration):
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    return float("nan")
