"""How fast each stage is beside other ways to the same numbers, side by side in one process.

    python benchmarks/bench.py            # make bench
    python benchmarks/bench.py --quick    # seconds: tiny sizes, to see that all ways agree
    python benchmarks/bench.py --peers    # make bench-full: other projects too, and how it scales
    python benchmarks/bench.py --device cuda   # the measured passes at real sizes, on a GPU

Checks first that all ways agree. Then every round times each way once, in turn forwards and
backwards. A row of the table has a way's median over the rounds, and that of its ratios to the way
`one-pass` of the same round, workload and stage: what slows the machine for a while slows both.
Writes bench.csv and bench.json (machine, load). Ways are described in `ways.py` and `baselines.py`.
"""

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pandas as pd
import timing
import torch
import ways
import workloads

WORKLOADS = ("plain", "prefix", workloads.PUBLISHED, "hidden")
COLUMNS = ("workload", "stage", "way", "seconds", "ratio", "max_difference", "peak_mb", "rounds")
TOLERANCE = {"generate": 0.0, "measure": 1e-5, "fit": 1e-3}
"""Largest difference of two ways; of states larger than 1, of that share of the largest."""
LOOSE = {"one-pass", "literal-1", "literal-32"}
"""Of the probes: scikit-learn at its default tolerance need not be right."""


class Disagreement(SystemExit):
    """Two ways do not give the same; nothing was timed or written."""


def differences(stage: str, found: Mapping[str, Any]) -> dict[str, float]:
    """Largest difference of each way from `one-pass`, of probes from the converged fit.

    Raises:
        Disagreement: a way that should agree does not.
    """
    expected = found["reference"] if stage == "fit" else found["one-pass"]
    result = {name: ways.largest_difference(states, expected) for name, states in found.items()}
    for name, difference in result.items():
        most = TOLERANCE[stage] * max(1.0, ways.largest_size(expected))
        if not difference <= most and not (stage == "fit" and name in LOOSE):
            raise Disagreement(f"{stage}: {name} differs by {difference:.1e}")
    return result


def run(
    work: workloads.Workload,
    stages: Mapping[str, Mapping[str, ways.Way]],
    rounds: int,
    kind: str,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Rows of a workload's table."""
    seconds: dict[tuple[str, str], list[float]] = {}
    peaks: dict[tuple[str, str], float] = {}
    differences_of: dict[tuple[str, str], float] = {}
    for number in range(rounds):
        for stage, all_ways in stages.items():
            found = {}
            for name, way in timing.in_turn(all_ways.items(), number):
                if way.run is None:
                    continue
                found[name], taken = timing.timed(way.run, kind)
                key = (stage, name)
                seconds.setdefault(key, []).append(taken.seconds * way.scale)
                peaks[key] = max(taken.peak_mb, peaks.get(key, 0.0))
                say(f"{work.name} {stage} {name} {seconds[key][-1]:.2f} s")
            # Compared in every round, before anything is printed or written.
            for name, value in differences(stage, found).items():
                differences_of[stage, name] = max(value, differences_of.get((stage, name), 0.0))
        say(f"{work.name}: round {number + 1} of {rounds}, all ways agree")
    return _rows(work, stages, seconds, peaks, differences_of)


def _rows(
    work: workloads.Workload,
    stages: Mapping[str, Mapping[str, ways.Way]],
    seconds: Mapping[tuple[str, str], Sequence[float]],
    peaks: Mapping[tuple[str, str], float],
    differences_of: Mapping[tuple[str, str], float],
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    whole: dict[str, list[list[float]]] = {}
    for stage, all_ways in stages.items():
        for name, way in all_ways.items():
            if name == "reference":
                continue
            key = (stage, way.same or name)
            if stage in ways.CELL:
                whole.setdefault(name, []).append(list(seconds[key]))
            rows.append(
                {"workload": work.name, "stage": stage, "way": name}
                | {"max_difference": differences_of[key], "peak_mb": peaks[key]}
                | timing.medians(seconds[key], seconds[stage, "one-pass"])
            )
    if len(set(stages) & set(ways.CELL)) < 2:  # not all of what a cell takes
        return rows
    sums = {name: [sum(one) for one in zip(*whole[name], strict=True)] for name in ways.REQUIRED}
    for name in ways.REQUIRED:
        of_cell = [row for row in rows if row["way"] == name and row["stage"] in ways.CELL]
        most = {
            "max_difference": max(
                row["max_difference"] for row in of_cell if row["stage"] != "fit"
            ),
            "peak_mb": max(row["peak_mb"] for row in of_cell),
        }
        rows.append(
            {"workload": work.name, "stage": "end to end", "way": name}
            | most
            | timing.medians(sums[name], sums["one-pass"])
        )
    return rows


def table_of(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows as they are written, in the columns `COLUMNS`."""
    table = pd.DataFrame(list(rows))[list(COLUMNS)]
    digits = {"seconds": 4, "ratio": 4, "peak_mb": 1}
    table["max_difference"] = [float(f"{value:.2g}") for value in table["max_difference"]]
    return table.round(digits)


def results(found: pd.DataFrame, notes: Mapping[str, Any]) -> str:
    """One Markdown table a workload and stage; the machine first."""
    parts = [
        f"{timing.measured(notes)}, median of "
        f"{notes['rounds']} round{'s' * (notes['rounds'] > 1)}; work waiting for a core "
        f"(load) {notes['load']}."
    ]
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


def check(work: Sequence[workloads.Workload], say: Callable[[str], None]) -> None:
    """See that all ways agree, on a few sequences of each workload.

    Raises:
        Disagreement: they do not.
    """
    small: dict[str, Any] = {
        "sequences": 8, "timed": 2, "new_tokens": 4, "samples": 150, "shape": workloads.TINY,
    }  # fmt: skip
    for one in work:
        if one.checkpoint:  # its ways are compared as they are timed
            continue
        tiny = workloads.replace(one, **small)
        for stage, all_ways in ways.of(tiny).items():
            differences(stage, {name: way.run() for name, way in all_ways.items() if way.run})
    say("all ways agree on small sizes")


def main(given: Sequence[str] | None = None) -> None:
    """The command."""
    chosen = _arguments(given)
    torch.set_num_threads(chosen.threads)
    if chosen.device != "cpu":
        import gpu

        gpu.main(chosen.device, chosen.out, quick=chosen.quick, compiled=chosen.compile)
        return
    started = time.perf_counter()

    def say(text: str) -> None:
        if chosen.verbose:
            print(f"{time.perf_counter() - started:6.0f} s  {text}", file=sys.stderr, flush=True)

    table, notes = _measured(chosen, say)
    chosen.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(chosen.out / "bench.csv", index=False)
    (chosen.out / "bench.json").write_text(json.dumps(notes, indent=1) + "\n", encoding="utf-8")
    print(results(table, notes))
    if chosen.peers:
        import scaling

        scaling.main(chosen.out, quick=chosen.quick, kind=chosen.clock)


def _measured(
    chosen: argparse.Namespace, say: Callable[[str], None]
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table, and what it was measured on."""
    load, kind = [timing.load()], chosen.clock
    todo = [one for one in workloads.workloads(chosen.quick) if one.name in chosen.workloads]
    if published := _published(chosen, say):
        todo.append(published)
    if not chosen.quick:
        check(todo, say)
    rows: list[dict[str, Any]] = []
    for work in todo:
        if stages := ways.of(work, chosen.stages):
            rows += run(work, stages, chosen.rounds, kind, say)
        gc.collect()
        load.append(timing.load())
    if "hidden" in chosen.workloads:
        real = workloads.Workload("hidden", samples=200 if chosen.quick else 2_000)
        of = {"fit": ways.fitting(*workloads.hidden_states(real.samples))}
        rows += run(real, of, chosen.rounds, kind, say)
    if chosen.peers:
        import peers

        rows = peers.added(rows, todo, chosen, say)
    notes = timing.notes(kind) | {
        "load": f"{min(load):.1f} to {max(load):.1f}",
        "rounds": chosen.rounds,
    }
    return table_of(rows), notes


def _published(chosen: argparse.Namespace, say: Callable[[str], None]) -> workloads.Workload | None:
    """The workload of a published checkpoint, if it is wanted and there."""
    if workloads.PUBLISHED not in chosen.workloads:
        return None
    found = workloads.published(chosen.first_model, chosen.quick)
    if found is None:
        say(f"{workloads.PUBLISHED} is left out: run `make first-model` first")
    return found


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    about = __doc__ or ""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round")
    parser.add_argument("--peers", action="store_true", help="other projects, and the scaling run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true", help="on a GPU: torch.compile, too")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    parser.add_argument("--workloads", nargs="+", default=[*WORKLOADS])
    parser.add_argument("--first-model", type=Path, default=Path("results/first-model"))
    parser.add_argument("--stages", nargs="+", default=[*ways.STAGES])
    parser.add_argument("--verbose", action="store_true", help="say each time as it is taken")
    chosen = parser.parse_args(given)
    if chosen.clock == "cpu" and chosen.threads > 1:
        parser.error("CPU time compares on one thread only: add --threads 1")
    if chosen.compile and chosen.device == "cpu":
        parser.error("--compile is measured on a GPU: add --device cuda")
    if chosen.quick:
        chosen.rounds = 1
    return chosen


if __name__ == "__main__":
    main()
