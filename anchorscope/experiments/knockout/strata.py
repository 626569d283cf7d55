"""Strata: flips and ΔP among samples that are alike in what could pass for truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from anchorscope.experiments.analysis import SHARE, Analysis, Columns, Group, Quantity
from anchorscope.experiments.experiment import recurring, with_interval
from anchorscope.experiments.knockout.curve import control_is_complete
from anchorscope.passes.interventions import REGISTRY, controlled_cuts
from anchorscope.probes.bands import Means
from anchorscope.probes.intervals import auc, percentile
from anchorscope.probes.samples import Effects, Readout

STRATA = {
    **recurring("site", "position", "layer"),
    "stratum": "what the samples are grouped by: `label`, `predicted`, `popularity`, `relation`, "
    "`length` of the question, or `sure` (whether the finder is sure of the exact answer tokens)",
    "value": "the group, such as `right`, `low` or `shorter`",
    "condition": "`knockout` or `random`",
    **recurring("n", "n_clusters"),
    **with_interval("auc", "AUC of the clean probe in the group"),
    **recurring("flip_share", "flip_low", "flip_high", "delta_p", "ci_low", "ci_high"),
    "delta_p_q": "mean ΔP of the samples that flip",
    **recurring("thin", "signal"),
}
"""Column of the table → what it holds."""
CLASSES = ("right", "wrong")
SURE = ("sure", "unsure")
TERCILES = ("low", "middle", "high")
OTHERS = "other relations"


def report(analysis: Analysis) -> pd.DataFrame:
    """Flips and ΔP at the headline layer, by what the samples are.

    Strata: `label` and `predicted` (by the clean probe: the direction in which a sample can flip),
    `right` or `wrong`; `popularity`, terciles of those known; `relation`, those of fewer than
    `min_n` samples together as `other relations`; `length` of the question in words, `shorter` (at
    most the median) or `longer`; `sure`, whether the finder is sure of E_A. One in which no two
    samples differ is left out.

    A row for each condition, stratum and value, with the columns `STRATA`, see docs/products.md;
    of a control over the samples where it is complete, its draws averaged. `auc` is the clean
    probe's within the stratum, blank without both classes.
    """
    readout, answers, layer = analysis.readout, analysis.answers, analysis.readout.headline
    cuts = {one.name for pair in controlled_cuts() for one in pair}
    compared = [name for name in readout.effects if name in cuts]
    effects_here = {name: _at(readout.effects[name], layer) for name in compared}
    here = replace(readout, clean=readout.clean[[layer]], effects=effects_here)
    strata = _strata(answers, here.clean[0] > 0, analysis.min_n)
    signal = analysis.strength["signal"][layer]

    def groups(readout: Readout) -> list[Group]:
        groups = []
        for condition, effects in readout.effects.items():
            counted = effects.measured
            if REGISTRY[condition].role == "control":
                counted = control_is_complete(readout, answers, condition)
            for stratum, of_sample in strata.items():
                values = of_sample.remove_unused_categories().categories
                for value in values if len(values) > 1 else ():
                    key = {"stratum": stratum, "value": value, "condition": condition}
                    members = counted & (of_sample == value)
                    key |= {"signal": signal, **_auc(analysis, here.clean[0], members)}
                    groups.append(_group(effects, key, members))
        return groups

    return replace(analysis, readout=here).table(STRATA, groups).assign(layer=layer)


def _at(effects: Effects, layer: int) -> Effects:
    """Effects at one layer, [draws, 1, n]."""
    names = ("s", "flip", "delta_p", "delta_logit")
    return replace(effects, **{name: getattr(effects, name)[:, [layer]] for name in names})


def _auc(analysis: Analysis, s: np.ndarray, members: np.ndarray) -> Columns:
    """AUC of the scores s [n] among some samples [n]; the probes held fixed."""
    z = analysis.answers["label"].to_numpy(dtype=np.int64)
    drawn = analysis.drawn.aucs(np.where(members, s, np.nan)[None], z)
    low, high = percentile(drawn, analysis.level)
    return {"auc": auc(s[members], z[members]), "auc_low": low[0], "auc_high": high[0]}


def _group(effects: Effects, columns: Columns, members: np.ndarray) -> Group:
    """Some samples [n] under a condition, the draws averaged within each."""
    whole = members[None, None]
    flips = Means(effects.flip.mean(0, keepdims=True), whole)
    points = Means(effects.delta_p.mean(0, keepdims=True), whole)
    quantities = {"flip_share": Quantity(flips, "flip", SHARE), "delta_p": Quantity(points, "ci")}
    flipped = Means(effects.delta_p, effects.flip & members)
    return Group(columns, whole, whole, quantities, {"delta_p_q": flipped})


def _strata(
    answers: pd.DataFrame, predicted: np.ndarray, min_n: int
) -> dict[str, pd.Categorical[str]]:
    """Stratum → the value of each sample, missing where it is unknown."""
    words = np.array([len(question.split()) for question in answers["question"]])
    strata = {"label": _categories(answers["label"], CLASSES)}
    strata["predicted"] = _categories(predicted, CLASSES)
    if "popularity" in answers:
        strata["popularity"] = _terciles(pd.to_numeric(answers["popularity"]))
    if "relation" in answers:
        strata["relation"] = _relations(answers["relation"], min_n)
    strata["length"] = _categories(words > np.median(words), ("shorter", "longer"))
    if "ea_sure" in answers:
        strata["sure"] = _categories(~answers["ea_sure"].astype(bool), SURE)
    return strata


def _categories(codes: pd.Series | np.ndarray, values: Sequence[str]) -> pd.Categorical[str]:
    return pd.Categorical.from_codes(np.asarray(codes, dtype=np.int64), pd.Index(values))


def _terciles(popularity: pd.Series) -> pd.Categorical[str]:
    numbers = popularity.to_numpy(dtype=np.float64, na_value=np.nan)
    missing = np.isnan(numbers)
    edges = np.nanquantile(numbers, [1 / 3, 2 / 3]) if not missing.all() else []
    return _categories(np.where(missing, -1, np.searchsorted(edges, numbers)), TERCILES)


def _relations(relation: pd.Series, min_n: int) -> pd.Categorical[str]:
    rare = relation.map(relation.value_counts()) < min_n
    named = relation.mask(rare, OTHERS)
    return pd.Categorical(named, [*sorted(set(named.dropna()) - {OTHERS}), OTHERS])
