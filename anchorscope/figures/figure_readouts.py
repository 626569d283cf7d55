"""The overview of read-outs: sites below one another, positions side by side, for each model."""

from collections.abc import Sequence
from dataclasses import replace

import altair as alt
import pandas as pd

from anchorscope.figures import figure_data as data
from anchorscope.figures import figure_style as draw
from anchorscope.figures.figure_fit import Asked, fitted
from anchorscope.figures.figure_style import Figure, Style
from anchorscope.figures.figures import (
    FLIP_TIPS,
    delta_range,
    delta_ticks,
    delta_view,
    flip_note,
    flip_view,
    told,
)

Pair = tuple[str, str]
SITES = ("attn", "mlp", "resid")
POSITIONS = {
    "final": "final token",
    "before_answer": "token before the answer",
    "last_answer": "last answer token",
    "prompt_end": "last token of the prompt",
}


@fitted
def readouts_chart(
    curve: pd.DataFrame,
    asked: Asked,
) -> Figure:
    """Every read-out in the table at once: ΔP above flips, as in the main figure.

    A model's panels have one range of ΔP, so that read-outs can be compared by eye.

    Args:
        curve: rows of `results/tables/<figure>.csv`, of any number of read-outs.
        asked: as of `anchorscope.figures.figures.chart`; `readout` tells nothing here.

    Raises:
        AnchorscopeError: missing columns, or nothing measured with this grouping.
    """
    look, panels, datasets = asked.look, asked.panels, asked.datasets
    data.require(curve, f"{data.KEYS} {data.NUMBERS}")
    rows, grouping = data.at_grouping(curve, asked.grouping)
    grid = _grid(rows)
    small = replace(
        look,
        panel_width=round(0.6 * look.panel_width),
        panel_height=round(0.5 * look.panel_height),
        share_height=round(0.5 * look.share_height),
        marker_size=0.6 * look.marker_size,
        line_width=0.75 * look.line_width,
    )
    across = len(grid[0])
    width = across * (small.panel_width + 0.7 * look.spacing) + 5 * look.label_size
    shared = draw.encodings(draw.paper_series(datasets), look, width)
    found = [
        [[_panel(rows, model, readout, datasets) for readout in line] for line in grid]
        for model in panels
    ]
    views = [
        _model(label, model, shared, small) for (_, label), model in zip(panels, found, strict=True)
    ]
    every = [panel for model in found for line in model for panel in line]
    said = f"{_count(every)}; {flip_note(rows).lower()}"
    caption = told([replace(panel, follows=[]) for panel in every], said, grouping, asked.level)
    return draw.figure_of(views, 1, width, asked.title, caption, look)


def _grid(rows: pd.DataFrame) -> list[list[Pair]]:
    """Read-outs by site and position: the sites and the positions that the table holds."""
    sites = [site for site in SITES if (rows["site"] == site).any()]
    positions = [position for position in POSITIONS if (rows["position"] == position).any()]
    return [[(site, position) for position in positions] for site in sites]


def _count(every: Sequence[data.Panel]) -> str:
    measured = {panel.label.rpartition(" at ")[2] for panel in every if panel.cells}
    return f"{len(measured)} read-out{'s' if len(measured) != 1 else ''}"


def _panel(rows: pd.DataFrame, model: Pair, readout: Pair, datasets: Sequence[Pair]) -> data.Panel:
    """One read-out of one model, named in the caption as `Llama-3.2-1B at mlp/final`."""
    here = rows[(rows["site"] == readout[0]) & (rows["position"] == readout[1])]
    key, label = model
    return data.panel_of(here, key, f"{label} at {'/'.join(readout)}", datasets)


def _model(
    label: str, grid: Sequence[Sequence[data.Panel]], shared: draw.Encodings, look: Style
) -> alt.ConcatChart:
    """One model's read-outs; the first of a row carries the labels of the y axes."""
    domain = delta_range([row for line in grid for panel in line for row in panel.curves])
    views = [
        _readout(panel, domain, shared, look, first=k == 0, last=line is grid[-1])
        for line in grid
        for k, panel in enumerate(line)
    ]
    return alt.ConcatChart(
        concat=views,
        columns=len(grid[0]),
        spacing={"row": 10, "column": 0.7 * look.spacing},
        resolve=draw.one_legend(),
        title=draw.panel_heading(label, replace(look, panel_width=len(grid[0]) * look.panel_width)),
    )


def _readout(
    panel: data.Panel,
    domain: tuple[float, float],
    shared: draw.Encodings,
    look: Style,
    *,
    first: bool,
    last: bool,
) -> alt.VConcatChart:
    """ΔP above flips of one read-out."""
    y = draw.value_axis(
        "delta_p", "ΔP" if first else None, domain, delta_ticks(*domain), look, labels=first
    )
    below = draw.value_axis(
        "flips", "Flips" if first else None, (0, 100), (0, 100), look, labels=first
    )
    x = draw.layer_axis(panel.layers, None, labels=False)
    named = draw.layer_axis(panel.layers, "Layer" if last else None)
    heading = draw.panel_heading(panel.label.rpartition(" at ")[2], look)
    heading["fontSize"] = look.label_size
    views = (
        delta_view(panel, y, x, shared, look).properties(title=heading),
        flip_view(panel.flips, below, named, shared, look, FLIP_TIPS),
    )
    return alt.VConcatChart(vconcat=views, spacing=6, resolve=draw.one_legend())
