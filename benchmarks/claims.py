"""How often each claim of crossing is made where it is false, and where it is true.

    python benchmarks/claims.py [--seeds 400] [--worlds REGEX]

Worlds of `claim_worlds`, and of `blind_worlds`, which were written without sight of the rules; 25
right and 750 wrong pairs, and 200 of each. Printed for each: the share of data sets in which
`interaction`, `own answer` and `truth` are claimed, and in which each step of `truth` alone is
above 0; the rows of which docs/validity.md has a selection; then the same for `through E_Q`.
"""

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
from blind_worlds import BORDERLINE, CLEAN, TRUTH
from claim_worlds import HOME, NULL, ROLES, TRUE, UNTELLABLE, Values, World, truth

from anchorscope.experiments.crossing import claims, imitator
from anchorscope.experiments.crossing.claims import Answers, Claim

SIZES = ((25, 750), (200, 200))
FOLDS, REFITS = 5, 20
COLUMNS = ("interaction", "own answer", "truth")
GROUPS: dict[str, dict[str, World]] = {
    "no truth": NULL,
    "no truth, written blind": {world.__name__: world for world in CLEAN},
    "cannot be told": UNTELLABLE,
    "a matter of definition, written blind": {world.__name__: world for world in BORDERLINE},
    "truth": TRUE,
    "truth, written blind": {world.__name__: world for world in TRUTH},
}


def answers(world: Values, random: np.random.Generator, refits: bool) -> dict[str, Answers]:
    """The answers of a world by role, with the imitator's pair terms."""
    names = {"right": "answers_right", "wrong": "answers_wrong", "gold": "golds"}
    imitated = imitate(world, random)
    scores = {role: world[role] for role in ROLES}
    drawn: dict[str, np.ndarray | None] = dict.fromkeys(ROLES)
    if refits:
        probes = [probe(scores, random) for _ in range(REFITS + 1)]
        scores = probes[0]
        drawn = {role: np.stack([one[role] for one in probes[1:]], axis=1) for role in ROLES}
    return {
        role: Answers(
            scores=scores[role],
            subjects=world["subjects_right" if role == "right" else "subjects_wrong"],
            texts=world[names[role]],
            imitated=imitated[role],
            log_p=world[f"logp_{role}"],
            refits=drawn[role],
        )
        for role in ROLES
    }


def probe(scores: Values, random: np.random.Generator) -> Values:
    """What a probe makes of the scores: a slope (sd .1), pair terms (.03) and noise (.3) more.

    The pair terms of own and gold answers move each by itself.
    """
    slope = np.exp(0.1 * random.normal())
    return {
        role: slope * values
        + 2 * 0.03 * random.normal() * HOME
        + 0.3 * random.normal(size=values.shape)
        for role, values in scores.items()
    }


def imitate(world: Values, random: np.random.Generator) -> Values:
    """The imitator's pair terms by role; 0 where a world has no features."""
    if "features_gold" not in world:
        return {role: np.zeros(world[role].shape[1]) for role in ROLES}
    n = [world[role].shape[1] for role in ROLES]
    right, wrong = (random.integers(0, FOLDS, size) for size in n[:2])
    found = imitator.pair_terms(
        np.concatenate([world[role] for role in ROLES], axis=-1),
        np.concatenate([world[f"features_{role}"] for role in ROLES], axis=1),
        kind=np.repeat([0, 1, 2], n),
        fold=np.concatenate([right, wrong, wrong]),
    )
    return dict(zip(ROLES, np.split(found, np.cumsum(n)[:2]), strict=True))


def judged(world: World, n: Sequence[int], seed: int, refits: bool) -> list[Claim]:
    random = np.random.default_rng(seed)
    of = answers(world(random, *n), random, refits)
    return [
        claims.interaction(of["right"]),
        claims.own_answer(of["wrong"]),
        claims.truth(of["wrong"], of["gold"]),
    ]


def rates(world: World, n: Sequence[int], seeds: int, refits: bool) -> dict[str, float]:
    """How often each claim is made, and each step of `truth` is above 0."""
    made = [judged(world, n, seed, refits) for seed in range(seeds)]
    found = {
        name: np.mean([one[place].verdict == claims.YES for one in made])
        for place, name in enumerate(COLUMNS)
    }
    steps = made[0][-1].steps
    return found | {step: np.mean([one[-1].steps[step].p < 0.05 for one in made]) for step in steps}


def through(passes: float) -> Callable[[int], list[Claim]]:
    """`through E_Q` where this share of the pair term passes through E_Q."""

    def one(seed: int) -> list[Claim]:
        random = np.random.default_rng(seed)
        world = truth(random, *SIZES[0], size=0.35)
        of = answers(world, random, refits=False)
        found = []
        for role, judge in (("right", claims.interaction), ("wrong", claims.own_answer)):
            clean = of[role]
            noise = 0.3 * random.normal(size=(2, *clean.scores.shape))
            random_cut = replace(clean, scores=0.9 * clean.scores + noise[0])
            lost = passes * HOME * (0.8 if role == "right" else 0.2)
            cut = replace(clean, scores=0.9 * clean.scores - lost + noise[1])
            three = {"clean": clean, "random": random_cut, "cut": cut}
            found.append(claims.through(judge(clean), three, role))
        return [claims.either(*found)]

    return one


def table(seeds: int, chosen: str) -> pd.DataFrame:
    """A row for each world and size, printed as it comes."""
    rows: list[dict[str, object]] = []
    for group, worlds in GROUPS.items():
        for name, world in worlds.items():
            planted = group.startswith("truth")
            for n, refits in product(SIZES, (False, True) if planted else (False,)):
                if re.search(chosen, name):
                    found = rates(world, n, seeds, refits)
                    rows.append({"group": group, "world": name, "wrong": n[1], "refits": refits})
                    rows[-1] |= found
                    shares = " ".join(f"{share:.3f}" for share in found.values())
                    print(f"{name}, {n[1]} wrong{', refits' * refits}: {shares}", flush=True)
    return pd.DataFrame(rows)


def lines(found: pd.DataFrame) -> str:
    """A row for each world, as in docs/validity.md: each claim's share at both sizes."""
    rows = []
    for (group, world, refits), part in found.groupby(["group", "world", "refits"], sort=False):
        cells = ["; ".join(f"{share:.2f}".lstrip("0") for share in part[name]) for name in COLUMNS]
        label = f"{world.replace('_', ' ')}{', refits' * refits}"
        rows.append(" | ".join([group, label, *(cells[place] for place in (2, 0, 1))]))
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--worlds", default="", help="a regular expression")
    chosen = parser.parse_args()
    found = table(chosen.seeds, chosen.worlds)
    print(lines(found))
    print(found.groupby("group", sort=False)[[*COLUMNS]].agg(["mean", "max"]).round(3).to_string())
    for passes in (0.0, 0.5, 1.0):
        made = [through(passes)(seed)[0] for seed in range(chosen.seeds)]
        share = np.mean([one.verdict == claims.YES for one in made])
        print(f"through E_Q where {passes:g} passes: {share:.3f}")


if __name__ == "__main__":
    main()
