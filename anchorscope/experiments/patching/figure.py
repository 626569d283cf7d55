"""The pictures of patching: flips as bars at the headline layer, and by layer."""

from collections.abc import Callable, Sequence
from itertools import product

import altair as alt
import pandas as pd

from anchorscope.experiments.patching import ARMS, COLUMNS
from anchorscope.figures import figure_data as data, figure_panel, figure_style as draw
from anchorscope.figures.figure_data import Pair, Row
from anchorscope.figures.figure_fit import Asked, fitted
from anchorscope.figures.figure_style import Figure, Style
from anchorscope.figures.figures import SHARES

# what is replaced: column of the table, colour of its bars
REPLACED = {
    "exact question tokens": ("flips", "#0072b2"),
    "random question tokens": ("random", "#9a9a9a"),
}
TITLES = {
    "matched": "matched: the answer's truth turns",
    "published": "published: right answers, tokens of a wrong one",
    "placebo": "placebo: the answer's truth stays",
}
TIPS = {"series": ("group", ""), "replaced": ("replaced", ""), "value": ("flips, %", ".1f")}
TIPS |= {"low": ("from", ".1f"), "high": ("to", ".1f"), "n": ("n", ",d")}


@fitted
def bars(table: pd.DataFrame, asked: Asked) -> Figure:
    """Each dataset's groups at its headline layer: a panel for each arm and model.

    Of the rows of `results/tables/<figure>.patching.csv` right answers only: behind any other
    question a wrong answer's verdict falls back to the default, so that wrong ones prove little.
    `grouping` tells nothing here. Raises AnchorscopeError: missing columns, or another read-out.
    """
    rows = _right_answers(table, asked)

    def panel(rows: pd.DataFrame, model: Pair) -> alt.LayerChart:
        headline = rows[data.true(rows["headline"])]
        return _bars(_rows(headline, model, asked.datasets), asked.look)

    caption = _caption(rows, "at the headline layer", "Pale bars", asked.level)
    return _figure(rows, asked, panel, caption)


@fitted
def layers(table: pd.DataFrame, asked: Asked) -> Figure:
    """The same by layer, see `bars`."""
    rows = _right_answers(table, asked)
    width = draw.width_of(2 * len(asked.panels), asked.look)
    shared = draw.encodings(draw.paper_series(asked.datasets), asked.look, width)

    def panel(rows: pd.DataFrame, model: Pair) -> alt.LayerChart:
        points = _rows(rows, model, asked.datasets)
        return _lines(points, data.layer_count(rows), shared, asked.look)

    caption = _caption(rows, "by layer; dotted: random tokens", "Crosses", asked.level)
    return _figure(rows, asked, panel, caption)


CHARTS = {"bars": bars, "layers": layers}
"""View → what draws it."""


def _right_answers(table: pd.DataFrame, asked: Asked) -> pd.DataFrame:
    """The rows that are drawn."""
    data.require(table, " ".join(("model", "dataset", *COLUMNS)))
    rows = data.at_readout(table, asked.readout)
    rows = rows[(rows["label"].astype(str) == "0") & rows["anchor"].isin(draw.ANCHORS)]
    return rows[rows["n_paired"] > 0]


def _figure(
    rows: pd.DataFrame,
    asked: Asked,
    panel: Callable[[pd.DataFrame, Pair], alt.LayerChart],
    caption: list[str],
) -> Figure:
    """A panel for each arm and model, of its rows."""
    look, panels = asked.look, asked.panels
    arms = [arm for arm in ARMS if (rows["arm"] == arm).any()] or list(ARMS)[:1]
    views = []
    for arm, (model, label) in product(arms, panels):
        here = rows[(rows["arm"] == arm) & (rows["model"] == model)]
        title = TITLES[arm] if len(panels) == 1 else f"{label}, {TITLES[arm]}"
        heading = draw.row_heading(title, look)
        chart = panel(here, (model, label))
        views.append(chart.properties(title=heading, width=2 * look.panel_width))
    width = draw.width_of(2 * len(panels), look)
    return draw.figure_of(views, len(panels), width, asked.title, caption, look)


def _rows(table: pd.DataFrame, model: Pair, datasets: Sequence[Pair]) -> list[Row]:
    """A row for each dataset, group, sort of tokens and layer; shares in percent."""
    layers = data.layer_count(table)
    rows: list[Row] = []
    for (i, (key, name)), (j, anchor), (replaced, (column, _)) in product(
        enumerate(datasets), enumerate(draw.ANCHORS), REPLACED.items()
    ):
        line = table[(table["dataset"] == key) & (table["anchor"] == anchor)]
        numbers = data.values_of(column, f"{column}_low", f"{column}_high", 100)
        numbers |= {"n": ("n_paired", 1, 0)}
        fixed: Row = {"model": model[1], "dataset": name, "marker": draw.marker_of(i)}
        fixed |= {"series": draw.series_name(anchor, name), "bar": f"{name}\n{anchor}-Anchored"}
        fixed |= {"replaced": replaced, "condition": column, "chance": column == "random"}
        rows += data.line_rows(line, numbers, fixed, layers, i + 4 * j, probe=False)
    return rows


def _bars(rows: Sequence[Row], look: Style) -> alt.LayerChart:
    """Flips of each dataset's groups, by what was replaced; thin groups are pale."""
    height = 0.7 * look.panel_height
    if not rows:
        note = figure_panel.empty_note("not measured", 2 * look.panel_width, height, look)
        return alt.LayerChart(layer=[note], height=height)
    names, colours = list(REPLACED), [colour for _, colour in REPLACED.values()]
    groups = list(dict.fromkeys(row["bar"] for row in rows))
    axis = alt.Axis(labelExpr="split(datum.label, '\\n')", labelAngle=0, grid=False)
    base = alt.Chart(pd.DataFrame(list(rows))).encode(
        x=alt.X("bar:N", title=None, sort=groups, axis=axis),
        xOffset=alt.XOffset("replaced:N", sort=names),
        tooltip=draw.tooltips(**TIPS),
    )
    legend = alt.Legend(title=None, orient="bottom", symbolType="square", symbolOpacity=1)
    bars = base.mark_bar().encode(
        y=alt.Y("value:Q", title="Flips (%)", scale=alt.Scale(domain=[0, 100])),
        color=alt.Color("replaced:N", scale=alt.Scale(domain=names, range=colours), legend=legend),
        opacity=alt.condition("datum.thin", alt.value(0.35), alt.value(1)),
    )
    ends = base.mark_rule(color="#333333").encode(y=alt.Y("low:Q", title="Flips (%)"), y2="high:Q")
    return alt.LayerChart(layer=[bars, ends], height=height)


def _lines(rows: Sequence[Row], layers: int, shared: draw.Encodings, look: Style) -> alt.LayerChart:
    """Flips by layer, those under the control dotted; thin groups are crosses."""
    x = figure_panel.layer_axis(layers, "Layer")
    y = figure_panel.value_axis("value", "Flips (%)", *SHARES, look)
    height, some = 0.7 * look.panel_height, len(rows) > 0
    return figure_panel.line_panel(
        rows, x, y, shared, look, TIPS, height=height, chance=some, crosses=some
    )


def _caption(rows: pd.DataFrame, where: str, thin_marks: str, level: float) -> list[str]:
    """What the reader must know beside the picture, and how many pairs do not count."""
    headline = rows[data.true(rows["headline"])]
    left_out = data.span(headline["n"] - headline["n_paired"])
    counted = (
        "Groups by the knockout's flips. A pair counts if the control replaced as many tokens and "
        "if the probe classes the partner's own clean pass as it classes the sample's; in "
        f"`published`, if it calls the sample right. Left out: {left_out} of "
        f"{data.span(headline['n'])} right answers of a group at the headline layer."
    )
    thin = f" {thin_marks}: too few samples to rely on." if data.true(rows["thin"]).any() else ""
    return [
        "Right answers whose predicted class flips when question tokens before the same answer are "
        "replaced: the exact question tokens by a partner's, or as many others by those of an "
        f"unlike question; {where}.",
        counted if len(headline) else "No sample has a partner and a complete control.",
        f"{100 * level:g}\u00a0% clustered bootstrap intervals, probes held fixed; "
        f"{data.size_note([*headline['n_paired']])}.{thin}",
    ]
