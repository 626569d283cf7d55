"""Measure how often each claim is made if it is false, and if it is true.

    python -m validation.simulations.claims [--runs 100] [--worlds REGEX]

Each world simulates data sets of one kind. A table per group of worlds shows in what share of data
sets each claim is made, and in what share it is judged. The last table summarises worlds where a
claim is false, or true.
"""

import argparse
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import torch

from anchorscope.claims import CLAIMS
from anchorscope.claims.claim import NO, YES, Evidence, Verdict
from anchorscope.claims.estimates import Answers
from anchorscope.pairs import imitator
from anchorscope.pairs.swapped import bound_by_design
from validation.simulations import knowledge_worlds, pair_worlds, passage_worlds
from validation.simulations.pair_worlds import HOME, SCALES, SIDES, Rng, Values

SIZES = ((25, 750), (200, 200), (194, 194))
"""Numbers of right and of wrong pairs."""
POWER = tuple((n, n) for n in (25, 50, 100, 200))
REFITS = 20
AGREE = 0.9
"""Correlation over refits between the clean mean pair term and the one with tokens blocked.

In SmolLM2-135M-Instruct it is .91 in 194 wrong pairs of NQ, and .88 in 161 of TriviaQA.
"""
ARMS = {"clean": "", "knockout": "_knockout", "rest": "_rest"}
"""Arm → end of the names of its scores in a world."""
World = Callable[..., Values | Evidence]


def judge(world: World, n: Sequence[int], seed: int, refits: bool) -> dict[str, Verdict]:
    """Judge all claims that a data set allows: key → verdict. If `refits`, probes are refitted."""
    random = np.random.default_rng(seed)
    drawn = world(random, *n)
    if isinstance(drawn, Evidence):
        asked = ["signal", "answer_adds"]
    else:
        asked = ["comparison_right", "comparison_wrong"]
        asked += ["through_eq"] * ("right_rest" in drawn)
        drawn = Evidence(answers=_answers(drawn, random, refits))
    return {key: CLAIMS[key].judge(drawn) for key in asked}


def _answers(drawn: Values, random: Rng, refits: bool) -> dict[str, dict[str, Answers]]:
    """Return the answers to judge, by side and arm."""
    scores = {f"{side}{end}": drawn.get(f"{side}{end}") for side in SIDES for end in ARMS.values()}
    known = {name: values for name, values in scores.items() if values is not None}
    scored, imitated = _refitted(known, random, refits), _imitate(drawn)
    found: dict[str, dict[str, Answers]] = {side: {} for side in SIDES}
    for side, (arm, end) in product(SIDES, ARMS.items()):
        if f"{side}{end}" in scored:
            subjects, n = drawn[f"subjects_{side}"], drawn[side].shape[-1]
            bound = np.zeros(n, dtype=bool)
            if f"frames_{side}" in drawn:
                bound = np.any(bound_by_design(subjects, drawn[f"frames_{side}"]), axis=0)
            found[side][arm] = Answers(
                scores=scored[f"{side}{end}"],
                subjects=subjects,
                texts=drawn[f"answers_{side}"],
                fold=drawn[f"fold_{side}"],
                imitated=imitated.get(side, np.zeros(n)),
                bound=bound,
            )
    return found


def _refitted(scores: Values, random: Rng, refits: bool) -> Values:
    """Return the scores of a probe and of its refits, [4, 1 + refits, pairs]."""
    probes = [_probe(scores, random) for _ in range(REFITS + 1)] if refits else [scores]
    return {name: np.stack([one[name] for one in probes], axis=1) for name in scores}


def _probe(scores: Values, random: Rng) -> Values:
    """Return the scores of a probe whose slope (sd .1), pair terms (.03) and noise (.3) are drawn.

    The pair terms of each side move independently. Scores with tokens blocked move like the clean
    ones, with the correlation `AGREE`. Pair terms and noise are relative to the scores' spread.
    """
    slope = np.exp(0.1 * random.normal())
    moved: Values = {}
    for name, values in scores.items():
        side = name.partition("_")[0]
        size = min(1.0, float(scores[side].std()) / 1.5)
        own = 2 * 0.03 * random.normal() * HOME + 0.3 * random.normal(size=values.shape)
        clean = moved.get(side)
        moved[name] = size * own
        if clean is not None:
            moved[name] = AGREE * clean + (1 - AGREE**2) ** 0.5 * size * own
    return {name: slope * values + moved[name] for name, values in scores.items()}


def _imitate(world: Values) -> Values:
    """Return the text imitator's pair terms by side, if the world has features."""
    if "features_right" not in world:
        return {}
    n = [world[side].shape[-1] for side in SIDES]
    found = imitator.pair_terms(
        np.concatenate([world[side] for side in SIDES], axis=-1),
        np.concatenate([world[f"features_{side}"] for side in SIDES], axis=1),
        kind=np.repeat([0, 1], n),
        fold=np.concatenate([world[f"fold_{side}"] for side in SIDES]),
    )
    return dict(zip(SIDES, np.split(found, [n[0]]), strict=True))


@dataclass(frozen=True)
class Group:
    """Worlds that are judged alike."""

    worlds: Mapping[str, World]
    false: Sequence[str] = ()  # claims that must not be made
    true: Sequence[str] = ()  # claims that should be made
    sizes: Sequence[Sequence[int]] = SIZES
    refits: Sequence[bool] = (False, True)

    def expected(self, claim: str) -> str:
        """Return whether the claim is `false` or `true`; blank if neither."""
        return "false" if claim in self.false else "true" if claim in self.true else ""


COMPARISON, THROUGH = ("comparison_right", "comparison_wrong"), ("through_eq",)
ONCE: dict[str, Any] = {"sizes": [()], "refits": [True]}
GROUPS: dict[str, Group] = {
    "sums at a chosen layer": Group(
        {"sums, layer chosen with the answers": pair_worlds.at_chosen_layer}, COMPARISON
    )
}
for scale_name, scale in SCALES.items():
    sums, new, hard = (
        pair_worlds.at_scale(worlds, scale)
        for worlds in (pair_worlds.SUMS, pair_worlds.NEW, pair_worlds.UNTELLABLE)
    )
    nothing, edge, as_hard, untold, passes = (
        passage_worlds.at_scale(worlds, scale)
        for worlds in (
            passage_worlds.NOTHING,
            passage_worlds.EDGE,
            passage_worlds.AS_HARD,
            passage_worlds.UNTELLABLE,
            passage_worlds.PASSES,
        )
    )
    GROUPS |= {
        f"no comparison, {scale_name}": Group(sums, COMPARISON),
        f"no comparison, new worlds, {scale_name}": Group(new, COMPARISON),
        f"comparison cannot be told, {scale_name}": Group(hard),
        f"nothing passes through E_Q, {scale_name}": Group(nothing, THROUGH),
        f"just a fifth passes, {scale_name}": Group(edge, THROUGH),
        f"the pair term is damaged more, the rest as hard, {scale_name}": Group(as_hard, THROUGH),
        f"passage cannot be told, {scale_name}": Group(untold),
        f"passes through E_Q, {scale_name}": Group(passes, (), THROUGH, POWER, (True,)),
    }
GROUPS |= {
    "compares": Group(pair_worlds.COMPARES, (), COMPARISON, POWER, (True,)),
    "compares, wrong answers lower": Group(pair_worlds.REVERSED, (), COMPARISON, POWER, (True,)),
    "the text tells all": Group(knowledge_worlds.TEXT_ONLY, ("signal", "answer_adds"), **ONCE),
    "the question tells all": Group(knowledge_worlds.QUESTION_ONLY, ("answer_adds",), **ONCE),
    "the text tells all, chosen by label": Group(
        knowledge_worlds.chosen(knowledge_worlds.TEXT_ONLY), ("signal", "answer_adds"), **ONCE
    ),
    "the question tells all, chosen by label": Group(
        knowledge_worlds.chosen(knowledge_worlds.QUESTION_ONLY), ("answer_adds",), **ONCE
    ),
    "fame of the answer": Group(knowledge_worlds.FAME, **ONCE),
    "the answer adds": Group(knowledge_worlds.KNOWS, (), ("signal", "answer_adds"), **ONCE),
}


def rows(name: str, group: Group, runs: int, chosen: str) -> list[dict[str, Any]]:
    """Return a row for each combination of a group's worlds, sizes and `refits`, and each claim."""
    found: list[dict[str, Any]] = []
    for world, n, refits in product(group.worlds, group.sizes, group.refits):
        if not re.search(chosen, f"{name}: {world}"):
            continue
        made = [judge(group.worlds[world], n, seed, refits) for seed in range(runs)]
        for claim in made[0]:
            verdicts = Counter(one[claim].verdict for one in made)
            row = {"group": name, "world": f"{world}{', refits' * refits}"}
            row |= {"pairs": "; ".join(map(str, n)), "claim": claim}
            row |= {"expected": group.expected(claim), "made": verdicts[YES] / runs}
            row["judged"] = row["made"] + verdicts[NO] / runs
            found.append(row)
    return found


def summary(found: pd.DataFrame) -> str:
    """Return as text how often claims are made where they are false, and where they are true."""
    some = found[(found["expected"] != "") & (found["judged"] > 0)]
    made = some.groupby(["expected", "claim", "group"], sort=False)["made"]
    return made.agg(["min", "max", "mean", "size"]).round(3).to_string()


def main() -> None:
    """Print the tables of all groups, and the summary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--worlds", default="", help="a regular expression of group and world")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    every: list[dict[str, Any]] = []
    for name, group in GROUPS.items():
        if found := rows(name, group, asked.runs, asked.worlds):
            print(f"\n{pd.DataFrame(found).round(3).to_string(index=False)}", flush=True)
            every += found
    print(f"\n{summary(pd.DataFrame(every))}")


if __name__ == "__main__":
    main()
