"""The samples of a cell that were not dropped, and their scores and effects as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from anchorscope.config.readouts import Pair
from anchorscope.passes import interventions
from anchorscope.questions import folds
from anchorscope.statistics import intervals
from anchorscope.statistics.intervals import ClusterDraws
from anchorscope.storage.errors import AnchorscopeError, stale

Scores = dict[tuple[str, int], np.ndarray]
"""(condition, draw) → scores by the clean probes, float64 [layers, n]; NaN where not measured."""
MARGIN = 0.01
"""A fold chooses the deepest layer whose AUC is at most this much below the best."""


@dataclass(frozen=True)
class Effects:
    """Effects of a condition relative to its `compared_with`. Arrays are [draws, layers, n]."""

    measured: np.ndarray  # whether the condition was measured, bool [n]
    s: np.ndarray  # the score under the condition, float64; NaN where not measured
    flip: np.ndarray  # whether the class differs from ĉ, the class under `compared_with`
    # 100 · (p of ĉ under the condition − p of ĉ under `compared_with`), in percentage points
    delta_p: np.ndarray  # float64; 0 where not measured
    delta_logit: np.ndarray  # the same difference in the logit of ĉ, without the factor 100


@dataclass(frozen=True)
class Readout:
    """The scores of one read-out of a cell, with samples in the order of `in_order`."""

    site: str
    position: str
    clean: np.ndarray  # the score on the clean pass, float64 [layers, n]
    fold: np.ndarray  # outer fold of each sample, int64 [n]
    layer_of_fold: np.ndarray  # layer chosen on each outer training fold, int64 [folds]
    effects: dict[str, Effects]  # by condition, in the order of the registry
    # clean scores by probes of shuffled labels, [layers, n], and these labels, [n]
    shuffled: tuple[np.ndarray, np.ndarray] | None

    @property
    def key(self) -> dict[str, object]:
        """Site and position in a dict, keyed by the names of table columns."""
        return {"site": self.site, "position": self.position}

    @property
    def name(self) -> str:
        """The read-out's name, such as `mlp/final`."""
        return f"{self.site}/{self.position}"

    @property
    def headline(self) -> int:
        """The headline layer, which pictures and contrasts show."""
        return median_layer(self.layer_of_fold)

    @property
    def own(self) -> np.ndarray:
        """The clean scores, each at the layer that the sample's outer fold chose, float64 [n]."""
        return self.clean[self.layer_of_fold[self.fold], np.arange(len(self.fold))]

    def seen_by(self, scores: Scores) -> Readout:
        """Return the read-out with the scores of other probes, and with the same chosen layers."""
        return replace(self, clean=scores["clean", 0], effects=_all_effects(scores))


def deepest_layer(auc: np.ndarray) -> int:
    """Return the deepest layer with AUC [layers] within `MARGIN` of the best; NaN counts as 0."""
    auc = np.nan_to_num(auc, nan=0.0)
    return int(np.flatnonzero(auc >= auc.max() - MARGIN)[-1])


def layer_of_fold(inner_auc: np.ndarray) -> np.ndarray:
    """Return int64 [folds]: each outer fold's chosen layer. `inner_auc` is [layers, folds]."""
    return np.array([deepest_layer(auc) for auc in inner_auc.T])


def median_layer(layers: np.ndarray) -> int:
    """Return the headline layer: the median of the folds' choices, rounded down."""
    return int(np.floor(np.median(layers)))


def stood_for(answers: pd.DataFrame) -> np.ndarray:
    """Return the answers that each sample stands for, float64 [n]; one each if all are measured."""
    if "stands_for" not in answers:
        return np.ones(len(answers))
    return answers["stands_for"].to_numpy(dtype=np.float64)


def in_order(answers: pd.DataFrame) -> pd.DataFrame:
    """Return the answers sorted by id, so that bootstrap draws do not depend on row order."""
    order = np.argsort(answers["id"].astype(str).to_numpy(dtype=object))
    return answers.iloc[order].reset_index(drop=True)


def bootstrap(answers: pd.DataFrame, draws: int, seed: int) -> ClusterDraws:
    """Draw clusters of answers that share a subject or, if it is unknown, a question."""
    subjects = list(answers.get("subject", [None] * len(answers)))
    return intervals.bootstrap(folds.clusters(list(answers["question"]), subjects), draws, seed)


def aligned(table: pd.DataFrame, answers: pd.DataFrame, column: str, where: str) -> np.ndarray:
    """Return `table[column]` in the order of `answers`, float64 [n].

    Raises:
        AnchorscopeError: The table does not have one row per answer, or a value is not finite.
    """
    rows = places(table["id"], answers["id"], where)
    values = table[column].to_numpy(dtype=np.float64)[rows]
    if len(strange := answers["id"][~np.isfinite(values)]):
        raise mismatch("a score is not finite", f"{where}, id {strange.iloc[0]}")
    return values


def places(
    there: Iterable[object], wanted: Iterable[object], where: object, product: str = "scores"
) -> np.ndarray:
    """Return the index in `there` of each id in `wanted`, int64 [n].

    Raises:
        AnchorscopeError: `there` has an id twice or lacks one of `wanted`, or their lengths differ.
    """
    index, ids = (pd.Index([str(one) for one in some], dtype=object) for some in (there, wanted))
    if len(index) != len(ids) or index.has_duplicates or not ids.isin(index).all():
        what = f"the ids of {len(index)} rows do not match those of {len(ids)} samples"
        raise mismatch(what, where, product)
    return index.get_indexer(ids)


def mismatch(what: str, where: object, product: str = "scores") -> AnchorscopeError:
    """Return the error for a product that does not match the other products of its cell."""
    return stale(what, where, f"the cell's {product}")


def readouts(scores: pd.DataFrame, answers: pd.DataFrame) -> Iterator[Readout]:
    """Yield the read-outs of a cell, in the order in which they first appear in the scores.

    Answers are as `in_order` returns them.

    Raises:
        AnchorscopeError: Scores and answers have different samples.
    """
    ids = pd.Index(answers["id"].astype(str))
    z = answers["label"].to_numpy(dtype=np.int64)
    keys = ["probe", "condition", "draw"]
    for name, part in scores.groupby("readout", sort=False, observed=True):
        where = f"read-out {name}"
        by_clean_probe: Scores = {}
        shuffled = None
        for (probe, condition, draw), rows in part.groupby(keys, observed=True):
            s = _matrix(rows, ids, str(condition), where)
            if probe == "clean":
                by_clean_probe[str(condition), int(str(draw))] = s
            elif probe == "shuffled":
                labels = _matrix(rows.assign(s=rows["label"]), ids, str(condition), where)
                shuffled = s, labels[0]
        clean = by_clean_probe["clean", 0]
        fold, choosing = _folds(part, clean, ids, z)
        yield Readout(
            *Pair.of(str(name)),
            clean,
            fold=fold,
            layer_of_fold=layer_of_fold(choosing),
            effects=_all_effects(by_clean_probe),
            shuffled=shuffled,
        )


def _matrix(part: pd.DataFrame, ids: pd.Index, condition: str, where: str) -> np.ndarray:
    """Return s, float64 [layers, n]. A `partial` condition leaves unmeasured samples at NaN."""
    where = f"{where}, {condition}"
    layers, values = part["layer"].to_numpy(), part["s"].to_numpy(dtype=np.float64)
    places = ids.get_indexer(pd.Index(part["id"].astype(str)))
    if (bad := (places < 0) | ~np.isfinite(values)).any():
        first = part.iloc[bad.argmax()]
        what = "a score is not finite, or its sample has no answer"
        raise mismatch(what, f"{where}, layer {first['layer']}, id {first['id']}")
    s = np.full((int(layers.max()) + 1, len(ids)), np.nan)
    s[layers, places] = values
    missing = np.isnan(s)
    if len(part) > s.size - missing.sum() or (missing.any(0) != missing.all(0)).any():
        raise mismatch("a sample is scored twice, or not at every layer", where)
    if missing.any() and not interventions.REGISTRY[condition].partial:
        gone = ids[missing[0]]
        raise mismatch(f"{len(gone)} samples have no scores, such as id {gone[0]}", where)
    return s


def _folds(
    scores: pd.DataFrame, clean: np.ndarray, ids: pd.Index, z: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return (fold, auc): the samples' outer folds, int64 [n], and the AUCs, [layers, folds].

    AUCs are computed from inner out-of-fold logits. If there are no inner folds, they are computed
    from the clean scores of all samples outside the outer fold.
    """
    rows = scores[(scores["condition"] == "clean") & (scores["probe"] == "clean")]
    fold = np.zeros(len(ids), dtype=np.int64)
    fold[ids.get_indexer(pd.Index(rows["id"].astype(str)))] = rows["fold"].to_numpy()
    if "inner_auc" in rows and rows["inner_auc"].notna().all():
        inner = rows.pivot_table("inner_auc", "layer", "fold", aggfunc="first")
        return fold, inner.to_numpy(dtype=np.float64)
    outside = [fold != k if fold.any() else fold == k for k in range(fold.max() + 1)]
    return fold, np.array([[intervals.auc(s[some], z[some]) for some in outside] for s in clean])


def _all_effects(scores: Scores) -> dict[str, Effects]:
    """Return the effects of each measured condition, in the order of the registry."""
    effects: dict[str, Effects] = {}
    for one in interventions.REGISTRY.values():
        draws = [scores[key] for key in sorted(scores) if key[0] == one.name]
        if one.role != "clean" and draws:
            effects[one.name] = effects_of(scores[one.compared_with, 0], np.stack(draws))
    return effects


def effects_of(uncut: np.ndarray, moved: np.ndarray) -> Effects:
    """Compare scores `moved` [draws, layers, n] with `uncut` [layers, n]."""
    measured = ~np.isnan(moved).any((0, 1)) & ~np.isnan(uncut).any(0)
    wrong = uncut > 0
    sign = np.where(wrong, 1.0, -1.0)
    return Effects(
        measured=measured,
        s=moved,
        flip=((moved > 0) != wrong) & measured,
        delta_p=np.where(measured, 100 * sign * (sigmoid(moved) - sigmoid(uncut)), 0.0),
        delta_logit=np.where(measured, sign * (moved - uncut), 0.0),
    )


def sigmoid(s: np.ndarray) -> np.ndarray:
    """Return p = σ(s)."""
    return 0.5 * (1 + np.tanh(0.5 * np.asarray(s, dtype=np.float64)))
