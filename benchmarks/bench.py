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
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pandas as pd
import peers
import timing
import torch
import ways
import workloads

WORKLOADS = (workloads.RANDOM, workloads.PUBLISHED, workloads.HIDDEN)
COLUMNS = ("workload", "stage", "way", "seconds", "ratio", "max_difference", "peak_mb", "rounds")
TOLERANCE = {"generate": 0.0, "measure": 1e-5, "fit": 1e-3}
"""Stage → largest allowed difference of two ways, relative to the largest state if that is > 1."""
Stages = Mapping[str, Mapping[str, ways.Way]]


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


def run(work: str, stages: Stages, rounds: int, kind: str) -> list[dict[str, Any]]:
    """Time all ways of a workload, and return the rows of its table."""
    rows = []
    for stage, all_ways in stages.items():
        seconds: dict[str, list[float]] = {name: [] for name in all_ways}
        most, peaks = dict.fromkeys(all_ways, 0.0), dict.fromkeys(all_ways, 0.0)
        for number in range(rounds):
            found = {}
            for name, way in timing.in_turn(all_ways.items(), number):
                found[name], taken = timing.timed(way.run, kind)
                seconds[name].append(taken.seconds * way.scale)
                peaks[name] = max(peaks[name], taken.peak_mb)
            for name, value in differences(stage, found).items():
                most[name] = max(most[name], value)
        rows += [
            {"workload": work, "stage": stage, "way": name, "rounds": rounds}
            | {"max_difference": most[name], "peak_mb": peaks[name]}
            | timing.medians(seconds[name], seconds[ways.PLAIN[stage]])
            for name in all_ways
        ]
        print(f"{work}, {stage}: {rounds} rounds, all ways agree", file=sys.stderr, flush=True)
    return rows


def measured(chosen: argparse.Namespace) -> pd.DataFrame:
    """Return the table, with the columns `COLUMNS`."""
    rows: list[dict[str, Any]] = []
    for work in _of_models(chosen):
        rows += run(work.name, ways.of(work), chosen.rounds, chosen.clock)
        if chosen.peers:
            rows += _of_peers(work, rows, chosen)
    if workloads.HIDDEN in chosen.workloads:
        stages = {"fit": ways.fitting(samples=200 if chosen.quick else 2_000)}
        rows += run(workloads.HIDDEN, stages, chosen.rounds, chosen.clock)
    table = pd.DataFrame(rows)[list(COLUMNS)]
    table["max_difference"] = [float(f"{value:.2g}") for value in table["max_difference"]]
    return table.round({"seconds": 4, "ratio": 4, "peak_mb": 1})


def _of_models(chosen: argparse.Namespace) -> list[workloads.Workload]:
    """Return the chosen workloads that need passes of a model, unless that model is missing."""
    found = [workloads.of_random_weights(chosen.quick)]
    if published := workloads.published(chosen.first_model, chosen.quick):
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
    options = {"rounds": chosen.rounds, "threads": chosen.threads, "clock": chosen.clock}
    found = peers.measured(folder, TOLERANCE["measure"] * largest, options)
    more = {"rounds": chosen.rounds}
    return [cell | more | one | {"seconds": one["ratio"] * plain["seconds"]} for one in found]


def results(found: pd.DataFrame, notes: Mapping[str, Any]) -> str:
    """Return a line about the machine, and one Markdown table per workload and stage."""
    parts = [f"{timing.measured(notes)}; medians, rounds: {notes['rounds']}."]
    for cell, rows in found.groupby(["workload", "stage"], sort=False):
        head = (f"{cell[0]}, {cell[1]}", "seconds", "ratio", "largest difference", "peak memory")
        parts.append(timing.table(head, map(_line, rows.to_dict("records"))))
    return "\n\n".join(parts)


def _line(row: Mapping[Any, Any]) -> list[str]:
    return [
        row["way"],
        f"{row['seconds']:.3g}",
        f"{row['ratio']:.2f}",
        f"{row['max_difference']:.0e}" if row["max_difference"] else "0",
        f"{row['peak_mb']:,.0f} MB",
    ]


def main(given: Sequence[str] | None = None) -> None:
    """Run the command."""
    chosen = _arguments(given)
    torch.set_num_threads(chosen.threads)
    if chosen.device != "cpu" or chosen.models:
        import gpu

        gpu.main(chosen.device, chosen.out, quick=chosen.quick, models=chosen.models)
        return
    table = measured(chosen)
    notes = timing.notes(chosen.clock) | {"rounds": chosen.rounds}
    chosen.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(chosen.out / "bench.csv", index=False)
    (chosen.out / "bench.json").write_text(json.dumps(notes, indent=1) + "\n", encoding="utf-8")
    print(results(table, notes))


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    about = __doc__ or ""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round")
    parser.add_argument("--peers", action="store_true", help="time other projects, too")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", nargs="+", default=[], help="only these models of gpu.py")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=[*WORKLOADS])
    parser.add_argument("--first-model", type=Path, default=Path("results/first-model"))
    chosen = parser.parse_args(given)
    if chosen.clock == "cpu" and chosen.threads > 1:
        parser.error("CPU times are comparable only with one thread: add --threads 1")
    if chosen.quick:
        chosen.rounds = 1
    return chosen


if __name__ == "__main__":
    main()
