"""Pictures of flips: under an experiment's arms and under their control, by layer or as bars."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
from anchorscope.figures.figure_data import Pair, Row
from anchorscope.figures.figure_fit import Request
from anchorscope.figures.figure_main import SHARES
from anchorscope.figures.figure_style import Figure, Style

# which tokens are acted on: column of the table, colour of its bars
TOKENS = {
    "exact question tokens": ("flips", "#0072b2"),
    "random question tokens": ("random", "#9a9a9a"),
}
COLUMNS = (
    "model dataset site position layer arm anchor n n_paired flips flips_low flips_high random "
    "random_low random_high headline thin"
)
TIPS = draw.LAYER | {
    "series": ("group", ""),
    "tokens": ("tokens", ""),
    "value": ("flips, %", ".1f"),
    "low": ("from", ".1f"),
    "high": ("to", ".1f"),
    "n": ("n", ",d"),
}


@dataclass(frozen=True)
class Words:
    """What an experiment says in its pictures."""

    arms: Mapping[str, str]  # arm → heading of its panels, in order
    what: str  # what flips when, to which the caption adds where, n and intervals
    # what is done to a sample, then to its control: in the legend → column of the table, colour
    tokens: Mapping[str, tuple[str, str]] = field(default_factory=lambda: TOKENS)
    how: str = ""  # how it is done, sentences for the page
    counted: str = ""  # when a sample counts beyond a complete control, sentences for the page


def rows_of(table: pd.DataFrame, request: Request) -> pd.DataFrame:
    """The groups of a table at the read-out in which some sample counts.

    Raises AnchorscopeError: missing columns, or another read-out.
    """
    data.require(table, COLUMNS)
    rows = data.at_readout(table, request.readout) if len(table) else table
    return rows[rows["anchor"].isin(draw.ANCHORS) & (rows["n_paired"] > 0)]


def bars(rows: pd.DataFrame, request: Request, words: Words) -> Figure:
    """Each dataset's groups at its headline layer: a panel for each arm and model.

    `rows` are of `rows_of`. Says `not measured` where there are none.
    """

    def panel(rows: pd.DataFrame, model: Pair, name: str) -> alt.LayerChart:
        headline = rows[data.true(rows["headline"])]
        return _bars(_points(headline, model, request.datasets, words), request.look, words)

    caption = _caption(rows, words, "at the headline layer", "Pale bars", request.level)
    return _figure(rows, request, words, panel, caption)


def by_layer(rows: pd.DataFrame, request: Request, words: Words) -> Figure:
    """The same at every layer, see `bars`."""
    width = draw.width_of(2 * len(request.panels), request.look)
    shared = draw.encodings(draw.paper_series(request.datasets), request.look, width)

    def panel(rows: pd.DataFrame, model: Pair, name: str) -> alt.LayerChart:
        points = _points(rows, model, request.datasets, words)
        return _lines(points, data.layer_count(rows), shared, request.look, name)

    dotted = f"by layer; dotted: {[*words.tokens][-1]}"
    caption = _caption(rows, words, dotted, "Crosses", request.level)
    return _figure(rows, request, words, panel, caption)


def _figure(
    rows: pd.DataFrame,
    request: Request,
    words: Words,
    panel: Callable[[pd.DataFrame, Pair, str], alt.LayerChart],
    caption: Caption,
) -> Figure:
    """A panel for each arm and model, of its rows."""
    look, panels = request.look, request.panels
    arms = [arm for arm in words.arms if (rows["arm"] == arm).any()] or list(words.arms)[:1]
    views = []
    for number, (arm, (model, label)) in enumerate(product(arms, panels)):
        here = rows[(rows["arm"] == arm) & (rows["model"] == model)]
        title = words.arms[arm] if len(panels) == 1 else f"{label}, {words.arms[arm]}"
        heading = draw.row_heading(title, look)
        chart = panel(here, (model, label), f"flips_{number}")
        views.append(chart.properties(title=heading, width=2 * look.panel_width))
    width = draw.width_of(2 * len(panels), look)
    return draw.figure_of(views, len(panels), width, request.title, caption, look)


def _points(table: pd.DataFrame, model: Pair, datasets: Sequence[Pair], words: Words) -> list[Row]:
    """A row for each dataset, group, sort of tokens and layer; shares in percent."""
    layers = data.layer_count(table)
    rows: list[Row] = []
    for (i, (key, name)), (j, anchor), (tokens, (column, _)) in product(
        enumerate(datasets), enumerate(draw.ANCHORS), words.tokens.items()
    ):
        line = table[(table["dataset"] == key) & (table["anchor"] == anchor)]
        numbers = data.values_of(column, f"{column}_low", f"{column}_high", 100)
        numbers |= {"n": ("n_paired", 1, 0)}
        fixed: Row = {"model": model[1], "dataset": name, "marker": draw.marker_of(i)}
        fixed |= {"series": draw.series_name(anchor, name), "bar": f"{name}\n{anchor}-Anchored"}
        fixed |= {"tokens": tokens, "condition": column, "chance": column == "random"}
        # Where the table tells the signal, layers without one are grey.
        rows += data.line_rows(line, numbers, fixed, layers, i + 4 * j, probe="signal" in table)
    return rows


def _bars(rows: Sequence[Row], look: Style, words: Words) -> alt.LayerChart:
    """Flips of each dataset's groups, by the tokens acted on; thin groups are pale."""
    height = look.panel_height
    if not rows:
        note = figure_panel.empty_note("not measured", 2 * look.panel_width, height, look)
        return alt.LayerChart(layer=[note], height=height)
    names, colours = list(words.tokens), [colour for _, colour in words.tokens.values()]
    groups = list(dict.fromkeys(str(row["bar"]) for row in rows))
    axis = alt.Axis(labelExpr="split(datum.label, '\\n')", labelAngle=0, grid=False)
    base = alt.Chart(pd.DataFrame(list(rows))).encode(
        x=alt.X("bar:N", title=None, sort=groups, axis=axis),
        xOffset=alt.XOffset("tokens:N", sort=names),
        tooltip=draw.tooltips(TIPS),
    )
    legend = alt.Legend(title=None, orient="bottom", symbolType="square", symbolOpacity=1)
    bars = base.mark_bar().encode(
        y=alt.Y("value:Q", title="Flips (%)", scale=alt.Scale(domain=[0, 100])),
        color=alt.Color("tokens:N", scale=alt.Scale(domain=names, range=colours), legend=legend),
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


def _caption(
    rows: pd.DataFrame, words: Words, where: str, thin_marks: str, level: float
) -> Caption:
    """What is drawn, n and intervals; how a sample counts, and how many do not, as details."""
    headline = rows[data.true(rows["headline"])]
    if headline.empty:
        return Caption(["Not measured: no sample has what the experiment needs."])
    intervals = f"{100 * level:g}\u00a0% intervals"
    size = f"{notes.size_note([*headline['n_paired']])} samples a group"
    left_out = (
        f"Left out: {notes.span(headline['n'] - headline['n_paired'])} of "
        f"{notes.span(headline['n'])} samples of a group at the headline layer."
    )
    thin = f"{thin_marks}: too few samples to rely on." if data.true(rows["thin"]).any() else ""
    grey = ""
    if "signal" in rows and not data.true(rows["signal"]).all():
        grey = f"Grey: layers without a signal. {notes.NO_MORE_THAN_TEXT}"
    return Caption(
        [f"{words.what}, {where}; {size}; {intervals}.", thin, grey],
        [
            f"{words.how} Groups are formed by the knockout's flips.",
            f"A sample counts if its control acts on as many tokens. {words.counted} {left_out}",
            f"Intervals: {100 * level:g}\u00a0% clustered bootstrap, probes held fixed.",
        ],
    )
