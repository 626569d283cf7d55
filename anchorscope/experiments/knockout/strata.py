"""Strata: flips and ΔP among samples that are alike in what could pass for truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from anchorscope.experiments.analysis import SHARE, Analysis, Columns, Group, Quantity
from anchorscope.experiments.knockout.curve import complete
from anchorscope.passes.interventions import REGISTRY, in_contrasts
from anchorscope.probes.bands import Means
from anchorscope.probes.samples import Effects, Readout

STRATA = (
    "site", "position", "layer", "stratum", "value", "condition", "n", "n_clusters", "flip_share",
    "flip_low", "flip_high", "delta_p", "ci_low", "ci_high", "delta_p_q", "thin", "signal",
)  # fmt: skip
CLASSES = ("right", "wrong")
TERCILES = ("low", "middle", "high")
OTHERS = "other relations"


def report(analysis: Analysis) -> pd.DataFrame:
    """Flips and ΔP at the headline layer, by what the samples are.

    Strata: `label` and `predicted` (by the clean probe: the direction in which a sample can flip),
    `right` or `wrong`; `popularity`, terciles of those known; `relation`, those of fewer than
    `min_n` samples together as `other relations`; `length` of the question in words, `shorter` (at
    most the median) or `longer`. One in which no two samples differ is left out.

    A row for each condition, stratum and value, with the columns `STRATA`, see docs/products.md;
    of a control over the samples where it is complete, its draws averaged.
    """
    readout, answers, layer = analysis.readout, analysis.answers, analysis.readout.headline
    compared = [name for name in in_contrasts() if name in readout.effects]
    own = {name: _at(readout.effects[name], layer) for name in compared}
    here = replace(readout, clean=readout.clean[[layer]], effects=own)
    strata = _strata(answers, here.clean[0] > 0, analysis.min_n)
    known = {"signal": analysis.strength["signal"][layer]}

    def groups(readout: Readout) -> list[Group]:
        found = []
        for condition, effects in readout.effects.items():
            is_control = REGISTRY[condition].role == "control"
            some = complete(readout, answers, condition) if is_control else True
            for stratum, of in strata.items():
                values = of.remove_unused_categories().categories
                for value in values if len(values) > 1 else ():
                    key = {"stratum": stratum, "value": value, "condition": condition}
                    found.append(_group(effects, key | known, some & (of == value)))
        return found

    return replace(analysis, readout=here).table(STRATA, groups).assign(layer=layer)


def _at(effects: Effects, layer: int) -> Effects:
    """Effects at one layer, [draws, 1, n]."""
    names = ("s", "flip", "delta_p", "delta_logit")
    return replace(effects, **{name: getattr(effects, name)[:, [layer]] for name in names})


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
    found = {"label": _categories(answers["label"], CLASSES)}
    found["predicted"] = _categories(predicted, CLASSES)
    if "popularity" in answers:
        found["popularity"] = _terciles(pd.to_numeric(answers["popularity"]))
    if "relation" in answers:
        found["relation"] = _relations(answers["relation"], min_n)
    return found | {"length": _categories(words > np.median(words), ("shorter", "longer"))}


def _categories(codes: pd.Series | np.ndarray, values: Sequence[str]) -> pd.Categorical[str]:
    return pd.Categorical.from_codes(np.asarray(codes, dtype=np.int64), pd.Index(values))


def _terciles(popularity: pd.Series) -> pd.Categorical[str]:
    known = popularity.to_numpy(dtype=np.float64, na_value=np.nan)
    missing = np.isnan(known)
    edges = np.nanquantile(known, [1 / 3, 2 / 3]) if not missing.all() else []
    return _categories(np.where(missing, -1, np.searchsorted(edges, known)), TERCILES)


def _relations(relation: pd.Series, min_n: int) -> pd.Categorical[str]:
    rare = relation.map(relation.value_counts()) < min_n
    named = relation.mask(rare, OTHERS)
    return pd.Categorical(named, [*sorted(set(named.dropna()) - {OTHERS}), OTHERS])
