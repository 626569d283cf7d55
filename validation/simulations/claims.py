"""Measure how often each claim is made if it is false, and if it is true.

    python -m validation.simulations.claims [--seeds 400] [--worlds REGEX]

Each world simulates data sets of one kind. A table per group of worlds shows in what share of data
sets each claim is made, and in what share it is judged. The last table summarises worlds where a
claim is false, or true. The authors of `blind_worlds` and `unseen_worlds` had not seen the rules.
"""

import argparse
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import torch

from anchorscope.experiments.crossing import claims, imitator
from anchorscope.experiments.crossing.claims import Claim
from anchorscope.experiments.crossing.estimates import Answers
from anchorscope.experiments.crossing.swapped import bound_by_design
from validation.simulations import (
    blind_worlds,
    claim_worlds,
    form_worlds,
    passage_worlds,
    power,
    unseen_worlds,
)
from validation.simulations.claim_worlds import HOME, ROLES, Rng, Values, World
from validation.simulations.passage_worlds import SIDES

SIZES = ((25, 750), (200, 200))
"""Numbers of right and of wrong pairs."""
FEW = ((16, 16), (16, 194), (194, 194))
FOLDS, REFITS = 5, 20
AGREE = 0.9
"""Correlation over refits between the clean mean pair term and the one with E_Q blocked.

In SmolLM2-135M-Instruct it is .91 in 194 wrong pairs of NQ, and .88 in 161 of TriviaQA.
"""
ADDITIVE = {"sums", "gain", "saturation", "answers of unlike kind"}
"""Worlds of `NULL` whose scores compare question and answer at most as the text imitator does."""


def judge(
    world: World | power.Signal, n: Sequence[int], seed: int, refits: bool
) -> dict[str, Claim]:
    """Judge all claims that a data set allows: name → `Claim`. If `refits`, probes are refitted."""
    if isinstance(world, power.Signal):
        p = world.p(seed)
        return {"signal": Claim(claims.YES if p < 1 - claims.LEVEL else claims.NO, p=p)}
    random = np.random.default_rng(seed)
    drawn = world(random, *n)
    if "fold_right" not in drawn:
        sizes = {f"fold_{side}": drawn[side].shape[1] for side in SIDES}
        drawn |= {name: random.integers(0, FOLDS, size) for name, size in sizes.items()}
    names = [f"{role}{end}" for role in ROLES for end in ("", "_blocked")]
    scores = {name: drawn[name] for name in names if name in drawn}
    found = _answers(drawn, _refitted(scores, random, refits))
    judged: dict[str, Claim] = {}
    if "gold" in found:
        judged["interaction"] = claims.interaction(found["right"])
        wrong, own_words = found["wrong"], "given" not in drawn
        judged["own_answer"] = claims.own_answer(wrong, own_words=own_words)
        judged["truth"] = claims.truth(wrong, found["gold"], own_words=own_words)
    if "right_blocked" in found:
        by_side = {side: claims.through(found[side], found[f"{side}_blocked"]) for side in SIDES}
        judged["through_eq"] = claims.either(by_side)[1]
    return judged


def _answers(drawn: Values, scores: Values) -> dict[str, Answers]:
    """Map each name in `scores` (a role, or a role with `_blocked`) to the `Answers` to judge."""
    drawn = drawn | {f"{name}_gold": drawn[f"{name}_wrong"] for name in ("fold", "subjects")}
    drawn |= {"answers_gold": drawn["golds"]} if "golds" in drawn else {}
    imitated = _imitate(drawn)
    found: dict[str, Answers] = {}
    for name, values in scores.items():
        role, _, blocked = name.partition("_")
        if blocked:
            found[name] = replace(found[role], scores=values)
            continue
        n = drawn[role].shape[1]
        subjects, bound = drawn[f"subjects_{role}"], np.zeros(n, dtype=bool)
        if f"frames_{role}" in drawn:
            bound = np.any(bound_by_design(subjects, drawn[f"frames_{role}"]), axis=0)
        found[name] = Answers(
            scores=values,
            subjects=subjects,
            texts=drawn[f"answers_{role}"],
            fold=drawn[f"fold_{role}"],
            imitated=imitated.get(role, np.zeros(n)),
            log_p=drawn.get(f"logp_{role}", np.full((4, n), np.nan)),
            bound=bound,
        )
    return found


def _refitted(scores: Values, random: Rng, refits: bool) -> Values:
    """Return the scores of a probe and of its refits, [4, 1 + refits, pairs]."""
    probes = [_probe(scores, random) for _ in range(REFITS + 1)] if refits else [scores]
    return {name: np.stack([one[name] for one in probes], axis=1) for name in scores}


def _probe(scores: Values, random: Rng) -> Values:
    """Return the scores of a probe whose slope (sd .1), pair terms (.03) and noise (.3) are drawn.

    The pair terms of each kind of answers move independently. Scores with E_Q blocked move like the
    clean ones, with the correlation `AGREE`.
    """
    slope = np.exp(0.1 * random.normal())
    moved: Values = {}
    for role, values in scores.items():
        own = 2 * 0.03 * random.normal() * HOME + 0.3 * random.normal(size=values.shape)
        clean = moved.get(role.removesuffix("_blocked"))
        moved[role] = own if clean is None else AGREE * clean + (1 - AGREE**2) ** 0.5 * own
    return {role: slope * values + moved[role] for role, values in scores.items()}


def _imitate(world: Values) -> Values:
    """Return the text imitator's pair terms by role, if the world has features."""
    if "features_gold" not in world:
        return {}
    n = [world[role].shape[1] for role in ROLES]
    found = imitator.pair_terms(
        np.concatenate([world[role] for role in ROLES], axis=-1),
        np.concatenate([world[f"features_{role}"] for role in ROLES], axis=1),
        kind=np.repeat([0, 1, 2], n),
        fold=np.concatenate([world[f"fold_{role}"] for role in ROLES]),
    )
    return dict(zip(ROLES, np.split(found, np.cumsum(n)[:2]), strict=True))


@dataclass(frozen=True)
class Group:
    """Worlds that are judged alike."""

    worlds: Mapping[str, World | power.Signal]
    false: Sequence[str] = ()  # claims that must not be made
    true: Sequence[str] = ()  # claims that should be made
    sizes: Sequence[Sequence[int]] = SIZES
    refits: Sequence[bool] = (False,)

    def expected(self, claim: str, world: str) -> str:
        """Return whether the claim is `false` or `true` in a world; blank if neither."""
        nothing_compared = world in ADDITIVE or world.startswith("overlap")
        if claim in self.false or (nothing_compared and claim in ("interaction", "own_answer")):
            return "false"
        return "true" if claim in self.true else ""


SUMS = ("interaction", "own_answer", "truth")
BOTH = (False, True)
GROUPS: dict[str, Group] = {
    "no truth": Group(claim_worlds.NULL, ["truth"]),
    "no truth, written blind": Group(blind_worlds.CLEAN, ["truth"]),
    "no truth, form and origin of answers": Group(form_worlds.FORMS, ["truth"]),
    "sums at a chosen layer": Group(form_worlds.CHOSEN, SUMS),
    "given answers": Group(claim_worlds.GIVEN, SUMS[1:], SUMS[:1]),
    "truth cannot be told": Group(claim_worlds.UNTELLABLE),
    "a matter of definition, written blind": Group(blind_worlds.BORDERLINE),
    "truth": Group(claim_worlds.TRUE, true=["truth"], refits=BOTH),
    "truth, written blind": Group(blind_worlds.TRUTH, true=["truth"], refits=BOTH),
    "nothing passes through E_Q": Group(passage_worlds.NOTHING, ["through_eq"], sizes=FEW),
    "just a fifth passes through E_Q": Group(passage_worlds.EDGE, ["through_eq"], sizes=FEW),
    "damage cannot be told": Group(passage_worlds.UNTELLABLE, sizes=FEW),
    "passes through E_Q": Group(passage_worlds.PASSES, (), ["through_eq"], FEW, BOTH),
    "no truth, nothing passes, written blind": Group(
        unseen_worlds.NO_TRUTH, ["truth", "through_eq"], SUMS[:2]
    ),
    "no truth, half passes, written blind": Group(
        unseen_worlds.HALF, ["truth"], [*SUMS[:2], "through_eq"]
    ),
    "no signal": Group(power.SAME, ["signal"], sizes=[()]),
    "signal": Group(power.MORE, true=["signal"], sizes=[()]),
}


def rows(name: str, group: Group, seeds: int, chosen: str) -> list[dict[str, Any]]:
    """Return a row for each combination of a group's worlds, sizes and `refits`, and each claim."""
    found: list[dict[str, Any]] = []
    for world, n, refits in product(group.worlds, group.sizes, group.refits):
        if not re.search(chosen, world):
            continue
        made = [judge(group.worlds[world], n, seed, refits) for seed in range(seeds)]
        for claim in made[0]:
            verdicts = Counter(one[claim].verdict for one in made)
            row = {"group": name, "world": f"{world}{', refits' * refits}"}
            row |= {"pairs": "; ".join(map(str, n)), "claim": claim}
            row |= {"expected": group.expected(claim, world), "made": verdicts[claims.YES] / seeds}
            row["judged"] = row["made"] + verdicts[claims.NO] / seeds
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
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--worlds", default="", help="a regular expression")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    every: list[dict[str, Any]] = []
    for name, group in GROUPS.items():
        if found := rows(name, group, asked.seeds, asked.worlds):
            print(f"\n{pd.DataFrame(found).round(3).to_string(index=False)}", flush=True)
            every += found
    print(f"\n{summary(pd.DataFrame(every))}")


if __name__ == "__main__":
    main()
