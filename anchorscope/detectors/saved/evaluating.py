"""Evaluating a saved detector on labelled answers that it was not fitted to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.detectors import overlap
from anchorscope.detectors.saved.quality import Interval, estimates
from anchorscope.models.answers import NO_GOLD
from anchorscope.probes import samples
from anchorscope.storage.counts import Counts
from anchorscope.storage.errors import AnchorscopeError

FITTED_TO = "shares a question or subject with what it was fitted to"
REPEATED = "equal question folded"


@dataclass(frozen=True)
class Evaluation:
    """How good a detector is on some answers."""

    measures: Mapping[str, Interval]  # see `quality.estimates`
    n: int  # answers that count
    n_wrong: int
    n_clusters: int  # of the bootstrap: subjects where known, else questions
    counts: Counts  # rows given, and those left out, by reason
    scores: pd.DataFrame  # question, response, label, p_wrong of those that count

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        measures = {name: one._asdict() for name, one in self.measures.items()}
        sizes = {name: getattr(self, name) for name in ("n", "n_wrong", "n_clusters")}
        return {**sizes, "measures": measures, "counts": self.counts.as_dict()}


def evaluate(
    table: pd.DataFrame,
    trained_on: frozenset[int],
    source: object,
    *,
    draws: int,
    level: float,
    seed: int,
) -> Evaluation:
    """Measure how well scores tell right from wrong answers.

    Args:
        table: scored rows, with `label`, `subject`, `p_wrong` and `dropped`.
        trained_on: what the detector was fitted to: rows that share it do not count.
        source: what errors call the rows.
        draws, level, seed: of the bootstrap.

    Raises:
        AnchorscopeError: answers of one class, scores all the same.
    """
    table = table.copy()
    table["dropped"] = [*_reasons(table, trained_on)]
    used = table[table["dropped"].isna()].reset_index(drop=True)
    left_out = {str(why): int(n) for why, n in table["dropped"].value_counts().items()}
    counts = Counts(len(table), len(used), left_out)
    z, p = used["label"].to_numpy(dtype=np.int64), used["p_wrong"].to_numpy(dtype=np.float64)
    _check(z, p, source, counts)
    drawn = samples.bootstrap(used, draws, seed)
    return Evaluation(
        estimates(p, z, drawn, level),
        len(z),
        int(z.sum()),
        int(drawn.clusters.max()) + 1,
        counts,
        used[["id", "question", "response"]].assign(label=z, p_wrong=p),
    )


def _reasons(table: pd.DataFrame, trained_on: frozenset[int]) -> Iterator[str | None]:
    """Why each row does not count, or None."""
    fitted_to = overlap.shared(table, trained_on)
    seen: set[tuple[Any, Any]] = set()
    for row, in_training in zip(table.to_dict("records"), fitted_to, strict=True):
        same = (row["question"], row["response"])
        if isinstance(row["dropped"], str):
            yield row["dropped"]
        elif pd.isna(row["label"]):
            yield NO_GOLD
        elif in_training:
            yield FITTED_TO
        else:
            yield REPEATED if same in seen else None
            seen.add(same)


def _check(z: np.ndarray, p: np.ndarray, source: object, counts: Counts) -> None:
    """Refuse answers that allow no evaluation."""
    if not len(z):
        why = ", ".join(f"{count} {reason}" for reason, count in counts.dropped.items())
        what, do = f"no answer can be evaluated: {why}", "give labelled rows of other questions"
        raise AnchorscopeError(what, source, do, see="nothing-left")
    if len(np.unique(z)) < 2:
        what = f"all {len(z)} answers are {'wrong' if z[0] else 'right'}: nothing can be told apart"
        do = "give rows with right and with wrong answers"
        raise AnchorscopeError(what, source, do, see="one-class")
    if np.ptp(p) == 0:
        what = f"all {len(p)} answers get the same score, {p[0]:.3g}: the detector tells nothing"
        do = "check that the rows are of the kind that it was fitted to, or fit it anew"
        raise AnchorscopeError(what, source, do, see="detector")
