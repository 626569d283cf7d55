"""The pictures beside a figure, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from anchorscope.experiments.figure_controls import controls_chart
from anchorscope.experiments.figure_probes import probes_chart
from anchorscope.figures.figure_data import at_readout
from anchorscope.figures.figure_readouts import readouts_chart
from anchorscope.figures.figures import CUTS, chart, choices


def view(
    name: str,
    tables: Mapping[str, pd.DataFrame],
    *,
    readout: tuple[str, str],
    grouping: str,
    looks: Mapping[str, Any],
) -> tuple[Any, Any]:
    """A picture, and what its page switches between.

    Args:
        name: `controls`, `probes`, `readouts`, or another read-out, as `attn-final`.
        tables: the figure's `curve`, `contrasts`, `controls` and `density`.
        readout: site and position that the figure draws.
        grouping: of its curves.
        looks: panels, datasets, style and level, see `chart`.
    """
    curve, controls = tables["curve"], tables["controls"]
    if name == "controls":
        title = "What flips by itself, and what the probes know"
        drawn = controls_chart(controls, tables["contrasts"], title=title, readout=readout, **looks)
        return drawn, []
    looks = {**looks, "grouping": grouping}
    if name == "probes":
        given = (controls, curve, tables["density"])
        return probes_chart(*given, title="The probes", readout=readout, **looks), []
    if name == "readouts":
        return readouts_chart(curve, title="ΔP at every read-out", **looks), []
    site, _, position = name.partition("-")
    looks |= {"title": CUTS["knockout"], "readout": (site, position)}
    # The figure's own page switches between all read-outs.
    return chart(curve, **looks), choices(at_readout(curve, looks["readout"]), **looks)
