"""Time each stage beside other ways (implementations) that give the same results.

    python benchmarks/bench.py            # make bench
    python benchmarks/bench.py --quick    # seconds: tiny sizes, to see that all ways agree
    python benchmarks/bench.py --peers    # make bench-full: other projects, too
    python benchmarks/bench.py --device cuda   # passes at published shapes, on a GPU

Every round times each way once, in one process; every second round reverses their order. Nothing is
written unless all ways agree. A row of the table has two medians over the rounds: a way's seconds,
and their ratio to the plain way's seconds in the same round. A slow machine hardly changes the
ratio. The results are bench.csv and bench.json (the machine). `ways.py` describes the ways.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pandas as pd
import peers
import timing
import torch
import ways
import workloads

from anchorscope.storage.files import write_csv, write_json
from anchorscope.workflow import trials

WORKLOADS = (workloads.RANDOM, workloads.PUBLISHED, workloads.HIDDEN)
TOLERANCE = {"generate": 0.0, "measure": 1e-5, "fit": 1e-3}
"""Stage → largest allowed difference of two ways, relative to the largest state if that is > 1."""
Stages = Mapping[str, Mapping[str, timing.Way]]


class Disagreement(SystemExit):
    """Error: two ways give different results. Nothing is written."""


def differences(stage: str, found: Mapping[str, Any]) -> dict[str, float]:
    """Return the largest difference of each way from the plain one.

    Raises:
        Disagreement: A way that should agree does not.
    """
    expected = found[ways.PLAIN[stage]]
    result = {name: ways.largest_difference(states, expected) for name, states in found.items()}
    for name, difference in result.items():
        if not difference <= TOLERANCE[stage] * max(1.0, ways.largest_size(expected)):
            raise Disagreement(f"{stage}: {name} differs by {difference:.1e}")
    return result


def run(work: str, stages: Stages, rounds: int) -> list[dict[str, Any]]:
    """Time all ways of a workload, and return the rows of its table."""
    rows = []
    for stage, all_ways in stages.items():
        found = timing.compare(all_ways, ways.PLAIN[stage], rounds, partial(differences, stage))
        rows += [{"workload": work, "stage": stage} | row for row in found]
        print(f"{work}, {stage}: {rounds} rounds, all ways agree", file=sys.stderr, flush=True)
    return rows


def measured(chosen: argparse.Namespace) -> pd.DataFrame:
    """Return the table of all chosen workloads."""
    rows: list[dict[str, Any]] = []
    for work in _of_models(chosen):
        rows += run(work.name, ways.of(work), chosen.rounds)
        if chosen.peers:
            rows += _of_peers(work, rows, chosen)
    if workloads.HIDDEN in chosen.workloads:
        stages = {"fit": ways.fitting(samples=200 if chosen.quick else 2_000)}
        rows += run(workloads.HIDDEN, stages, chosen.rounds)
    return pd.DataFrame(rows)


def _of_models(chosen: argparse.Namespace) -> list[workloads.Workload]:
    """Return the chosen workloads that need passes of a model, unless that model is missing."""
    found = [workloads.of_random_weights(chosen.quick)]
    if published := workloads.published(chosen.quick):
        found.append(published)
    elif workloads.PUBLISHED in chosen.workloads:
        print(f"{workloads.PUBLISHED} is left out: run `make first-model` first", file=sys.stderr)
    return [work for work in found if work.name in chosen.workloads]


def _of_peers(
    work: workloads.Workload, rows: Sequence[Mapping[str, Any]], chosen: argparse.Namespace
) -> list[dict[str, Any]]:
    """Return the rows of other projects. `seconds` is `ratio` times the plain way's `seconds`."""
    loaded, table, _ = work.read()
    states = ways.one_pass(loaded, table)
    largest = max(1.0, ways.largest_size(states))
    folder = peers.write(work.name, loaded.model, table, states)
    cell = {"workload": work.name, "stage": "measure"}
    plain = next(row for row in rows if row.items() >= (cell | {"way": "one-pass"}).items())
    tolerance = TOLERANCE["measure"] * largest
    found = peers.measured(folder, tolerance, rounds=chosen.rounds, threads=chosen.threads)
    return [cell | one | {"seconds": one["ratio"] * plain["seconds"]} for one in found]


def main(given: Sequence[str] | None = None) -> None:
    """Run the command."""
    chosen = _arguments(given)
    torch.set_num_threads(chosen.threads)
    notes = {"machine": machine(chosen.device), "when": f"{datetime.now(UTC):%Y-%m-%d}"}
    if chosen.device != "cpu" or chosen.models:
        import gpu

        gpu.main(chosen.device, chosen.out, notes, quick=chosen.quick, models=chosen.models)
        return
    table = measured(chosen)
    write_csv(table, chosen.out / "bench.csv")
    write_json(notes | {"rounds": chosen.rounds}, chosen.out / "bench.json")
    print(notes["machine"])
    print(table.to_string(index=False, float_format="{:.3g}".format))


def machine(device: str) -> str:
    """Describe the processor or GPU, the cores, and the version of torch."""
    name = trials.processor() if device == "cpu" else torch.cuda.get_device_name(device)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, cores: {cores}, threads: {torch.get_num_threads()}, torch {torch.__version__}"


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    about = __doc__ or ""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round")
    parser.add_argument("--peers", action="store_true", help="time other projects, too")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", nargs="+", default=[], help="only these models of gpu.py")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=[*WORKLOADS])
    chosen = parser.parse_args(given)
    if chosen.quick:
        chosen.rounds = 1
    return chosen


if __name__ == "__main__":
    main()
