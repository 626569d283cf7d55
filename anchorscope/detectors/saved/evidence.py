"""What a saved detector is worth, out of fold: what `detection` says of its method in one cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.config.settings import Bootstrap
from anchorscope.detectors import out_of_fold, pathways
from anchorscope.detectors.cell import Cell
from anchorscope.detectors.method import Method
from anchorscope.detectors.registry import METHODS
from anchorscope.detectors.saved.quality import MEASURES, Interval
from anchorscope.detectors.tables import evaluation, reads, self_awareness
from anchorscope.experiments.crossing import table as crossing
from anchorscope.probes import samples
from anchorscope.probes.floors import FLOORS
from anchorscope.probes.strength import LEAST_AUC
from anchorscope.storage.errors import AnchorscopeError

Row = Mapping[Any, Any]
OWN, VARIANT = "probe", "resid"
"""What the detector, of whatever method, and its variant are called among what is compared."""


def report(
    cells: Sequence[Cell], way: Method, answers: pd.DataFrame, bootstrap: Bootstrap, seed: int
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
    rows = _scores(cells, way)
    mine = rows[rows["detector"] == OWN]
    if mine[mine["condition"] == "clean"].groupby("fold")["s"].nunique().max() == 1:
        what = "the detector gives every answer the same score: it has learned nothing"
        do = "give more rows, or read another site"
        raise AnchorscopeError(what, f"read-out {readout}", do, see="detector")
    scored = evaluation.scored(rows, answers)
    table = evaluation.table(scored, readout, bootstrap, seed)
    by_metric = {str(name): _by(rows, "detector") for name, rows in table.groupby("metric")}
    auroc = by_metric["auroc"]
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
        "crossing": _crossing(reads.table(mine, answers, readout, bootstrap, seed)),
        "pathway": _pathway(own, answers, bootstrap, seed),
    }
    return without_nan(found | {"verdicts": verdicts(found)})


def _scores(cells: Sequence[Cell], way: Method) -> pd.DataFrame:
    """Scores out of fold of the detector, its variant, and what it is compared with."""
    own, *variant = cells
    others = [METHODS[name] for name in ("before", *FLOORS) if name != way.name]
    rows = out_of_fold.scores(own, [way, *others])
    frames = [rows.assign(detector=rows["detector"].replace(way.name, OWN))]
    for cell in variant:
        frames.append(
            out_of_fold.scores(replace(cell, crossed_rows=cell.crossed_rows[:0]), [way]).assign(
                detector=VARIANT, readout=own.clean.readout
            )
        )
    return pd.concat(frames, ignore_index=True)


def _by(table: pd.DataFrame, column: str) -> dict[str, Row]:
    """The rows of a table by the values of a column."""
    return {str(row[column]): row for row in table.to_dict("records")}


def _interval(row: Row, names: Sequence[str]) -> dict[str, float]:
    """Columns of an estimate and of its ends."""
    return Interval(*(float(row[name]) for name in names))._asdict()


def _gains(auroc: Mapping[str, Row]) -> dict[str, Any]:
    """The detector's AUC minus that of everything else, paired."""
    others = [name for name in auroc if name not in (OWN, VARIANT)]
    gains = {name: _interval(auroc[OWN], evaluation.ends(name)) for name in others}
    if VARIANT in auroc:
        value, low, high = _interval(auroc[VARIANT], evaluation.ends(OWN)).values()
        gains[VARIANT] = Interval(-value, -high, -low)._asdict()
    return gains


def _crossing(table: pd.DataFrame) -> dict[str, Any] | None:
    """What it reads of question, answer and pair; None where no answers could be exchanged."""
    if table.empty:
        return None
    row = _by(table, "detector")[OWN]
    terms = {
        name: _interval(row, [f"{name}{end}" for end in ("", "_low", "_high")])
        for name in ("pair_right", "truth")
    }
    counts = {name: int(row[name]) for name in ("n_right", "n_wrong")}
    shares = {name: float(row[f"share_{name}"]) for name in crossing.TERMS}
    return {"reads": str(row["reads"]), **counts, **terms, "shares": shares}


def _pathway(
    cell: Cell, answers: pd.DataFrame, bootstrap: Bootstrap, seed: int
) -> dict[str, Any] | None:
    """How well the states tell the pathway, beside the probe's own score; None without flips."""
    rows = pathways.predictions(cell)
    table = self_awareness.table(rows, answers, cell.clean.readout, bootstrap, seed)
    if table.empty:
        return None
    of, ends = _by(table, "predictor"), ("auc", "auc_low", "auc_high")
    return {
        "share": of["states"]["n_flips"] / of["states"]["n"],
        "auroc": _interval(of["states"], ends),
        "auroc_of_the_score": _interval(of["score"], ends),
        "gain": _interval(of["states"], evaluation.ends("score")),
    }


def without_nan(value: Any) -> Any:
    """Nested values with None in place of NaN, which JSON does not have."""
    if isinstance(value, Mapping):
        return {key: without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_nan(inner) for inner in value]
    return None if isinstance(value, float) and np.isnan(value) else value


def verdicts(report: Mapping[str, Any]) -> list[str]:
    """What the numbers say, in words: what it beats, what it reads."""
    gains, lines = report["gains"], []
    auc = report["out_of_fold"][OWN]["auroc"]
    unbeaten = [name for name in FLOORS if gains[name]["low"] <= 0]
    if auc["low"] <= LEAST_AUC:
        lines.append(f"It is not surely better than AUROC {LEAST_AUC}: do not use it.")
    if unbeaten:
        lines.append(
            f"It is not surely better than the text alone: {', '.join(unbeaten)} does as well. "
            "A classifier of the text is cheaper."
        )
    elif auc["low"] > LEAST_AUC:
        lines.append("It is surely better than every model of the text.")
    if "before" not in gains or gains["before"]["low"] <= 0:
        lines.append(
            "It only reads the question: at the end of the prompt, before the answer is read, a "
            "probe does as well. It tells hard questions, not wrong answers."
        )
    return [*lines, READS[(report["crossing"] or {"reads": crossing.TOO_FEW})["reads"]]]


READS = {
    crossing.TRUTH: "It compares the answer with the question, and tells truth by that.",
    crossing.PAIR: "It compares the answer with the question, but is not shown to tell truth by "
    "that.",
    crossing.NOT_SHOWN: "It is not shown to compare the answer with the question: what it reads "
    "may be the question and the answer, each for itself.",
    crossing.TOO_FEW: "Whether it compares the answer with the question cannot be said: too few "
    "answers could be exchanged between questions.",
}
