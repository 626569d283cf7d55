"""How time and memory grow with layers, samples and the shared prefix: passes, and probes.

Each line varies one size of a small model and keeps the others. The exponent is the slope of
log(time) over log(size) by least squares, with its standard error; where a prefix of 0 is among the
sizes, the change of time is given instead.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import page
import pandas as pd
import timing
import torch
import workloads

from anchorscope import activations, probes

BASE = workloads.Workload(
    "scaling", sequences=500, samples=1_000, shape=workloads.Shape(8, 128, 352, 4, 1_000)
)
LAYERS = (4, 8, 16, 32, 64)
SAMPLES = (250, 500, 1_000, 2_000, 4_000, 8_000)
PREFIXES = (0, 100, 200, 400)
QUICK: dict[str, Sequence[int]] = {"layers": (2, 4), "samples": (20, 40), "prefix": (0, 20)}
REPEATS = 3


def main(out: Path, *, quick: bool = False, kind: str = "wall") -> str:
    """Run all lines, write `scaling.csv`, and say what was found as Markdown."""
    sizes = QUICK if quick else {"layers": LAYERS, "samples": SAMPLES, "prefix": PREFIXES}
    base = replace(BASE, sequences=20, samples=100) if quick else BASE
    rows = [
        _point(stage, varied, size, base, kind)
        for varied, of in sizes.items()
        for stage in ("measure", "fit")
        if (stage, varied) != ("fit", "prefix")
        for size in of
    ]
    table = pd.DataFrame(rows)
    out.mkdir(parents=True, exist_ok=True)
    table.to_csv(out / "scaling.csv", index=False)
    found = said(table)
    print(found)
    return found


def _point(
    stage: str, varied: str, size: int, base: workloads.Workload, kind: str
) -> dict[str, Any]:
    """The fastest of some repeats, and the peak of memory."""
    work = _of(base, varied, size)
    run = _measuring(work) if stage == "measure" else _fitting(work)
    taken = [timing.timed(run, kind)[1] for _ in range(REPEATS)]
    return {
        "stage": stage,
        "varied": varied,
        "size": size,
        "seconds": min(one.seconds for one in taken),
        "peak_mb": max(one.peak_mb for one in taken),
    }


def _of(base: workloads.Workload, varied: str, size: int) -> workloads.Workload:
    if varied == "layers":
        return replace(base, shape=replace(base.shape, layers=size))
    if varied == "samples":
        return replace(base, sequences=size, samples=size)
    return replace(base, prefix=size)


def _measuring(work: workloads.Workload) -> Callable[[], None]:
    """The passes of a cell, written to disk as in a run."""
    loaded, table = workloads.llama(work.shape), workloads.answers(work)
    plan = activations.plan(table, conditions={"knockout": {}}, batch_tokens=8192)

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            activations.write(folder, loaded, plan, [workloads.READOUT])

    return run


class Stored:
    """Features in a file, read layer by layer."""

    def __init__(self, path: Path, shape: tuple[int, int, int]) -> None:
        self.shape = shape
        self.rows = np.memmap(path, np.float32, "r", shape=shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, layers: slice) -> torch.Tensor:
        return torch.from_numpy(np.array(self.rows[layers]))


def _fitting(work: workloads.Workload) -> Callable[[], None]:
    """The probes of five folds, features read through a memory map."""
    folder = tempfile.TemporaryDirectory()
    x, z, fold = workloads.features(work)
    path = Path(folder.name) / "features"
    x.tofile(path)
    stored, labels = Stored(path, x.shape), torch.as_tensor(z)
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


def said(table: pd.DataFrame) -> str:
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
    return page.table(head, lines)
