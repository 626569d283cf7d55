"""The pictures of detection."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import altair as alt
import pandas as pd

from anchorscope.detectors.pictures import figure_words as words
from anchorscope.detectors.pictures.figure_words import Cell
from anchorscope.figures import figure_data as data, figure_panel, figure_style as draw
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_data import Row
from anchorscope.figures.figure_fit import Chart, Request, fitted
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
CURVES = ("text", "output", "before", "probe", "mixture-of-probes")
"""The methods whose curves are drawn; the tables have all."""
ANCHORS = {
    "Q": Series("Q-Anchored", draw.BLUE, [1, 0], "circle"),
    "A": Series("A-Anchored", draw.ORANGE, [6, 4], "square"),
    "all": Series("all answers", "#777777", [2, 3], "diamond"),
}
TERMS = ("pair", "answer", "question")
"""In the order of the stacked bars: the whisker of the first starts at 0."""
ROW_HEIGHT = 1.5
"""Of a method's row, in label sizes."""
AUC_TIPS = {
    "label": ("method", ""), "value": ("AUC", ".3f"), "low": ("from", ".3f"), "high": ("to", ".3f"),
    "n": ("n", ",d"),
}  # fmt: skip
CURVE_TIPS = {
    "series": ("method", ""), "x": ("at", ".3f"), "value": ("wrong, %", ".1f"),
    "low": ("from", ".1f"), "high": ("to", ".1f"), "n": ("n", ",d"),
}  # fmt: skip
LAYER_TIPS = draw.LAYER | {
    "series": ("group", ""), "value": ("AUC", ".3f"), "low": ("from", ".3f"),
    "high": ("to", ".3f"), "n": ("n", ",d"),
}  # fmt: skip
SHARE_TIPS = {
    "label": ("method", ""), "series": ("reads", ""), "value": ("share, %", ".1f"),
    "low": ("from", ".1f"), "high": ("to", ".1f"), "claim": ("shown to read", ""),
}  # fmt: skip
PART_TIPS = {"label": ("method", ""), "series": ("part", ""), "value": ("Brier score", ".3f")}


@fitted
def forest(table: pd.DataFrame, request: Request) -> Figure:
    """AUC of every method: a panel for each dataset, a colour for each model."""
    data.require(
        table, "model dataset detector metric estimate ci_low ci_high n thin site position"
    )
    rows = data.rows_at(table, request.readout)
    rows = rows[rows["metric"] == "auroc"]
    names = words.in_order(rows["detector"])
    across = draw.columns_across(len(request.datasets), 2 * request.look.columns)
    look = _sized(request.look, across, len(names))
    width = _width(across, look) + 10 * look.label_size
    series = _series([label for _, label in request.panels])
    shared = draw.encodings(series, look, width)
    lowest = min(0.4, float(rows["ci_low"].min()) - 0.02 if len(rows) else 0.4)
    x = figure_panel.number_axis("value", "AUC", (lowest, 1.01), [0.5, 0.75, 1], number=".2~f")
    views = []
    for place, (dataset, label) in enumerate(request.datasets):
        points: list[Row] = [
            _with_ends(row, "estimate", "ci_low", "ci_high", 1)
            | {"series": model_label, "marker": draw.marker_of(number), "model": model_label,
               "dataset": label, "n": int(row["n"])}
            for number, (model, model_label) in enumerate(request.panels)
            for row in data.cell_of(rows, model, dataset).to_dict("records")
        ]  # fmt: skip
        y = _method_axis(names, labels=place % across == 0)
        panel = _forest_panel(points, x, y, shared, look, f"forest_{place}")
        views.append(panel.properties(title=draw.panel_heading(label, look)))
    caption = words.forest_caption(table, request)
    return draw.figure_of(views, across, width, request.title, caption, look)


def _forest_panel(
    rows: Sequence[Row], x: alt.X, y: alt.Y, shared: Encodings, look: Style, name: str
) -> alt.LayerChart:
    """A point with a whisker for each method and series."""
    table = pd.DataFrame(rows)
    chance = alt.Chart(alt.Data(values=[{"value": 0.5}])).mark_rule(
        color=draw.SOFT, strokeWidth=0.8
    )
    aside = alt.YOffset("series:N", sort=None)
    base = alt.Chart(table).encode(y, yOffset=aside, color=shared.legend)
    ends = base.mark_rule(strokeWidth=0.6 * look.line_width).encode(
        alt.X("low:Q", scale=x["scale"], title=x["axis"]["title"]), x2="high:Q"
    )
    points = base.mark_point(filled=True, size=0.6 * look.marker_size, opacity=1).encode(
        x, shape=alt.Shape("marker:N", scale=None)
    )
    views = [chance.encode(x), ends, points, _reach(base.encode(x), shared, look, AUC_TIPS)]
    return _panel(views, table, look, name)


@fitted
def reliability(curves: pd.DataFrame, table: pd.DataFrame, request: Request) -> Figure:
    """Share of wrong answers against predicted probability, and below Brier's parts, by cell."""
    data.require(curves, "model dataset detector curve x y y_low y_high n thin site position")
    data.require(table, "model dataset detector metric estimate site position")
    rows = data.rows_at(curves[curves["curve"] == "reliability"], request.readout)
    parts = data.rows_at(table, request.readout)
    names = [name for name in CURVES if name in set(rows["detector"])]
    known = _method_series(names)
    further = [Series(word, colour, [1, 0], "square", line=False) for word, colour in words.PARTS]

    def column(cell: Cell, shared: Encodings, look: Style) -> alt.VConcatChart:
        lines = _curve_rows(cell.of(rows), names, known, cell)
        x = figure_panel.number_axis("x", "predicted probability of wrong", (0, 1), [0, 0.5, 1])
        y = _percent(look, "Wrong (%)", labels=cell.first)
        ideal = pd.DataFrame({"x": [0.0, 1.0], "value": [0.0, 100.0]})
        diagonal = alt.Chart(ideal).mark_line(color=draw.SOFT, strokeWidth=0.8).encode(x, y)
        above = _curve_panel(lines, x, y, shared, look, f"reliability_{cell.place}", [diagonal])
        bars = _part_rows(cell.of(parts), names, cell)
        below = _part_panel(bars, names, shared, look, f"parts_{cell.place}", labels=cell.first)
        views = [above.properties(title=_heading(cell, look)), below]
        return alt.VConcatChart(vconcat=views, spacing=8, resolve=draw.one_legend())

    caption = words.reliability_caption(rows, request)
    return _by_cell(request, [*known.values(), *further], column, caption)


@fitted
def risk(curves: pd.DataFrame, request: Request) -> Figure:
    """Share of wrong answers among those kept, against how many are kept, by cell."""
    data.require(curves, "model dataset detector curve x y y_low y_high n thin site position")
    rows = data.rows_at(curves[curves["curve"] == "risk"], request.readout)
    names = [name for name in CURVES if name in set(rows["detector"])]
    known = _method_series(names)

    def panel(cell: Cell, shared: Encodings, look: Style) -> alt.LayerChart:
        lines = _curve_rows(cell.of(rows), names, known, cell)
        x = figure_panel.number_axis("x", "share of answers kept", (0, 1), [0, 0.5, 1])
        y = _percent(look, "Wrong among kept (%)", labels=cell.first)
        view = _curve_panel(lines, x, y, shared, look, f"risk_{cell.place}")
        return view.properties(title=_heading(cell, look))

    return _by_cell(request, [*known.values()], panel, words.risk_caption(rows, request))


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
            _with_ends(row, "auc", "auc_low", "auc_high", 1)
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
        return view.properties(title=_heading(cell, look))

    return _by_cell(request, [*ANCHORS.values()], panel, words.layers_caption(rows, request))


@fitted
def reads(table: pd.DataFrame, request: Request) -> Figure:
    """A bar for each method of what it reads of question, answer and pair, by cell."""
    shares = " ".join(f"share_{term}{end}" for term in TERMS for end in ("", "_low", "_high"))
    data.require(table, f"model dataset detector reads n_right n_wrong site position {shares}")
    rows = data.rows_at(table, request.readout)
    names = words.in_order(rows["detector"])
    series = [draw.TERMS[term] for term in TERMS]

    def panel(cell: Cell, shared: Encodings, look: Style) -> alt.LayerChart:
        bars: list[Row] = []
        for row in cell.of(rows).to_dict("records"):
            left = 0.0
            for term in TERMS:
                column = f"share_{term}"
                ends = _with_ends(row, column, f"{column}_low", f"{column}_high", 100)
                right = left + 100 * float(row[column])
                fixed: Row = {"series": draw.TERMS[term].name, "left": left, "right": right}
                bars.append(ends | fixed | cell.labels | {"claim": str(row["reads"])})
                left = right
        y = _method_axis(names, labels=cell.first)
        view = _share_panel(bars, y, shared, look, f"reads_{cell.place}")
        return view.properties(title=_heading(cell, look))

    caption = words.reads_caption(rows, request)
    return _by_cell(request, series, panel, caption, rows=len(names))


def _share_panel(
    rows: Sequence[Row], y: alt.Y, shared: Encodings, look: Style, name: str
) -> alt.LayerChart:
    """Stacked bars, the interval of the pair's share, and a dot where truth is shown to be read."""
    table = pd.DataFrame(rows)
    x = figure_panel.number_axis("left", "Share (%)", (0, 108), [0, 50, 100], number="d")
    data_ = alt.Chart(table).encode(y)
    bars = data_.mark_bar().encode(
        x, x2="right:Q", color=shared.legend, tooltip=draw.tooltips(SHARE_TIPS)
    )
    pair = data_.transform_filter(f"datum.series === '{draw.TERMS['pair'].name}'")
    low = alt.X("low:Q", scale=x["scale"], title="Share (%)")
    whiskers = pair.mark_rule(color=draw.INK).encode(low, x2="high:Q")
    truth = pair.transform_filter("datum.claim === 'truth'")
    dots = truth.mark_point(filled=True, color=draw.PURPLE, size=0.7 * look.marker_size, opacity=1)
    at = alt.XDatum(104)
    return _panel([bars, whiskers, dots.encode(x=at)], table, look, name)


@fitted
def transfer(table: pd.DataFrame, request: Request) -> Figure:
    """AUC on each dataset of the probe and the text model of each other one, by model."""
    data.require(table, "model dataset trained_on detector auroc n n_shared site position")
    rows = data.rows_at(table, request.readout)
    detectors = words.in_order(rows["detector"]) or ["probe"]
    across = len(detectors)
    look = _sized(request.look, across, 2 * len(request.datasets))
    width = _width(across, look) + 10 * look.label_size
    labels = dict(request.datasets)
    scale = alt.Scale(domain=[0.3, 0.5, 1], range=["#d6604d", "#f7f7f7", "#4393c3"])
    colour = alt.Color("value:Q", scale=scale, legend=None)
    tips = {
        "trained": ("trained on", ""), "value": ("AUC", ".3f"), "low": ("from", ".3f"),
        "high": ("to", ".3f"), "n": ("n", ",d"), "shared": ("left out, shared", ",d"),
    }  # fmt: skip
    views = []
    for place, ((model, label), detector) in enumerate(product(request.panels, detectors)):
        here = rows[(rows["model"] == model) & (rows["detector"] == detector)]
        cells: list[Row] = [
            _with_ends(row, "auroc", "auroc_low", "auroc_high", 1)
            | {"trained": labels.get(row["trained_on"], row["trained_on"]), "model": label,
               "dataset": labels.get(row["dataset"], row["dataset"]), "n": int(row["n"]),
               "shared": int(row["n_shared"])}
            for row in here.to_dict("records")
        ]  # fmt: skip
        last = place + across >= len(request.panels) * across
        turned = alt.Axis(title="trained on" if last else None, labelAngle=-40, grid=False)
        x = alt.X("trained:N", scale=alt.Scale(domain=[*labels.values()]), axis=turned)
        axis = alt.Axis(title="tested on" if place % across == 0 else None, grid=False)
        if place % across:
            axis = alt.Axis(title=None, labels=False, ticks=False, grid=False)
        y = alt.Y("dataset:N", scale=alt.Scale(domain=[*labels.values()]), axis=axis)
        view = figure_panel.heat_panel(cells, x, y, colour, look, tips, name=f"transfer_{place}")
        heading = draw.panel_heading(words.label_of(detector), look, below=label)
        views.append(view.properties(title=heading))
    caption = words.transfer_caption(rows, request)
    return draw.figure_of(views, across, width, request.title, caption, look)


def _by_cell(
    request: Request,
    series: Sequence[Series],
    panel: Callable[[Cell, Encodings, Style], alt.LayerChart | alt.VConcatChart],
    caption: Caption,
    rows: int = 0,
) -> Figure:
    """A panel, or a column of panels, for each cell; `rows` of names of methods beside each."""
    side_by_side = len(request.datasets) if len(request.datasets) > 1 else len(request.panels)
    across = draw.columns_across(side_by_side, 2 * request.look.columns)
    look = _sized(request.look, across, rows)
    width = _width(across, look) + (10 * look.label_size if rows else 0)
    shared = draw.encodings(series, look, width)
    views = [
        panel(Cell(place, place % across == 0, model, dataset), shared, look)
        for place, (model, dataset) in enumerate(product(request.panels, request.datasets))
    ]
    return draw.figure_of(views, across, width, request.title, caption, look)


def _sized(look: Style, across: int, rows: int) -> Style:
    """The look of panels of which so many stand side by side, with rows of names, if any."""
    height = ROW_HEIGHT * look.label_size * rows or 0.65 * look.panel_height
    narrow = look.panel_width // (2 if across > 2 else 1)
    return look.model_copy(update={"panel_width": narrow, "panel_height": round(height)})


def _width(across: int, look: Style) -> float:
    return across * (look.panel_width + 0.7 * look.spacing) + 4 * look.label_size


def _heading(cell: Cell, look: Style) -> alt.TitleParams:
    return draw.panel_heading(cell.dataset[1], look, below=cell.model[1])


def _series(names: Sequence[str]) -> list[Series]:
    """Bare markers, a colour each."""
    return [
        Series(name, COLOURS[number % len(COLOURS)], [1, 0], draw.marker_of(number), line=False)
        for number, name in enumerate(names)
    ]


def _method_series(names: Sequence[str]) -> dict[str, Series]:
    """Method → its line; each keeps its colour in every picture."""
    return {
        name: Series(
            words.label_of(name), COLOURS[CURVES.index(name)], [1, 0],
            draw.marker_of(CURVES.index(name)),
        )
        for name in names
    }  # fmt: skip


def _method_axis(names: Sequence[str], *, labels: bool) -> alt.Y:
    """The y channel of methods, first to last from above."""
    shown = [words.label_of(name) for name in names]
    axis = alt.Axis(title=None, labels=labels, ticks=labels, labelLimit=0, grid=True)
    return alt.Y("label:N", scale=alt.Scale(domain=shown), axis=axis)


def _percent(look: Style, title: str, *, labels: bool) -> alt.Y:
    ticks = [0, 50, 100]
    return figure_panel.value_axis(
        "value", title if labels else None, (0, 100), ticks, look, labels=labels
    )


def _with_ends(row: Mapping[Any, Any], value: str, low: str, high: str, factor: float) -> Row:
    """Value and ends of a row of a table, rounded; null where blank."""
    numbers = {"value": value, "low": low, "high": high}
    ends: Row = {
        name: None if pd.isna(row[column]) else round(factor * float(row[column]), 4)
        for name, column in numbers.items()
    }
    return ends | ({"label": words.label_of(row["detector"])} if "detector" in row else {})


def _curve_rows(
    rows: pd.DataFrame, names: Sequence[str], known: dict[str, Series], cell: Cell
) -> list[Row]:
    """The points of a cell's curves, in percent; thin ones are left out."""
    return [
        _with_ends(row, "y", "y_low", "y_high", 100)
        | {"series": known[name].name, "marker": str(known[name].marker), "n": int(row["n"]),
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
    views = [*under, band, line, points, _reach(base.encode(y), shared, look, tips)]
    return _panel(views, table, look, name)


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
    labels: bool,
) -> alt.LayerChart:
    """Bars of miscalibration and discrimination, a row for each method."""
    table = pd.DataFrame(rows)
    x = figure_panel.number_axis("value", "Brier score", (0, 0.26), [0, 0.1, 0.2], number=".1f")
    y = _method_axis(names, labels=labels)
    aside = alt.YOffset("series:N", sort=None)
    bars = (
        alt.Chart(table)
        .mark_bar()
        .encode(x, y, yOffset=aside, color=shared.legend, tooltip=draw.tooltips(PART_TIPS))
    )
    height = round(ROW_HEIGHT * look.label_size * max(1, len(names)))
    return _panel([bars], table, look.model_copy(update={"panel_height": height}), name)


def _reach(base: alt.Chart, shared: Encodings, look: Style, tips: figure_panel.Tips) -> alt.Chart:
    """Unseen points with tooltips and the legend's marks."""
    points = base.mark_point(filled=True, opacity=0, size=3 * look.marker_size)
    channels = {"strokeDash": shared.dash, "shape": shared.shape}
    return points.encode(tooltip=draw.tooltips(tips), **channels)


def _panel(
    views: Sequence[alt.Chart], table: pd.DataFrame, look: Style, name: str
) -> alt.LayerChart:
    """The layers as a panel, with a note where there are no rows."""
    width, height = look.panel_width, look.panel_height
    layers_ = list(views)
    if table.empty:
        layers_ = [figure_panel.empty_note("not measured", width, height, look)]
    return alt.LayerChart(layer=layers_, width=width, height=height, name=name)


CHARTS: dict[str, Chart] = {
    "detection": forest,
    "detection-reliability": reliability,
    "detection-risk": risk,
    "detection-layers": layers,
    "detection-reads": reads,
    "detection-transfer": transfer,
}
"""Picture → what draws it of its tables."""
