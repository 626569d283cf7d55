"""How often the bands of a simulated cell hold what the procedure finds on average.

The truth is the mean, over fresh samples of one size, of what the tool itself reports: probes,
their penalties and calibration are learned anew from each sample. A sample has two wordings a
subject, and two pathways: one half's truth stands in one direction of the features, which the
knockout takes away, the other half's in another, which it leaves.

    python benchmarks/band_coverage.py [--worlds 400] [--samples 300 1000] [--jobs 2]
"""

import argparse
import logging
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from anchorscope.experiments.analysis import table
from anchorscope.experiments.knockout import curve
from anchorscope.probes import fitting, scores
from anchorscope.probes.fitting import Settings

WIDTH, STRENGTH, SHARED = 16, 1.2, 0.4
MOVED = 0.1
"""What any cut moves a feature by, in standard deviations."""
PLACEMENTS = 3
CONDITIONS = [("knockout", 0), *(("random", draw) for draw in range(PLACEMENTS))]
CURVE = {"ΔP of Q": ("Q", "delta_p", "ci"), "ΔP of all": ("all", "delta_p", "ci")}
CURVE |= {"share of flips": ("all", "flip_share", "flip")}
CONTRASTS = {"knockout − random, share": "share", "knockout − random, ΔP": "delta_p"}


def world(n: int, seed: int) -> tuple[pd.DataFrame, dict[tuple[str, int], torch.Tensor]]:
    """Answers, and features [1, n, width] by condition; clean AUC .86 at n = 300."""
    random = np.random.default_rng(seed)
    z, asked = (random.random(n) < 0.45).astype(int), random.random(n) < 0.5
    shared = np.repeat(random.normal(size=(n // 2, WIDTH)), 2, axis=0)
    clean = np.sqrt(SHARED) * shared + np.sqrt(1 - SHARED) * random.normal(size=(n, WIDTH))
    told = STRENGTH * (2 * z - 1)
    clean[:, 0] += told * asked
    clean[:, 1] += told * ~asked
    found = {("clean", 0): clean}
    for condition in CONDITIONS:
        found[condition] = clean + MOVED * random.normal(size=clean.shape)
    found["knockout", 0][:, 0] -= told * asked
    number = np.arange(n)
    answers = pd.DataFrame(
        {
            "id": [f"i{i:05}" for i in number],
            "question": [f"q{i}" for i in number],
            "subject": [f"s{i // 2}" for i in number],
            "label": z,
            "random_complete": True,
        }
    )
    return answers, {name: torch.as_tensor(x[None]).float() for name, x in found.items()}


def intervals(
    n: int, seed: int, probe: dict[str, Any], times: int = 1000, level: float = 0.95
) -> pd.DataFrame:
    """Estimates and intervals of one world, `probes` fixed and refitted.

    Args:
        n: samples.
        seed: of the world.
        probe: settings of the probes.
        times: bootstrap draws.
        level: of the intervals.
    """
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    answers, features = world(n, seed)
    ids = answers["id"].tolist()
    settings = Settings(**probe)
    drawn = scores.drawn(answers, fitting.design(answers, settings))
    scored = scores.score(
        lambda condition, draw: (ids, features[condition, draw]),
        *(answers, "mlp/final", CONDITIONS, settings),
        extras=False,
        draws=drawn,
    )
    records = []
    for name, refits in (("fixed", None), ("refitted", drawn)):
        given: dict[str, Any] = {"refits": refits, "draws": times, "level": level, "seed": seed}
        found = table(curve.curve, scored[scored["condition"] != "random"], answers, **given)
        rows = found[found["grouping"] == "per_layer"].set_index("anchor")
        for quantity, (anchor, column, ends) in CURVE.items():
            row = rows.loc[anchor]
            values = (row[column], row[f"{ends}_low"], row[f"{ends}_high"])
            records.append((quantity, name, *values, row["probe_auc"]))
        contrasts = table(curve.contrasts, scored, answers, **given)
        contrasts = contrasts[contrasts["contrast"] == "knockout-random"].set_index("quantity")
        for quantity, column in CONTRASTS.items():
            row = contrasts.loc[column]
            found = (row["estimate"], row["ci_low"], row["ci_high"])
            records.append((quantity, name, *found, rows["probe_auc"].iloc[0]))
    columns = ["quantity", "probes", "estimate", "low", "high", "auc"]
    return pd.DataFrame(records, columns=columns).assign(seed=seed)


def coverage(found: pd.DataFrame) -> pd.DataFrame:
    """Share of worlds whose interval holds the mean estimate of all; a row for each quantity.

    Args:
        found: the rows of `intervals`, of all worlds.
    """
    truth = found.groupby("quantity")["estimate"].transform("mean")
    held = (found["low"] <= truth) & (truth <= found["high"])
    shares = held.groupby([found["quantity"], found["probes"]], sort=False).mean().unstack()
    return shares.assign(truth=truth.groupby(found["quantity"]).first())


def simulate(n: int, worlds: int, jobs: int = 1, times: int = 1000, **probe: Any) -> pd.DataFrame:
    """The rows of `intervals` for many worlds.

    Args:
        n: samples of each.
        worlds: how many.
        jobs: processes.
        times: bootstrap draws.
        probe: settings of the probes.
    """
    work = partial(intervals, n, probe=probe, times=times)
    if jobs == 1:
        return pd.concat(map(work, range(worlds)), ignore_index=True)
    with ProcessPoolExecutor(jobs) as pool:
        return pd.concat(pool.map(work, range(worlds), chunksize=10), ignore_index=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=400)
    parser.add_argument("--samples", type=int, nargs="+", default=[300, 1000])
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args(arguments)
    for n in chosen.samples:
        found = simulate(n, chosen.worlds, chosen.jobs)
        print(f"n = {n}, {chosen.worlds} worlds, mean AUC {found['auc'].mean():.3f}")
        print(coverage(found).round(3).to_string(), flush=True)


if __name__ == "__main__":
    main()
