"""How often the intervals of the pair terms hold what the procedure finds on average, simulated.

The truth is the mean, over fresh samples of one size, of what the tool itself reports: probes,
their penalties and calibration are learned anew from each sample. A sample has two wordings a
subject. What a row's features hold is a question's part, an answer's part, a part of this answer
behind this question that means nothing, and in one direction each what the label follows: how hard
the question is, how likely the answer, whether it is true here, and whether it is the model's own.

    python benchmarks/crossing_coverage.py [--worlds 400] [--samples 300 1000] [--jobs 2]
"""

import argparse
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pandas as pd
import torch

from anchorscope.experiments.crossing import table
from anchorscope.experiments.crossing.split import split
from anchorscope.experiments.crossing.table import Pairs
from anchorscope.probes import fitting, intervals, scores
from anchorscope.probes.fitting import Settings

WIDTH = 16
STRENGTHS = {"question": 0.6, "answer": 0.6, "truth": 1.0, "own": 0.5}
"""Direction → size of what it holds, beside noise of variance 1."""
ADDITIVE = {"question": 1.0, "answer": 1.0, "truth": 0.0, "own": 0.0}
"""Nothing belongs to the pair."""
SHARED = {"question": 0.3, "answer": 0.3}
"""What part of the noise belongs to the question alone, or to the answer alone."""


def world(
    n: int, seed: int, strengths: Mapping[str, float] = STRENGTHS
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, np.ndarray]:
    """Answers, the place of each sample's partner [n], and features [1, n, width].

    These are of each answer behind its own question, then behind its partner's. Two wordings of a
    subject have partners of one other subject; half of all answers are right.
    """
    random = np.random.default_rng(seed)
    places = np.arange(n).reshape(-1, 4)  # two subjects of one label, each in two wordings
    partner = places[:, [2, 3, 0, 1]].ravel()
    z = np.repeat(random.permutation(len(places)) % 2, 4)
    subject = np.arange(n) // 2
    part = {
        name: np.sqrt(size) * np.repeat(random.normal(size=(n // 2, WIDTH)), 2, axis=0)
        for name, size in SHARED.items()
    }
    sign = 2 * z - 1
    part["question"][:, 0] += strengths["question"] * sign
    part["answer"][:, 1] += strengths["answer"] * sign
    left = np.sqrt(1 - sum(SHARED.values()))

    def rows(question: np.ndarray, wrong: np.ndarray, own: int) -> np.ndarray:
        x = part["question"][question] + part["answer"] + left * random.normal(size=(n, WIDTH))
        x[:, 2] += strengths["truth"] * wrong
        x[:, 3] -= strengths["own"] * own
        return x[None]

    clean, crossed = rows(np.arange(n), sign, 1), rows(partner, np.ones(n), -1)
    columns = {"id": [f"i{i:05}" for i in range(n)], "question": [f"q{i}" for i in range(n)]}
    answers = pd.DataFrame(columns | {"subject": [f"s{i}" for i in subject], "label": z})
    return answers, partner, clean, crossed


def claims(
    n: int,
    seed: int,
    probe: Settings,
    strengths: Mapping[str, float] = STRENGTHS,
    draws: int = 1000,
    shuffle: bool = False,
) -> pd.DataFrame:
    """Estimates and intervals of one world, with `probes` held fixed and refitted.

    Two subjects in a pair share a fold. `shuffle` learns from labels that mean nothing.
    """
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    answers, partner, clean, crossed = world(n, seed, strengths)
    z = answers["label"].to_numpy()
    shown = np.random.default_rng(seed).permutation(z[::4]).repeat(4) if shuffle else z
    pair = (np.arange(n) // 4).astype(str)
    linked = answers.assign(label=shown, subject=pair)
    plan = fitting.design(linked, probe)
    drawn = scores.drawn(answers.assign(label=shown), plan)
    features = [torch.as_tensor(x).float() for x in (clean, crossed)]
    fitted = fitting.fit(features[0], plan)
    again = fitting.fit(features[0], plan, fitted.c, drawn.weights)
    terms = split(*(fitting.out_of_fold(fitted, x, plan.fold) for x in features), partner)
    where = plan.of_draws(len(drawn))
    moved = [fitting.out_of_fold(again, x, where) for x in features]
    refits = split(*(s.swapaxes(0, 1) for s in moved), partner)
    pairs = Pairs(
        rows=np.arange(n),
        fold=plan.fold,
        right=z == 0,
        text=np.zeros(n),
        unlike=np.zeros(n, dtype=bool),
        drawn=intervals.bootstrap(np.arange(n) // 4, draws, seed),
    )
    records = []
    for name, some in (("fixed", None), ("refitted", refits)):
        for quantity, spread in table.spreads(terms, some, pairs, 0.95).items():
            low, high = spread.interval(0.95)
            records.append((quantity, name, spread.estimate[0], low[0], high[0]))
    found = pd.DataFrame(records, columns=["quantity", "probes", "estimate", "low", "high"])
    shares = table.shares(terms, refits, plan.fold, np.flatnonzero(z == 0))
    own = -fitting.out_of_fold(fitted, features[0], plan.fold)[0, z == 0].mean()
    columns = {name: share[0] for name, share in shares.items()}
    return found.assign(seed=seed, own_right=own, **columns)


def coverage(found: pd.DataFrame) -> pd.DataFrame:
    """Share of worlds whose interval holds the mean estimate of all; a row for each quantity."""
    truth = found.groupby("quantity")["estimate"].transform("mean")
    held = (found["low"] <= truth) & (truth <= found["high"])
    shares = held.groupby([found["quantity"], found["probes"]], sort=False).mean().unstack()
    return shares.assign(truth=truth.groupby(found["quantity"]).first())


def claimed(found: pd.DataFrame) -> pd.DataFrame:
    """Share of worlds in which `pair` and `truth` are claimed, a row each, by `probes`."""
    low = found.pivot(index=["seed", "probes", "own_right"], columns="quantity", values="low")
    own = low.index.get_level_values("own_right").to_numpy()
    claims = table.claims({name: low[name].to_numpy() for name in low}, own)
    shares = pd.DataFrame(dict(zip((table.PAIR, table.TRUTH), claims, strict=True)), low.index)
    return shares.groupby("probes").mean().T


def simulate(
    n: int,
    worlds: int,
    jobs: int = 1,
    probe: Settings | None = None,
    shuffle: bool = False,
    strengths: Mapping[str, float] = STRENGTHS,
) -> pd.DataFrame:
    """The rows of `claims` for many worlds."""
    work = partial(claims, n, probe=probe or Settings(), strengths=strengths, shuffle=shuffle)
    if jobs == 1:
        return pd.concat(map(work, range(worlds)), ignore_index=True)
    with ProcessPoolExecutor(jobs) as pool:
        return pd.concat(pool.map(work, range(worlds), chunksize=10), ignore_index=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=400)
    parser.add_argument("--samples", type=int, nargs="+", default=[300, 1000])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--shuffle", action="store_true", help="labels that mean nothing")
    parser.add_argument("--additive", action="store_true", help="nothing belongs to the pair")
    chosen = parser.parse_args(arguments)
    strengths = ADDITIVE if chosen.additive else STRENGTHS
    for n in chosen.samples:
        found = simulate(n, chosen.worlds, chosen.jobs, shuffle=chosen.shuffle, strengths=strengths)
        print(f"n = {n}, {chosen.worlds} worlds")
        print(coverage(found).round(3).to_string())
        print("claimed", claimed(found).round(3).to_string(), sep="\n")
        print(found.filter(like="share_").mean().round(3).to_string(), flush=True)


if __name__ == "__main__":
    main()
