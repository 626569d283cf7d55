"""Simulate a null to measure how much selection alone separates the two groups of ΔP.

    python -m validation.simulations.selection [--samples 40000]

In the null, Δlogit is noise of one size, independent of the sample. ΔP of the samples that flip (Q)
and of those that do not (A) is in percentage points. Without selection, Q − A would be 0.
"""

import argparse

import numpy as np
import pandas as pd

from anchorscope.experiments.analysis import table
from anchorscope.experiments.knockout import curve
from anchorscope.experiments.tables import rows_where

World = tuple[float, float, float]
"""Mean and standard deviation of the score towards the true label, and of Δlogit, in logits."""
PROBES = {"weak": (0.4, 0.94), "fair": (0.8, 1.11), "good": (1.5, 1.36), "sure": (4.6, 1.66)}
NOISES = {"slight": 0.9, "strong": 1.85}
WORLDS: dict[str, World] = {
    f"{probe} probe, {noise} noise": (*PROBES[probe], NOISES[noise])
    for probe in PROBES
    for noise in NOISES
}
"""Their probes have AUC of about .73, .85, .94 and 1. The `sure` ones score like the
calibration models (median |s| 4.6), which random tokens move by 0.5 to 0.9: slight noise."""


def simulate(world: World, n: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Draw scores, clean and under the knockout, and answers."""
    evidence, spread, noise = world
    random = np.random.default_rng(seed)
    z = np.arange(n) % 2
    clean = (2 * z - 1) * evidence + random.normal(size=n) * spread
    moved = clean + random.normal(size=n) * noise
    ids = [f"{i:07}" for i in range(n)]
    scores = pd.concat(
        pd.DataFrame({"id": ids, "layer": 0, "condition": name, "s": s})
        for name, s in (("clean", clean), ("knockout", moved))
    ).assign(readout="mlp/final", draw=0, probe="clean", fold=0)
    return scores, pd.DataFrame({"id": ids, "question": ids, "label": z})


def selection(world: World, n: int = 40_000, seed: int = 0) -> dict[str, float]:
    """Measure the share of flips, ΔP of `Q` and `A`, and `probe_auc`, by the code of curves."""
    points = table(curve.curve, *simulate(world, n, seed), draws=2)
    points = rows_where(points, grouping="per_layer").set_index("anchor")
    q, a = points.loc[["Q", "A"], "delta_p"]
    flips = points.loc["Q"]
    groups = {"share": flips["share"], "Q": q, "A": a, "Q - A": q - a}
    return {**groups, "probe_auc": flips["probe_auc"]}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--samples", type=int, default=40_000)
    n = parser.parse_args().samples
    found = {name: selection(world, n) for name, world in WORLDS.items()}
    print(pd.DataFrame(found).T.round(3).to_string())


if __name__ == "__main__":
    main()
