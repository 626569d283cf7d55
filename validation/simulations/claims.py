"""Measure how often each claim is made if it is false, and if it is true.

    python -m validation.simulations.claims [--seeds 400] [--worlds REGEX]

Each world simulates data sets of one kind. A table per group of worlds says in which share of them
each claim is made. Worlds of `blind_worlds` and `unseen_worlds` were written without sight of the
rules. The summary lists the worlds in which a claim is made too often, and how often claims are
made where they should be.
"""

import argparse
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

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
    signal_worlds,
    unseen_worlds,
)
from validation.simulations.claim_worlds import HOME, ROLES, Rng, Values, World
from validation.simulations.passage_worlds import SIDES

Judge = Callable[..., dict[str, Claim]]
"""Function of world, size, seed and whether probes vary: claim → its verdict on one data set."""
SIZES = ((25, 750), (200, 200))
"""Right and wrong pairs."""
FEW = ((16, 16), (16, 194), (194, 194))
FOLDS, REFITS = 5, 20
AGREE = 0.9
"""Correlation, over refits, of the mean pair terms clean and with E_Q blocked.

In SmolLM2-135M-Instruct it is .91 in 194 wrong pairs of NQ, and .88 in 161 of TriviaQA.
"""
CLAIMS = ("signal", "interaction", "own_answer", "truth", "through_eq")
ADDITIVE = {"sums", "gain", "saturation", "answers of unlike kind"}
"""Worlds of `NULL` whose scores compare nothing, or nothing beyond what texts tell."""
MOST = 0.05
"""Share of the data sets in which a false claim may be made."""


def swapped(
    world: World, n: Sequence[int], seed: int, refits: bool, *, own_words: bool = True
) -> dict[str, Claim]:
    """Judge the claims on swapped answers. `own_words`: whether the model gave the answers."""
    random = np.random.default_rng(seed)
    drawn = world(random, *n)
    for side in SIDES:
        folds = random.integers(0, FOLDS, drawn[side].shape[1])
        drawn.setdefault(f"fold_{side}", folds)
    for name in ("fold", "subjects"):
        drawn[f"{name}_gold"] = drawn[f"{name}_wrong"]
    drawn["answers_gold"] = drawn["golds"]
    imitated = imitate(drawn)
    scores = refitted({role: drawn[role] for role in ROLES}, random, refits)
    right, wrong, gold = (
        Answers(
            scores=scores[role],
            subjects=drawn[f"subjects_{role}"],
            texts=drawn[f"answers_{role}"],
            fold=drawn[f"fold_{role}"],
            imitated=imitated[role],
            log_p=drawn[f"logp_{role}"],
            bound=np.zeros(drawn[role].shape[1], dtype=bool),
        )
        for role in ROLES
    )
    return {
        "interaction": claims.interaction(right),
        "own_answer": claims.own_answer(wrong, own_words=own_words),
        "truth": claims.truth(wrong, gold, own_words=own_words),
    }


def refitted(scores: Values, random: Rng, refits: bool) -> Values:
    """Return the scores of a probe and of its refits, [4, 1 + refits, pairs]."""
    if not refits:
        return {name: values[:, None] for name, values in scores.items()}
    probes = [probe(scores, random) for _ in range(REFITS + 1)]
    return {name: np.stack([one[name] for one in probes], axis=1) for name in scores}


def probe(scores: Values, random: Rng) -> Values:
    """Return the scores of a probe, which has a slope (sd .1), pair terms (.03) and noise (.3).

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


def imitate(world: Values) -> Values:
    """Return the imitator's pair terms by role; they are 0 where a world has no features."""
    if "features_gold" not in world:
        return {role: np.zeros(world[role].shape[1]) for role in ROLES}
    n = [world[role].shape[1] for role in ROLES]
    found = imitator.pair_terms(
        np.concatenate([world[role] for role in ROLES], axis=-1),
        np.concatenate([world[f"features_{role}"] for role in ROLES], axis=1),
        kind=np.repeat([0, 1, 2], n),
        fold=np.concatenate([world[f"fold_{role}"] for role in ROLES]),
    )
    return dict(zip(ROLES, np.split(found, np.cumsum(n)[:2]), strict=True))


def passage(world: World, n: Sequence[int], seed: int, refits: bool) -> dict[str, Claim]:
    """Judge `through_eq` on clean and blocked scores."""
    random = np.random.default_rng(seed)
    drawn = world(random, *n)
    names = [f"{side}{end}" for side in SIDES for end in ("", "_blocked")]
    scores = refitted({name: drawn[name] for name in names}, random, refits)
    by_side = {}
    for side, size in zip(SIDES, n, strict=True):
        clean = Answers(
            scores=scores[side],
            subjects=drawn[f"subjects_{side}"],
            texts=drawn[f"answers_{side}"],
            fold=drawn[f"fold_{side}"],
            imitated=np.zeros(size),
            log_p=np.full((4, size), np.nan),
            bound=np.any(
                bound_by_design(drawn[f"subjects_{side}"], drawn[f"frames_{side}"]), axis=0
            ),
        )
        blocked = replace(clean, scores=scores[f"{side}_blocked"])
        by_side[side] = claims.through(clean, blocked)
    return {"through_eq": claims.either(by_side)[1]}


def swapped_and_passage(
    world: World, n: Sequence[int], seed: int, refits: bool
) -> dict[str, Claim]:
    """Judge all claims on swapped answers, clean and blocked."""
    return swapped(world, n, seed, refits) | passage(world, n, seed, refits)


def signal(
    world: signal_worlds.Signal, _n: Sequence[int], seed: int, _refits: bool
) -> dict[str, Claim]:
    """Judge `signal` on trained probes and text models."""
    p = world.p(seed)
    return {"signal": Claim(claims.YES if p < 1 - claims.LEVEL else claims.NO, p=p)}


@dataclass(frozen=True)
class Group:
    """Worlds that are judged alike."""

    worlds: Mapping[str, World | signal_worlds.Signal]
    false: Sequence[str] = ()  # claims that must not be made
    true: Sequence[str] = ()  # claims that should be made
    judge: Judge = swapped
    sizes: Sequence[Sequence[int]] = SIZES
    refits: Sequence[bool] = (False,)

    def expected(self, claim: str, world: str) -> str:
        """Return whether the claim is `false` or `true` in a world; blank if neither."""
        nothing_compared = world in ADDITIVE or world.startswith("overlap")
        if claim in self.false or (nothing_compared and claim in ("interaction", "own_answer")):
            return "false"
        return "true" if claim in self.true else ""


SUMS = ("interaction", "own_answer", "truth")
GIVEN = {"truth of .35, given responses": partial(claim_worlds.truth, size=0.35)}
BOTH = (False, True)
GROUPS: dict[str, Group] = {
    "no truth": Group(claim_worlds.NULL, ["truth"]),
    "no truth, written blind": Group(blind_worlds.CLEAN, ["truth"]),
    "no truth, form and origin of answers": Group(form_worlds.FORMS, ["truth"]),
    "sums at a chosen layer": Group(form_worlds.CHOSEN, SUMS),
    "given responses": Group(GIVEN, SUMS[1:], SUMS[:1], partial(swapped, own_words=False)),
    "truth cannot be told": Group(claim_worlds.UNTELLABLE),
    "a matter of definition, written blind": Group(blind_worlds.BORDERLINE),
    "truth": Group(claim_worlds.TRUE, true=["truth"], refits=BOTH),
    "truth, written blind": Group(blind_worlds.TRUTH, (), ["truth"], refits=BOTH),
    "nothing passes through E_Q": Group(passage_worlds.NOTHING, ["through_eq"], (), passage, FEW),
    "just a fifth passes through E_Q": Group(passage_worlds.EDGE, ["through_eq"], (), passage, FEW),
    "damage cannot be told": Group(passage_worlds.UNTELLABLE, (), (), passage, FEW),
    "passes through E_Q": Group(passage_worlds.PASSES, (), ["through_eq"], passage, FEW, BOTH),
    "no truth, nothing passes, written blind": Group(
        unseen_worlds.NO_TRUTH, ["truth", "through_eq"], SUMS[:2], swapped_and_passage
    ),
    "sums with heavy tails, written blind": Group(
        unseen_worlds.SUMS, CLAIMS[1:], (), swapped_and_passage
    ),
    "no truth, half passes, written blind": Group(
        unseen_worlds.HALF, ["truth"], [*SUMS[:2], "through_eq"], swapped_and_passage
    ),
    "no signal": Group(signal_worlds.SAME, ["signal"], (), signal, [()]),
    "signal": Group(signal_worlds.MORE, (), ["signal"], signal, [()]),
}


def rows(name: str, group: Group, seeds: int, chosen: str) -> list[dict[str, object]]:
    """Return a row for each world of a group, size and claim."""
    found: list[dict[str, object]] = []
    for world, n, refits in product(group.worlds, group.sizes, group.refits):
        if not re.search(chosen, world):
            continue
        made = [group.judge(group.worlds[world], n, seed, refits) for seed in range(seeds)]
        for claim in made[0]:
            verdicts = Counter(one[claim].verdict for one in made)
            found.append(
                {
                    "group": name,
                    "world": f"{world}{', refits' * refits}",
                    "size": "; ".join(map(str, n)),
                    "claim": claim,
                    "expected": group.expected(claim, world),
                    "made": verdicts[claims.YES] / seeds,
                    "judged": (verdicts[claims.YES] + verdicts[claims.NO]) / seeds,
                }
            )
    return found


def table(found: pd.DataFrame) -> str:
    """Return a line for each world and size, with the share in which each claim is made.

    A share is marked `t` if the claim is true, `f` if it is false, and `!` if it is false and the
    share is above `MOST`. The share of the data sets in which it is judged is in brackets.
    """

    def cell(row: pd.Series) -> str:
        wrong = row["expected"] == "false" and row["made"] > MOST
        mark = "!" if wrong else row["expected"][:1]
        judged = "" if row["judged"] == 1 else f" ({row['judged']:.2f})"
        return f"{row['made']:.3f} {mark}{judged}".strip()

    cells = found.assign(cell=found.apply(cell, axis=1))
    wide = cells.pivot(index=["world", "size"], columns="claim", values="cell")
    order = pd.MultiIndex.from_frame(found[["world", "size"]].drop_duplicates())
    columns = [claim for claim in CLAIMS if claim in wide]
    text = wide.loc[order, columns].reset_index()
    lines = [["world", "pairs", *columns], *text.to_numpy().tolist()]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def summary(found: pd.DataFrame, seeds: int) -> str:
    """Return how often claims are made over all worlds in which they are false, and true."""
    error = {share: np.sqrt(share * (1 - share) / seeds) for share in (MOST, 0.5)}
    text = [f"Standard error with {seeds} seeds: {error[MOST]:.3f} at .05, {error[0.5]:.3f} at .5"]
    for expected in ("false", "true"):
        some = found[(found["expected"] == expected) & (found["judged"] > 0)]
        for (claim, group), part in some.groupby(["claim", "group"], sort=False):
            shares = part["made"]
            ends = f"{shares.min():.3f} to {shares.max():.3f}, mean {shares.mean():.3f}"
            text.append(f"{claim}, {expected} in `{group}`: {ends} of {len(part)} worlds and sizes")
    text.append(f"\nFalse claims in more than {MOST}:")
    over = found[(found["expected"] == "false") & (found["made"] > MOST)]
    for row in over.sort_values(["claim", "made"], ascending=[True, False]).itertuples():
        text.append(f"{row.claim}: {row.made:.3f} {row.world} ({row.size})")
    return "\n".join(text)


def main() -> None:
    """Print the tables of all groups, and the summary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--worlds", default="", help="a regular expression")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    every: list[dict[str, object]] = []
    for name, group in GROUPS.items():
        if found := rows(name, group, asked.seeds, asked.worlds):
            print(f"\n{name}\n{table(pd.DataFrame(found))}", flush=True)
            every += found
    print(f"\n{summary(pd.DataFrame(every), asked.seeds)}")


if __name__ == "__main__":
    main()
