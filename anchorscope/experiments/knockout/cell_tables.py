"""All tables of a cell, from its scores."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd

from anchorscope.experiments.interchange import table as interchange
from anchorscope.experiments.knockout import controls, curve, strata, strength
from anchorscope.probes.draws import Draws


def tables(
    scores: pd.DataFrame,
    floors: pd.DataFrame,
    answers: pd.DataFrame,
    draws: Draws,
    *,
    probe: Mapping[str, Any],
    bootstrap: Mapping[str, Any],
    seed: int,
) -> dict[str, pd.DataFrame]:
    """Curve, contrasts, controls, interchange, strata and density of a cell, by their names.

    Args:
        scores, floors: of the cell's samples, see `probes.scores` and `probes.floors`.
        answers: its measured answers.
        draws: scores of the refitted probes, for the bands.
        probe: the settings `scoring` and `prior`.
        bootstrap: the settings of the intervals.
        seed: of the bootstrap.
    """
    whole: dict[str, Any] = {**bootstrap, "seed": seed}
    drawn: dict[str, Any] = {name: whole[name] for name in ("draws", "level", "seed")}
    refits: dict[str, Any] = {"draws_of_refits": draws}
    balanced = probe["scoring"] == "calibrated" and probe["prior"] == "balanced"
    before = controls.before_the_answer(scores)
    strengths = strength.find(scores, answers, floors, **drawn)
    given: dict[str, Any] = {"answers": answers, "floors": floors, "strengths": strengths}
    return curve.by_readout(
        scores,
        {
            "curve": partial(curve.curve, **given, **refits, **whole),
            "contrasts": partial(curve.contrasts, **given, **refits, **drawn),
            "controls": partial(
                controls.controls, **given, before=before, balanced=balanced, **drawn
            ),
            "interchange": partial(interchange.report, answers=answers, **refits, **whole),
            "strata": partial(strata.report, **given, **whole),
            "density": partial(controls.density, answers=answers),
        },
    )
