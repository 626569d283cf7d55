"""What a saved detector is worth.

Out of fold, when it is fitted: what `detection` says of its method in one cell. And on labelled
answers that it was not fitted to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.config.settings import Bootstrap
from anchorscope.detectors import out_of_fold, self_awareness, verdict
from anchorscope.detectors.cell import DetectionCell
from anchorscope.detectors.method import Method
from anchorscope.detectors.registry import METHODS
from anchorscope.detectors.saved.card import MEASURES, Interval
from anchorscope.detectors.tables import evaluation, reads
from anchorscope.models.answers import NO_GOLD
from anchorscope.probes import samples
from anchorscope.questions import folds
from anchorscope.storage.counts import Counts, in_words
from anchorscope.storage.errors import AnchorscopeError

OWN, VARIANT = "probe", "resid"
"""What the detector, of whatever method, and its variant are called among what is compared."""
FITTED_TO = "of a question or subject that it was fitted to"
REPEATED = "equal question folded"


def report(
    cells: Sequence[DetectionCell],
    way: Method,
    answers: pd.DataFrame,
    bootstrap: Bootstrap,
    seed: int,
) -> dict[str, Any]:
    """What config.json holds, and the card tells.

    `out_of_fold`: rows of the table of detection, by detector and metric; `crossing`: the
    detector's row of what is read; `pathway`: the rows of self-awareness, by predictor. The latter
    are empty where no answers could be swapped, and where no verdict flips.

    Args:
        cells: at its own read-out, and at that of the variant.
        answers: of the cell.
    """
    own = cells[0]
    readout = own.clean.readout
    scores = _scores(cells, way)
    mine = scores[scores["detector"] == OWN]
    how = readout, bootstrap, seed
    table = evaluation.table(evaluation.scored(scores, answers), *how)
    table = table[table["metric"].isin(MEASURES)]
    crossed = reads.table(mine, answers, *how)
    flips = self_awareness.table(self_awareness.predictions(own), answers, *how)
    auroc = table[table["metric"] == "auroc"].set_index("detector").to_dict("index")[OWN]
    return {
        **{name: int(auroc[name]) for name in ("n", "n_wrong", "n_clusters")},
        "level": bootstrap.level,
        "layers_of_folds": samples.layer_of_fold(own.fitted[readout].inner_auc).tolist(),
        "out_of_fold": {
            str(name): _rows(rows, "metric") for name, rows in table.groupby("detector", sort=False)
        },
        "crossing": _rows(crossed, "detector").get(OWN),
        "pathway": _rows(flips, "predictor"),
        "verdicts": verdict.of_detector(auroc, crossed["interaction"].get(0)),
    }


def _scores(cells: Sequence[DetectionCell], way: Method) -> pd.DataFrame:
    """Scores out of fold of the detector, its variant, and what it is compared with."""
    own, *variant = cells
    others = [METHODS[name] for name in ("before", *verdict.TEXTS) if name != way.name]
    rows = out_of_fold.scores(own, [way, *others])
    frames = [rows.assign(detector=rows["detector"].replace(way.name, OWN))]
    for cell in variant:
        rows = out_of_fold.scores(cell, [way])
        names = {"detector": VARIANT, "readout": own.clean.readout}
        frames.append(rows[rows["condition"] == "clean"].assign(**names))
    return pd.concat(frames, ignore_index=True)


def _rows(table: pd.DataFrame, column: str) -> dict[str, Any]:
    """Rows of a table by what a column holds, as JSON has them: null for what is not known."""
    rows: dict[str, Any] = json.loads(
        table.set_index(column).to_json(orient="index", double_precision=15)
    )
    return rows


@dataclass(frozen=True, repr=False)
class Evaluation:
    """How good a detector is on some answers; printed, its measures in a few lines."""

    measures: Mapping[str, Interval]  # those of `MEASURES`
    n: int  # answers that count
    n_wrong: int
    n_clusters: int  # of the bootstrap: subjects where known, else questions
    counts: Counts  # rows given, and those left out, by reason
    scores: pd.DataFrame  # question, response, label, p_wrong of those that count

    def __repr__(self) -> str:
        sizes = f"{self.n:,} answers, {self.n_wrong:,} wrong, {self.n_clusters:,} clusters"
        if self.counts.dropped:
            sizes += f"; left out: {in_words(self.counts.dropped)}"
        lines = [f"{MEASURES[name]:<25} {measure}" for name, measure in self.measures.items()]
        return "\n".join([sizes, *lines])

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        measures = {name: one._asdict() for name, one in self.measures.items()}
        sizes = {name: getattr(self, name) for name in ("n", "n_wrong", "n_clusters")}
        return {**sizes, "measures": measures, "counts": self.counts.as_dict()}


def evaluate(
    table: pd.DataFrame, readout: str, trained_on: frozenset[int], source: object
) -> Evaluation:
    """Measure how well scores tell right from wrong answers.

    Args:
        table: scored rows, with `label` and `subject`, see `Detector.score`.
        readout: what the scores were read off.
        trained_on: what the detector was fitted to: rows that share it do not count.
        source: what errors call the rows.

    Raises:
        AnchorscopeError: no answer that counts, answers of one class.
    """
    dropped = _dropped(table, trained_on)
    used = table[dropped.isna()].reset_index(drop=True)
    left_out = {str(why): int(n) for why, n in dropped.value_counts().items()}
    counts = Counts(len(table), len(used), left_out)
    if used.empty:
        why = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        what, do = f"no answer can be evaluated: {why}", "give labelled rows of other questions"
        raise AnchorscopeError(what, source, do, see="nothing-left")
    if used["label"].nunique() < 2:
        which = "wrong" if used["label"].iloc[0] else "right"
        what, do = f"all {len(used)} answers are {which}", "give answers of both kinds"
        raise AnchorscopeError(what, source, do, see="one-class")
    used = used.astype({"label": np.int64})
    s = {"own": used["logit"].to_numpy(dtype=np.float64)}
    found = evaluation.table(evaluation.DetectionScores(used, s, s), readout, Bootstrap(), 0)
    by_metric = found.set_index("metric").to_dict("index")
    sizes = by_metric["auroc"]
    return Evaluation(
        {name: Interval.of(by_metric[name], "estimate") for name in MEASURES},
        sizes["n"],
        sizes["n_wrong"],
        sizes["n_clusters"],
        counts,
        used[["id", "question", "response", "label", "p_wrong"]].astype({"p_wrong": np.float64}),
    )


def _dropped(table: pd.DataFrame, trained_on: frozenset[int]) -> pd.Series:
    """Why each row does not count, or None."""
    dropped = table["dropped"].astype(object)
    fitted_to = folds.linked(table, trained_on)
    for reason, rows in ((NO_GOLD, table["label"].isna()), (FITTED_TO, fitted_to)):
        dropped = dropped.mask(dropped.isna() & rows, reason)
    again = table[dropped.isna()].duplicated(["question", "response"])
    dropped[again.index[again]] = REPEATED
    return dropped
