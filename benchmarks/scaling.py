"""How time and memory grow with layers, samples and the shared prefix: passes, and probes.

Each line varies one size of a small model and keeps the others. The exponent is the slope of
log(time) over log(size) by least squares, with its standard error; where a prefix of 0 is among the
sizes, the change of time is given instead. Where samples are varied, probes are fitted to so many
layers that the features of 8,000 samples are several times the interpreter and its libraries: were
they held, the peak would show it. One layer of all samples is held, here 4 MB. Every time (the
fastest of some) and every peak is of a process of its own.
"""

import ctypes
import math
import multiprocessing
import operator
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import timing
import torch
import workloads

from anchorscope.passes import activations, planning
from anchorscope.probes import probes

BASE = workloads.Workload(
    "scaling", sequences=500, samples=1_000, shape=workloads.Shape(8, 128, 352, 4, 1_000)
)
FITTED = workloads.Shape(layers=256, width=128)
"""Layers and width that probes are fitted to where samples are varied: 1 GB at 8,000."""
LAYERS = (4, 8, 16, 32, 64)
SAMPLES = (250, 500, 1_000, 2_000, 4_000, 8_000)
PREFIXES = (0, 100, 200, 400)
QUICK: dict[str, Sequence[int]] = {"layers": (2, 4), "samples": (20, 40), "prefix": (0, 20)}
REPEATS = 3
M_MMAP_THRESHOLD = -3
MOST = 1.1
"""Largest exponent of time over layers and samples, and ratio of the peaks at `PEAKS` samples."""
PEAKS = (1_000, 8_000)


def main(out: Path, *, quick: bool = False, kind: str = "wall") -> str:
    """Run all lines, write `scaling.csv`, and say what was found as Markdown."""
    sizes = QUICK if quick else {"layers": LAYERS, "samples": SAMPLES, "prefix": PREFIXES}
    base = replace(BASE, sequences=20, samples=100) if quick else BASE
    ask = operator.call if quick else _alone
    rows = [
        {"stage": stage, "varied": varied, "size": size}
        | {"seconds": ask(_seconds, stage, varied, size, base, kind)}
        | {"peak_mb": ask(_peak_mb, stage, varied, size, base)}
        for varied, of in sizes.items()
        for stage in ("measure", "fit")
        if (stage, varied) != ("fit", "prefix")
        for size in of
    ]
    table = pd.DataFrame(rows)
    out.mkdir(parents=True, exist_ok=True)
    table.to_csv(out / "scaling.csv", index=False)
    head = timing.measured(timing.notes(kind))
    how = f"the fastest of {REPEATS}; every time and every peak from a process of its own."
    text = f"{head}, {how}\n\n{text_of(table)}"
    print(text)
    return text


def _alone(ask: Callable[..., float], *given: Any) -> float:
    """A number from a process of its own: none finds what those before left behind."""
    threads = torch.get_num_threads()
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, fresh, torch.set_num_threads, (threads,)) as pool:
        return pool.submit(ask, *given).result()


def _seconds(stage: str, varied: str, size: int, base: workloads.Workload, kind: str) -> float:
    """The fastest of some repeats."""
    run = _run(stage, varied, size, base)
    return min(timing.timed(run, kind)[1].seconds for _ in range(REPEATS))


def _peak_mb(stage: str, varied: str, size: int, base: workloads.Workload) -> float:
    """The peak where the allocator gives back what is freed, which it otherwise keeps for later."""
    run = _run(stage, varied, size, base)
    _mapped_from(1 << 16)
    return timing.timed(run, "wall")[1].peak_mb


def _run(stage: str, varied: str, size: int, base: workloads.Workload) -> Callable[[], None]:
    """What is timed: a stage at one size of what is varied."""
    work = _of(base, varied, size)
    if stage == "fit" and varied == "samples" and size >= SAMPLES[0]:
        work = replace(work, shape=FITTED)
    return _measuring(work) if stage == "measure" else _fitting(work)


def _mapped_from(size: int) -> None:
    """Let glibc map blocks from this size on by themselves, where there is a glibc."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").mallopt(M_MMAP_THRESHOLD, size)


def _of(base: workloads.Workload, varied: str, size: int) -> workloads.Workload:
    if varied == "layers":
        return replace(base, shape=replace(base.shape, layers=size))
    if varied == "samples":
        return replace(base, sequences=size, samples=size)
    return replace(base, prefix=size)


def _measuring(work: workloads.Workload) -> Callable[[], None]:
    """The passes of a cell, written to disk as in a run."""
    loaded, table = workloads.llama(work.shape), workloads.answers(work)
    plan = planning.plan(table, conditions={"knockout": {}}, batch_tokens=8192)

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            activations.write(folder, loaded, plan, [workloads.READOUT])

    return run


class Stored:
    """Features in a file, read layer by layer."""

    def __init__(self, path: Path, shape: tuple[int, int, int]) -> None:
        self.path, self.shape = path, shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, layers: slice) -> torch.Tensor:
        some, each = range(len(self))[layers], self.shape[1] * self.shape[2]
        # Not a memory map: the pages that it keeps would count as ours.
        rows = np.fromfile(self.path, np.float32, len(some) * each, offset=4 * some.start * each)
        return torch.from_numpy(rows.reshape(len(some), *self.shape[1:]))


def _fitting(work: workloads.Workload) -> Callable[[], None]:
    """The probes of five folds, features read layer by layer.

    They are drawn and written layer by layer: in memory as a whole they would be the peak.
    """
    folder = tempfile.TemporaryDirectory()
    shape = (work.shape.layers, work.samples, work.shape.width)
    path = Path(folder.name) / "features"
    one = replace(work, shape=replace(work.shape, layers=1))
    with path.open("wb") as file:
        for _ in range(shape[0]):
            x, z, fold = workloads.features(one)
            x.tofile(file)
            del x
    stored, labels = Stored(path, shape), torch.as_tensor(z)
    masks = torch.as_tensor(np.stack([fold != k for k in range(5)]))

    def run() -> None:
        assert Path(folder.name).exists()
        probes.fit(stored, labels, masks, torch.ones(5))

    return run


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """Slope of log seconds over log size, and its standard error (NaN of two points)."""
    x, y = np.log(np.asarray(sizes, float)), np.log(np.asarray(seconds, float))
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    if len(x) < 3:
        return slope, float("nan")
    rest = y - y.mean() - slope * x
    return slope, math.sqrt(float(rest @ rest) / (len(x) - 2) / float(x @ x))


def text_of(table: pd.DataFrame) -> str:
    """A line for each stage and size that was varied."""
    head = ("time and memory", "sizes", "seconds", "exponent", "peak memory")
    lines = []
    for (stage, varied), rows in table.groupby(["stage", "varied"], sort=False):
        if rows["size"].min() > 0:
            slope, error = exponent(rows["size"], rows["seconds"])
            grows = f"{slope:.2f} ± {error:.2f}"
        else:
            grows = f"{rows['seconds'].iloc[-1] / rows['seconds'].iloc[0]:.2f} times"
        lines.append(
            [
                f"{stage}, {varied}",
                f"{rows['size'].iloc[0]:,} to {rows['size'].iloc[-1]:,}",
                f"{rows['seconds'].iloc[0]:.2f} to {rows['seconds'].iloc[-1]:.2f}",
                grows,
                f"{rows['peak_mb'].iloc[0]:,.0f} to {rows['peak_mb'].iloc[-1]:,.0f} MB",
            ]
        )
    return f"{timing.table(head, lines)}\n\n{judged(table)}"


def judged(table: pd.DataFrame) -> str:
    """In words: does time grow linearly, and memory not with the samples?"""
    lines = []
    for (stage, varied), rows in table.groupby(["stage", "varied"], sort=False):
        if varied == "prefix":
            continue
        slope, error = exponent(rows["size"], rows["seconds"])
        grows = f"{slope:.2f} ± {error:.2f}"
        lines.append(f"- {stage}, {varied}: exponent {grows}, {_holds(slope)}.")
        if varied == "samples":
            lines.append(f"- {stage}: {_peaks(rows)}")
    return "\n".join(lines)


def _holds(found: float) -> str:
    return f"at most {MOST} holds" if found <= MOST else f"at most {MOST} does not hold"


def _peaks(rows: pd.DataFrame) -> str:
    """The ratio of peaks at the sizes asked for, or at the ends where they were not run."""
    by_size = rows.set_index("size")["peak_mb"]
    measured = set(PEAKS) <= set(by_size.index)
    few, many = PEAKS if measured else (by_size.index.min(), by_size.index.max())
    ratio = by_size[many] / by_size[few]
    return f"peak at {many:,} samples {ratio:.2f} × that at {few:,}, {_holds(ratio)}."
