"""How long a large catalogue takes to resolve, and how much memory: a dry run, nothing is computed.

    python benchmarks/dag.py [--models 100] [--datasets 50] [--readouts 6] [--shards 1]

A catalogue of made-up hub models and datasets, in figures of up to 10 models and 10 datasets, all
of them targets; every read-out is drawn beside each figure. Time and peak memory are those of
`snakemake -n`, the whole of it: start, config, DAG, list of jobs. Nothing is downloaded, and
nothing is written but in a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml

from anchorscope.settings import Readout

PROJECT = Path(__file__).resolve().parents[1]
PANEL = 10
"""Most models, and most datasets, of a figure."""
FIELDS = {"question": "question", "answers": ["answers"]}


@dataclass(frozen=True)
class Resolved:
    """What a dry run took.

    Attributes:
        jobs: rule → count, `total` among them.
        seconds: wall time.
        cpu_seconds: processor time, which a busy machine hardly changes.
        peak_mb: largest resident memory.
    """

    jobs: dict[str, int]
    seconds: float
    cpu_seconds: float
    peak_mb: float


def catalogue(models: int, datasets: int, readouts: int, shards: int = 1) -> dict[str, Any]:
    """A config of made-up entries, every model measured on every dataset."""
    measured = list(get_args(Readout))[:readouts]
    resources = {"gpus": 1, "shards": shards} if shards > 1 else {"gpus": 1}
    names = [f"model-{n:03d}" for n in range(models)]
    sets = [f"dataset-{n:03d}" for n in range(datasets)]
    figures = {
        f"figure-{first // PANEL}-{start // PANEL}": {
            "models": names[first : first + PANEL],
            "datasets": sets[start : start + PANEL],
            "readout": measured[0],
        }
        for first in range(0, models, PANEL)
        for start in range(0, datasets, PANEL)
    }
    return {
        "targets": list(figures),
        "readouts": measured,
        "models": {name: {"hub": f"nobody/{name}", "resources": resources} for name in names},
        "datasets": {
            name: {"hub": f"nobody/{name}", "split": "test", "fields": FIELDS} for name in sets
        },
        "figures": figures,
    }


def resolve(config: dict[str, Any], *arguments: str) -> Resolved:
    """Resolve the DAG of a config in a dry run, in an empty folder.

    Raises:
        RuntimeError: snakemake fails; with what it said.
    """
    with tempfile.TemporaryDirectory() as folder:
        # `--configfile` adds to the config.yaml of the working folder: here to nothing.
        (Path(folder) / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        command = [sys.executable, "-m", "snakemake", "-n", "--quiet", "rules", "--nocolor"]
        command += ["--cores", "2", "--snakefile", str(PROJECT / "Snakefile"), *arguments]
        said, start = Path(folder) / "said", time.perf_counter()
        with said.open("wb") as out:
            process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT)
            _, status, used = os.wait4(process.pid, 0)
        seconds, text = time.perf_counter() - start, said.read_text(encoding="utf-8")
    if status:
        raise RuntimeError(text[-4000:])
    cpu = used.ru_utime + used.ru_stime
    return Resolved(_counted(text), seconds, cpu, used.ru_maxrss / 1024)


def _counted(said: str) -> dict[str, int]:
    """The table of jobs that a dry run prints."""
    table = re.search(r"^Job stats:\n.*\n[- ]+\n((?:\S+ +\d+\n)+)", said, re.MULTILINE)
    if table is None:
        raise RuntimeError(said[-4000:])
    return {name: int(count) for name, count in re.findall(r"^(\S+) +(\d+)$", table[1], re.M)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("models", 100), ("datasets", 50), ("readouts", 6), ("shards", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = parser.parse_args(arguments)
    sizes = (chosen.models, chosen.datasets, chosen.readouts, chosen.shards)
    found = resolve(catalogue(*sizes))
    print(f"{chosen.models} models × {chosen.datasets} datasets × {chosen.readouts} read-outs")
    print(", ".join(f"{name} {count:,}" for name, count in found.jobs.items()))
    times = f"{found.seconds:.1f} s ({found.cpu_seconds:.1f} s of processor time)"
    print(f"{times}, {found.peak_mb:,.0f} MB")


if __name__ == "__main__":
    main()
