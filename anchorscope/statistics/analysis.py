"""Build the rows of experiments' tables: means over groups of samples, with intervals."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.config.readouts import before_answer
from anchorscope.statistics import bands, intervals, samples, strength
from anchorscope.statistics.bands import Means
from anchorscope.statistics.intervals import Estimate, Resamples
from anchorscope.statistics.samples import Readout, stood_for
from anchorscope.statistics.scores import Scores
from anchorscope.statistics.strength import Gain, Predictions

SHARE, POINTS = (0.0, 1.0), (-100.0, 100.0)
"""`SHARE`: bounds of a share. `POINTS`: bounds of ΔP or another difference in percentage points."""
PROMPT_END = "the probe at the prompt's end"
Columns = dict[str, Any]
"""Column → an array [layers], or a single value for all layers."""


@dataclass(frozen=True)
class Group:
    """Samples that a table summarises in one row per layer."""

    columns: Columns  # names and facts of the group
    members: np.ndarray  # its samples, for each way to form the group, bool [ways, layers, n]
    support: np.ndarray  # samples whose number decides `thin`, bool [ways, layers, n]
    quantities: Mapping[str, Means]  # column → mean over some of the members
    averages: Mapping[str, Means] = field(default_factory=dict)  # means without an interval
    ratios: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # column → part, whole
    # column → prefix of its interval's columns, if it is not the column's name
    ends: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Analysis:
    """One read-out of a cell, and the settings of its intervals."""

    readout: Readout
    answers: pd.DataFrame  # the samples, see `Scores.matching`
    resamples: Resamples
    scores: Scores  # of all read-outs of the cell
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
    def strength(self) -> Columns:
        """Strength of the probe by layer, see `strength.by_layer`."""
        return strength.by_layer(self._predictions(lambda readout: readout.clean), self.level)

    @cached_property
    def over_text(self) -> Gain:
        """Gain of the read-out as a whole over 0.6 and the text models.

        Each sample is scored at its own fold's layer, which it did not help to choose.
        """
        of_cell = self._predictions(lambda readout: readout.own[None])
        return strength.over_text(of_cell, self.level)

    @property
    def signal(self) -> bool:
        """Whether the AUC is significantly above .6 and above each applicable text model's."""
        return bool(self.over_text.estimate.p < 1 - self.level)

    @cached_property
    def over_prompt(self) -> Gain | None:
        """Gain over the probe at the prompt's end, if measured.

        Both probes score each sample at the layer that its own fold chose for them.
        """
        before = self.before
        if before is None:
            return None
        both = [self.versions(one) for one in (self.readout, before)]
        ours, theirs = (np.stack([one.own for one in of]) for of in both)
        of = Predictions(
            ours[:, None], {before.name: theirs}, self.z, self.resamples, self.scores.learned_from
        )
        return strength.margin(of.gains()[..., 0], [PROMPT_END], of, self.level)

    @cached_property
    def before(self) -> Readout | None:
        """The read-out of the same site at the prompt's end, if it is another and was measured."""
        name = before_answer(self.readout.name)
        if name == self.readout.name or name not in self.scores.readouts:
            return None
        return self.scores.readout(name)

    def versions(self, readout: Readout, conditions: Collection[str] = ()) -> list[Readout]:
        """Return the read-out, then a copy for each refit, see `Scores.refits`."""
        return [readout, *self.scores.refits(readout.name, conditions)]

    def _predictions(self, scores: Callable[[Readout], np.ndarray]) -> Predictions:
        """Return the scores `scores(readout)` [layers, n], and those of the text models."""
        return Predictions(
            np.stack([scores(one) for one in self.versions(self.readout)]),
            strength.applying(self.readout.position, self.scores.floors),
            self.z,
            self.resamples,
            self.scores.learned_from,
        )

    def by_group(
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
        versions = self.versions(self.readout, refitted) if refitted else [self.readout]
        frames = []
        for of_group in zip(*map(groups, versions), strict=True):
            frames.append(pd.DataFrame(self._columns(of_group))[list(columns)])
        return stacked(frames, columns)

    def _columns(self, versions: Sequence[Group]) -> Columns:
        """Return all columns of a group, given by the probes, then by each refit.

        A table keeps some of the columns.
        """
        group = versions[0]
        values, factors = self._widened(versions)
        layers, n = np.arange(len(self.readout.clean)), count(group.members)
        n_clusters = _mean_of_ways(self.resamples.clusters_in(group.members))
        supporting = _mean_of_ways(self.resamples.clusters_in(group.support))
        rows: Columns = {
            **self.readout.key,
            **group.columns,
            "layer": layers,
            "headline": layers == self.readout.headline,
            "n": n,
            "n_clusters": n_clusters,
            "thin": intervals.thin(count(group.support), supporting, self),
            "inflation": next(iter(factors.values())),
        }
        for name, means in group.quantities.items():
            found = means.estimate(values[name], self.resamples, self.level)
            low, high = np.where(n == 0, np.nan, (found.low, found.high))
            rows |= replace(found, low=low, high=high).columns(name, group.ends.get(name, ""))
        for name, (part, whole) in group.ratios.items():
            ratios = intervals.ratio(values[part], values[whole])
            rows |= Estimate.of_resamples(ratios, self.level).columns(name)
        return rows | {name: means.mean() for name, means in group.averages.items()}

    def _widened(
        self, versions: Sequence[Group]
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return the values and the factor of each quantity of a group, see `bands.widened`."""
        values, factors = dict[str, np.ndarray](), dict[str, np.ndarray]()
        for name, fitted in versions[0].quantities.items():
            values[name], factors[name] = bands.widened(
                fitted.mean(),
                Means.replicates,
                [one.quantities[name] for one in versions],
                self.resamples,
                self.scores.learned_from,
            )
        return values, factors


def analyses(
    scores: Scores, answers: pd.DataFrame, *, draws: int = 1000, seed: int = 0, **settings: Any
) -> Iterator[Analysis]:
    """Yield the read-outs of a cell, one at a time to save memory.

    The bootstrap draws subjects if they are known, else questions. Answers need id, question and
    label; subject is optional. Answers without scores are left out. `settings` go into each
    `Analysis`.

    Raises:
        AnchorscopeError: Scores and answers have different samples.
    """
    measured = scores.matching(answers)
    resamples = samples.bootstrap(measured, draws, seed)
    for name in scores.readouts:
        yield Analysis(scores.readout(name), measured, resamples, scores, **settings)


def cell_table(
    make: Callable[[Analysis], pd.DataFrame], scores: Scores, answers: pd.DataFrame, **settings: Any
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
    return pd.Index(answers["id"]).get_indexer(pd.Index(partners, dtype=object))
