"""Measure time and peak memory of calls, describe the machine, and format Markdown tables."""

import ctypes
import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import torch

Found = TypeVar("Found")
Item = TypeVar("Item")
STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Taken:
    """Time and peak memory of one call. `peak_mb` counts the whole process; NaN if unknown."""

    seconds: float
    peak_mb: float


def clock(kind: str) -> Callable[[], float]:
    """Return a clock: `wall`, or `cpu`, which other processes hardly affect (for one thread)."""
    return time.process_time if kind == "cpu" else time.perf_counter


def timed(work: Callable[[], Found], kind: str) -> tuple[Found, Taken]:
    """Call `work` once. Return its result, and its time (on the clock `kind`) and peak memory."""
    now = clock(kind)
    _forget_peak()
    start = now()
    found = work()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return found, Taken(now() - start, peak_mb())


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


def in_turn(every: Iterable[Item], number: int) -> list[Item]:
    """Return the items forwards in one round and backwards in the next."""
    found = list(every)
    return found[::-1] if number % 2 else found


def medians(seconds: Sequence[float], plain: Sequence[float]) -> dict[str, float]:
    """Return a way's medians over rounds: its seconds, and its ratios to the plain way."""
    ratios = [one / other for one, other in zip(seconds, plain, strict=True)]
    return {"seconds": statistics.median(seconds), "ratio": statistics.median(ratios)}


def machine() -> str:
    """Describe the processor or GPU, the cores, and the version of torch."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else _processor()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = f"{torch.get_num_threads()} thread" + "s" * (torch.get_num_threads() > 1)
    return f"{name}, {cores} cores, {threads}, torch {torch.__version__}"


def _processor() -> str:
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith("model name")).split(": ")[1]
    return platform.processor() or platform.machine()


def notes(kind: str) -> dict[str, str]:
    """Return machine, clock and day."""
    return {
        "machine": machine(),
        "clock": "CPU time" if kind == "cpu" else "wall time",
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. All columns but the first are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def measured(notes: Mapping[str, Any]) -> str:
    """Return a text from `notes` that says when and on what machine times were measured."""
    return f"Measured on {notes['when']}: {notes['machine']}; {notes['clock']}"
