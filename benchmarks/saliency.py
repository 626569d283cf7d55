"""What saliency costs beside the knockout's passes, side by side in one process.

    python benchmarks/saliency.py --threads 1 --clock cpu

On the bench's workload `plain`: attention weights and gradients of all layers and heads, in
float32. Every round times both, in turn forwards and backwards; the ratio is the median over the
rounds. Flows are checked not to depend on how samples are batched. Writes saliency.json.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import timing
import torch
import ways
import workloads
from workloads import READOUT, Workload

from anchorscope.experiments.saliency import SALIENCY, Saliency
from anchorscope.experiments.saliency.measure import measure
from anchorscope.experiments.scored import Cell
from anchorscope.probes.fitting import Fitted
from anchorscope.probes.probes import Probes
from anchorscope.probes.stored import Stored

FEW = 8
"""Sequences that are passed one by one, too."""
MOST = 12
"""Times the knockout's passes that saliency may take."""


def cell(work: Workload) -> Cell:
    """The workload with a random probe at every layer; the last is the headline layer."""
    loaded = workloads.llama(work.shape)
    loaded.model.set_attn_implementation("eager")
    answers = workloads.answers(work).assign(label=0)
    layers, n = work.shape.layers, len(answers)
    draws = np.random.default_rng(0)
    weights = torch.as_tensor(draws.normal(size=(layers, 1, work.shape.width)), dtype=torch.float32)
    one, nought = np.ones((layers, 1)), np.zeros((layers, 1))
    fitted = Fitted(
        Probes(weights, torch.zeros(layers, 1, dtype=torch.float64)), one, one, nought, nought, one
    )
    fold = np.zeros(n, dtype=np.int64)
    probes = Stored(answers["id"].to_numpy(dtype=object), fold, fold[None], {READOUT: fitted})
    return Cell(loaded, answers, probes, [READOUT], batch_tokens=ways.BATCH_TOKENS, draws=3)


def largest_difference(one: pd.DataFrame, other: pd.DataFrame) -> float:
    """Of two measurements' flows."""
    flows = []
    for rows in (one, other):
        exact = rows[rows["condition"] == SALIENCY.name].sort_values(["id", "layer"])
        flows.append(exact.filter(regex="answer|later|head_").to_numpy(dtype=np.float64))
    return float(np.abs(flows[0] - flows[1]).max())


def main(given: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    chosen = parser.parse_args(given)
    torch.set_num_threads(chosen.threads)
    work = workloads.workloads(chosen.quick)[0]
    measured = cell(work)
    plain = workloads.llama(work.shape)
    both = {
        "knockout": ways.measuring(work, plain, workloads.answers(work))["anchorscope"].run,
        "saliency": partial(measure, measured, Saliency()),
    }
    seconds: dict[str, list[float]] = {name: [] for name in both}
    peaks = dict.fromkeys(both, 0.0)
    rows = []
    for number in range(1 if chosen.quick else chosen.rounds):
        for name, run in timing.in_turn(both.items(), number):
            assert run is not None
            result, taken = timing.timed(run, chosen.clock)
            seconds[name].append(taken.seconds)
            peaks[name] = max(peaks[name], taken.peak_mb)
            if name == "saliency":
                rows.append(result)
            print(f"round {number + 1}: {name} {taken.seconds:.2f} s", file=sys.stderr, flush=True)
    some = measured.answers.head(FEW)
    alone = measure(replace(measured, answers=some, batch_tokens=1), Saliency())
    difference = largest_difference(rows[0][rows[0]["id"].isin(some["id"])], alone)
    if not difference < 1e-5:
        raise SystemExit(f"flows of one row at a time differ by {difference:.1e}")
    ratio = timing.ratio(seconds["saliency"], seconds["knockout"])
    notes = timing.notes(chosen.clock) | {
        "seconds": {name: statistics.median(each) for name, each in seconds.items()},
        "ratio": ratio,
        "most": MOST,
        "peak_mb": peaks,
        "largest_difference_to_one_row_at_a_time": difference,
    }
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "saliency.json").write_text(json.dumps(notes, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(notes, indent=1))


if __name__ == "__main__":
    main()
