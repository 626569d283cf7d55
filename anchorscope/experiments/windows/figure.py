"""The pictures of windows: heat maps of the window blocked against the layer read.

All answers together: groups that the knockout's flips formed share passes with most windows.
"""

import math
from collections.abc import Sequence
from functools import partial

import altair as alt
import pandas as pd

from anchorscope.experiments.flip_figure import EXACT, RANDOM, all_answers
from anchorscope.experiments.windows import COLUMNS
from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_panel,
    figure_style as draw,
)
from anchorscope.figures.figure_axis import Axis
from anchorscope.figures.figure_picture import (
    Caption,
    Layout,
    Panel,
    Picture,
    Request,
    as_chart,
    by_cell,
)

TOKENS = {"flips": EXACT, "random": RANDOM}
"""Column → what is blocked."""
READ = {"flips": "Layer read, exact", "random": "Layer read, random", "contrast": "Layer read"}
NO_SIGNAL, NONE = "#d0d0d0", "#f6f6f6"
HEIGHT = 1.5
"""Of a panel, beside that of other small panels."""
TIPS = {
    **draw.LAYER, "cut": ("layers blocked", ""), "tokens": ("tokens", ""),
    "value": ("value, %", ".1f"), **draw.INTERVAL,
}  # fmt: skip


@as_chart
def flips(table: pd.DataFrame, request: Request) -> Picture:
    """Flips, those of the control below; a pair of panels for each model and dataset."""
    rows = _rows(table, request)
    scale = alt.Scale(domain=[0, _most(rows, [*TOKENS])], range=["#edf3fa", "#4a98cc"])
    what = (
        "Predictions that flip when attention to the exact question tokens (above), or to as many "
        "others (below), is blocked in a window of layers"
    )
    return _picture(rows, request, [*TOKENS], _colour("Flips (%)", scale), what)


@as_chart
def contrast(table: pd.DataFrame, request: Request) -> Picture:
    """The paired difference of flips and the control's, a panel for each model and dataset."""
    rows = _rows(table, request)
    most = _most(rows, ["contrast"])
    colours = ["#e6a05a", NONE, "#4a98cc"]
    scale = alt.Scale(domain=[-most, 0, most], range=colours, interpolate="rgb")
    what = (
        "Flips when attention to the exact question tokens is blocked in a window of layers, minus "
        "those when as many others are"
    )
    colour = _colour("Exact − random (points)", scale)
    unsure = "Pale, without a number: the interval contains 0."
    return _picture(rows, request, ["contrast"], colour, what, unsure)


def _rows(table: pd.DataFrame, request: Request) -> pd.DataFrame:
    """The rows of all answers at the read-out, at layers that a window can move.

    Raises AnchorscopeError: missing columns.
    """
    rows = all_answers(data.shown(table, request, COLUMNS))
    return rows[rows["layer"] >= rows["first"]]


def _colour(title: str, scale: alt.Scale) -> alt.Color:
    """The channel of a share; grey where the layer read has no signal, pale where it is unsure."""
    legend = alt.Legend(title=title, orient="bottom", gradientLength=200)
    grey = {"test": "!datum.signal", "value": NO_SIGNAL}
    pale = {"test": "datum.unsure", "value": NONE}
    return alt.Color("value:Q", scale=scale, legend=legend, condition=[grey, pale])


def _most(rows: pd.DataFrame, columns: list[str]) -> int:
    """The end of the colours in percent: the least multiple of 10, from 20, above all values.

    Of layers with a signal: the others have no colour.
    """
    coloured = rows.loc[rows["signal"], columns]
    largest = 100 * coloured.abs().max().max() if len(coloured) else 0
    return max(20, 10 * math.ceil(largest / 10))


def _picture(
    rows: pd.DataFrame,
    request: Request,
    columns: Sequence[str],
    colour: alt.Color,
    what: str,
    unsure: str = "",
) -> Picture:
    """A heat map of each column of the table, below one another in each cell."""
    layout = by_cell(request)
    panels = [_panel(rows, column, colour, layout) for column in columns]
    return Picture(layout, [], panels, _caption(rows, request, what, unsure))


def _panel(rows: pd.DataFrame, column: str, colour: alt.Color, layout: Layout) -> Panel:
    """The heat map of one column; where cells have room for it, their numbers are written."""
    centres = [str(one) for one in sorted(rows["centre"].astype(int).unique())]
    layers = [str(one) for one in range(data.layer_count(rows) if len(rows) else 0)]
    legible = layout.has_room_for_numbers(len(centres), len(layers), HEIGHT)
    step = 1 if legible else 5 if len(layers) <= 40 else 10
    every = math.ceil(1.6 * layout.look.label_size * len(centres) / layout.look.panel_width)
    below = Axis(
        "Layers blocked (centre)", names=centres, labelled=centres[:: max(1, every)], field="centre"
    )
    beside = Axis(READ[column], names=layers[::-1], labelled=layers[::step], field="read")
    cells = data.numbered(rows, column, 100)
    numbers = dict.fromkeys(("value", "low", "high"), 2)
    cells = cells.filter(["model", "dataset", "layer", "n", "signal", "thin", *numbers]).assign(
        centre=_words(rows["centre"]),
        read=_words(rows["layer"]),
        cut=_words(rows["first"]) + "–" + _words(rows["last"]),
        tokens=TOKENS.get(column, "exact − random"),
        unsure=(column == "contrast") & (cells["low"] <= 0) & (cells["high"] >= 0),
    )
    cells["written"] = legible & ~cells["thin"] & ~cells["unsure"]
    heat = partial(figure_panel.heat, colour=colour, number=".0f")
    return Panel(column, cells.round(numbers), beside, TIPS, below, heat, HEIGHT)


def _words(column: pd.Series) -> pd.Series:
    """Whole numbers as texts."""
    return column.astype(int).astype(str)


def _caption(rows: pd.DataFrame, request: Request, what: str, unsure: str) -> Caption:
    """What is drawn, the windows' width, n, and what it says."""
    headline = rows[rows["headline"]]
    wide = (rows["last"] - rows["first"]).groupby([rows["model"], rows["dataset"]]).max() + 1
    width = f"{notes.span(wide)} layer{'' if wide.max() == 1 else 's'} wide"
    return notes.caption(
        request,
        rows,
        f"{what}, {width}, by the layer read",
        f"{notes.size_note(headline['n_paired'])} samples",
        ["Blank: windows above the layer read, which cannot affect it.", unsure],
        [
            notes.left_out(headline, "cell"),
            f"Intervals (pointed at): {100 * request.level:g}\u00a0% {notes.CLUSTERED}.",
        ],
        intervals="",
        grey="Grey: layers without a signal",
        thin="No number: too few samples to rely on.",
    )
