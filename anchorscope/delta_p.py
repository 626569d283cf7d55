"""ΔP: how far each layer's probe moves under a condition, by the condition's own flips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from anchorscope import folds, intervals, knockout
from anchorscope.errors import AnchorscopeError
from anchorscope.intervals import Bootstrap, auc
from anchorscope.samples import kept

CONDITIONS = tuple(name for name in knockout.CONDITIONS if name != "clean")
ANCHORS = ("Q", "A", "all")
CURVE = (
    "site", "position", "condition", "grouping", "anchor", "layer", "n", "share", "delta_p",
    "ci_low", "ci_high", "probe_auc", "answer_accuracy", "n_blocked", "share_ci_low",
    "share_ci_high", "delta_logit", "n_clusters", "band_low", "band_high", "thin",
)  # fmt: skip
CONTRASTS = (
    "site", "position", "contrast", "quantity", "layer", "n", "n_clusters", "estimate", "ci_low",
    "ci_high", "ci90_low", "ci90_high", "band_low", "band_high", "no_effect",
)  # fmt: skip
NO_EFFECT = 5.0
HEADLINE_MARGIN = 0.01


@dataclass(frozen=True)
class Effects:
    """What one condition does to each sample at each layer.

    Attributes:
        measured: whether the condition was measured, bool [n].
        flip: whether the predicted class differs from the clean one, bool [draws, layers, n].
        delta_p: 100 · (p_condition(ĉ) − p_clean(ĉ)), ĉ the class predicted on clean;
            percentage points, float64 [draws, layers, n]; 0 where not measured.
        delta_logit: the same of the score s.
    """

    measured: np.ndarray
    flip: np.ndarray
    delta_p: np.ndarray
    delta_logit: np.ndarray


@dataclass(frozen=True)
class Readout:
    """One read-out of a cell: clean AUC by layer, and the effects of each condition."""

    site: str
    position: str
    auc: np.ndarray
    effects: dict[str, Effects]


def curve(
    scores: pd.DataFrame,
    answers: pd.DataFrame,
    *,
    grouping: str = "per_layer",
    draws: int = 1000,
    level: float = 0.95,
    min_n: int = 20,
    min_clusters: int = 10,
    seed: int = 0,
) -> pd.DataFrame:
    """One cell's curve.

    Args:
        scores: the table of `anchorscope.scores.score`.
        answers: the samples: id, question, subject, label, and where known
            `n_blocked_<condition>` (knockout: `n_blocked` will do); dropped rows are left out.
        grouping: `per_layer`, each layer by its own flips, or `reference_layer`, all by those of
            the headline layer (see `headline_layer`).
        draws, level, seed: of the bootstrap, over subjects where known, else questions.
        min_n, min_clusters: a group with fewer samples or clusters is marked `thin`.

    Returns:
        A row for each read-out, condition, anchor and layer, with the columns `CURVE`. `share` and
        `answer_accuracy` are fractions; `share` is over the cell's samples, also for
        `noop`, which measures some of them only. ΔP, its interval and its max-t band over layers
        (`band_low`, `band_high`) are percentage points. Of several random draws every number is
        found for each draw, then averaged. An empty group has n = 0, share = 0 and blanks.

    Raises:
        AnchorscopeError: scores and answers are not of the same samples, an unknown grouping.
    """
    answers = kept(answers)
    drawn = _bootstrap(answers, draws, seed)
    records: list[dict[str, object]] = []
    for readout in _readouts(scores, answers):
        for condition, effects in readout.effects.items():
            found = _Group(readout, condition, effects, answers, drawn, level, min_n, min_clusters)
            flips = _flips(effects, readout.auc, grouping)
            for anchor in ANCHORS:
                fixed = {"condition": condition, "grouping": grouping, "anchor": anchor}
                records += [fixed | row for row in found.rows(_members(anchor, flips, effects))]
    return pd.DataFrame(records, columns=list(CURVE))


def headline_layer(auc_by_layer: np.ndarray) -> int:
    """The deepest layer whose clean AUC is within 0.01 of the best."""
    return int(np.flatnonzero(auc_by_layer >= np.nanmax(auc_by_layer) - HEADLINE_MARGIN)[-1])


def _flips(effects: Effects, auc_by_layer: np.ndarray, grouping: str) -> np.ndarray:
    """Who is Q-Anchored, bool [draws, layers, n]."""
    if grouping == "per_layer":
        return effects.flip
    if grouping == "reference_layer":
        one = headline_layer(auc_by_layer)
        return np.broadcast_to(effects.flip[:, one : one + 1], effects.flip.shape)
    raise AnchorscopeError(
        f"the grouping {grouping} needs more than one cell's scores",
        "grouping",
        "set `grouping` to per_layer or reference_layer",
    )


def _members(anchor: str, flips: np.ndarray, effects: Effects) -> np.ndarray:
    if anchor == "all":
        return np.broadcast_to(effects.measured, flips.shape)
    return effects.measured & (flips if anchor == "Q" else ~flips)


@dataclass(frozen=True)
class _Group:
    """What the rows of one read-out and condition have in common."""

    readout: Readout
    condition: str
    effects: Effects
    answers: pd.DataFrame
    drawn: Bootstrap
    level: float
    min_n: int
    min_clusters: int

    def rows(self, members: np.ndarray) -> Iterator[dict[str, object]]:
        """A row for each layer; `members` of the group, bool [draws, layers, n]."""
        n = members.sum(-1).mean(0)
        n_clusters = self.drawn.clusters_in(members).mean(0)
        thin = (n < self.min_n) | (n_clusters < self.min_clusters)
        columns = {
            "layer": np.arange(members.shape[1]),
            "n": n.astype(int) if len(members) == 1 else n,
            "share": n / len(self.answers),
            "probe_auc": self.readout.auc,
            "answer_accuracy": _mean(self.answers["label"].to_numpy() == 0, members),
            "n_blocked": _mean(self._blocked(), members),
            "delta_logit": _mean(self.effects.delta_logit, members),
            "n_clusters": n_clusters.astype(int) if len(members) == 1 else n_clusters,
            "thin": thin,
            **self._intervals(members, thin),
        }
        fixed = {"site": self.readout.site, "position": self.readout.position}
        for layer in range(members.shape[1]):
            yield fixed | {name: values[layer] for name, values in columns.items()}

    def _intervals(self, members: np.ndarray, thin: np.ndarray) -> dict[str, np.ndarray]:
        estimate = _mean(self.effects.delta_p, members)
        each = self.drawn.means(self.effects.delta_p, members)
        replicates = intervals.mean_known(each, axis=1)
        low, high = intervals.percentile(replicates, self.level)
        band_low, band_high = intervals.simultaneous(estimate, replicates, self.level, ~thin)
        everyone = np.ones(members.shape, dtype=bool)
        shares = self.drawn.means(members.astype(float), everyone).mean(1)
        share_low, share_high = intervals.percentile(shares, self.level)
        blank = np.isnan(estimate)
        return {
            "delta_p": estimate,
            "ci_low": np.where(blank, np.nan, low),
            "ci_high": np.where(blank, np.nan, high),
            "band_low": band_low,
            "band_high": band_high,
            "share_ci_low": np.where(blank, np.nan, share_low),
            "share_ci_high": np.where(blank, np.nan, share_high),
        }

    def _blocked(self) -> np.ndarray:
        """Blocked tokens of each sample, float64 [n]; NaN where unknown."""
        if self.condition == "noop":
            return np.zeros(len(self.answers))
        names = [f"n_blocked_{self.condition}"]
        names += ["n_blocked"] if self.condition == "knockout" else []
        for name in names:
            if name in self.answers:
                return self.answers[name].to_numpy(dtype=np.float64)
        return np.full(len(self.answers), np.nan)


def _mean(values: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Means of the members [layers], for each draw first; NaN where no draw has any."""
    sums = np.where(members, values, 0.0).sum(-1)
    return intervals.mean_known(intervals.ratio(sums, members.sum(-1)), axis=0)


def contrasts(
    scores: pd.DataFrame,
    answers: pd.DataFrame,
    *,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Knockout against random control, paired over the samples whose control is complete.

    Args:
        scores, answers, draws, level, seed: see `curve`; `random_complete` in `answers` says
            where as many tokens were blocked at random as by the knockout (all, if it is absent).

    Returns:
        A row for each read-out, `contrast` (`knockout`, `random`, `knockout-random`), `quantity`
        (`share` of flips; mean `delta_p` over all samples) and layer, with the columns `CONTRASTS`.
        Everything is in percentage points; random draws are averaged within a sample.
        `no_effect`: the 90 % interval lies within ±5 points. No rows where `random` was not run.

    Raises:
        AnchorscopeError: scores and answers are not of the same samples.
    """
    answers = kept(answers)
    drawn = _bootstrap(answers, draws, seed)
    complete = np.ones(len(answers), dtype=bool)
    if "random_complete" in answers:
        complete = answers["random_complete"].to_numpy(dtype=bool)
    records: list[dict[str, object]] = []
    for readout in _readouts(scores, answers):
        if "random" in readout.effects and "knockout" in readout.effects:
            paired = complete & readout.effects["random"].measured
            for fixed, values in _paired(readout):
                fixed |= {"site": readout.site, "position": readout.position}
                rows = _contrast_rows(values, paired, drawn, level)
                records += [fixed | row for row in rows]
    return pd.DataFrame(records, columns=list(CONTRASTS))


def _paired(readout: Readout) -> Iterator[tuple[dict[str, object], np.ndarray]]:
    """Contrast, quantity and values in points, [layers, n]."""
    exact, control = readout.effects["knockout"], readout.effects["random"]
    for quantity in ("share", "delta_p"):
        cut, spared = (
            100.0 * effects.flip.mean(0) if quantity == "share" else effects.delta_p.mean(0)
            for effects in (exact, control)
        )
        yield {"contrast": "knockout-random", "quantity": quantity}, cut - spared
        yield {"contrast": "knockout", "quantity": quantity}, cut
        yield {"contrast": "random", "quantity": quantity}, spared


def _contrast_rows(
    values: np.ndarray, paired: np.ndarray, drawn: Bootstrap, level: float
) -> Iterator[dict[str, object]]:
    """A row for each layer, of values [layers, n]."""
    members = np.broadcast_to(paired, values.shape)
    estimate = _mean(values[None], members[None])
    replicates = drawn.means(values, members)
    low, high = intervals.percentile(replicates, level)
    low90, high90 = intervals.percentile(replicates, 0.9)
    used = np.full(len(values), bool(paired.any()))
    band_low, band_high = intervals.simultaneous(estimate, replicates, level, used)
    for layer in range(len(values)):
        yield {
            "layer": layer,
            "n": int(paired.sum()),
            "n_clusters": int(drawn.clusters_in(paired)),
            "estimate": estimate[layer],
            "ci_low": low[layer],
            "ci_high": high[layer],
            "ci90_low": low90[layer],
            "ci90_high": high90[layer],
            "band_low": band_low[layer],
            "band_high": band_high[layer],
            "no_effect": bool(low90[layer] >= -NO_EFFECT and high90[layer] <= NO_EFFECT),
        }


def _bootstrap(answers: pd.DataFrame, draws: int, seed: int) -> Bootstrap:
    subjects = answers["subject"] if "subject" in answers else [None] * len(answers)
    clusters = folds.clusters(list(answers["question"]), list(subjects))
    return intervals.bootstrap(clusters, draws, seed)


def _readouts(scores: pd.DataFrame, answers: pd.DataFrame) -> Iterator[Readout]:
    """The read-outs of a cell, in the order of the scores, samples in the order of the answers."""
    ids = pd.Index(answers["id"].astype(str))
    z = answers["label"].to_numpy(dtype=np.int64)
    for name, part in scores.groupby("readout", sort=False, observed=True):
        site, position = str(name).split("/")
        parts = {
            (str(condition), int(str(draw))): rows
            for (condition, draw), rows in part.groupby(["condition", "draw"], observed=True)
        }
        if ("clean", 0) not in parts:
            raise _mismatch("the clean pass has no scores", f"read-out {name}")
        clean = _matrix(parts["clean", 0], ids, f"read-out {name}, clean")
        by_layer = np.array([auc(layer, z) for layer in clean["s"]])
        effects = {}
        for condition in sorted({key[0] for key in parts} - {"clean"}, key=_place):
            draws = sorted(draw for other, draw in parts if other == condition)
            where = f"read-out {name}, {condition}"
            moved = [_matrix(parts[condition, draw], ids, where) for draw in draws]
            effects[condition] = _effects(clean, moved, where)
        yield Readout(site, position, by_layer, effects)


def _place(condition: str) -> tuple[int, str]:
    known = CONDITIONS.index(condition) if condition in CONDITIONS else len(CONDITIONS)
    return known, condition


def _matrix(part: pd.DataFrame, ids: pd.Index, where: str) -> dict[str, np.ndarray]:
    """s and p, float64 [layers, n]; NaN where a sample was not measured (`noop` only)."""
    rows = ids.get_indexer(pd.Index(part["id"].astype(str)))
    layer = part["layer"].to_numpy(dtype=np.int64)
    layers = int(layer.max()) + 1
    if (rows < 0).any():
        strange = part["id"].iloc[int(np.flatnonzero(rows < 0)[0])]
        raise _mismatch(f"the scores hold a sample without answer, id {strange}", where)
    filled = np.zeros((layers, len(ids)), dtype=np.int64)
    np.add.at(filled, (layer, rows), 1)
    if filled.max() > 1 or (filled.min(0) != filled.max(0)).any():
        raise _mismatch("a sample is scored twice, or not at every layer", where)
    missing = filled[0] == 0
    if missing.any() and not where.endswith("noop"):
        raise _mismatch(f"no scores of {missing.sum()} samples, id {ids[missing][0]} first", where)
    found = {}
    for name in ("s", "p"):
        found[name] = np.full((layers, len(ids)), np.nan)
        found[name][layer, rows] = part[name].to_numpy(dtype=np.float64)
    return found


def _mismatch(what: str, where: str) -> AnchorscopeError:
    return AnchorscopeError(what, where, "delete the cell's scores and run snakemake again")


def _effects(
    clean: dict[str, np.ndarray], moved: Sequence[dict[str, np.ndarray]], where: str
) -> Effects:
    """Effects of a condition on all its draws."""
    if any(one["s"].shape != clean["s"].shape for one in moved):
        raise _mismatch("not scored at the same layers as the clean pass", where)
    s, p = (np.stack([one[name] for one in moved]) for name in ("s", "p"))
    measured = ~np.isnan(s).any((0, 1))
    wrong = clean["s"] > 0
    sign = np.where(wrong, 1.0, -1.0)
    return Effects(
        measured=measured,
        flip=((s > 0) != wrong) & measured,
        delta_p=np.where(measured, 100 * sign * (p - clean["p"]), 0.0),
        delta_logit=np.where(measured, sign * (s - clean["s"]), 0.0),
    )
