"""The pictures beside a figure, by their names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from anchorscope.experiments.crossing.figure import crossing_chart
from anchorscope.experiments.knockout.figure_controls import controls_chart
from anchorscope.experiments.knockout.figure_probes import probes_chart
from anchorscope.figures.figure_data import at_readout
from anchorscope.figures.figure_main import chart, choices
from anchorscope.figures.figure_page import Choice
from anchorscope.figures.figure_readouts import readouts_chart
from anchorscope.figures.figure_request import Chart
from anchorscope.figures.figure_style import Figure


@dataclass(frozen=True)
class View:
    """A picture beside a figure."""

    title: str
    chart: Chart
    tables: tuple[str, ...]  # that it draws


CHARTS = {
    "controls": View(
        "What flips by itself, and what the probes know", controls_chart, ("controls", "contrasts")
    ),
    "crossing": View("What the probes read: question, answer, pair", crossing_chart, ("crossing",)),
    "probes": View("The probes", probes_chart, ("controls", "curve", "density")),
    "readouts": View("ΔP at every read-out", readouts_chart, ("curve",)),
}


def view(
    name: str, tables: Mapping[str, pd.DataFrame], **keywords: Any
) -> tuple[Figure, list[Choice]]:
    """A picture, and what its page switches between: one of `CHARTS`, or a read-out's own.

    `keywords` are those of the main figure; views have titles of their own. A read-out is named as
    `attn-final`.
    """
    if name in CHARTS:
        one = CHARTS[name]
        drawn = [tables[table] for table in one.tables]
        return one.chart(*drawn, **keywords | {"title": one.title}), []
    site, position = name.split("-")
    at = {**keywords, "readout": (site, position)}
    # the figure's own page switches between all read-outs
    here = at_readout(tables["curve"], at["readout"])
    crossing = tables["crossing"]
    return chart(here, crossing, **at), choices(here, crossing, **at)
