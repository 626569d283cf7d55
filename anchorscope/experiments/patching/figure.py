"""The pictures of patching: flips as bars at the headline layer, and by layer."""

from collections.abc import Sequence
from itertools import product

import altair as alt
import pandas as pd

from anchorscope.experiments.patching import ARMS, EXPERIMENT
from anchorscope.figures import figure_data as data, figure_panel, figure_style as draw
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_data import Pair, Row
from anchorscope.figures.figure_fit import Request, fitted
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
TIPS = draw.LAYER | {
    "series": ("group", ""),
    "replaced": ("replaced", ""),
    "value": ("flips, %", ".1f"),
}
TIPS |= {"low": ("from", ".1f"), "high": ("to", ".1f"), "n": ("n", ",d")}


@fitted
def chart(table: pd.DataFrame, view: str, request: Request) -> Figure:
    """One of `EXPERIMENT.views`: a panel for each arm and model.

    Of the rows of `results/tables/<figure>.patching.csv` right answers only: behind any other
    question a wrong answer's verdict falls back to the default, so that wrong ones prove little.
    `bars` are each dataset's groups at its headline layer; `grouping` tells nothing here. Raises
    AnchorscopeError: missing columns, or another read-out.
    """
    look, panels = request.look, request.panels
    data.require(table, " ".join(("model", "dataset", *EXPERIMENT.columns)))
    rows = data.at_readout(table, request.readout)
    rows = rows[(rows["label"].astype(str) == "0") & rows["anchor"].isin(draw.ANCHORS)]
    rows = rows[rows["n_paired"] > 0]
    width = draw.width_of(2 * len(panels), look)
    shared = draw.encodings(draw.paper_series(request.datasets), look, width)
    arms = [arm for arm in ARMS if (rows["arm"] == arm).any()] or list(ARMS)[:1]
    views = []
    for i, (arm, model) in enumerate(product(arms, panels)):
        mine = rows[(rows["arm"] == arm) & (rows["model"] == model[0])]
        shown = mine[data.true(mine["headline"])] if view == "bars" else mine
        drawn = _rows(shown, model, request.datasets)
        layers = data.layer_count(mine)
        panel = (
            _bars(drawn, look)
            if view == "bars"
            else _lines(drawn, layers, shared, look, f"flips_{i}")
        )
        said = TITLES[arm] if len(panels) == 1 else f"{model[1]}, {TITLES[arm]}"
        heading = draw.row_heading(said, look)
        views.append(panel.properties(title=heading, width=2 * look.panel_width))
    caption = _caption(rows, view, request.level)
    return draw.figure_of(views, len(panels), width, request.title, caption, look)


def _rows(table: pd.DataFrame, model: Pair, datasets: Sequence[Pair]) -> list[Row]:
    """A row for each dataset, group, sort of tokens and layer; shares in percent."""
    layers, found = data.layer_count(table), []
    for (i, (key, name)), (j, anchor), (replaced, (column, _)) in product(
        enumerate(datasets), enumerate(draw.ANCHORS), REPLACED.items()
    ):
        line = table[(table["dataset"] == key) & (table["anchor"] == anchor)]
        numbers = data.values_of(column, f"{column}_low", f"{column}_high", 100)
        numbers |= {"n": ("n_paired", 1, 0)}
        shown: Row = {"model": model[1], "dataset": name, "marker": draw.marker_of(i)}
        shown |= {"series": draw.series_name(anchor, name), "bar": f"{name}\n{anchor}-Anchored"}
        shown |= {"replaced": replaced, "condition": column, "chance": column == "random"}
        found += data.line_rows(line, numbers, shown, layers, i + 4 * j, probe=False)
    return found


def _bars(rows: Sequence[Row], look: Style) -> alt.LayerChart:
    """Flips of each dataset's groups, by what was replaced; thin groups are pale."""
    height = look.panel_height
    if not rows:
        note = figure_panel.empty_note("not measured", 2 * look.panel_width, height, look)
        return alt.LayerChart(layer=[note], height=height)
    names, colours = list(REPLACED), [colour for _, colour in REPLACED.values()]
    groups = list(dict.fromkeys(str(row["bar"]) for row in rows))
    axis = alt.Axis(labelExpr="split(datum.label, '\\n')", labelAngle=0, grid=False)
    base = alt.Chart(pd.DataFrame(list(rows))).encode(
        x=alt.X("bar:N", title=None, sort=groups, axis=axis),
        xOffset=alt.XOffset("replaced:N", sort=names),
        tooltip=draw.tooltips(TIPS),
    )
    legend = alt.Legend(title=None, orient="bottom", symbolType="square", symbolOpacity=1)
    bars = base.mark_bar().encode(
        y=alt.Y("value:Q", title="Flips (%)", scale=alt.Scale(domain=[0, 100])),
        color=alt.Color("replaced:N", scale=alt.Scale(domain=names, range=colours), legend=legend),
        opacity=alt.condition("datum.thin", alt.value(0.35), alt.value(1)),
    )
    ends = base.mark_rule(color="#333333").encode(y=alt.Y("low:Q", title="Flips (%)"), y2="high:Q")
    return alt.LayerChart(layer=[bars, ends], height=height)


def _lines(
    rows: Sequence[Row], layers: int, shared: draw.Encodings, look: Style, name: str
) -> alt.LayerChart:
    """Flips by layer, those under the control dotted; thin groups are crosses."""
    x = figure_panel.layer_axis(layers, "Layer")
    y = figure_panel.value_axis("value", "Flips (%)", *SHARES, look)
    some = len(rows) > 0
    return figure_panel.line_panel(
        rows, x, y, shared, look, TIPS, name=name, chance=some, crosses=some
    )


def _caption(rows: pd.DataFrame, view: str, level: float) -> Caption:
    """What is drawn, n and intervals; how a pair counts, and how many do not, as details."""
    here = rows[data.true(rows["headline"])]
    where = "at the headline layer" if view == "bars" else "by layer; dotted: random tokens"
    thin = data.true(rows["thin"]).any()
    few = "Pale bars" if view == "bars" else "Crosses"
    pairs = f"{data.size_note([*here['n_paired']])} pairs a group" if len(here) else "no pairs"
    left_out = (
        f"Left out: {data.span(here['n'] - here['n_paired'])} of {data.span(here['n'])} right "
        "answers of a group at the headline layer."
        if len(here)
        else "No sample has a partner."
    )
    return Caption(
        [
            f"Right answers that flip when question tokens are replaced, {where}; {pairs}; "
            f"{100 * level:g}\u00a0% intervals.",
            f"{few}: too few samples to rely on." if thin else "",
        ],
        [
            "The exact question tokens before the same answer are replaced by a partner's, or as "
            "many others by those of an unlike question. Groups are formed by the knockout's "
            "flips.",
            "A pair counts if the probe classes the partner's own clean pass as it classes the "
            f"sample's; in `published`, if it calls the sample right. {left_out}",
            f"Intervals: {100 * level:g}\u00a0% clustered bootstrap, probes held fixed.",
        ],
    )
