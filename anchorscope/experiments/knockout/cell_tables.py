"""All tables of a cell, from its scores."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pandas as pd

from anchorscope.experiments.analysis import Analysis, analyses, stacked
from anchorscope.experiments.crossing import table as crossing
from anchorscope.experiments.knockout import contrasts, controls, curve, strata
from anchorscope.probes.bands import Draws

COLUMNS = {
    "curve": curve.CURVE,
    "contrasts": contrasts.CONTRASTS,
    "controls": controls.CONTROLS,
    "crossing": crossing.CROSSING,
    "claims": crossing.CLAIMS,
    "strata": strata.STRATA,
    "density": controls.DENSITY,
}


def tables(
    scores: pd.DataFrame,
    floors: pd.DataFrame,
    answers: pd.DataFrame,
    refits: Draws,
    *,
    probe: Mapping[str, Any],
    bootstrap: Mapping[str, Any],
    seed: int,
) -> dict[str, pd.DataFrame]:
    """The tables named in `COLUMNS`.

    Args:
        scores, floors: of the cell's samples, see `probes.scores` and `probes.floors`.
        answers: its measured answers, in any order.
        refits: scores of the refitted probes, for the bands; its ids are in the order of scoring.
        probe, bootstrap: sections of the config; of `probe` `scoring` and `prior`.
        seed: of the bootstrap.
    """
    balanced = probe["scoring"] == "calibrated" and probe["prior"] == "balanced"
    makers: dict[str, Callable[[Analysis], pd.DataFrame]] = {
        "curve": curve.curve,
        "contrasts": contrasts.contrasts,
        "controls": partial(
            controls.controls, scores=scores, scored_ids=refits.ids, balanced=balanced
        ),
        "strata": strata.report,
        "density": controls.density,
    }
    by_readout = [
        {name: make(analysis) for name, make in makers.items()} | crossing.tables(analysis)
        for analysis in analyses(
            scores, answers, floors=floors, refits=refits, **bootstrap, seed=seed
        )
    ]
    return {name: stacked([one[name] for one in by_readout], COLUMNS[name]) for name in COLUMNS}
