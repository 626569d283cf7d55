"""How many samples a cell needs for a signal: the tool's own rule on synthetic scores.

    python benchmarks/power.py [--tries 200]

Probe and four floors score n samples, normal within a class, with given AUCs: the hardest floor
(`text`) that of a column, `question` and `response` .04 and .08 below it, `answer` at .55. Within a
class the scores of `text` and the probe are correlated, and those of the floors with one another
(.7). Each world is judged by `strength.of_scores`. Printed: how often a signal is called, beside
what the formula of `anchorscope.probes.power` says, and the table of docs/validity.md.
"""

import argparse
from itertools import product

import numpy as np
import pandas as pd
from scipy.stats import norm

from anchorscope.probes import intervals, power, strength

FLOOR = 0.69
GAINS = (0.0, 0.04, 0.06, 0.10, 0.15)
SIZES = (100, 200, 300, 600, 1000, 2000)
WRONG = (0.5, 0.8)
BESIDE = {"question": -0.04, "response": -0.08, "answer": None}
ALIKE, FLOORS_ALIKE = 0.4, 0.7
"""Correlations within a class, of the probe's and the hardest floor's scores; among floors."""


def separation(auc: float) -> float:
    """The distance between the classes' means, in their standard deviations, of this AUC."""
    return float(np.sqrt(2) * norm.ppf(auc))


def world(
    n: int, wrong: float, gains: tuple[float, ...], seed: int, alike: float = ALIKE
) -> tuple[np.ndarray, pd.DataFrame, pd.DataFrame]:
    """Scores of a probe for each gain [gains, n], the answers, and the floors' table."""
    random = np.random.default_rng(seed)
    z = (np.arange(n) < round(wrong * n)).astype(int)
    text = random.normal(size=n)
    aucs = {"text": FLOOR}
    aucs |= {name: 0.55 if less is None else FLOOR + less for name, less in BESIDE.items()}
    ids = [f"{i:05}" for i in range(n)]
    frames = []
    for name, auc in aucs.items():
        noise = text if name == "text" else _beside(text, FLOORS_ALIKE, random)
        frames.append(pd.DataFrame({"id": ids, "floor": name, "s": separation(auc) * z + noise}))
    own = _beside(text, alike, random)
    scores = np.stack([separation(FLOOR + gain) * z + own for gain in gains])
    return scores, pd.DataFrame({"id": ids, "label": z}), pd.concat(frames, ignore_index=True)


def _beside(values: np.ndarray, alike: float, random: np.random.Generator) -> np.ndarray:
    """Normal values of this correlation with others."""
    return alike * values + np.sqrt(1 - alike**2) * random.normal(size=len(values))


def called(
    n: int, wrong: float, gains: tuple[float, ...], *, tries: int, draws: int = 400
) -> np.ndarray:
    """How often the rule calls a signal, by gain [gains]."""
    count = np.zeros(len(gains))
    for seed in range(tries):
        scores, answers, floors = world(n, wrong, gains, seed)
        drawn = intervals.bootstrap(np.arange(n), draws, seed)
        count += strength.of_scores(scores, "final", answers, floors, drawn, 0.95)["signal"]
    return count / tries


def correlation(n: int = 1000, tries: int = 300, gain: float = 0.06) -> float:
    """Of the AUCs of probe and hardest floor over worlds, which the formula takes as given."""
    pairs = []
    for seed in range(tries):
        scores, answers, floors = world(n, 0.5, (gain,), seed)
        z = answers["label"].to_numpy()
        text = floors.loc[floors["floor"] == "text", "s"].to_numpy()
        pairs.append((intervals.auc(scores[0], z), intervals.auc(text, z)))
    return float(np.corrcoef(np.array(pairs).T)[0, 1])


def table(tries: int) -> str:
    """Lines of docs/validity.md: share of wrong answers, n, and how often each gain is called."""
    lines = []
    for wrong, n in product(WRONG, SIZES):
        shares = called(n, wrong, GAINS, tries=tries)
        cells = [f"{wrong:.0%}".replace("%", " %"), f"{n:,}", *(f"{share:.2f}" for share in shares)]
        lines.append(" | ".join(cells))
        print(lines[-1], "formula:", *(f"{_formula(g, n, wrong):.2f}" for g in GAINS), flush=True)
    return "\n".join(lines)


def _formula(gain: float, n: int, wrong: float) -> float:
    return power.chance(gain, n, wrong, FLOOR)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tries", type=int, default=200)
    chosen = parser.parse_args()
    print(f"correlation of the AUCs: {correlation():.2f} (assumed: {power.ALIKE})")
    print(table(chosen.tries))


if __name__ == "__main__":
    main()
