"""ΔP: how far each layer's probe moves under a condition, by the condition's own flips."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd

from anchorscope.experiments.analysis import (
    POINTS,
    SHARE,
    Analysis,
    Columns,
    Group,
    Quantity,
    anchored,
    count,
    stacked,
)
from anchorscope.passes.activations import complete_column
from anchorscope.passes.interventions import (
    REGISTRY,
    arms,
    controlled_cuts,
    in_contrasts,
    pairing_control,
)
from anchorscope.probes.bands import ANY, Means, Spread
from anchorscope.probes.samples import Effects, Readout
from anchorscope.storage.errors import AnchorscopeError

GROUPINGS = ("per_layer", "reference_layer")
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
    """ΔP, flips and probe strength of every condition, grouping and anchor, by layer.

    Every number of a control is found for each of its draws, then averaged; the bootstrap draws
    among them, too. An empty group has n = 0, share = 0 and blanks.

    Args:
        analysis: its answers have `<control>_complete` of each control measured; where known also
            `popularity` and `n_blocked_<condition>`.

    Returns:
        A row for each condition, grouping, anchor and layer: `CURVE`, see docs/products.md.

    Raises:
        AnchorscopeError: the answers do not tell where a control is complete; floors are
            not of the same samples as the scores.
    """
    return stacked([_of_condition(analysis, name) for name in analysis.readout.effects], CURVE)


def _of_condition(analysis: Analysis, condition: str) -> pd.DataFrame:
    answers = analysis.answers
    if condition in arms():
        paired = (answers["label"] == 0).to_numpy()
    else:
        paired = complete(analysis.readout, answers, condition)
    strength = {**analysis.strength, "cell_signal": analysis.cell_strength["signal"][0]}
    groups = partial(_groups, answers=answers, condition=condition, paired=paired)

    def describe(columns: Columns, spreads: Mapping[str, Spread]) -> Columns:
        return strength | analysis.band(spreads["delta_p"], ~columns["thin"])

    return analysis.table(CURVE, groups, ("knockout", condition), describe)


def _groups(
    readout: Readout, answers: pd.DataFrame, condition: str, paired: np.ndarray
) -> list[Group]:
    """Both anchors and all samples, by every grouping.

    `paired` tells whose flips are counted, bool [n].
    """
    facts, effects = _facts(answers, condition), readout.effects[condition]
    groups = []
    for grouping in GROUPINGS:
        flips = _flips(readout, condition, grouping)
        for anchor, everyone in anchored(flips).items():
            key = {"condition": condition, "grouping": grouping, "anchor": anchor}
            members = everyone & effects.measured
            groups.append(_group(key, effects, members, paired, facts))
    return groups


def _group(
    key: Columns,
    effects: Effects,
    members: np.ndarray,
    paired: np.ndarray,
    facts: Mapping[str, np.ndarray],
) -> Group:
    """One group: its `members` [draws, layers, n], of whom the `paired` ones [n] count for flips.

    `facts` [n] are averaged beside the effects.
    """
    counted, draws = members & paired, len(effects.flip)
    everyone, arm = key["anchor"] == "all", key["condition"] in arms()
    # What holds by construction is sure though it does not vary.
    whole = everyone and not arm
    own_flips = key["grouping"] == "per_layer" and not everyone and not arm
    averaged = {**facts, "delta_logit": effects.delta_logit}
    return Group(
        columns=key | {"n_paired": count(counted)},
        members=members,
        support=counted if arm else members,
        quantities={
            "delta_p": Quantity(Means(effects.delta_p, members, draws), "ci"),
            "share": Quantity(
                Means(members, np.ones_like(members), draws), "share_ci", ANY if whole else SHARE
            ),
            "flip_share": Quantity(
                Means(effects.flip, counted, draws), "flip", ANY if own_flips else SHARE
            ),
        },
        averages={
            name: Means(values, members & ~np.isnan(values)) for name, values in averaged.items()
        },
    )


def _facts(answers: pd.DataFrame, condition: str) -> dict[str, np.ndarray]:
    """What is known of each sample under a condition, float64 [n]; NaN where it is not."""
    acts = REGISTRY[condition].tokens is not None
    blocked = _numbers(answers, f"n_blocked_{condition}") if acts else np.zeros(len(answers))
    right = (answers["label"] == 0).to_numpy()
    popularity = _numbers(answers, "popularity")
    return {"popularity": popularity, "answer_accuracy": right, "n_blocked": blocked}


def _flips(readout: Readout, condition: str, grouping: str) -> np.ndarray:
    """Who is Q-Anchored, bool [draws, layers, n].

    By the condition's own flips; where two answers are exchanged by the knockout's.
    """
    flips = readout.effects["knockout" if condition in arms() else condition].flip
    if grouping == "reference_layer":
        flips = np.broadcast_to(flips[:, [readout.headline]], flips.shape)
    return flips


def _numbers(answers: pd.DataFrame, column: str) -> np.ndarray:
    """A column of numbers, float64 [n]; NaN where unknown."""
    values = pd.to_numeric(answers[column]) if column in answers else pd.Series(index=answers.index)
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def complete(readout: Readout, answers: pd.DataFrame, condition: str) -> np.ndarray:
    """In which samples a condition's control acted on as many tokens as what it controls, bool [n].

    The control is `interventions.pairing_control`; everyone counts where none was measured, so that
    there is nothing to be paired with. Raises AnchorscopeError: the answers do not tell.
    """
    control = pairing_control(condition)
    if control is None or control.name not in readout.effects:
        return np.ones(len(answers), dtype=bool)
    column = complete_column(control.name)
    if column not in answers:
        what = f"the answers do not tell where the control {control.name} is complete"
        do = "join them with the index of their activations, see `activations.measured`"
        where = f"column `{column}`, read-out {readout.name}"
        raise AnchorscopeError(what, where, do, see="stale-product")
    return readout.effects[control.name].measured & answers[column].to_numpy(dtype=bool)


def contrasts(analysis: Analysis) -> pd.DataFrame:
    """Every cut against its control, paired.

    A row for each `contrast`, `quantity` and layer measured: `CONTRASTS`, see docs/products.md, in
    percentage points; a control's draws are averaged within a sample. `<control>_complete` in the
    answers tells where the control acted on as many tokens as the cut. Raises AnchorscopeError: the
    answers lack that column; floors are not of the same samples as the scores.
    Thin rows (`min_n`, `min_clusters`) are `unclear`: neither an effect nor none is said of them.
    """
    answers, signal = analysis.answers, analysis.strength["signal"]

    def groups(readout: Readout) -> list[Group]:
        differences = _against_controls(readout, answers)
        groups = []
        for (contrast, quantity), means in differences.items():
            members, key = means.members[:1], {"contrast": contrast, "quantity": quantity}
            estimate = Quantity(means, "ci", _bounds(contrast, quantity))
            groups.append(Group(key, members, members, {"estimate": estimate}))
        return groups

    def describe(columns: Columns, spreads: Mapping[str, Spread]) -> Columns:
        spread, bounds = spreads["estimate"], _bounds(columns["contrast"], columns["quantity"])
        low, high = spread.interval(0.9, bounds)
        # The first that holds at a layer is said.
        effect = np.select(
            [
                ~signal,
                columns["thin"],
                (low >= -MARGIN) & (high <= MARGIN),
                (columns["ci_low"] > 0) | (columns["ci_high"] < 0),
            ],
            [NOT_INTERPRETABLE, UNCLEAR, NO, YES],
            UNCLEAR,
        )
        interval = {"ci90_low": low, "ci90_high": high, "signal": signal, "effect": effect}
        return interval | analysis.band(spread, columns["n"] > 0, bounds)

    return analysis.table(CONTRASTS, groups, in_contrasts(), describe)


def _bounds(contrast: str, quantity: str) -> tuple[float, float]:
    """Of one sample's value in a contrast, percentage points."""
    return (0.0, 100.0) if quantity == "share" and "-" not in contrast else POINTS


def _against_controls(readout: Readout, answers: pd.DataFrame) -> dict[tuple[str, str], Means]:
    """Contrast and quantity → its mean over the samples whose control is complete."""
    means: dict[tuple[str, str], Means] = {}
    for one, control in controlled_cuts():
        if not {one.name, control.name} <= readout.effects.keys():
            continue
        cut, spared = readout.effects[one.name], readout.effects[control.name]
        draws = len(spared.flip)
        members = np.broadcast_to(complete(readout, answers, one.name), spared.flip.shape)
        for quantity, under, beside in (
            ("share", 100.0 * cut.flip, 100.0 * spared.flip),
            ("delta_p", cut.delta_p, spared.delta_p),
        ):
            means[f"{one.name}-{control.name}", quantity] = Means(under - beside, members, draws)
            means[one.name, quantity] = Means(under, members[:1])
            means[control.name, quantity] = Means(beside, members, draws)
    return means
