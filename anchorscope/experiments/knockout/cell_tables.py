"""All tables of a cell, from its scores."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pandas as pd

from anchorscope.experiments.analysis import Analysis, analyses, stacked
from anchorscope.experiments.crossing import table as crossing
from anchorscope.experiments.knockout import controls, curve
from anchorscope.probes.bands import Draws


def columns() -> dict[str, Mapping[str, str]]:
    """Return the columns of each table of a cell, with what they hold."""
    return {
        "curve": curve.CURVE,
        "contrasts": controls.CONTRASTS,
        "controls": controls.columns(),
        "crossing": crossing.CROSSING,
        "claims": crossing.CLAIMS,
    }


def tables(
    scores: pd.DataFrame,
    floors: pd.DataFrame,
    answers: pd.DataFrame,
    refits: Draws,
    *,
    bootstrap: Mapping[str, Any],
    seed: int,
) -> dict[str, pd.DataFrame]:
    """Make the tables of a cell, those of `columns`.

    `refits` holds the scores of the refitted probes, for the bands; its ids are in the order of
    scoring. `bootstrap` is the section of the config, and `seed` the seed of its draws.
    """
    makers: dict[str, Callable[[Analysis], pd.DataFrame]] = {
        "curve": curve.curve,
        "contrasts": controls.contrasts,
        "controls": partial(controls.controls, scores=scores, scored_ids=refits.ids),
    }
    by_readout = [
        {name: make(analysis) for name, make in makers.items()} | crossing.tables(analysis)
        for analysis in analyses(
            scores, answers, floors=floors, refits=refits, **bootstrap, seed=seed
        )
    ]
    named = columns().items()
    return {name: stacked([one[name] for one in by_readout], has) for name, has in named}
