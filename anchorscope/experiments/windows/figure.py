"""The pictures of windows: heat maps of the window cut against the layer read.

All answers together: groups that the knockout's flips formed share passes with most windows.
"""

import math
from collections.abc import Callable
from itertools import product

import altair as alt
import pandas as pd

from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_panel,
    figure_style as draw,
)
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_data import Row
from anchorscope.figures.figure_fit import Request, fitted
from anchorscope.figures.figure_style import Figure, Style

NEEDED = (
    "model dataset site position layer window first last centre label anchor n n_paired flips "
    "flips_low flips_high random random_low random_high contrast contrast_low contrast_high signal "
    "headline thin"
)
SHARES = {"flips": "exact question tokens", "random": "random question tokens"}
"""Column → whose cut it tells of."""
NO_SIGNAL, NONE = "#d0d0d0", "#f6f6f6"
LEGIBLE = (18, 12)
"""Least width and height in pixels of a cell with a number in it."""
TIPS = draw.LAYER | {
    "cut": ("layers cut", ""),
    "tokens": ("tokens", ""),
    "value": ("value, %", ".1f"),
    "low": ("from", ".1f"),
    "high": ("to", ".1f"),
    "n": ("n", ",d"),
}


Column = Callable[[pd.DataFrame, Row, Style, int, bool], list[alt.LayerChart]]
"""Draws the panels of a cell: its rows, labels, look, place, and whether it is first in its row."""


@fitted
def flips(table: pd.DataFrame, request: Request) -> Figure:
    """Flips, those of the control below; a pair of panels for each model and dataset."""
    rows = _rows(table, request)
    most = _most(rows, [*SHARES])
    scale = alt.Scale(domain=[0, most], range=["#edf3fa", "#4a98cc"])
    colour = _colour("Flips (%)", scale)

    def column(
        cell: pd.DataFrame, labels: Row, look: Style, place: int, first: bool
    ) -> list[alt.LayerChart]:
        return [
            _panel(cell, value, labels | {"tokens": tokens}, colour, look, first, place)
            for value, tokens in SHARES.items()
        ]

    what = (
        "Predictions that flip when attention to the exact question tokens (above), or to as many "
        "others (below), is cut in a window of layers"
    )
    return _figure(rows, request, column, _caption(rows, request, what, ""))


@fitted
def contrast(table: pd.DataFrame, request: Request) -> Figure:
    """The paired difference of flips and the control's, a panel for each model and dataset."""
    rows = _rows(table, request)
    most = _most(rows, ["contrast"])
    colours = ["#e6a05a", NONE, "#4a98cc"]
    scale = alt.Scale(domain=[-most, 0, most], range=colours, interpolate="rgb")
    colour = _colour("Exact − random (points)", scale)

    def column(
        cell: pd.DataFrame, labels: Row, look: Style, place: int, first: bool
    ) -> list[alt.LayerChart]:
        labels = labels | {"tokens": "exact − random"}
        return [_panel(cell, "contrast", labels, colour, look, first, place)]

    what = (
        "Flips when attention to the exact question tokens is cut in a window of layers, minus "
        "those when as many others are"
    )
    unsure = "Pale, without a number: the interval contains 0."
    return _figure(rows, request, column, _caption(rows, request, what, unsure))


def _rows(table: pd.DataFrame, request: Request) -> pd.DataFrame:
    """The rows of all answers at the read-out, at layers that a window can move.

    Raises AnchorscopeError: missing columns, or another read-out.
    """
    data.require(table, NEEDED)
    rows = data.at_readout(table, request.readout) if len(table) else table
    everyone = (rows["label"].astype(str) == "all") & (rows["anchor"] == "all")
    return rows[everyone & (rows["n_paired"] > 0) & (rows["layer"] >= rows["first"])]


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
    coloured = rows.loc[data.true(rows["signal"]), columns]
    largest = 100 * coloured.abs().max().max() if len(coloured) else 0
    return max(20, 10 * math.ceil(largest / 10))


def _figure(rows: pd.DataFrame, request: Request, column: Column, caption: Caption) -> Figure:
    """A column of panels for each model and dataset."""
    views, cells = [], [*product(request.panels, request.datasets)]
    across, look = draw.beside(len(request.panels), len(request.datasets), request.look)
    for place, ((model, label), (dataset, name)) in enumerate(cells):
        cell = data.cell_of(rows, model, dataset)
        labels: Row = {"model": label, "dataset": name}
        panels = column(cell, labels, look, place, place % across == 0)
        heading = draw.panel_heading(name, look, below=label)
        panels[0] = panels[0].properties(title=heading)
        views.append(alt.VConcatChart(vconcat=panels, spacing=8))
    width = draw.width_of(across, look)
    return draw.figure_of(views, across, width, request.title, caption, look)


def _panel(
    cell: pd.DataFrame,
    value: str,
    labels: Row,
    colour: alt.Color,
    look: Style,
    first: bool,
    place: int,
) -> alt.LayerChart:
    """A cell's heat map of one column; the first of a row has a title on its value axis."""
    centres = [str(one) for one in sorted(cell["centre"].astype(int).unique())]
    layers = [str(one) for one in range(data.layer_count(cell) if len(cell) else 0)]
    room = look.panel_width / max(len(centres), 1), look.panel_height / max(len(layers), 1)
    legible = room[0] >= LEGIBLE[0] and room[1] >= LEGIBLE[1]
    step = 1 if legible else 5 if len(layers) <= 40 else 10
    last = value != "flips"
    every = math.ceil(1.6 * look.label_size / room[0])
    title = "Layers cut (centre)" if last else None
    x = figure_panel.name_axis("centre", title, centres, labelled=centres[::every])
    tokens = {"flips": "exact", "random": "random"}.get(value)
    title = ("Layer read" if tokens is None else f"Layer read, {tokens}") if first else None
    y = figure_panel.name_rows("read", title, layers, layers[::step])
    rows: list[Row] = []
    for one in cell.to_dict("records"):
        low, high = (100 * float(one[f"{value}_{end}"]) for end in ("low", "high"))
        unsure = value == "contrast" and low <= 0 <= high
        window = f"{one['first']:.0f}–{one['last']:.0f}"
        row: Row = {"centre": f"{one['centre']:.0f}", "read": f"{one['layer']:.0f}", "cut": window}
        row |= {"layer": int(one["layer"]), "value": round(100 * float(one[value]), 2)}
        row |= {"low": round(low, 2), "high": round(high, 2), "n": int(one["n_paired"])}
        thin, signal = (str(one[name]).lower() in ("true", "1") for name in ("thin", "signal"))
        row |= {"signal": signal, "unsure": unsure, "written": legible and not thin and not unsure}
        rows.append(labels | row)
    name = f"{value}_{place}"
    return figure_panel.heat_panel(rows, x, y, colour, look, TIPS, name=name, number=".0f")


def _caption(rows: pd.DataFrame, request: Request, what: str, unsure: str) -> Caption:
    """What is drawn, the windows' width, n, what it says, and what is left out."""
    headline = rows[data.true(rows["headline"])]
    if headline.empty:
        return Caption(["Not measured: no sample has what the experiment needs."])
    cells = data.cells_of(rows, request.panels, request.datasets)
    measured = [cell for cell in cells.values() if len(cell)]
    wide = [int((cell["last"] - cell["first"]).max()) + 1 for cell in measured]
    grey = sum(not data.true(cell["signal"]).all() for cell in measured)
    level = f"{100 * request.level:g}\u00a0%"
    width = f"{notes.span(wide)} layer{'' if max(wide) == 1 else 's'} wide"
    return Caption(
        [
            f"{what}, {width}, by the layer read; {notes.size_note(headline['n_paired'])} samples.",
            "Blank: windows that lie above the layer read, which they cannot move.",
            unsure,
            f"Grey: layers without a signal (in {grey} of {len(measured)} cells)." if grey else "",
            "No number: too few samples to rely on." if data.true(rows["thin"]).any() else "",
        ],
        [
            "A dark cell says that reading the question in these layers alone decides verdicts at "
            "the layer read. A pale one does not say that nothing is read there: other layers may "
            "read the same again.",
            "All later tokens are kept from the tokens, not the last position alone, and windows "
            "are clipped at the first and the last layer.",
            "All answers, whatever the knockout does to them. A sample counts if its control cuts "
            f"as many tokens. Left out: {notes.span(headline['n'] - headline['n_paired'])} of "
            f"{notes.span(headline['n'])} samples of a cell.",
            f"Intervals (pointed at): {level} clustered bootstrap, probes held fixed.",
            *notes.missing_note([name for name, cell in cells.items() if cell.empty]),
            *request.notes,
        ],
    )


CHARTS = {"flips": flips, "contrast": contrast}
"""View → what draws it."""
