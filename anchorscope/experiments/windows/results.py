"""Results of windows: flips and ΔP by window and by the layer that the probe reads, and a heat map.

The heat map draws all answers together. Groups by the knockout's flips would not be independent of
windows, because the knockout blocks the same tokens in all layers, including those of each window.
"""

from dataclasses import replace
from functools import partial

import altair as alt
import pandas as pd

from anchorscope.experiments import flips
from anchorscope.experiments.flips import Arm
from anchorscope.experiments.measured import Arrays, PerSample
from anchorscope.experiments.windows import COLUMNS, CONTROLS, WINDOWS
from anchorscope.figures import data, marks, notes, style
from anchorscope.figures.axis import Axis
from anchorscope.figures.picture import Caption, Panel, Picture, Request, as_chart, by_cell
from anchorscope.figures.style import Style
from anchorscope.statements import say, span
from anchorscope.statistics.analysis import Analysis

UNPREDICTED, NONE = "#d0d0d0", "#f6f6f6"
HEIGHT = 1.5
"""Height of a panel, relative to other small panels."""
CELL = (18, 12)
"""Smallest width and height of a heat map's cell that can hold a number, in CSS pixels."""
TIPS = {
    **style.LAYER, "cut": ("layers blocked", ""), "value": ("exact − random, points", ".1f"),
    **style.INTERVAL,
}  # fmt: skip


def table(analysis: Analysis, measured: Arrays) -> pd.DataFrame:
    """Return a row for each window, layer, label and anchor, with flips and ΔP."""
    return flips.table(analysis, COLUMNS, arms(analysis, measured))


def per_sample(analysis: Analysis, measured: Arrays) -> PerSample:
    """Return whether each sample flips at the headline layer, under each window."""
    return flips.per_sample(analysis, arms(analysis, measured))


def arms(analysis: Analysis, measured: Arrays) -> dict[str, Arm]:
    """Map the number of each window to its arm."""
    found, complete = {}, flips.enough_other_tokens(analysis.answers)
    for number, (first, last, centre) in enumerate(measured["windows"]):
        names = WINDOWS[number].name, CONTROLS[number].name
        facts = {"window": number, "first": first, "last": last, "centre": centre}
        arm = flips.against_control(measured, *names, complete)
        found[str(number)] = replace(arm, facts=facts)
    return found


@as_chart
def contrast(table: pd.DataFrame, request: Request) -> Picture:
    """Draw flips with exact tokens blocked, minus those with random tokens, in a panel per cell."""
    rows = data.shown(table, request, COLUMNS)
    rows = rows[(rows["label"].astype(str) == "all") & (rows["anchor"] == "all")]
    # layers that the window can affect
    rows = rows[(rows["n_paired"] > 0) & (rows["layer"] >= rows["first"])]
    layout = by_cell(request)
    return Picture(layout, [], [_panel(rows, layout.look)], _caption(rows, request))


def _colour(rows: pd.DataFrame) -> alt.Color:
    """Return the colour: grey if the probe does not predict, pale if the interval contains 0."""
    largest = 100 * rows["contrast"][rows["predicts"]].abs().max()
    most = max(20, largest) if rows["predicts"].any() else 20
    colours = ["#e6a05a", NONE, "#4a98cc"]
    scale = alt.Scale(domain=[-most, 0, most], range=colours, interpolate="rgb")
    legend = alt.Legend(title="Exact − random (points)", orient="bottom", gradientLength=200)
    grey = {"test": "!datum.predicts", "value": UNPREDICTED}
    pale = {"test": "datum.unsure", "value": NONE}
    return alt.Color("value:Q", scale=scale, legend=legend, condition=[grey, pale])


def _panel(rows: pd.DataFrame, look: Style) -> Panel:
    """Return the heat map, with numbers if they fit into its cells."""
    centres = [str(one) for one in sorted(rows["centre"].astype(int).unique())]
    layers = [str(one) for one in range(data.layer_count(rows) if len(rows) else 0)]
    wide = look.panel_width >= CELL[0] * len(centres)
    legible = wide and HEIGHT * look.panel_height >= CELL[1] * len(layers)
    below = Axis("Layers blocked (centre)", names=centres, thinned=True, field="centre")
    beside = Axis("Layer read", names=layers[::-1], thinned=True, field="read")
    cells = data.numbered(rows, "contrast", 100)
    numbers = dict.fromkeys(("value", "low", "high"), 2)
    cells = cells.filter(["model", "dataset", "layer", "n", "predicts", "thin", *numbers]).assign(
        centre=_words(rows["centre"]),
        read=_words(rows["layer"]),
        cut=_words(rows["first"]) + "–" + _words(rows["last"]),
        unsure=(cells["low"] <= 0) & (cells["high"] >= 0),
    )
    cells["written"] = legible & ~cells["thin"] & ~cells["unsure"]
    heat = partial(marks.heat, colour=_colour(rows), number=".0f")
    return Panel(cells.round(numbers), beside, TIPS, below, heat, HEIGHT)


def _words(column: pd.Series) -> pd.Series:
    """Convert whole numbers to text."""
    return column.astype(int).astype(str)


def _caption(rows: pd.DataFrame, request: Request) -> Caption:
    """Write the caption: the drawn quantity, the windows' width, n and the marks."""
    headline = rows[rows["headline"]]
    wide = (rows["last"] - rows["first"]).groupby([rows["model"], rows["dataset"]]).max() + 1
    layers = f"{span(wide)} layer{'' if wide.max() == 1 else 's'}"
    return notes.caption(
        request,
        rows,
        f"Flips when attention to the exact question tokens is blocked in a window of {layers}, "
        "minus flips when as many other tokens are blocked, by the layer read",
        say.size(headline["n_paired"], "samples"),
        [
            "Blank: windows above the layer read, which cannot affect it.",
            "Pale, without a number: the interval contains 0.",
        ],
        [
            notes.left_out(headline, "cell"),
            f"Intervals (on hover): {say.level(request.level)} {say.clustered}.",
        ],
        intervals="",
        grey="Grey: layers where the probe does not predict",
        thin="Coloured, without the number that other cells have: too few samples to rely on.",
    )
