"""Measure whether a choice of answers by their label makes false claims, and what power it gains.

    python -m validation.simulations.chosen [--tries 100]

A model answers `POOL` questions, of which a share is right. `SIZE` answers are measured: the first
ones (as they come), or as many right as wrong ones (`anchorscope.questions.pool`). Worlds are those
of `power`. In the first table, the probe knows no more than the text, and both have the same mean
AUC on the chosen answers, so each `yes` is false. In the second, the probe knows more.

`CLAIMS` maps a claim to the function that judges it. To hold another claim against the choice, add
a function that takes a measured data set.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from anchorscope.claims.claim import LEVEL
from anchorscope.questions.pool import Choice, choose
from anchorscope.statistics import strength
from validation.simulations.power import World, evidence

SIZE, POOL = 900, 4500
TOWARDS = {0.05: 1.07, 0.1: 1.26, 0.5: 1.27}
"""Share of right answers → strength of the predictive direction in a state, see `power`."""
BEYOND = 0.8
"""Weight of what no text tells, in the worlds where the probe knows more."""
ARMS = {"as they come": False, "chosen": True}
"""Way to choose answers → whether classes are balanced."""


@dataclass(frozen=True)
class DataSet:
    """Measured answers, with the features of their texts and their hidden states."""

    answers: pd.DataFrame
    texts: np.ndarray  # [n, features]
    states: np.ndarray  # [n, width]


def signal(data: DataSet, seed: int) -> dict[str, float]:
    """Return the gain in AUC, and whether it is called a signal."""
    of = evidence(data.states[None], data.texts, data.answers, seed, 400)
    gain, p = of.gains()[0, 0, 0], strength.over_text(of, LEVEL).estimate.p
    return {"gain": float(gain), "yes": float(p < 1 - LEVEL)}


CLAIMS: dict[str, Callable[[DataSet, int], dict[str, float]]] = {"signal": signal}


def measured(world: World, share: float, balance: bool, seed: int) -> DataSet:
    """Draw a pool of answers, and choose those that are measured."""
    random = np.random.default_rng(seed)
    texts, states, z = world.draw(random, round(share * POOL), POOL)
    ids = [f"{number:05}" for number in range(POOL)]
    answers = pd.DataFrame({"id": ids, "question": ids, "component": ids, "label": z})
    rows = np.flatnonzero(choose(answers, Choice(SIZE, balance)))
    return DataSet(answers.iloc[rows].reset_index(drop=True), texts[rows], states[rows])


def rows(beyond: float, tries: int) -> Iterator[dict[str, object]]:
    """Yield a row for each share of right answers, way to choose, and claim."""
    for share, towards in TOWARDS.items():
        world = World.of(towards, beyond)
        for arm, balance in ARMS.items():
            data = [measured(world, share, balance, seed) for seed in range(tries)]
            for claim, judge in CLAIMS.items():
                found = pd.DataFrame([judge(one, seed) for seed, one in enumerate(data)])
                labels = data[0].answers["label"]
                counts = {"right": int((labels == 0).sum()), "n": len(labels)}
                yield {"share right": share, "measured": arm, **counts, "claim": claim} | (
                    found.mean().round(3).to_dict()
                )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tries", type=int, default=100)
    tries = parser.parse_args().tries
    for title, beyond in (("knows no more", 0.0), ("knows more", BEYOND)):
        print(f"The probe {title} than the text", flush=True)
        for row in rows(beyond, tries):
            print("  ", *(f"{name} {value};" for name, value in row.items()), flush=True)


if __name__ == "__main__":
    main()
