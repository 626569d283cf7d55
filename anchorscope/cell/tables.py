"""Tables of the main run in one cell, and tables of cells joined for a figure."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from anchorscope.cell import summary
from anchorscope.curve import controls, curve
from anchorscope.pairs import crossing
from anchorscope.statistics.analysis import analyses, stacked
from anchorscope.statistics.scores import Scores
from anchorscope.storage.errors import stale
from anchorscope.storage.progress import Progress


def columns() -> dict[str, Mapping[str, str]]:
    """Return the columns of each table of the main run, with what they hold."""
    return {
        "curve": curve.CURVE,
        "contrasts": controls.CONTRASTS,
        "controls": controls.columns(),
        "crossing": crossing.CROSSING,
        "claims": crossing.CLAIM_COLUMNS,
        "summary": summary.SUMMARY,
    }


def of_main_run(
    scores: Scores, answers: pd.DataFrame, *, bootstrap: Mapping[str, Any], seed: int
) -> dict[str, pd.DataFrame]:
    """Make the tables of the main run for a cell.

    `bootstrap` is the config's section of this name. `seed` is the seed of the bootstrap draws.
    """
    made: dict[str, list[pd.DataFrame]] = {name: [] for name in columns()}
    every = analyses(scores, answers, **bootstrap, seed=seed)
    for analysis in Progress(every, total=len(scores.readouts), unit="read-outs"):
        made["curve"].append(curve.curve(analysis))
        made["contrasts"].append(controls.contrasts(analysis))
        made["controls"].append(controls.controls(analysis))
        for name, frame in crossing.tables(analysis).items():
            made[name].append(frame)
        made["summary"].append(summary.summary(analysis))
    found = {name: stacked(frames, columns()[name]) for name, frames in made.items()}
    return found | {"summary": summary.with_verdicts(found["summary"], found["claims"])}


def of_figure(made: Mapping[str, pd.DataFrame], level: float) -> dict[str, pd.DataFrame]:
    """Return a figure's joined tables, with claims corrected for the number of its cells."""
    claims = crossing.corrected(made["claims"], level)
    curve = crossing.with_signal(made["curve"], claims)
    told = summary.with_verdicts(made["summary"], claims)
    return {**made, "curve": curve, "claims": claims, "summary": told}


def join(cells: Sequence[Sequence[str]], frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate the tables of several cells, with the columns `model` and `dataset` first.

    Rows and columns keep their order. A cell may have no rows. Each of `cells` is (model,
    dataset), or only (model,) if the tables already have the column `dataset`.

    Raises:
        AnchorscopeError: The tables' columns differ.
    """
    columns, named = list(frames[0]), []
    for cell, frame in zip(cells, frames, strict=True):
        if list(frame) != columns:
            differing = sorted(map(str, {*frame} ^ {*columns})) or ["their order"]
            what = f"the cells' tables have different columns: {', '.join(differing)}"
            raise stale(what, " on ".join(cell), "the tables under delta_p/")
        keys = dict(zip(("model", "dataset"), cell, strict=False))
        named.append(frame.assign(**keys)[list(dict.fromkeys([*keys, *columns]))])
    return stacked(named)
