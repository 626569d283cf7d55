"""Build the rows of experiments' tables: means over groups of samples, with intervals."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.probes import bands, intervals, samples, strength
from anchorscope.probes.bands import ANY, Draws, Means, Spread
from anchorscope.probes.fitting import stood_for
from anchorscope.probes.intervals import ClusterDraws
from anchorscope.probes.samples import Readout
from anchorscope.probes.strength import Again, Strength, of_scores

SHARE, POINTS = (0.0, 1.0), (-100.0, 100.0)
"""`SHARE`: bounds of a share. `POINTS`: bounds of ΔP or another difference in percentage points."""
Columns = dict[str, Any]
"""Column → an array [layers], or a single value for all layers."""


@dataclass(frozen=True)
class Quantity:
    """A mean over samples with an interval."""

    means: Means
    ends: str  # prefix of the interval's columns
    bounds: tuple[float, float] = ANY  # range of one sample's value, and so of the interval


@dataclass(frozen=True)
class Group:
    """Samples that a table summarises in one row per layer."""

    columns: Columns  # names and facts of the group
    members: np.ndarray  # its samples, for each way to form the group, bool [ways, layers, n]
    support: np.ndarray  # samples whose number decides `thin`, bool [ways, layers, n]
    quantities: Mapping[str, Quantity]  # column → mean over some of the members
    averages: Mapping[str, Means] = field(default_factory=dict)  # means without an interval
    ratios: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # column → part, whole


@dataclass(frozen=True)
class Analysis:
    """One read-out of a cell, and the settings of its intervals."""

    readout: Readout
    answers: pd.DataFrame  # the samples, see `samples.in_order`
    drawn: ClusterDraws
    floors: pd.DataFrame | None = None  # see `probes.floors.floors`; None if unknown
    # scores of refitted probes and floors; if None, intervals hold probes and floors fixed
    refits: Draws | None = None
    before: Readout | None = None  # the read-out of the same site at the prompt's end, if measured
    level: float = 0.95  # level of the intervals
    min_n: int = 20  # a row with fewer samples is `thin`
    min_clusters: int = 10  # a row with fewer clusters is `thin`

    @property
    def z(self) -> np.ndarray:
        """Labels, int64 [n]."""
        return self.answers["label"].to_numpy(dtype=np.int64)

    @property
    def stands_for(self) -> np.ndarray:
        """Answers of the pool that each sample stands for, float64 [n]."""
        return stood_for(self.answers)

    @cached_property
    def strength(self) -> Strength:
        """Strength of the probe by layer."""
        return self._strength(lambda readout: readout.clean)

    @cached_property
    def cell_strength(self) -> Strength:
        """Strength of the read-out as a whole, with each sample scored at its own fold's layer.

        No sample helps to choose the layer that scores it. `signal` is true if `margin_p` is below
        1 - `level`: the AUC is significantly above .6 and above each applicable text model's.
        """
        found = self._strength(lambda readout: readout.own[None])
        return {**found, "signal": found["margin_p"] < 1 - self.level}

    @cached_property
    def over_prompt(self) -> Strength | None:
        """The columns of `strength.margin`, [1], over the probe at the prompt's end, if measured.

        Both probes score each sample at the layer that its own fold chose for them.
        """
        if self.before is None or self.before.name == self.readout.name:
            return None
        own, name = self.readout.own[None], self.before.name
        ours, theirs, refits = self._refitted(self.readout), self._refitted(self.before), None
        if ours and theirs:
            refits = Again(ours[0], ours[1][:, None], {name: theirs[1]})
        gains = strength.excess(own, {name: self.before.own}, self.z, self.drawn, refits)
        return strength.margin(gains, ["the probe at the prompt's end"], self.drawn, self.level)

    def _refitted(self, readout: Readout) -> tuple[ClusterDraws, np.ndarray] | None:
        """Return the draws of refits, and each refit's scores `own`, [draws, n]; None if none."""
        refits = self.refits and self.refits.refits(readout, self.answers, ())
        if not refits or not len(refits[0].weights):
            return None
        return refits[0], np.stack([one.own for one in refits[1]])

    def _strength(self, scores: Callable[[Readout], np.ndarray]) -> Strength:
        """Compute the strength of a probe whose scores are `scores(readout)`, [layers, n]."""
        return of_scores(
            scores(self.readout),
            self.readout.position,
            self.answers,
            self.floors,
            self.drawn,
            self.level,
            self._again(scores),
        )

    def _again(self, scores: Callable[[Readout], np.ndarray]) -> Again | None:
        """Return the scores of refitted probes and refitted floors; None unless both exist."""
        if self.refits is None or self.floors is None or not self.refits.floors:
            return None
        refits = self.refits.refits(self.readout, self.answers, ())
        if refits is None:
            return None
        learned_from, readouts = refits
        s = np.stack([scores(readout) for readout in readouts])
        return Again(learned_from, s, self.refits.of_floors(self.answers))

    def table(
        self,
        columns: Iterable[str],
        groups: Callable[[Readout], Sequence[Group]],
        refitted: Sequence[str] = (),
    ) -> pd.DataFrame:
        """Return a table of `columns`, with a row for each group and layer.

        `groups` forms the groups of a read-out. It is called again for each refit of the probes,
        with the read-out as scored by that refit. `refitted` lists the conditions that `groups`
        needs from refits. If it is empty, intervals hold the probes fixed.
        """
        refits = None
        if self.refits is not None and refitted:
            refits = self.refits.refits(self.readout, self.answers, refitted)
        as_fitted = groups(self.readout)

        def means(readout: Readout) -> list[Means]:
            formed = as_fitted if readout is self.readout else groups(readout)
            return [one.means for group in formed for one in group.quantities.values()]

        spreads = iter(bands.spreads(means, self.readout, self.drawn, refits))
        frames = []
        for group in as_fitted:
            of_group = {name: next(spreads) for name in group.quantities}
            frames.append(pd.DataFrame(self._columns(group, of_group))[list(columns)])
        return stacked(frames, columns)

    def _columns(self, group: Group, spreads: Mapping[str, Spread]) -> Columns:
        """Return all columns of a group; a table keeps some of them."""
        layers, n = np.arange(len(self.readout.clean)), count(group.members)
        n_clusters = _mean_of_ways(self.drawn.clusters_in(group.members))
        supporting = _mean_of_ways(self.drawn.clusters_in(group.support))
        rows: Columns = {
            **self.readout.key,
            **group.columns,
            "layer": layers,
            "headline": layers == self.readout.headline,
            "n": n,
            "n_clusters": n_clusters,
            "thin": intervals.thin(count(group.support), supporting, self),
            "inflation": next(iter(spreads.values())).inflation,
        }
        for name, quantity in group.quantities.items():
            ends = spreads[name].interval(self.level, quantity.bounds)
            low, high = np.where(n == 0, np.nan, ends)
            rows |= {name: spreads[name].estimate}
            rows |= {f"{quantity.ends}_low": low, f"{quantity.ends}_high": high}
        for name, both in group.ratios.items():
            part, whole = (spreads[one] for one in both)
            rows |= {name: intervals.ratio(part.estimate, whole.estimate)}
            replicates = intervals.ratio(part.replicates, whole.replicates)
            rows |= intervals.ends(name, replicates, self.level)
        return rows | {name: means.estimate() for name, means in group.averages.items()}


def analyses(
    scores: pd.DataFrame,
    answers: pd.DataFrame,
    *,
    draws: int = 1000,
    seed: int = 0,
    **settings: Any,
) -> Iterator[Analysis]:
    """Yield the read-outs of a cell, one at a time to save memory.

    The order of rows has no effect. The bootstrap draws subjects if they are known, else questions.
    Answers need id, question and label; subject is optional. `settings` go into each `Analysis`.

    Raises:
        AnchorscopeError: Scores and answers have different samples.
    """
    ordered = samples.in_order(answers)
    drawn = samples.bootstrap(ordered, draws, seed)
    ends = scores["readout"].astype(str).str.endswith("/prompt_end")
    clean = (scores["condition"] == "clean") & (scores["probe"] == "clean")
    before = {one.site: one for one in samples.readouts(scores[ends & clean], ordered)}
    for readout in samples.readouts(scores, ordered):
        yield Analysis(readout, ordered, drawn, before=before.get(readout.site), **settings)


def table(
    make: Callable[[Analysis], pd.DataFrame],
    scores: pd.DataFrame,
    answers: pd.DataFrame,
    **settings: Any,
) -> pd.DataFrame:
    """Join the tables that `make` returns for the read-outs. `settings` go to `analyses`."""
    return stacked([make(one) for one in analyses(scores, answers, **settings)])


def stacked(frames: Sequence[pd.DataFrame], columns: Iterable[str] = ()) -> pd.DataFrame:
    """Concatenate tables by rows. Empty tables do not change the types of the others."""
    filled = [frame for frame in frames if len(frame)] or list(frames[:1])
    return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame(columns=list(columns))


def anchored(flips: np.ndarray) -> dict[str, np.ndarray]:
    """Map each anchor (`Q`, `A`, `all`) to a bool mask of its members, in the shape of `flips`."""
    return {"Q": flips, "A": ~flips, "all": np.ones_like(flips)}


def count(members: np.ndarray) -> np.ndarray:
    """Return a group's size, [layers], averaged over ways. `members` is bool [ways, layers, n]."""
    return _mean_of_ways(members.sum(-1))


def _mean_of_ways(counts: np.ndarray) -> np.ndarray:
    return counts[0] if len(counts) == 1 else counts.mean(0)


def partner_places(answers: pd.DataFrame, partners: pd.Series | np.ndarray) -> np.ndarray:
    """Return int64 [n]: the row number in `answers` of each sample's partner; -1 if it has none."""
    ids = pd.Index(answers["id"].astype(str))
    return ids.get_indexer(pd.Index(partners.astype(str)))
