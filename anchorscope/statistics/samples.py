"""The samples of a cell at one read-out: scores, chosen layers, and effects as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from anchorscope.questions import folds
from anchorscope.statistics import intervals
from anchorscope.statistics.intervals import Resamples
from anchorscope.storage.errors import AnchorscopeError, stale

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
    """The scores of one read-out of a cell; samples are sorted by id."""

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


def select_rows(
    table: pd.DataFrame, ids: Iterable[str], where: object, product: str = "scores"
) -> pd.DataFrame:
    """Return the row of `table` with each of the `ids`, in their order.

    `where` names the table in errors, and `product` the product of the cell to make anew.

    Raises:
        AnchorscopeError: An id has no row, or two.
    """
    wanted = list(ids)
    rows = table[table["id"].isin(wanted)]
    if len(rows) != len(wanted) or rows["id"].duplicated().any():
        raise mismatch(f"{len(wanted)} samples do not match {len(rows)} rows", where, product)
    return rows.set_index("id", drop=False).loc[wanted].reset_index(drop=True)


def bootstrap(answers: pd.DataFrame, draws: int, seed: int) -> Resamples:
    """Draw clusters of answers that share a subject or, if it is unknown, a question."""
    subjects = list(answers.get("subject", [None] * len(answers)))
    return intervals.bootstrap(folds.clusters(list(answers["question"]), subjects), draws, seed)


def mismatch(what: str, where: object, product: str = "scores") -> AnchorscopeError:
    """Return the error for a product that does not match the other products of its cell."""
    return stale(what, where, f"the cell's {product}")


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
