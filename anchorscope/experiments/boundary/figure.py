"""The picture of the knowledge boundary: what is known of each group, by layer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import altair as alt
import pandas as pd

from anchorscope.experiments.boundary import KNOCKOUT, RANDOM
from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_panel,
    figure_style as draw,
)
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_data import Pair, Row
from anchorscope.figures.figure_fit import Request, fitted
from anchorscope.figures.figure_style import Figure, Style

COLUMNS = (
    "model dataset site position layer groups facts anchor n n_paired right unknown logprob "
    "entropy popularity signal headline thin"
)


@dataclass(frozen=True)
class Measure:
    """A row of panels."""

    column: str
    heading: str
    axis: str
    factor: float = 1.0
    ends: tuple[float, float] | None = None  # of the axis; None: as far as the values go


MEASURES = (
    Measure("right", "Answers that are right", "Right (%)", 100, (0, 100)),
    Measure("unknown", "Refused once the prompt allows it", "Refused (%)", 100, (0, 100)),
    Measure("logprob", "Mean log-probability of the answer's tokens", "Nats"),
    Measure("entropy", "Mean entropy of the answer's tokens", "Nats"),
    Measure("popularity", "Mean popularity of the subject", "Popularity"),
)
TIPS = draw.LAYER | {
    "series": ("group", ""),
    "groups": ("groups by the flips of", ""),
    "value": ("value", ".3~f"),
    "low": ("from", ".3~f"),
    "high": ("to", ".3~f"),
    "n": ("n", ",d"),
}
CAUTION = (
    "Groups by random flips differ, too, where what flips is what the probe is unsure of: only "
    "what the knockout's groups show beyond these is about the question."
)


@fitted
def layers(table: pd.DataFrame, request: Request) -> Figure:
    """A row of panels for each measure, a column for each model; `grouping` tells nothing here."""
    data.require(table, COLUMNS)
    rows = data.at_readout(table, request.readout) if len(table) else table
    rows = rows[(rows["facts"] == "all") & rows["anchor"].isin(draw.ANCHORS)]
    look, panels = request.look, request.panels
    width = draw.width_of(len(panels), look)
    shared = draw.encodings(draw.paper_series(request.datasets), look, width)
    measures = [
        one for one in MEASURES if one.column != "popularity" or rows[one.column].notna().any()
    ]
    views = []
    for (number, measure), (place, model) in product(enumerate(measures), enumerate(panels)):
        of_model = rows[rows["model"] == model[0]]
        x = figure_panel.layer_axis(
            data.layer_count(of_model), "Layer" if number == len(measures) - 1 else None
        )
        y = _axis(measure, rows, look)
        points = _points(of_model, model, request.datasets, measure)
        name = f"{measure.column}_{place}"
        some = len(points) > 0
        panel = figure_panel.line_panel(
            points, x, y, shared, look, TIPS,
            name=name, height=0.7 * look.panel_height, chance=some, crosses=some,
        )  # fmt: skip
        title = measure.heading if len(panels) == 1 else f"{model[1]}: {measure.heading.lower()}"
        views.append(panel.properties(title=draw.row_heading(title, look)))
    caption = _caption(rows, request.level)
    return draw.figure_of(views, len(panels), width, request.title, caption, look)


CHARTS = {"layers": layers}
"""View → what draws it."""


def _points(
    rows: pd.DataFrame, model: Pair, datasets: Sequence[Pair], measure: Measure
) -> list[Row]:
    """A line for each dataset, group and way to form it; those of the control are dotted."""
    points: list[Row] = []
    ends = (f"{measure.column}_low", f"{measure.column}_high")
    numbers = data.values_of(measure.column, *ends, measure.factor) | {"n": ("n_paired", 1, 0)}
    ways = (KNOCKOUT.name, RANDOM.name)
    for (i, (key, name)), (j, anchor), way in product(
        enumerate(datasets), enumerate(draw.ANCHORS), ways
    ):
        line = rows[(rows["dataset"] == key) & (rows["anchor"] == anchor) & (rows["groups"] == way)]
        fixed: Row = {"model": model[1], "dataset": name, "marker": draw.marker_of(i)}
        fixed |= {"series": draw.series_name(anchor, name), "groups": way}
        fixed |= {"condition": way, "chance": way == RANDOM.name}
        points += data.line_rows(line, numbers, fixed, data.layer_count(rows), i + 4 * j)
    return points


def _axis(measure: Measure, rows: pd.DataFrame, look: Style) -> alt.Y:
    """The y axis of a measure, the same in all columns."""
    low, high = measure.ends or _reach(rows[measure.column])
    ticks = [low + (high - low) * step / 4 for step in range(5)]
    number = "d" if measure.ends else "~g"
    return figure_panel.value_axis("value", measure.axis, (low, high), ticks, look, number=number)


def _reach(values: pd.Series) -> tuple[float, float]:
    """An axis that holds the values and 0, its ends a round number."""
    most = max(values.abs().max(), 0) if values.notna().any() else 0
    if not most:
        return 0.0, 1.0
    power = 10.0 ** math.floor(math.log10(most))
    end = next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= most)
    return (-end, 0.0) if values.min() < 0 else (0.0, end)


def _caption(rows: pd.DataFrame, level: float) -> Caption:
    """What is drawn, n and intervals; what it does not say."""
    by_knockout = rows[(rows["groups"] == KNOCKOUT.name) & (rows["n_paired"] > 0)]
    headline = by_knockout[data.true(by_knockout["headline"])]
    if headline.empty:
        return Caption(["Not measured: no sample has a control that is complete."])
    size = f"{notes.size_note([*headline['n_paired']])} samples a group at the headline layer"
    thin = "Crosses: too few samples to rely on." if data.true(rows["thin"]).any() else ""
    grey = ""
    if not data.true(rows["signal"]).all():
        grey = f"Grey: layers without a signal. {notes.NO_MORE_THAN_TEXT}"
    return Caption(
        [
            "What the model knows, by layer and by the group that the knockout's flips form; "
            f"dotted: by random flips; {size}; {100 * level:g}\u00a0% intervals.",
            thin,
            grey,
        ],
        [
            CAUTION,
            "A sample counts if as many random tokens can be cut as E_Q has. Refused: in a new "
            "answer to a prompt that allows it; the other measures are of the answers themselves.",
            f"Intervals: {100 * level:g}\u00a0% clustered bootstrap, probes held fixed.",
        ],
    )
