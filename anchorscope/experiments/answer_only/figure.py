"""The pictures of answers without their questions: flips and −ΔP as bars, and flips by layer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import altair as alt
import pandas as pd

from anchorscope.experiments import flip_figure
from anchorscope.experiments.flip_figure import Words
from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_panel,
    figure_style as draw,
)
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_data import Pair
from anchorscope.figures.figure_fit import Request, fitted
from anchorscope.figures.figure_style import BLUE, INK, Figure, Style

LEFT_OUT, CUT = "question left out", "every question token cut"
WORDS = Words(
    arms={"answer-only": "the answer alone"},
    what="Predictions that flip when the question is left out, or all of it is cut",
    tokens={LEFT_OUT: ("flips", BLUE), CUT: ("random", "#9a9a9a")},
    how="The answer's own tokens stand behind a prompt without the question; the control cuts "
    "attention to every token of the question.",
    counted="It also counts only if its prompt can leave the question out.",
)
LEARNED = (
    "A model that never saw an answer without a question may flip for that alone: the same bars "
    "for A- as for Q-Anchored answers say nothing of the question."
)
MEAN = "mean"


@dataclass(frozen=True)
class Quantity:
    """What a row of bars shows."""

    title: str  # of the axis
    columns: tuple[str, str]  # of the table: the question left out, and cut
    factor: float


QUANTITIES = (
    Quantity("Flips (%)", ("flips", "random"), 100),
    Quantity("−ΔP (points)", ("delta_p", "random_delta_p"), -1),
)
TIPS = {
    "group": ("group", ""),
    "condition": ("condition", ""),
    "value": ("value", ".1f"),
    "low": ("from", ".1f"),
    "high": ("to", ".1f"),
    "n": ("n", ",d"),
}


@fitted
def bars(table: pd.DataFrame, request: Request) -> Figure:
    """Flips and −ΔP of each dataset's groups at its headline layer, and their means over datasets.

    `grouping` tells nothing here.
    """
    rows = _all_answers(table, request)
    headline = rows[data.true(rows["headline"])]
    flags = {name: data.true(headline[name]) for name in ("thin", "signal")}
    headline = headline.assign(**flags)
    look, panels = request.look, request.panels
    views = []
    for quantity, (model, label) in product(QUANTITIES, panels):
        of_model = headline[headline["model"] == model]
        of_panel = _bars(of_model, (model, label), request.datasets, quantity)
        chart = _panel(of_panel, quantity, _lowest(headline, quantity), look)
        heading = draw.row_heading(label, look)
        views.append(chart.properties(title=heading, width=2 * look.panel_width))
    width = draw.width_of(2 * len(panels), look)
    return draw.figure_of(
        views, len(panels), width, request.title, _caption(headline, request.level), look
    )


@fitted
def layers(table: pd.DataFrame, request: Request) -> Figure:
    """Flips by layer."""
    return flip_figure.by_layer(_all_answers(table, request), request, WORDS)


CHARTS = {"bars": bars, "layers": layers}
"""View → what draws it."""


def _all_answers(table: pd.DataFrame, request: Request) -> pd.DataFrame:
    """The groups of right and wrong answers together, with the control's columns named `random`."""
    renamed = table.rename(columns=lambda name: name.replace("question", "random"))
    rows = flip_figure.rows_of(renamed.assign(arm="answer-only"), request)
    return rows[rows["label"].astype(str) == "all"]


def _bars(
    rows: pd.DataFrame, model: Pair, datasets: Sequence[Pair], quantity: Quantity
) -> pd.DataFrame:
    """A bar for each dataset, group and condition; behind them the means over the datasets.

    The mean's bar has no interval; each of its datasets is a `point`.
    """
    bars: list[dict[str, object]] = []
    for anchor, (condition, column) in product(
        draw.ANCHORS, zip((LEFT_OUT, CUT), quantity.columns, strict=True)
    ):
        of_group = rows[rows["anchor"] == anchor]
        fixed = {"model": model[1], "condition": condition, "group": f"{anchor}-Anchored"}
        singles: list[dict[str, object]] = []
        for key, name in datasets:
            for row in of_group[of_group["dataset"] == key].to_dict("records"):
                ends = sorted(quantity.factor * row[f"{column}_{end}"] for end in ("low", "high"))
                single = fixed | {
                    "dataset": name,
                    "bar": f"{name}\n{anchor}",
                    "value": quantity.factor * row[column],
                    "low": ends[0],
                    "high": ends[1],
                    "n": row["n_paired"],
                    "thin": row["thin"],
                    "signal": row["signal"],
                    "point": False,
                }
                singles.append(single)
        bars += singles
        if len(singles) > 1:
            bar = f"{MEAN}\n{anchor}"
            values = [float(str(one["value"])) for one in singles]
            together = {"value": sum(values) / len(values), "dataset": MEAN, "bar": bar}
            together |= {"low": None, "high": None, "n": None, "thin": False, "point": False}
            bars.append(fixed | together | {"signal": all(one["signal"] for one in singles)})
            bars += [one | {"bar": bar, "point": True} for one in singles]
    return pd.DataFrame(bars)


def _lowest(headline: pd.DataFrame, quantity: Quantity) -> float:
    """Where the axis of all panels of a quantity begins: 0, or below what lies lower."""
    ends = [f"{column}_{end}" for column in quantity.columns for end in ("low", "high")]
    lowest = (quantity.factor * headline[ends]).to_numpy().min() if len(headline) else 0.0
    return min(0.0, 10 * math.floor(float(lowest) / 10))


def _panel(bars: pd.DataFrame, quantity: Quantity, lowest: float, look: Style) -> alt.LayerChart:
    """Bars side by side, whiskers, and the points of the means."""
    height = look.panel_height
    if bars.empty:
        note = figure_panel.empty_note("not measured", 2 * look.panel_width, height, look)
        return alt.LayerChart(layer=[note], height=height)
    names = [f"{name}\n{anchor}" for name in _names(bars) for anchor in draw.ANCHORS]
    # The dataset stands below its first bar alone: narrow panels have no room for it twice.
    words = "slice(datum.label, -1) === 'A' ? ['', 'A'] : split(datum.label, '\\n')"
    axis = alt.Axis(labelExpr=words, labelAngle=0, labelOverlap=False, grid=False)
    base = alt.Chart(bars).encode(
        x=alt.X("bar:N", title=None, sort=names, axis=axis),
        xOffset=alt.XOffset("condition:N", sort=[LEFT_OUT, CUT]),
        tooltip=draw.tooltips(TIPS),
    )
    colours = alt.Scale(domain=[LEFT_OUT, CUT], range=[BLUE, "#9a9a9a"])
    legend = alt.Legend(title=None, orient="bottom", symbolType="square", symbolOpacity=1)
    colour = alt.Color("condition:N", scale=colours, legend=legend)
    scale = alt.Scale(domain=[lowest, 100])
    y = alt.Y("value:Q", title=quantity.title, scale=scale)
    single = base.transform_filter("!datum.point")
    filled = single.mark_bar(strokeWidth=1).encode(
        y=y,
        color=colour,
        stroke=alt.Stroke("condition:N", scale=colours, legend=None),
        fillOpacity=alt.condition("datum.signal", alt.value(1), alt.value(0)),
        opacity=alt.condition("datum.thin", alt.value(0.35), alt.value(1)),
    )
    whiskers = single.mark_rule(color="#333333").encode(
        y=alt.Y("low:Q", title=quantity.title), y2="high:Q"
    )
    points = base.transform_filter("datum.point").mark_point(
        color=INK, filled=True, size=0.5 * look.marker_size, opacity=0.8
    )
    return alt.LayerChart(layer=[filled, whiskers, points.encode(y=y)], height=height)


def _names(bars: pd.DataFrame) -> list[str]:
    """The datasets, in their order, and `mean` behind them."""
    names = list(dict.fromkeys(map(str, bars["dataset"])))
    return [name for name in names if name != MEAN] + [name for name in names if name == MEAN]


def _caption(headline: pd.DataFrame, level: float) -> Caption:
    """What is drawn, n and intervals; what it does not say."""
    if headline.empty:
        return Caption(["Not measured: no prompt can leave its question out."])
    size = f"{notes.size_note([*headline['n_paired']])} samples a group"
    points = (
        "Points: single datasets behind their mean." if headline["dataset"].nunique() > 1 else ""
    )
    thin = "Pale: too few samples to rely on." if data.true(headline["thin"]).any() else ""
    hollow = ""
    if not data.true(headline["signal"]).all():
        hollow = f"Hollow: no signal. {notes.NO_MORE_THAN_TEXT}"
    left_out = (
        f"Left out: {notes.span(headline['n'] - headline['n_paired'])} of "
        f"{notes.span(headline['n'])} samples of a group."
    )
    return Caption(
        [
            "Flips and −ΔP when the question is left out, and when all of it is cut, of Q- and "
            f"A-Anchored answers at the headline layer; {size}; {100 * level:g}\u00a0% intervals.",
            points,
            thin,
            hollow,
        ],
        [
            f"{WORDS.how} Groups are formed by the knockout's flips. {WORDS.counted} {left_out}",
            LEARNED,
            f"Intervals: {100 * level:g}\u00a0% clustered bootstrap, probes held fixed.",
        ],
    )
