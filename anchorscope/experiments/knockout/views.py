"""The pictures beside a figure, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from anchorscope.experiments.knockout.figure_controls import controls_chart
from anchorscope.experiments.knockout.figure_probes import probes_chart
from anchorscope.figures.figure_data import at_readout
from anchorscope.figures.figure_page import Choice
from anchorscope.figures.figure_readouts import readouts_chart
from anchorscope.figures.figure_style import Figure
from anchorscope.figures.figures import chart, choices
from anchorscope.passes.interventions import BY_NAME

TITLES = {
    "controls": "What flips by itself, and what the probes know",
    "probes": "The probes",
    "readouts": "ΔP at every read-out",
}


def view(
    name: str, tables: Mapping[str, pd.DataFrame], **asked: Any
) -> tuple[Figure, list[Choice]]:
    """A picture, and what its page switches between.

    Args:
        name: `controls`, `probes`, `readouts`, or another read-out, as `attn-final`.
        tables: the figure's `curve`, `contrasts`, `controls` and `density`.
        asked: as of `chart`, without the title.
    """
    curve, controls = tables["curve"], tables["controls"]
    asked["title"] = TITLES.get(name, f"ΔP when {BY_NAME['knockout'].when}")
    if name == "controls":
        return controls_chart(controls, tables["contrasts"], **asked), []
    if name == "probes":
        given = (controls, curve, tables["density"])
        return probes_chart(*given, **asked), []
    if name == "readouts":
        return readouts_chart(curve, **asked), []
    asked["readout"] = tuple(name.split("-"))
    # the figure's own page switches between all read-outs
    here = at_readout(curve, asked["readout"])
    return chart(here, **asked), choices(here, **asked)
