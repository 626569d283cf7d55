"""The pictures beside a figure, by their names."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from anchorscope.experiments.knockout.figure_controls import controls_chart
from anchorscope.experiments.knockout.figure_probes import probes_chart
from anchorscope.figures.figure_data import at_readout
from anchorscope.figures.figure_page import Choice
from anchorscope.figures.figure_readouts import readouts_chart
from anchorscope.figures.figure_style import Figure
from anchorscope.figures.figures import chart, choices, title_of

# view → its title, what draws it, and of which tables
CHARTS: dict[str, tuple[str, Callable[..., Figure], tuple[str, ...]]] = {
    "controls": (
        "What flips by itself, and what the probes know",
        controls_chart,
        ("controls", "contrasts"),
    ),
    "probes": ("The probes", probes_chart, ("controls", "curve", "density")),
    "readouts": ("ΔP at every read-out", readouts_chart, ("curve",)),
}


def view(
    name: str, tables: Mapping[str, pd.DataFrame], **asked: Any
) -> tuple[Figure, list[Choice]]:
    """A picture, and what its page switches between: one of `CHARTS`, or a read-out's own.

    `asked` is as of `chart`, without the title; a read-out is named as `attn-final`.
    """
    if name in CHARTS:
        title, draw, needed = CHARTS[name]
        return draw(*(tables[table] for table in needed), title=title, **asked), []
    asked |= {"title": title_of("knockout"), "readout": tuple(name.split("-"))}
    # the figure's own page switches between all read-outs
    here = at_readout(tables["curve"], asked["readout"])
    return chart(here, **asked), choices(here, **asked)
