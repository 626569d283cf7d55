"""What a saved detector is worth, out of fold: what `detection` says of its method in one cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.config.settings import Bootstrap
from anchorscope.detectors import out_of_fold, pathways, verdict
from anchorscope.detectors.cell import DetectionCell
from anchorscope.detectors.method import Method
from anchorscope.detectors.registry import METHODS
from anchorscope.detectors.saved.card import MEASURES, Interval
from anchorscope.detectors.tables import evaluation, reads, self_awareness
from anchorscope.experiments.crossing import table as crossing
from anchorscope.probes import samples
from anchorscope.storage.errors import AnchorscopeError

OWN, VARIANT = "probe", "resid"
"""What the detector, of whatever method, and its variant are called among what is compared."""


def report(
    cells: Sequence[DetectionCell],
    way: Method,
    answers: pd.DataFrame,
    bootstrap: Bootstrap,
    seed: int,
) -> dict[str, Any]:
    """What config.json holds, and the card tells.

    Args:
        cells: at its own read-out, and at that of the variant.
        answers: of the cell.

    Raises:
        AnchorscopeError: the detector gives all answers the same score.
    """
    own = cells[0]
    readout = own.clean.readout
    scores = _scores(cells, way)
    mine = scores[scores["detector"] == OWN]
    if mine[mine["condition"] == "clean"].groupby("fold")["s"].nunique().max() == 1:
        what = "the detector gives every answer the same score: it has learned nothing"
        do = "give more rows, or read another site"
        raise AnchorscopeError(what, f"read-out {readout}", do, see="detector")
    table = evaluation.table(evaluation.scored(scores, answers), readout, bootstrap, seed)
    by_metric = {name: _by(rows, "detector") for name, rows in table.groupby("metric")}
    auroc = by_metric["auroc"]
    crossed = _crossing(reads.table(mine, answers, readout, bootstrap, seed))
    found = {
        **{name: int(auroc[OWN][name]) for name in ("n", "n_wrong", "n_clusters")},
        "level": bootstrap.level,
        "layers_of_folds": samples.layer_of_fold(own.fitted[readout].inner_auc).tolist(),
        "out_of_fold": {
            name: {
                metric: _interval(by_metric[metric][name], evaluation.ESTIMATE)
                for metric in (MEASURES if name in (OWN, VARIANT) else ["auroc"])
            }
            for name in auroc
        },
        "gains": _gains(auroc),
        "crossing": crossed,
        "pathway": _pathway(own, answers, bootstrap, seed),
        "verdicts": verdict.of_detector(auroc[OWN], crossed["interaction"] if crossed else None),
    }
    return without_nan(found)


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


def _by(table: pd.DataFrame, column: str) -> dict[Any, dict[Any, Any]]:
    """Its rows by what a column holds."""
    return table.set_index(column).to_dict("index")


def _interval(row: Mapping[Any, Any], columns: Sequence[str]) -> dict[str, float]:
    return Interval.of(row, columns)._asdict()


def _gains(auroc: Mapping[Any, Mapping[Any, Any]]) -> dict[str, Any]:
    """The detector's AUC minus that of everything else, paired."""
    others = [name for name in auroc if name not in (OWN, VARIANT)]
    gains = {name: _interval(auroc[OWN], evaluation.ends(name)) for name in others}
    if VARIANT in auroc:
        value, low, high = Interval.of(auroc[VARIANT], evaluation.ends(OWN))
        gains[VARIANT] = Interval(-value, -high, -low)._asdict()
    return gains


def _crossing(table: pd.DataFrame) -> dict[str, Any] | None:
    """What it reads of question, answer and pair; None where no answers could be swapped."""
    if table.empty:
        return None
    (row,) = table.to_dict("records")
    terms = {
        name: _interval(row, [f"{name}{end}" for end in ("", "_low", "_high")])
        for name in ("pair_right", "pair_wrong")
    }
    counts = {name: int(row[name]) for name in ("n_right", "n_wrong")}
    shares = {name: float(row[f"share_{name}"]) for name in crossing.TERMS}
    claims = {name: str(row[name]) for name in ("interaction", "own_answer")}
    return {**claims, **counts, **terms, "shares": shares}


def _pathway(
    cell: DetectionCell, answers: pd.DataFrame, bootstrap: Bootstrap, seed: int
) -> dict[str, Any] | None:
    """How well the states tell the pathway, beside the probe's own score; None without flips."""
    rows = pathways.predictions(cell)
    table = self_awareness.table(rows, answers, cell.clean.readout, bootstrap, seed)
    if table.empty:
        return None
    of, ends = _by(table, "predictor"), ("auc", "auc_low", "auc_high")
    states = of["states"]
    return {
        "share": float(states["n_flips"] / states["n"]),
        "auroc": _interval(states, ends),
        "auroc_of_the_score": _interval(of["score"], ends),
        "gain": _interval(states, evaluation.ends("score")),
    }


def without_nan(value: Any) -> Any:
    """Nested values with None in place of NaN, which JSON does not have."""
    if isinstance(value, Mapping):
        return {key: without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_nan(inner) for inner in value]
    return None if isinstance(value, float) and np.isnan(value) else value
