"""Strata: flips and ΔP among samples that are alike in what could pass for truth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from anchorscope.experiments.knockout import strength
from anchorscope.probes import intervals, samples
from anchorscope.probes.intervals import Bootstrap
from anchorscope.probes.samples import Effects

STRATA = (
    "site", "position", "layer", "stratum", "value", "condition", "n", "n_clusters", "flip_share",
    "flip_low", "flip_high", "delta_p", "ci_low", "ci_high", "delta_p_q", "thin", "signal",
)  # fmt: skip
CONDITIONS = ("knockout", "random")
CLASSES = ("right", "wrong")
TERCILES = ("low", "middle", "high")
LENGTHS = ("shorter", "longer")
OTHERS = "other relations"


def report(
    scores: pd.DataFrame,
    answers: pd.DataFrame,
    *,
    floors: pd.DataFrame | None = None,
    strengths: strength.Found | None = None,
    draws: int = 1000,
    level: float = 0.95,
    min_n: int = 20,
    min_clusters: int = 10,
    seed: int = 0,
) -> pd.DataFrame:
    """Flips and ΔP at the headline layer, by what the samples are.

    Strata: `label` and `predicted` (by the clean probe: the direction in which a sample can flip),
    `right` or `wrong`; `popularity`, terciles of those known; `relation`, those of fewer than
    `min_n` samples together as `other relations`; `length` of the question in words, `shorter` (at
    most the median) or `longer`. One in which no two samples differ is left out.

    Args:
        scores, answers, floors, strengths, draws, level, min_n, min_clusters, seed: see
            `curve.curve`;
            also `relation` and `random_complete` in the answers, where known.

    Returns:
        A row for each read-out, condition, stratum and value, with the columns `STRATA`. Under
        `random` it is of the samples whose control is complete, the draws averaged. `flip_share`
        is a fraction of the row's samples; ΔP, percentage points, is the mean over all of them,
        `delta_p_q` over those that flip. Intervals: clustered bootstrap, the probes held fixed.
        `signal`: see `anchorscope.experiments.knockout.strength.Strength`.

    Raises:
        AnchorscopeError: scores, answers and floors are not of the same samples.
    """
    ordered = samples.in_order(answers)
    drawn = samples.bootstrap(ordered, draws, seed)
    complete = ordered.get("random_complete", pd.Series(True, ordered.index)).to_numpy(dtype=bool)
    records: list[dict[str, object]] = []
    for readout in samples.readouts(scores, ordered):
        layer = readout.headline
        names, members = _groups(_strata(ordered, readout.clean[layer] > 0, min_n))
        strong, _ = strength.look_up(strengths, readout, ordered, floors, drawn, level)
        fixed = readout.key | {"layer": layer, "signal": bool(strong.signal[layer])}
        for condition in CONDITIONS:
            if condition not in readout.effects or not names:
                continue
            some = members & complete if condition == "random" else members
            found = _means(readout.effects[condition], layer, some, drawn, level)
            found["thin"] = (found["n"] < min_n) | (found["n_clusters"] < min_clusters)
            for place, (stratum, value) in enumerate(names):
                named = {"stratum": stratum, "value": value, "condition": condition}
                records.append(fixed | named | {name: of[place] for name, of in found.items()})
    return pd.DataFrame(records, columns=list(STRATA))


def _strata(
    answers: pd.DataFrame, predicted: np.ndarray, min_n: int
) -> dict[str, pd.Categorical[str]]:
    """Stratum → the value of each sample, missing where it is unknown."""
    words = np.array([len(question.split()) for question in answers["question"]])
    found = {
        "label": _categories(answers["label"].to_numpy(), CLASSES),
        "predicted": _categories(predicted, CLASSES),
    }
    if "popularity" in answers:
        found["popularity"] = _terciles(pd.to_numeric(answers["popularity"]))
    if "relation" in answers:
        found["relation"] = _relations(answers["relation"], min_n)
    return found | {"length": _categories(words > np.median(words), LENGTHS)}


def _categories(codes: np.ndarray, values: Sequence[str]) -> pd.Categorical[str]:
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


def _groups(strata: dict[str, pd.Categorical[str]]) -> tuple[list[tuple[str, str]], np.ndarray]:
    """Stratum and value of each group, and who is in it, bool [groups, n]."""
    names, members = [], []
    for stratum, of in strata.items():
        values = of.remove_unused_categories().categories
        if len(values) > 1:
            names += [(stratum, value) for value in values]
            members += [of == value for value in values]
    return names, np.array(members)


def _means(
    effects: Effects, layer: int, members: np.ndarray, drawn: Bootstrap, level: float
) -> dict[str, np.ndarray]:
    """Flips and ΔP of some groups, each [groups]; members bool [groups, n]."""
    flip, points = effects.flip[:, layer], effects.delta_p[:, layer]
    flip_share, flip_low, flip_high = _mean(flip.mean(0), members, drawn, level)
    delta_p, ci_low, ci_high = _mean(points.mean(0), members, drawn, level)
    return {
        "n": members.sum(-1),
        "n_clusters": drawn.clusters_in(members),
        "flip_share": flip_share,
        "flip_low": flip_low,
        "flip_high": flip_high,
        "delta_p": delta_p,
        "ci_low": ci_low,
        "ci_high": ci_high,
        "delta_p_q": intervals.mean_members(points[:, None], flip[:, None] & members),
    }


def _mean(
    values: np.ndarray, members: np.ndarray, drawn: Bootstrap, level: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean of values [n] over each group, and its interval, [groups]."""
    each = np.broadcast_to(values, members.shape)
    low, high = intervals.percentile(drawn.means(each, members), level)
    return intervals.mean_members(each[None], members[None]), low, high
