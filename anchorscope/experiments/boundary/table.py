"""The table of what a model knows: means of each group, their difference, and the control's."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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
)
from anchorscope.experiments.boundary import COLUMNS, KNOCKOUT, MEASURES, RANDOM
from anchorscope.experiments.experiment import PER_SAMPLE
from anchorscope.experiments.measured import Measured
from anchorscope.probes.bands import ANY, Means
from anchorscope.probes.intervals import Bootstrap
from anchorscope.probes.samples import Readout
from anchorscope.questions import world

Values = dict[str, np.ndarray]
"""Measure → its value of each sample, float64 [n]; NaN where unknown."""
SHARES = ("right", "unknown")


@dataclass(frozen=True)
class Difference(Means):
    """A mean, or a difference of means, less another one. Make it by `difference`."""

    more: Means = field(kw_only=True)
    less: Means = field(kw_only=True)

    def estimate(self) -> np.ndarray:
        """The difference, [layers]; NaN where either is."""
        return self.more.estimate() - self.less.estimate()

    def replicates(self, drawn: Bootstrap, placements: int = 1) -> np.ndarray:
        """The difference in each draw, [draws, layers]; each mean has placements of its own."""
        more, less = (one.replicates(drawn, one.placements) for one in (self.more, self.less))
        return more - less

    def clusters(self, drawn: Bootstrap) -> np.ndarray:
        """Those of the mean that has fewer, [layers]."""
        return np.minimum(self.more.clusters(drawn), self.less.clusters(drawn))


def difference(more: Means, less: Means) -> Difference:
    """One mean less another."""
    return Difference(more.values, more.members, more.placements, more=more, less=less)


def table(analysis: Analysis, measured: Measured) -> pd.DataFrame:
    """A row for each layer, way to form groups, sort of facts and anchor."""
    if RANDOM.name not in measured.conditions:
        return pd.DataFrame(columns=list(COLUMNS))
    values, counted = values_of(measured), measured.control_is_complete(RANDOM.name)
    signal = analysis.strength["signal"]

    def groups(readout: Readout) -> list[Group]:
        flips = {KNOCKOUT.name: readout.effects[KNOCKOUT.name].flip, RANDOM.name: random(measured)}
        return [
            group
            for facts, chosen in facts_of(measured.answers).items()
            for group in _groups(flips, values, chosen, counted, {"facts": facts, "signal": signal})
        ]

    return analysis.table(tuple(COLUMNS), groups)


def per_sample(analysis: Analysis, measured: Measured) -> pd.DataFrame:
    """What is known of each sample, and as a control the same of another one, drawn by chance."""
    if RANDOM.name not in measured.conditions:
        return pd.DataFrame(columns=list(PER_SAMPLE))
    counted, frames = measured.control_is_complete(RANDOM.name), []
    others = np.random.default_rng(0).permutation(np.flatnonzero(counted))
    for name in ("unknown", "logprob", "entropy"):
        value = np.where(counted, values_of(measured)[name], np.nan)
        control = np.full_like(value, np.nan)
        control[counted] = value[others]
        columns = {"id": measured.answers["id"], "arm": "boundary", "measure": name}
        frames.append(pd.DataFrame(columns | {"value": value, "control": control}))
    return pd.concat(frames, ignore_index=True)[list(PER_SAMPLE)]


def values_of(measured: Measured) -> Values:
    """Every measure of every sample."""
    answers = measured.answers
    there = [name for name in MEASURES if name in measured.rows]
    values = {name: _numbers(measured.facts("clean", name)) for name in there}
    popularity = answers.get("popularity", pd.Series(np.nan, index=answers.index))
    return values | {"right": 1.0 - answers["label"].to_numpy(), "popularity": _numbers(popularity)}


def random(measured: Measured) -> np.ndarray:
    """Which samples each draw of the control flips, bool [draws, layers, n]."""
    return (measured.values(RANDOM.name) > 0) != (measured.values("clean")[0] > 0)


def facts_of(answers: pd.DataFrame) -> dict[str, np.ndarray]:
    """Sort of facts → which samples are of it, bool [n]; one sort where none was left out of
    training."""
    kinds = answers.get("kind", pd.Series(None, index=answers.index, dtype=object))
    unseen = (kinds == world.UNSEEN).to_numpy()
    everyone = np.ones(len(answers), dtype=bool)
    return {"all": everyone} | ({"learned": ~unseen, "unseen": unseen} if unseen.any() else {})


def _groups(
    flips: Mapping[str, np.ndarray],
    values: Values,
    chosen: np.ndarray,
    counted: np.ndarray,
    key: Columns,
) -> Iterator[Group]:
    """The groups of both ways to form them, what these differ in, and the difference of that.

    Of samples that are `chosen`, bool [n], and of these the `counted` ones.
    """
    differences: list[Mapping[str, Means]] = []
    for name, flip in flips.items():
        by_anchor = {anchor: members & chosen for anchor, members in anchored(flip).items()}
        means = {anchor: _means(values, members & counted) for anchor, members in by_anchor.items()}
        for anchor, members in by_anchor.items():
            named = {"groups": name, "anchor": anchor}
            yield _group(key | named, means[anchor], members, members & counted)
        of_both = {one: difference(means["Q"][one], means["A"][one]) for one in values}
        differences.append(of_both)
        named = {"groups": name, "anchor": "Q-A"}
        yield _group(key | named, of_both, by_anchor["all"], _smaller(flip, chosen & counted))
    cut, spared = differences
    together = {one: difference(cut[one], spared[one]) for one in values}
    fewer = _smaller(flips[RANDOM.name], chosen & counted)
    named = {"groups": "-".join(flips), "anchor": "Q-A"}
    yield _group(key | named, together, by_anchor["all"], fewer)


def _group(
    key: Columns, means: Mapping[str, Means], members: np.ndarray, support: np.ndarray
) -> Group:
    """A row of each layer; `support`, bool [ways, layers, n], are those who count."""
    quantities = {}
    for name, one in means.items():
        share = (-1.0, 1.0) if isinstance(one, Difference) else SHARE
        quantities[name] = Quantity(one, name, share if name in SHARES else ANY)
    return Group(key | {"n_paired": count(support)}, members, support, quantities)


def _smaller(flip: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Who counts of the smaller group, whose size decides whether a difference is thin."""
    q, a = flip & counted, ~flip & counted
    return np.where(q.sum(-1, keepdims=True) <= a.sum(-1, keepdims=True), q, a)


def _means(values: Values, members: np.ndarray) -> dict[str, Means]:
    """The mean of each measure over the members, bool [ways, layers, n], that have it."""
    return {
        name: Means(one[None, None], members & ~np.isnan(one), placements=len(members))
        for name, one in values.items()
    }


def _numbers(column: pd.Series) -> np.ndarray:
    """A column as numbers, float64 [n]; NaN where unknown."""
    return pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan)
