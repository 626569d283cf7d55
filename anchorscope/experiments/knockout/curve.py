"""ΔP: how far each layer's probe moves under a condition, by the condition's own flips."""

from collections.abc import Mapping
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
from anchorscope.passes.activations import complete_column
from anchorscope.passes.interventions import (
    REGISTRY,
    arms,
    controlled_cuts,
    in_contrasts,
    pairing_control,
)
from anchorscope.probes.bands import Means, Spread
from anchorscope.probes.samples import Effects, Readout
from anchorscope.storage.errors import AnchorscopeError

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
    and blanks. Raises AnchorscopeError: floors are not of the same samples as the
    scores.
    """
    return stacked([_of_condition(analysis, name) for name in analysis.readout.effects], CURVE)


def _of_condition(analysis: Analysis, condition: str) -> pd.DataFrame:
    answers = analysis.answers
    right = (answers["label"] == 0).to_numpy()
    paired = right if condition in arms() else complete(analysis.readout, answers, condition)
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
    acts = REGISTRY[condition].tokens is not None
    blocked = _known(answers, f"n_blocked_{condition}") if acts else np.zeros(len(answers))
    found = []
    for grouping in GROUPINGS:
        if grouping == "replicate" and condition not in readout.replicate:
            continue
        flips, effects = _grouped(readout, condition, grouping)
        averaged = known | {"n_blocked": blocked, "delta_logit": effects.delta_logit}
        for anchor, everyone in anchored(flips).items():
            members = everyone & effects.measured
            counted = members & paired
            support = counted if condition in arms() else members
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


def _grouped(readout: Readout, condition: str, grouping: str) -> tuple[np.ndarray, Effects]:
    """Who is Q-Anchored, bool [ways, layers, n], and the effects that are averaged over them.

    By the condition's own flips; where two answers are exchanged by the knockout's.
    """
    effects = readout.effects[condition]
    if grouping == "replicate":
        return _crossed(effects, readout.replicate[condition])
    flips = effects.flip
    if condition in arms():
        flips = readout.effects["knockout"].flip
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
    """
    answers, signal = analysis.answers, analysis.strength["signal"]

    def groups(readout: Readout) -> list[Group]:
        found = _against_controls(readout, answers)
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

    return analysis.table(CONTRASTS, groups, in_contrasts(), describe)


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
