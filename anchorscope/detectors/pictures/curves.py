"""Curves of detection: reliability, risk against coverage, and AUC by layer."""

import math
from collections.abc import Sequence
from itertools import product

import altair as alt
import pandas as pd

from anchorscope.detectors.pictures import figure_words as words, panels
from anchorscope.detectors.pictures.figure_words import Cell
from anchorscope.figures import figure_data as data, figure_panel, figure_style as draw
from anchorscope.figures.figure_data import Row
from anchorscope.figures.figure_fit import Request, fitted
from anchorscope.figures.figure_style import Encodings, Figure, Series, Style

CURVES = ("text", "output", "before", "probe", "mixture-of-probes")
"""The methods whose curves are drawn; the tables have all."""
ANCHORS = {
    "Q": Series("Q-Anchored", draw.BLUE, [1, 0], "circle"),
    "A": Series("A-Anchored", draw.ORANGE, [6, 4], "square"),
    "all": Series("all answers", "#777777", [2, 3], "diamond"),
}
CURVE_TIPS = {
    "series": ("method", ""), "x": ("at", ".3f"), "value": ("wrong, %", ".1f"),
    "low": ("from", ".1f"), "high": ("to", ".1f"), "n": ("n", ",d"),
}  # fmt: skip
LAYER_TIPS = draw.LAYER | {
    "series": ("group", ""), "value": ("AUC", ".3f"), "low": ("from", ".3f"),
    "high": ("to", ".3f"), "n": ("n", ",d"),
}  # fmt: skip
PART_TIPS = {"label": ("method", ""), "series": ("part", ""), "value": ("Brier score", ".3f")}


@fitted
def reliability(curves: pd.DataFrame, table: pd.DataFrame, request: Request) -> Figure:
    """Share of wrong answers against predicted probability, and below Brier's parts, by cell."""
    data.require(curves, "model dataset detector curve x y y_low y_high n thin site position")
    data.require(table, "model dataset detector metric estimate site position")
    rows = data.rows_at(curves[curves["curve"] == "reliability"], request.readout)
    parts = data.rows_at(table, request.readout)
    names = [name for name in CURVES if name in set(rows["detector"])]
    series = _method_series(names)
    drawn = rows[rows["detector"].isin(names) & ~rows["thin"].astype(bool)]
    lowest = _tenth_below(drawn[["x", "y_low"]].min().min())
    of_parts = parts["metric"].isin([metric for metric, _ in words.PARTS])
    longest = float(parts["estimate"][of_parts & parts["detector"].isin(names)].max())
    further = [Series(word, colour, [1, 0], "square", line=False) for word, colour in words.PARTS]

    def column(cell: Cell, shared: Encodings, look: Style) -> alt.VConcatChart:
        lines = _curve_rows(cell.of(rows), names, series, cell)
        ticks = [lowest, (lowest + 1) / 2, 1]
        x = figure_panel.number_axis("x", "predicted probability of wrong", (lowest, 1), ticks)
        y = _percent(look, labels=cell.first, lowest=100 * lowest)
        ideal = pd.DataFrame({"x": [lowest, 1.0], "value": [100 * lowest, 100.0]})
        diagonal = alt.Chart(ideal).mark_line(color=draw.SOFT, strokeWidth=0.8).encode(x, y)
        above = _curve_panel(lines, x, y, shared, look, f"reliability_{cell.place}", [diagonal])
        bars = _part_rows(cell.of(parts), names, cell)
        name = f"parts_{cell.place}"
        below = _part_panel(bars, names, shared, look, name, longest=longest, labels=cell.first)
        views = [above.properties(title=panels.heading(cell, look)), below]
        return alt.VConcatChart(vconcat=views, spacing=8, resolve=draw.one_legend())

    caption = words.reliability_caption(rows, request)
    return panels.by_cell(request, [*series.values(), *further], column, caption)


@fitted
def risk(curves: pd.DataFrame, request: Request) -> Figure:
    """Share of wrong answers among those kept, against how many are kept, by cell."""
    data.require(curves, "model dataset detector curve x y y_low y_high n thin site position")
    rows = data.rows_at(curves[curves["curve"] == "risk"], request.readout)
    names = [name for name in CURVES if name in set(rows["detector"])]
    series = _method_series(names)

    def panel(cell: Cell, shared: Encodings, look: Style) -> alt.LayerChart:
        lines = _curve_rows(cell.of(rows), names, series, cell)
        x = figure_panel.number_axis("x", "share of answers kept", (0, 1), [0, 0.5, 1])
        y = _percent(look, labels=cell.first)
        view = _curve_panel(lines, x, y, shared, look, f"risk_{cell.place}")
        return view.properties(title=panels.heading(cell, look))

    return panels.by_cell(request, [*series.values()], panel, words.risk_caption(rows, request))


@fitted
def layers(table: pd.DataFrame, request: Request) -> Figure:
    """AUC of each layer's probe, among Q-Anchored, A-Anchored and all answers, by cell."""
    data.require(
        table, "model dataset anchor layer auc auc_low auc_high n headline thin site position"
    )
    rows = data.rows_at(table, request.readout)

    def panel(cell: Cell, shared: Encodings, look: Style) -> alt.LayerChart:
        here = cell.of(rows)
        lines = [
            panels.with_ends(row, "auc", "auc_low", "auc_high", 1)
            | {"series": one.name, "marker": str(one.marker), "layer": int(row["layer"]),
               "n": int(row["n"]), **cell.labels}
            for anchor, one in ANCHORS.items()
            for row in here[here["anchor"] == anchor].to_dict("records")
            if not row["thin"]
        ]  # fmt: skip
        x = figure_panel.layer_axis(data.layer_count(here), "Layer")
        title = "AUC" if cell.first else None
        ticks = [0.25, 0.5, 0.75, 1]
        y = figure_panel.value_axis(
            "value", title, (0.2, 1.01), ticks, look, number=".2~f", labels=cell.first
        )
        name = f"layers_{cell.place}"
        view = _curve_panel(lines, x, y, shared, look, name, tips=LAYER_TIPS)
        return view.properties(title=panels.heading(cell, look))

    return panels.by_cell(request, [*ANCHORS.values()], panel, words.layers_caption(rows, request))


def _method_series(names: Sequence[str]) -> dict[str, Series]:
    """Method → its line; each keeps its colour in every picture."""
    return {
        name: Series(
            words.label_of(name), panels.COLOURS[CURVES.index(name)], [1, 0],
            draw.marker_of(CURVES.index(name)),
        )
        for name in names
    }  # fmt: skip


def _percent(look: Style, *, labels: bool, lowest: float = 0) -> alt.Y:
    ticks = [lowest, (lowest + 100) / 2, 100]
    title = "Wrong (%)" if labels else None
    return figure_panel.value_axis("value", title, (lowest, 100), ticks, look, labels=labels)


def _tenth_below(share: float) -> float:
    """The end of an axis of shares, all of which may be close to 1; 0 where there are none."""
    return 0.0 if pd.isna(share) else min(math.floor(10 * share), 9) / 10


def _curve_rows(
    rows: pd.DataFrame, names: Sequence[str], series: dict[str, Series], cell: Cell
) -> list[Row]:
    """The points of a cell's curves, in percent; thin ones are left out."""
    return [
        panels.with_ends(row, "y", "y_low", "y_high", 100)
        | {"series": series[name].name, "marker": str(series[name].marker), "n": int(row["n"]),
           "x": round(float(row["x"]), 4), **cell.labels}
        for name in names
        for row in rows[rows["detector"] == name].to_dict("records")
        if not row["thin"]
    ]  # fmt: skip


def _curve_panel(
    rows: Sequence[Row],
    x: alt.X,
    y: alt.Y,
    shared: Encodings,
    look: Style,
    name: str,
    under: Sequence[alt.Chart] = (),
    tips: figure_panel.Tips = CURVE_TIPS,
) -> alt.LayerChart:
    """Lines with pale bands and small markers."""
    table = pd.DataFrame(rows)
    base = alt.Chart(table).encode(x, color=shared.legend, detail="series:N")
    low = alt.Y("low:Q", scale=y["scale"], title=y["axis"]["title"])
    band = base.mark_area(opacity=0.5 * look.band_opacity).encode(low, y2="high:Q")
    line = base.mark_line(strokeWidth=0.75 * look.line_width).encode(y, strokeDash=shared.dash)
    points = base.mark_point(filled=True, size=0.4 * look.marker_size, opacity=1)
    points = points.encode(y, shape=alt.Shape("marker:N", scale=None))
    views = [*under, band, line, points, panels.reach(base.encode(y), shared, look, tips)]
    return panels.layered(views, table, look, name)


def _part_rows(rows: pd.DataFrame, names: Sequence[str], cell: Cell) -> list[Row]:
    """Two of the Brier score's parts of each method; the third is the same for all."""
    parts = rows[rows["detector"].isin(names)]
    bars: list[Row] = []
    for name, (metric, _) in product(names, words.PARTS):
        chosen = (parts["detector"] == name) & (parts["metric"] == metric)
        for value in parts["estimate"][chosen]:
            bar: Row = {"label": words.label_of(name), "series": metric, "value": round(value, 4)}
            bars.append(bar | cell.labels)
    return bars


def _part_panel(
    rows: Sequence[Row],
    names: Sequence[str],
    shared: Encodings,
    look: Style,
    name: str,
    *,
    longest: float,
    labels: bool,
) -> alt.LayerChart:
    """Bars of miscalibration and discrimination, a row for each method."""
    table = pd.DataFrame(rows)
    most = 0.01 if pd.isna(longest) else max(0.01, longest)
    x = figure_panel.number_axis("value", "Brier score", (0, 1.1 * most), [0, round(most, 2)])
    y = panels.method_axis(names, labels=labels)
    aside = alt.YOffset("series:N", sort=None)
    bars = (
        alt.Chart(table)
        .mark_bar()
        .encode(x, y, yOffset=aside, color=shared.legend, tooltip=draw.tooltips(PART_TIPS))
    )
    height = round(panels.ROW_HEIGHT * look.label_size * max(1, len(names)))
    return panels.layered([bars], table, look.model_copy(update={"panel_height": height}), name)
