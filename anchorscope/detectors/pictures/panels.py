"""What the pictures of detection share: their panels, axes and sizes."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import altair as alt
import pandas as pd

from anchorscope.detectors.pictures import figure_words as words
from anchorscope.detectors.pictures.figure_words import Cell
from anchorscope.figures import figure_panel, figure_style as draw
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_data import Row
from anchorscope.figures.figure_fit import Request
from anchorscope.figures.figure_style import Encodings, Figure, Series, Style

COLOURS = (
    draw.BLUE,
    draw.ORANGE,
    draw.GREEN,
    draw.PURPLE,
    draw.SKY,
    draw.RED,
    "#8c564b",
    "#222222",
)
ROW_HEIGHT = 1.5
"""Of a method's row, in label sizes."""


def by_cell(
    request: Request,
    series: Sequence[Series],
    panel: Callable[[Cell, Encodings, Style], alt.LayerChart | alt.VConcatChart],
    caption: Caption,
    rows: int = 0,
) -> Figure:
    """A panel, or a column of panels, for each cell; `rows` of names of methods beside each."""
    side_by_side = len(request.datasets) if len(request.datasets) > 1 else len(request.panels)
    across = draw.columns_across(side_by_side, 2 * request.look.columns)
    look = sized(request.look, across, rows)
    width = width_of(across, look) + (10 * look.label_size if rows else 0)
    shared = draw.encodings(series, look, width)
    views = [
        panel(Cell(place, place % across == 0, model, dataset), shared, look)
        for place, (model, dataset) in enumerate(product(request.panels, request.datasets))
    ]
    return draw.figure_of(views, across, width, request.title, caption, look)


def sized(look: Style, across: int, rows: int) -> Style:
    """The look of panels by how many stand side by side, with rows of names, if any."""
    height = ROW_HEIGHT * look.label_size * rows or 0.65 * look.panel_height
    narrow = look.panel_width // (2 if across > 2 else 1)
    return look.model_copy(update={"panel_width": narrow, "panel_height": round(height)})


def width_of(across: int, look: Style) -> float:
    return across * (look.panel_width + 0.7 * look.spacing) + 4 * look.label_size


def heading(cell: Cell, look: Style) -> alt.TitleParams:
    return draw.panel_heading(cell.dataset[1], look, below=cell.model[1])


def method_axis(names: Sequence[str], *, labels: bool) -> alt.Y:
    """The y channel of methods, first to last from above."""
    shown = [words.label_of(name) for name in names]
    axis = alt.Axis(title=None, labels=labels, ticks=labels, labelLimit=0, grid=True)
    return alt.Y("label:N", scale=alt.Scale(domain=shown), axis=axis)


def with_ends(row: Mapping[Any, Any], value: str, low: str, high: str, factor: float) -> Row:
    """Value and ends of a row of a table, rounded; null where blank."""
    numbers = {"value": value, "low": low, "high": high}
    ends: Row = {
        name: None if pd.isna(row[column]) else round(factor * float(row[column]), 4)
        for name, column in numbers.items()
    }
    return ends | ({"label": words.label_of(row["detector"])} if "detector" in row else {})


def reach(base: alt.Chart, shared: Encodings, look: Style, tips: figure_panel.Tips) -> alt.Chart:
    """Unseen points with tooltips and the legend's marks."""
    points = base.mark_point(filled=True, opacity=0, size=3 * look.marker_size)
    channels = {"strokeDash": shared.dash, "shape": shared.shape}
    return points.encode(tooltip=draw.tooltips(tips), **channels)


def layered(
    views: Sequence[alt.Chart], table: pd.DataFrame, look: Style, name: str
) -> alt.LayerChart:
    """The layers as a panel, with a note where there are no rows."""
    width, height = look.panel_width, look.panel_height
    layers_ = list(views)
    if table.empty:
        layers_ = [figure_panel.empty_note("not measured", width, height, look)]
    return alt.LayerChart(layer=layers_, width=width, height=height, name=name)
