"""A picture: panels in columns and rows under one title, above one legend.

A chart function returns a `Picture`, which holds the rows and settings of each panel. This module
places the panels, the labels of their axes, and the text.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from itertools import product
from typing import Any

import altair as alt
import pandas as pd
from altair.utils.schemapi import debug_mode

from anchorscope.figures import data, marks, style
from anchorscope.figures.axis import LAYERS, Axis, layers_of, x_channel, y_channel
from anchorscope.figures.data import ChartFunction, Request as Request, request_of
from anchorscope.figures.fit import fit
from anchorscope.figures.marks import Draw, Frame, Tips
from anchorscope.figures.notes import Caption as Caption
from anchorscope.figures.style import Chart, Series, Style

COLUMN_MM, PAGE_MM = 85, 180
Under = Callable[[pd.DataFrame, Frame], Sequence[alt.Chart]]
"""Function that draws the lowest layers of a panel, from the panel's rows."""


@dataclass(frozen=True)
class Panel:
    """A row of panels, one per column of the picture. Each panel draws the rows of its column."""

    rows: pd.DataFrame
    y: Axis | Callable[[pd.DataFrame], Axis]  # a function gets the rows of all columns of a model
    tips: Tips  # fields of the tooltips, beside model and dataset
    x: Axis = LAYERS
    draw: Draw = marks.lines
    height: float = 1  # as a multiple of the style's `panel_height`
    heading: str = ""  # above the first panel of the row; the others leave the same space
    under: Under = lambda rows, frame: ()
    # words in a panel without rows, or a function that makes them from the column's values
    note: str | Callable[[Mapping[str, str]], str] = "not measured"


@dataclass(frozen=True)
class Column:
    """A column of panels: the values by which it selects rows, and its heading."""

    of: Mapping[str, str]
    heading: str
    below: str = ""  # a smaller line


@dataclass(frozen=True)
class Layout:
    """Arrangement of a picture's columns, and size of their panels."""

    columns: Sequence[Column]  # from the left, row by row
    across: int  # number of columns side by side
    look: Style  # with the sizes of the panels
    labelled: bool  # whether all columns label their value axes, or only the first of a row

    @property
    def width(self) -> float:
        """Approximate width of the figure in CSS pixels, for its legend and caption."""
        labels = 4 * self.look.label_size * (self.across if self.labelled else 1)
        return self.across * (self.look.panel_width + 0.7 * self.look.spacing) + labels


def by_model(request: Request) -> Layout:
    """Lay out a column for each model."""
    columns = [Column({"model": label}, label) for _, label in request.panels]
    across = style.columns_across(len(columns), request.look.columns)
    return Layout(columns, across, request.look, labelled=True)


def by_cell(request: Request) -> Layout:
    """Lay out a column for each cell, datasets side by side and models below one another.

    With a single dataset, models stand side by side.
    """
    datasets = len(request.datasets)
    columns = [
        Column({"model": model, "dataset": dataset}, dataset, model)
        for (_, model), (_, dataset) in product(request.panels, request.datasets)
    ]
    return small(columns, datasets if datasets > 1 else len(columns), request.look)


def small(columns: Sequence[Column], side_by_side: int, look: Style) -> Layout:
    """Lay out columns of small panels, `side_by_side` in a row, or fewer if room is short."""
    across = style.columns_across(side_by_side, 2 * look.columns)
    look = replace(
        look,
        panel_width=look.panel_width // (2 if across > 2 else 1),
        panel_height=round(0.65 * look.panel_height),
    )
    return Layout(columns, across, look, labelled=False)


@dataclass(frozen=True)
class Picture:
    """Content of a figure."""

    layout: Layout
    series: Sequence[Series]  # of the legend
    panels: Sequence[Panel]  # from above
    caption: Caption
    title: str = ""  # empty: the title of the request

    @property
    def legend(self) -> list[Series]:
        """Entries of the legend: the series, and grey lines if there are any."""
        faint = any(panel.rows["faint"].any() for panel in self.panels if "faint" in panel.rows)
        return [*self.series, *([style.NOT_PREDICTING] if faint else [])]

    @property
    def words(self) -> tuple[list[str], list[str]]:
        """Lines of the caption at the picture's width, and the details."""
        layout = self.layout
        return self.caption.wrapped(style.caption_characters(layout.look, layout.width))


def as_chart(page: Callable[..., Picture]) -> ChartFunction:
    """Turn a function that makes a `Picture` from tables and a `Request` into one that draws it.

    The setting `chart.width` is the printed width. Its default in the theme `paper` is `COLUMN_MM`
    for one model, else `PAGE_MM`. Panels fill what axes and spacing leave. Text keeps its size.
    """

    @wraps(page)
    def chart(*tables: pd.DataFrame, **keywords: Any) -> Chart:
        request = request_of(**keywords)
        look, width = request.look, request.look.chart.width

        def draw_in(look: Style) -> Chart:
            here = replace(request, look=look)
            with debug_mode(False):  # the finished figure is validated, not each part
                return figure(page(*tables, here), here)

        if width is None and look.chart.theme == "paper":
            width = COLUMN_MM if len(request.panels) == 1 else PAGE_MM
        return fit(draw_in, look, width) if width else draw_in(look)

    return chart


def figure(picture: Picture, request: Request) -> Chart:
    """Draw a picture.

    The HTML page reads the caption's details from `usermeta.details` of the specification.
    """
    layout = picture.layout
    look, width = layout.look, layout.width
    shared = style.encodings(picture.legend, look, width)
    views = [_column(picture, place, shared) for place in range(len(layout.columns))]
    lines, details = picture.words
    title = picture.title or request.title
    words = style.title_of(title, lines, look, width) if look.chart.captions else alt.Undefined
    return Chart(
        concat=views,
        columns=layout.across,
        spacing={"row": look.spacing, "column": 0.7 * look.spacing},
        resolve=style.one_legend(),
        title=words,
        config=style.config_of(look),
        background="white",
        usermeta={"details": details},
    )


def _column(picture: Picture, place: int, shared: style.Encodings) -> alt.VConcatChart:
    """Draw the panels of one column below one another."""
    layout, panels = picture.layout, picture.panels
    column, look = layout.columns[place], layout.look
    first = place % layout.across == 0
    views: list[alt.LayerChart] = []
    for panel, below in zip(panels, [*panels[1:], None], strict=True):
        frame = Frame(
            x=_x(picture, panel, below, column),
            y=y_channel(value_axis(column, panel), look, labels=layout.labelled or first),
            shared=shared,
            look=replace(look, panel_height=round(panel.height * look.panel_height)),
            tips=panel.tips,
            note=panel.note if isinstance(panel.note, str) else panel.note(column.of),
        )
        rows = rows_in(column, panel.rows)
        under = [*panel.under(rows, frame)]
        words = style.row_lines(panel.heading, look, visible=first) if panel.heading else []
        if not views:
            gap = 10 if words else 4
            title: Any = style.panel_heading(column.heading, look, column.below, gap)
            under += [style.row_text(words, look)] if words else []
            if picture.series and place == 0:
                under.insert(0, marks.legend_key(shared))
        else:
            title = style.row_heading(words, look) if words else alt.Undefined
        views.append(panel.draw(rows, replace(frame, under=under)))
        views[-1]["title"] = title
    return alt.VConcatChart(vconcat=views, spacing=10, resolve=style.one_legend())


def _x(picture: Picture, panel: Panel, below: Panel | None, column: Column) -> alt.X:
    """Return the x channel of a panel, without labels if the next panel shares the axis."""
    axis = panel.x
    if axis.field == "layer" and axis.ticks is None and axis.names is None:
        alike = [one.rows for one in picture.panels if one.x.field == axis.field]
        layers = [data.layer_count(rows_in(column, rows, model=True)) for rows in alike]
        axis = layers_of(axis, max(layers))
    last = below is None or below.x != panel.x
    return x_channel(axis, title=last, labels=last or bool(below and below.heading))


def value_axis(column: Column, panel: Panel) -> Axis:
    """Return the value axis of the panel in a column."""
    if isinstance(panel.y, Axis):
        return panel.y
    return panel.y(rows_in(column, panel.rows, model=True))


def rows_in(column: Column, rows: pd.DataFrame, *, model: bool = False) -> pd.DataFrame:
    """Return the rows of a column, or of all columns of its model if `model` is true."""
    for name, value in column.of.items():
        if name in rows and (name == "model" or not model):
            rows = rows[rows[name] == value]
    return rows
