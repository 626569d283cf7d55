"""Measure how much selection alone separates ΔP of the Q- and A-Anchored groups, in a null.

    python -m validation.simulations.selection [--samples 40000]

In the null, Δlogit is noise with the same distribution for all samples. Column `Q` is ΔP of samples
that flip, `A` of those that do not, in percentage points. Without selection, Q − A would be 0.
"""

import argparse
from itertools import product

import numpy as np
import pandas as pd

from anchorscope.curve import curve
from anchorscope.statistics.analysis import cell_table
from anchorscope.statistics.scores import Scores

PROBES = {"weak": (0.4, 0.94), "fair": (0.8, 1.11), "good": (1.5, 1.36), "sure": (4.6, 1.66)}
"""Mean and standard deviation of the score towards the true label, in logits.

The AUC is about .73, .85, .94 and 1. `sure` is like the probes of the calibration models
(median |s| 4.6). There, blocking random tokens moves scores by 0.5 to 0.9: `slight` noise.
"""
NOISES = {"slight": 0.9, "strong": 1.85}
"""Standard deviation of Δlogit."""


def simulate(probe: str, noise: str, n: int, seed: int) -> tuple[Scores, pd.DataFrame]:
    """Draw scores, clean and under the knockout, and answers."""
    random = np.random.default_rng(seed)
    evidence, spread = PROBES[probe]
    z = np.arange(n) % 2
    clean = (2 * z - 1) * evidence + random.normal(size=n) * spread
    moved = clean + random.normal(size=n) * NOISES[noise]
    ids, readout = [f"{i:07}" for i in range(n)], "mlp/final"
    no_refits, one_fold = np.zeros((0, n), dtype=np.int64), np.zeros(n, dtype=np.int64)
    scores = Scores(np.array(ids, dtype=object), z, one_fold, np.ones(n), no_refits)
    scores.inner_auc[readout] = np.ones((1, 1))
    for name, s in (("clean", clean), ("knockout", moved)):
        scores.add(readout, (name, 0), np.arange(n), s[None, None])
    return scores, pd.DataFrame({"id": ids, "question": ids, "label": z})


def selection(probe: str, noise: str, n: int, seed: int = 0) -> dict[str, float]:
    """Return the share of flips, the probe's AUC, and ΔP of Q, A and their difference."""
    points = cell_table(curve.curve, *simulate(probe, noise, n, seed), draws=2).set_index("anchor")
    q, a = points.loc[["Q", "A"], "delta_p"]
    return {**points.loc["Q", ["share", "probe_auc"]], "Q": q, "A": a, "Q - A": q - a}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--samples", type=int, default=40_000)
    n = parser.parse_args().samples
    worlds = product(PROBES, NOISES)
    found = {f"{probe} probe, {noise} noise": selection(probe, noise, n) for probe, noise in worlds}
    print(pd.DataFrame(found).T.round(3).to_string())


if __name__ == "__main__":
    main()
