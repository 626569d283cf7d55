"""ΔP: how far each layer's probe moves under a condition, by the condition's own flips."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from anchorscope.experiments.analysis import (
    SHARE,
    Analysis,
    Columns,
    Group,
    Quantity,
    anchored,
    count,
    stacked,
)
from anchorscope.experiments.interchange import table as interchange
from anchorscope.passes.interventions import ARMS
from anchorscope.probes.bands import Means, Spread
from anchorscope.probes.samples import Effects, Readout

GROUPINGS = ("per_layer", "reference_layer", "replicate")
CURVE = (
    "site", "position", "condition", "grouping", "anchor", "layer", "n", "share", "delta_p",
    "ci_low", "ci_high", "probe_auc", "answer_accuracy", "n_blocked", "flip_share", "flip_low",
    "flip_high", "n_paired", "signal", "floor", "floor_auc", "gain", "gain_low", "gain_high",
    "share_ci_low", "share_ci_high", "delta_logit", "n_clusters", "band_low", "band_high", "thin",
    "auc_low", "auc_high", "cell_signal", "headline", "popularity", "inflation",
)  # fmt: skip
CONTRASTS = (
    "site", "position", "contrast", "quantity", "layer", "n", "n_clusters", "estimate", "ci_low",
    "ci_high", "ci90_low", "ci90_high", "band_low", "band_high", "effect", "signal", "inflation",
)  # fmt: skip
MARGIN = 5.0
"""Percentage points within which an effect is none."""
YES, NO, UNCLEAR = "yes", f"no (within ±{MARGIN:g} points)", "unclear"
NOT_INTERPRETABLE = "not interpretable"


def curve(analysis: Analysis) -> pd.DataFrame:
    """A row for each condition, grouping, anchor and layer: `CURVE`, see docs/products.md.

    The answers have, where known, `popularity` and `n_blocked_<condition>`. `replicate` groups one
    prompt by the flips behind a second one for the same question, and the other way round,
    averaged, over the samples that have one. Of several random draws every number is found for each
    draw, then averaged; the bootstrap draws among them, too. An empty group has n = 0, share = 0
    and blanks. Raises AnchorscopeError: floors or partners are not of the same samples as the
    scores.
    """
    return stacked([_of_condition(analysis, name) for name in analysis.readout.effects], CURVE)


def _of_condition(analysis: Analysis, condition: str) -> pd.DataFrame:
    answers = analysis.answers
    right = (answers["label"] == 0).to_numpy()
    paired = right if condition in ARMS else complete(analysis.readout, answers)
    beside = {**analysis.strength, "cell_signal": analysis.cell_strength["signal"][0]}
    groups = partial(_groups, answers=answers, condition=condition, paired=paired)

    def describe(found: Columns, spreads: Mapping[str, Spread]) -> Columns:
        return beside | analysis.band(spreads["delta_p"], ~found["thin"])

    return analysis.table(CURVE, groups, ("knockout", condition), describe)


def _groups(
    readout: Readout, answers: pd.DataFrame, condition: str, paired: np.ndarray
) -> list[Group]:
    """The groups of a condition, by every grouping for which it has what that needs."""
    means = partial(Means, placements=len(readout.effects[condition].flip))
    known = {"popularity": _known(answers, "popularity")}
    known["answer_accuracy"] = (answers["label"] == 0).to_numpy()
    uncut = condition in (*ARMS, "noop")
    blocked = np.zeros(len(answers)) if uncut else _known(answers, f"n_blocked_{condition}")
    found = []
    for grouping in GROUPINGS:
        if grouping == "replicate" and condition not in readout.replicate:
            continue
        flips, effects = _grouped(readout, answers, condition, grouping)
        averaged = known | {"n_blocked": blocked, "delta_logit": effects.delta_logit}
        for anchor, everyone in anchored(flips).items():
            members = everyone & effects.measured
            counted = members & paired
            support = counted if condition in ARMS else members
            key: Columns = {"condition": condition, "grouping": grouping, "anchor": anchor}
            key |= {"n_paired": count(counted)}
            quantities = {
                "delta_p": Quantity(means(effects.delta_p, members), "ci"),
                "share": Quantity(means(members, np.ones_like(members)), "share_ci", SHARE),
                "flip_share": Quantity(means(effects.flip, counted), "flip", SHARE),
            }
            averages = {name: Means(of, members & ~np.isnan(of)) for name, of in averaged.items()}
            found.append(Group(key, members, support, quantities, averages))
    return found


def _grouped(
    readout: Readout, answers: pd.DataFrame, condition: str, grouping: str
) -> tuple[np.ndarray, Effects]:
    """Who is Q-Anchored, bool [ways, layers, n], and the effects that are averaged over them.

    By the condition's own flips; in an arm of the interchange by the knockout's, of who counts.
    """
    effects = readout.effects[condition]
    if grouping == "replicate":
        return _crossed(effects, readout.replicate[condition])
    flips = effects.flip
    if condition in ARMS:
        flips = readout.effects["knockout"].flip
        counted = interchange.arms(readout, answers)[condition].counted
        effects = replace(effects, measured=counted)
    if grouping == "reference_layer":
        flips = np.broadcast_to(flips[:, [readout.headline]], flips.shape)
    return flips, effects


def _crossed(first: Effects, second: Effects) -> tuple[np.ndarray, Effects]:
    """Groups of one prompt with the depth of the other, each way a draw."""

    def both(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        shape = (len(first.flip), *one.shape[1:])
        return np.concatenate([np.broadcast_to(one, shape), np.broadcast_to(other, shape)])

    fields = ("s", "flip", "delta_p", "delta_logit")
    crossed = {name: both(getattr(first, name), getattr(second, name)) for name in fields}
    effects = Effects(measured=first.measured & second.measured, **crossed)
    return both(second.flip, first.flip), effects


def _known(answers: pd.DataFrame, column: str) -> np.ndarray:
    """A column of numbers, float64 [n]; NaN where unknown."""
    values = pd.to_numeric(answers[column]) if column in answers else pd.Series(index=answers.index)
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def complete(readout: Readout, answers: pd.DataFrame) -> np.ndarray:
    """Whose random control is complete, bool [n]; everyone where it was not run."""
    control, everyone = readout.effects.get("random"), np.ones(len(answers), dtype=bool)
    if control is None:
        return everyone
    return control.measured & np.asarray(answers.get("random_complete", everyone), dtype=bool)


def contrasts(analysis: Analysis) -> pd.DataFrame:
    """Knockout against random control, and matched against placebo partners, paired.

    A row for each `contrast`, `quantity` and layer measured: `CONTRASTS`, see docs/products.md, in
    percentage points; random draws are averaged within a sample. `random_complete` in the answers
    says where as many tokens were blocked at random as by the knockout (all, if absent). Raises
    AnchorscopeError: floors or partners are not of the same samples as the scores.
    """
    answers, signal = analysis.answers, analysis.strength["signal"]

    def groups(readout: Readout) -> list[Group]:
        found = _against_random(readout, answers) | interchange.contrasts(readout, answers)
        groups = []
        for (contrast, quantity), means in found.items():
            members, key = means.members[:1], {"contrast": contrast, "quantity": quantity}
            groups.append(Group(key, members, members, {"estimate": Quantity(means, "ci")}))
        return groups

    def describe(found: Columns, spreads: Mapping[str, Spread]) -> Columns:
        spread = spreads["estimate"]
        low, high = spread.interval(0.9)
        said = {
            NOT_INTERPRETABLE: ~signal,
            NO: (low >= -MARGIN) & (high <= MARGIN),
            YES: (found["ci_low"] > 0) | (found["ci_high"] < 0),
        }
        effect = np.select(list(said.values()), list(said), UNCLEAR)
        more = {"ci90_low": low, "ci90_high": high, "signal": signal, "effect": effect}
        return more | analysis.band(spread, found["n"] > 0)

    return analysis.table(CONTRASTS, groups, ("knockout", "random", *ARMS), describe)


def _against_random(readout: Readout, answers: pd.DataFrame) -> dict[tuple[str, str], Means]:
    """Contrast and quantity → its mean over the samples whose control is complete."""
    exact, control = (readout.effects.get(name) for name in ("knockout", "random"))
    if exact is None or control is None:
        return {}
    placements, found = len(control.flip), {}
    members = np.broadcast_to(complete(readout, answers), control.flip.shape)
    for quantity, factor, column in (("share", 100.0, "flip"), ("delta_p", 1.0, "delta_p")):
        cut, spared = (factor * getattr(effects, column) for effects in (exact, control))
        found["knockout-random", quantity] = Means(cut - spared, members, placements)
        found["knockout", quantity] = Means(cut, members[:1])
        found["random", quantity] = Means(spared, members, placements)
    return found
