"""How long a large catalogue takes to resolve, and how much memory: a dry run, nothing is computed.

    python benchmarks/dag.py [--models 100] [--datasets 50] [--readouts 6]

A catalogue of made-up hub models and datasets, in figures of up to 10 models and 10 datasets, all
of them targets; every read-out is drawn beside each figure. Time and peak memory are those of
`snakemake -n`, the whole of it: start, config, DAG, list of jobs. Nothing is downloaded, and
nothing is written but in a temporary folder.
"""

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
from typing import Any

import yaml

from anchorscope.config.readouts import READOUTS

PROJECT = Path(__file__).resolve().parents[1]
PANEL = 10
"""Most models, and most datasets, of a figure."""
FIELDS = {"question": "question", "answers": ["answers"]}


@dataclass(frozen=True)
class Resolved:
    """What a dry run took.

    Attributes:
        jobs: rule → count, `total` among them.
        seconds: wall time until the DAG was resolved, as its table of jobs shows.
        cpu_seconds: processor time until then, which a busy machine changes less.
        listed_seconds, listed_cpu_seconds: the same until all jobs were gone through.
        peak_mb: largest resident memory.
    """

    jobs: dict[str, int]
    seconds: float
    cpu_seconds: float
    listed_seconds: float
    listed_cpu_seconds: float
    peak_mb: float


def catalogue(models: int, datasets: int, readouts: int) -> dict[str, Any]:
    """A config of made-up entries, every model measured on every dataset."""
    measured = list(READOUTS[:readouts])
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
        "models": {name: {"hub": f"nobody/{name}", "resources": {"gpus": 1}} for name in names},
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
        start = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout
        said, seconds, cpu = "", 0.0, 0.0
        for line in process.stdout:
            if line.startswith("Job stats:") and not seconds:
                seconds, cpu = time.perf_counter() - start, _cpu_seconds(process.pid)
            said += line
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if status or not seconds:
        raise RuntimeError(said[-4000:])
    whole = used.ru_utime + used.ru_stime
    listed = time.perf_counter() - start
    return Resolved(_counted(said), seconds, cpu, listed, whole, used.ru_maxrss / 1024)


def _cpu_seconds(pid: int) -> float:
    """Processor time that a process has had, in user and system mode."""
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def _counted(said: str) -> dict[str, int]:
    """The table of jobs that a dry run prints."""
    table = re.search(r"^Job stats:\n.*\n[- ]+\n((?:\S+ +\d+\n)+)", said, re.MULTILINE)
    if table is None:
        raise RuntimeError(said[-4000:])
    return {name: int(count) for name, count in re.findall(r"^(\S+) +(\d+)$", table[1], re.M)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("models", 100), ("datasets", 50), ("readouts", 6)):
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = parser.parse_args(arguments)
    sizes = (chosen.models, chosen.datasets, chosen.readouts)
    found = resolve(catalogue(*sizes))
    print(f"{chosen.models} models × {chosen.datasets} datasets × {chosen.readouts} read-outs")
    print(", ".join(f"{name} {count:,}" for name, count in found.jobs.items()))
    for what, wall, cpu in (
        ("DAG resolved", found.seconds, found.cpu_seconds),
        ("dry run over", found.listed_seconds, found.listed_cpu_seconds),
    ):
        print(f"{what} after {wall:.1f} s ({cpu:.1f} s of processor time)")
    print(f"peak memory {found.peak_mb:,.0f} MB")


if __name__ == "__main__":
    main()
