"""How a way is timed: side by side with the others, with the peak of memory; and Markdown of it."""

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
    """What one call took; `peak_mb` is the whole process's, NaN where it cannot be told."""

    seconds: float
    peak_mb: float


def clock(kind: str) -> Callable[[], float]:
    """`wall`; or `cpu`, which other work on the machine hardly changes, for one thread only."""
    return time.process_time if kind == "cpu" else time.perf_counter


def timed(work: Callable[[], Found], kind: str) -> tuple[Found, Taken]:
    """Do it once."""
    now = clock(kind)
    _forget_peak()
    start = now()
    found = work()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return found, Taken(now() - start, peak_mb())


def _forget_peak() -> None:
    """Give freed memory back and start the kernel's peak anew, where that can be done."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> float:
    """Most memory since the last call of `timed`: of a GPU that is in use, else of the process."""
    if torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated() / 1e6
    with suppress(OSError, StopIteration):
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    return float("nan")


def in_turn(every: Iterable[Item], number: int) -> list[Item]:
    """Forwards in one round and backwards in the next: neighbours stay so, and take turns."""
    found = list(every)
    return found[::-1] if number % 2 else found


def medians(seconds: Sequence[float], plain: Sequence[float]) -> dict[str, float]:
    """A way's medians over rounds: of its seconds, and of its ratios to the plain way's."""
    ratios = [one / other for one, other in zip(seconds, plain, strict=True)]
    return {"seconds": statistics.median(seconds), "ratio": statistics.median(ratios)}


def machine() -> str:
    """The processor or GPU, cores, and versions that numbers depend on."""
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
    """What times of today are of: machine, clock and day."""
    return {
        "machine": machine(),
        "clock": "CPU time" if kind == "cpu" else "wall time",
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all but the first column are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def measured(notes: Mapping[str, Any]) -> str:
    """How a text on times begins; `notes` as `notes` gives them."""
    return f"Measured on {notes['when']}: {notes['machine']}; {notes['clock']}"
