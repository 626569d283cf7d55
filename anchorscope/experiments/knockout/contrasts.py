"""Contrasts: what a cut does, beside what the same cut does behind another question.

The knockout's control is the knockout itself with the answer behind its partner's question:
whatever reads the question alone moves there as it does here. As many random tokens, the published
control, stand beside and carry no claim: exact tokens are rare words, random ones mostly small.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from anchorscope.experiments.analysis import POINTS, Analysis, Columns, Group, Quantity, stacked
from anchorscope.experiments.experiment import interval_of, recurring
from anchorscope.experiments.knockout.curve import complete
from anchorscope.experiments.pairs import places
from anchorscope.passes.interventions import (
    REGISTRY,
    Intervention,
    controlled_cuts,
    in_contrasts,
    swapped,
)
from anchorscope.probes import intervals
from anchorscope.probes.bands import ANY, Means, Spread
from anchorscope.probes.samples import Readout
from anchorscope.questions import folds

CONTRASTS = {
    **recurring("site", "position"),
    "contrast": "`knockout-crossed-knockout`: the knockout minus the knockout behind the "
    "partner's question; `random-crossed-random`: the same with random tokens; `knockout-random`: "
    "the published control",
    "quantity": "`share` of flips and mean `delta_p`, in percentage points; `logit_right` and "
    "`logit_wrong`: mean change of the score towards *right*, for right and for wrong answers",
    **recurring("layer", "n"),
    "n_clusters": "clusters that hold all samples which partners and subjects link",
    "estimate": "the paired difference",
    **interval_of("estimate", "ci"),
    "under": "mean of the first condition",
    "beside": "mean of the second condition",
    "ceiling": "mean with every question token blocked, over the same samples",
    **dict.fromkeys(("ci90_low", "ci90_high"), "90 % interval"),
    **recurring("band_low", "band_high"),
    "effect": "`not interpretable` without a signal; else `unclear` if there are too few samples "
    "or clusters; else `no` if the 90 % interval lies within a quarter of the ceiling; else `yes` "
    "if the interval excludes 0; else `unclear`. `reported` for the published control",
    **recurring("signal", "inflation", "headline"),
}
"""Column of the table → what it holds."""
OWN = "knockout-crossed-knockout"
"""The contrast that carries the claim."""
OWN_FLIPS = "the [contrast](#contrasts) of flips with those behind the partner's question"
RANDOM = "random-crossed-random"
PUBLISHED = "knockout-random"
PART = 0.25
"""Share of the ceiling's effect within which an effect is none."""
YES, NO, UNCLEAR = "yes", "no", "unclear"
NOT_INTERPRETABLE, REPORTED = "not interpretable", "reported"
CEILING = "question"


@dataclass(frozen=True)
class _Contrast:
    """A condition and the one it is held against."""

    under: Intervention
    beside: Intervention
    claims: bool  # whether an effect is told: the two differ in nothing but the question

    @property
    def name(self) -> str:
        return f"{self.under.name}-{self.beside.name}"


def _every() -> list[_Contrast]:
    own = [_Contrast(one, other, True) for one, other in swapped()]
    beside = [(one, other) for one, other in controlled_cuts() if one.prompt is None]
    return own + [_Contrast(one, other, False) for one, other in beside]


def contrasts(analysis: Analysis) -> pd.DataFrame:
    """A row for each contrast, quantity and layer: `CONTRASTS`, see docs/products.md.

    `share` of flips and `delta_p`, percentage points; `logit_right` and `logit_wrong`, how far the
    score of right and of wrong answers moves towards *right*. A control's draws are averaged within
    a sample. Of sums of what is read off question and answer the logits' difference is 0, exactly;
    that of flips is not where the label follows the sum, since own answers are chosen by it.
    Paired: over the samples measured under both, where both are complete. Clusters hold all samples
    that pairs and subjects link. `effect`: `no` where the 90 % interval lies within a quarter of
    what cutting every question token does to the same samples; thin rows are `unclear`.

    Raises AnchorscopeError: the answers lack `<control>_complete`; floors are not of the same
    samples as the scores.
    """
    effects = analysis.readout.effects
    measured = [one for one in _every() if {one.under.name, one.beside.name} <= effects.keys()]
    return stacked([_of_contrast(one, analysis) for one in measured], CONTRASTS)


def linked(analysis: Analysis) -> Analysis:
    """The same with draws of clusters that hold all samples which pairs and subjects link."""
    partner = places(analysis.answers, analysis.answers["crossed_partner"])
    pair = np.where(partner >= 0, np.minimum(np.arange(len(partner)), partner), -1)
    pairs = [str(one) if one >= 0 else None for one in pair]
    clusters = folds.components(analysis.drawn.clusters.tolist(), pairs)
    drawn = intervals.bootstrap(clusters, len(analysis.drawn.weights), analysis.drawn.seed)
    return replace(analysis, drawn=drawn)


def _of_contrast(one: _Contrast, analysis: Analysis) -> pd.DataFrame:
    if one.claims:
        analysis = linked(analysis)
    answers, signal = analysis.answers, analysis.strength["signal"]
    counted = np.ones(len(answers), dtype=bool)
    for condition in (one.under, one.beside):
        counted &= analysis.readout.effects[condition.name].measured
        if condition.role == "control":
            counted &= complete(analysis.readout, answers, condition.name)
    whose = {"logit_right": analysis.z == 0, "logit_wrong": analysis.z == 1}

    def groups(readout: Readout) -> list[Group]:
        under, beside, ceiling = (
            _values(readout, name) for name in (one.under.name, one.beside.name, CEILING)
        )
        groups = []
        for name, values in under.items():
            members = counted & whose.get(name, True)
            among = np.broadcast_to(members, (1, *readout.clean.shape))
            blank = np.full(among.shape, np.nan)
            difference = Means(values - beside[name], among)
            groups.append(
                Group(
                    {"contrast": one.name, "quantity": name},
                    among,
                    among,
                    {"estimate": Quantity(difference, "ci", _bounds(name))},
                    {
                        "under": Means(values, among),
                        "beside": Means(beside[name], among),
                        "ceiling": Means(ceiling.get(name, blank), among),
                    },
                )
            )
        return groups

    def describe(columns: Columns, spreads: Mapping[str, Spread]) -> Columns:
        spread, bounds = spreads["estimate"], _bounds(columns["quantity"])
        low, high = spread.interval(0.9, bounds)
        told = _effect(columns, low, high, signal) if one.claims else REPORTED
        more = {"ci90_low": low, "ci90_high": high, "signal": signal, "effect": told}
        return more | analysis.band(spread, columns["n"] > 0, bounds)

    return analysis.table(CONTRASTS, groups, (*in_contrasts(), CEILING), describe)


def _bounds(quantity: str) -> tuple[float, float]:
    """Of one sample's value."""
    return ANY if quantity.startswith("logit") else POINTS


def _values(readout: Readout, condition: str) -> dict[str, np.ndarray]:
    """Quantity → what a condition does to each sample, [1, layers, n]; none if not measured."""
    if (effects := readout.effects.get(condition)) is None:
        return {}
    against = REGISTRY[condition].against
    uncut = readout.clean if against == "clean" else readout.effects[against].s
    towards_right = np.nan_to_num(uncut - effects.s)
    every = {"share": 100.0 * effects.flip, "delta_p": effects.delta_p}
    every |= dict.fromkeys(("logit_right", "logit_wrong"), towards_right)
    return {name: values.mean(0, keepdims=True) for name, values in every.items()}


def _effect(columns: Columns, low: np.ndarray, high: np.ndarray, signal: np.ndarray) -> np.ndarray:
    """Whether there is an effect at each layer, [layers]; the first that holds is said."""
    margin = PART * np.abs(columns["ceiling"])
    return np.select(
        [
            ~signal,
            columns["thin"],
            (margin > 0) & (low >= -margin) & (high <= margin),
            (columns["ci_low"] > 0) | (columns["ci_high"] < 0),
        ],
        [NOT_INTERPRETABLE, UNCLEAR, NO, YES],
        UNCLEAR,
    )
