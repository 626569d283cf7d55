"""ΔP: how far each layer's probe moves under a condition, by the condition's own flips."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from anchorscope.experiments.interchange import table as interchange
from anchorscope.experiments.knockout import EXPERIMENT, strength
from anchorscope.experiments.knockout.strength import Strength
from anchorscope.passes.interventions import ARMS
from anchorscope.probes import bands, samples
from anchorscope.probes.bands import Means, Refits, Spread
from anchorscope.probes.draws import Draws
from anchorscope.probes.intervals import Bootstrap, mean_members
from anchorscope.probes.samples import Effects, Readout

ANCHORS = ("Q", "A", "all")
GROUPINGS = ("per_layer", "reference_layer", "replicate")
CURVE = EXPERIMENT.cell_columns
CONTRASTS = (
    "site", "position", "contrast", "quantity", "layer", "n", "n_clusters", "estimate", "ci_low",
    "ci_high", "ci90_low", "ci90_high", "band_low", "band_high", "no_effect", "signal", "inflation",
)  # fmt: skip
NO_EFFECT = 5.0


def curve(
    scores: pd.DataFrame,
    answers: pd.DataFrame,
    *,
    floors: pd.DataFrame | None = None,
    strengths: strength.Found | None = None,
    draws_of_refits: Draws | None = None,
    draws: int = 1000,
    level: float = 0.95,
    min_n: int = 20,
    min_clusters: int = 10,
    seed: int = 0,
) -> pd.DataFrame:
    """One cell's curve, by every grouping that its conditions allow.

    Args:
        scores: the table of `anchorscope.probes.scores.score`; only the probe as defined counts.
        answers: the samples: id, question, subject, label, and where known `popularity` and
            `n_blocked_<condition>` (knockout: `n_blocked` will do); dropped rows are left out.
        floors: the table of `anchorscope.probes.floors.floors`.
        strengths: of the read-outs, where they are known (`strength.find`).
        draws_of_refits: what refitted probes say; None gives the intervals of fixed probes.
        draws, level, seed: of the bootstrap, over subjects where known, else questions.
        min_n, min_clusters: a group with fewer samples or clusters is marked `thin`.

    Returns:
        A row for each read-out, condition, grouping, anchor and layer, with the columns `CURVE`,
        whatever the order of the rows given. Groupings: `per_layer`, each layer by its own flips;
        `reference_layer`, all by those of the headline layer; `replicate`, by
        those behind a second prompt for the same question, and the other way round, averaged,
        over the samples that have one. `share` and `answer_accuracy` are fractions; `share`
        is over the cell's samples, also where a condition measures some of them only.
        The groups of `matched` and `placebo` are by the knockout's flips, of the samples whose
        pair counts (`anchorscope.experiments.interchange.table`).
        ΔP, its interval and its max-t band over layers (`band_low`, `band_high`) are percentage
        points. `flip_share`, with `flip_low` and `flip_high`: a fraction, those whose class flips
        under the condition, of the `n_paired` of the group whose random control is complete (of
        `matched` and `placebo`: of its right answers). `inflation`: how much wider than with fixed
        probes the interval of ΔP is (`anchorscope.probes.bands`).
        Of several random draws every number is found for each draw, then averaged; the bootstrap
        draws among them, too. An empty group has n = 0, share = 0 and blanks. `signal` …
        `gain_high`: see `strength.Strength`, at the row's layer; `cell_signal`: the
        read-out's as a whole; `headline`: whether this is the headline layer.

    Raises:
        AnchorscopeError: scores, answers and floors are not of the same samples.
    """
    answers = samples.in_order(answers)
    drawn = samples.bootstrap(answers, draws, seed)
    frames = [pd.DataFrame(columns=list(CURVE))]
    for readout in samples.readouts(scores, answers):
        strong, whole = strength.look_up(strengths, readout, answers, floors, drawn, level)
        common = _Common(
            *(readout, strong, bool(whole.signal[0]), answers, drawn, draws_of_refits),
            *(level, min_n, min_clusters),
        )
        for condition in readout.effects:
            for grouping in _groupings(readout, condition):
                frames += common.of(condition, grouping)
    return pd.concat(frames[1:] or frames, ignore_index=True)


def by_readout(
    scores: pd.DataFrame,
    tables: Mapping[str, Callable[[pd.DataFrame], pd.DataFrame]],
) -> dict[str, pd.DataFrame]:
    """Each table of a cell, made of one read-out's scores after another's.

    So no more than a read-out's effects are held at once.

    Args:
        scores: see `curve`.
        tables: what makes a table of scores, a read-out's rows independent of the others'.
    """
    parts = [part for _, part in scores.groupby("readout", sort=False, observed=True)] or [scores]
    made = {name: [table(part) for part in parts] for name, table in tables.items()}
    return {
        name: pd.concat([one for one in found if len(one)] or found[:1], ignore_index=True)
        for name, found in made.items()
    }


@dataclass(frozen=True)
class _Grouped:
    """Who is Q-Anchored, and the effects that are averaged over them, each [draws, layers, n].

    Attributes:
        flips: whether a sample is Q-Anchored, bool.
        measured: bool [n]; of an arm of the interchange, who counts, [layers, n].
        flip: whether its class flips where its depth is measured, bool.
        delta_p, delta_logit: see `samples.Effects`.
        placements: draws of the condition.
    """

    flips: np.ndarray
    measured: np.ndarray
    flip: np.ndarray
    delta_p: np.ndarray
    delta_logit: np.ndarray
    placements: int

    def members(self, anchor: str) -> np.ndarray:
        if anchor == "all":
            return np.broadcast_to(self.measured, self.flips.shape)
        return self.measured & (self.flips if anchor == "Q" else ~self.flips)

    def quantities(self, anchor: str, paired: np.ndarray) -> list[Means]:
        """ΔP of a group, its share of all samples, and its share of flips among the paired [n]."""
        members = self.members(anchor)
        everyone = np.ones_like(members)
        return [
            Means(self.delta_p, members, self.placements),
            Means(members, everyone, self.placements),
            Means(self.flip, members & paired, self.placements),
        ]


def _groupings(readout: Readout, condition: str) -> list[str]:
    """The groupings for which the condition has what they need."""
    return [by for by in GROUPINGS if by != "replicate" or condition in readout.replicate]


def _grouped(readout: Readout, answers: pd.DataFrame, condition: str, grouping: str) -> _Grouped:
    """The groups of a condition: by its own flips, in an arm of the interchange the knockout's."""
    first = readout.effects[condition]
    if grouping == "replicate":
        return _crossed(first, readout.replicate[condition])
    in_arm = condition in ARMS
    flips = readout.effects["knockout"].flip if in_arm else first.flip
    counted = interchange.arms(readout, answers)[condition].counted if in_arm else None
    measured = first.measured if counted is None else counted
    if grouping == "reference_layer":
        one = readout.headline
        flips = np.broadcast_to(flips[:, one : one + 1], flips.shape)
    return _Grouped(
        *(flips, measured, first.flip, first.delta_p, first.delta_logit),
        placements=len(first.flip),
    )


def _crossed(first: Effects, second: Effects) -> _Grouped:
    """Groups of one prompt with the depth of the other, each way a draw."""

    def both(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        shape = (len(first.flip), *one.shape[1:])
        return np.concatenate([np.broadcast_to(one, shape), np.broadcast_to(other, shape)])

    return _Grouped(
        flips=both(second.flip, first.flip),
        measured=first.measured & second.measured,
        flip=both(first.flip, second.flip),
        delta_p=both(first.delta_p, second.delta_p),
        delta_logit=both(first.delta_logit, second.delta_logit),
        placements=len(first.flip),
    )


@dataclass(frozen=True)
class _Common:
    """What the rows of one read-out have in common."""

    readout: Readout
    strong: Strength
    cell_signal: bool
    answers: pd.DataFrame
    drawn: Bootstrap
    draws: Draws | None
    level: float
    min_n: int
    min_clusters: int

    def of(self, condition: str, grouping: str) -> Iterator[pd.DataFrame]:
        """The rows of a condition's groups, formed so."""
        paired = _pairs(self.readout, self.answers, condition)

        def measure(readout: Readout) -> list[Means]:
            grouped = _grouped(readout, self.answers, condition, grouping)
            return [means for anchor in ANCHORS for means in grouped.quantities(anchor, paired)]

        refits = _refits(self.draws, self.readout, self.answers, "knockout", condition)
        found = iter(bands.spreads(measure, self.readout, self.drawn, refits))
        grouped = _grouped(self.readout, self.answers, condition, grouping)
        for anchor in ANCHORS:
            fixed = {"condition": condition, "grouping": grouping, "anchor": anchor}
            spread = (next(found), next(found), next(found))
            columns = self.columns(condition, grouped, anchor, paired, spread)
            yield pd.DataFrame({**self.readout.key, **fixed, **columns})[list(CURVE)]

    def columns(
        self,
        condition: str,
        grouped: _Grouped,
        anchor: str,
        paired: np.ndarray,
        spread: tuple[Spread, Spread, Spread],
    ) -> dict[str, object]:
        """What a row of each layer holds, [layers] or the same for all."""
        members = grouped.members(anchor)
        n = members.sum(-1).mean(0)
        n_clusters = self.drawn.clusters_in(members).mean(0)
        thin = self._thin(members & paired if condition in ARMS else members)
        layers = np.arange(members.shape[1])
        return {
            "cell_signal": self.cell_signal,
            "layer": layers,
            "headline": layers == self.readout.headline,
            "n": _count(members),
            "share": n / len(self.answers),
            **self._strength(),
            "answer_accuracy": mean_members(self.answers["label"].to_numpy() == 0, members),
            "n_blocked": mean_members(self._blocked(condition), members),
            "delta_logit": mean_members(grouped.delta_logit, members),
            "n_clusters": n_clusters.astype(int) if len(members) == 1 else n_clusters,
            "thin": thin,
            "popularity": self._popularity(members),
            "n_paired": _count(members & paired),
            **self._intervals(*spread, thin),
        }

    def _thin(self, members: np.ndarray) -> np.ndarray:
        """Whether they are too few for a point, bool [layers]."""
        n, n_clusters = members.sum(-1).mean(0), self.drawn.clusters_in(members).mean(0)
        return (n < self.min_n) | (n_clusters < self.min_clusters)

    def _strength(self) -> dict[str, np.ndarray]:
        strong = self.strong
        names = ("signal", "floor", "floor_auc", "gain", "gain_low", "gain_high")
        found = {name: getattr(strong, name) for name in names}
        return found | {"probe_auc": strong.auc, "auc_low": strong.low, "auc_high": strong.high}

    def _intervals(
        self, depth: Spread, share: Spread, flip: Spread, thin: np.ndarray
    ) -> dict[str, np.ndarray]:
        """ΔP, the group's share and its flips; the shares of an empty group have no interval."""
        ci_low, ci_high = depth.interval(self.level)
        band_low, band_high = depth.band(self.level, ~thin)
        empty = np.isnan(depth.estimate)
        share_low, share_high = np.clip(share.interval(self.level), 0, 1)
        flip_low, flip_high = np.clip(flip.interval(self.level), 0, 1)
        return {
            "delta_p": depth.estimate,
            "ci_low": ci_low,
            "ci_high": ci_high,
            "band_low": band_low,
            "band_high": band_high,
            "share_ci_low": np.where(empty, np.nan, share_low),
            "share_ci_high": np.where(empty, np.nan, share_high),
            "flip_share": flip.estimate,
            "flip_low": flip_low,
            "flip_high": flip_high,
            "inflation": depth.inflation,
        }

    def _popularity(self, members: np.ndarray) -> np.ndarray:
        """Mean of the members whose popularity is known, [layers]."""
        if "popularity" not in self.answers:
            return np.full(members.shape[1], np.nan)
        found = pd.to_numeric(self.answers["popularity"]).to_numpy(
            dtype=np.float64, na_value=np.nan
        )
        return mean_members(found, members & ~np.isnan(found))

    def _blocked(self, condition: str) -> np.ndarray:
        """Blocked tokens of each sample, float64 [n]; NaN where unknown."""
        if condition in (*ARMS, "noop"):
            return np.zeros(len(self.answers))
        names = [f"n_blocked_{condition}"]
        names += ["n_blocked"] if condition == "knockout" else []
        for name in names:
            if name in self.answers:
                return self.answers[name].to_numpy(dtype=np.float64)
        return np.full(len(self.answers), np.nan)


def _refits(
    draws: Draws | None, readout: Readout, answers: pd.DataFrame, *conditions: str
) -> Refits | None:
    """The read-out as the probes of each draw see it; None without draws."""
    return None if draws is None else draws.refits(readout, answers, conditions)


def _pairs(readout: Readout, answers: pd.DataFrame, condition: str) -> np.ndarray:
    """Whose flips are compared, bool [n]: in an arm of the interchange those of right answers."""
    if condition in ARMS:
        return answers["label"].to_numpy(dtype=np.int64) == 0
    return _complete(readout, answers)


def _complete(readout: Readout, answers: pd.DataFrame) -> np.ndarray:
    """Whose random control is complete, bool [n]; everyone where it was not run."""
    everyone = np.ones(len(answers), dtype=bool)
    control = readout.effects.get("random")
    if control is None:
        return everyone
    known = "random_complete" in answers
    complete = answers["random_complete"].to_numpy(dtype=bool) if known else everyone
    return complete & control.measured


def _count(members: np.ndarray) -> np.ndarray:
    """Members by layer; of several draws their mean."""
    n = members.sum(-1).mean(0)
    return n.astype(int) if len(members) == 1 else n


def contrasts(
    scores: pd.DataFrame,
    answers: pd.DataFrame,
    *,
    floors: pd.DataFrame | None = None,
    strengths: strength.Found | None = None,
    draws_of_refits: Draws | None = None,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Knockout against random control, and matched against placebo partners, paired.

    Args:
        scores, answers, floors, strengths, draws_of_refits, draws, level, seed: see `curve`;
            `random_complete` in `answers` says where as many tokens were blocked at random as by
            the knockout (all, if absent).

    Returns:
        A row for each read-out, `contrast`, `quantity` (`share` of flips; mean `delta_p` over all
        samples) and layer, with the columns `CONTRASTS`. `knockout`, `random`, `knockout-random`
        are of the samples whose control is complete; `matched`, `placebo`, `matched-placebo` of the
        right answers whose pair counts in both arms (`anchorscope.experiments.interchange.table`).
        Everything is in percentage points; random draws are averaged within a sample.
        `no_effect`: the 90 % interval lies within ±5 points, at a layer with a `signal`; without
        one a contrast cannot be interpreted. No rows of what was not run.

    Raises:
        AnchorscopeError: scores and answers are not of the same samples.
    """
    answers = samples.in_order(answers)
    drawn = samples.bootstrap(answers, draws, seed)
    frames = [pd.DataFrame(columns=list(CONTRASTS))]
    for readout in samples.readouts(scores, answers):
        strong, _ = strength.look_up(strengths, readout, answers, floors, drawn, level)
        refits = _refits(draws_of_refits, readout, answers, "knockout", "random", *ARMS)
        found = _contrasted(answers, readout)
        spread = bands.spreads(partial(_means_of, answers), readout, drawn, refits)
        for (fixed, means), one in zip(found, spread, strict=True):
            columns = _contrast_columns(one, means.members[0], strong.signal, drawn, level)
            frames.append(pd.DataFrame({**readout.key, **fixed, **columns})[list(CONTRASTS)])
    return pd.concat(frames[1:] or frames, ignore_index=True)


def _means_of(answers: pd.DataFrame, readout: Readout) -> list[Means]:
    return [means for _, means in _contrasted(answers, readout)]


def _contrasted(answers: pd.DataFrame, readout: Readout) -> list[tuple[dict[str, object], Means]]:
    """Contrast and quantity, and its means in points over the paired samples."""
    found = [*_against_random(answers, readout)]
    for fixed, values, members in interchange.contrasts(readout, answers):
        found.append((fixed, Means(values[None], members[None])))
    return found


def _against_random(
    answers: pd.DataFrame, readout: Readout
) -> Iterator[tuple[dict[str, object], Means]]:
    if "random" not in readout.effects or "knockout" not in readout.effects:
        return
    exact, control = readout.effects["knockout"], readout.effects["random"]
    members = np.broadcast_to(_complete(readout, answers), control.flip.shape)
    placements = len(control.flip)
    for quantity, cut, spared in (
        ("share", 100.0 * exact.flip, 100.0 * control.flip),
        ("delta_p", exact.delta_p, control.delta_p),
    ):
        for contrast, means in (
            ("knockout-random", Means(cut - spared, members, placements)),
            ("knockout", Means(cut, members[:1])),
            ("random", Means(spared, members, placements)),
        ):
            yield {"contrast": contrast, "quantity": quantity}, means


def _contrast_columns(
    spread: Spread, members: np.ndarray, signal: np.ndarray, drawn: Bootstrap, level: float
) -> dict[str, np.ndarray]:
    """What a row of each layer holds, [layers]; members [layers, n]."""
    low, high = spread.interval(level)
    low90, high90 = spread.interval(0.9)
    band_low, band_high = spread.band(level, np.asarray(members.any(-1)))
    return {
        "layer": np.arange(len(low)),
        "n": members.sum(-1),
        "n_clusters": drawn.clusters_in(members),
        "estimate": spread.estimate,
        "ci_low": low,
        "ci_high": high,
        "ci90_low": low90,
        "ci90_high": high90,
        "band_low": band_low,
        "band_high": band_high,
        "no_effect": (low90 >= -NO_EFFECT) & (high90 <= NO_EFFECT) & signal,
        "signal": signal,
        "inflation": spread.inflation,
    }
