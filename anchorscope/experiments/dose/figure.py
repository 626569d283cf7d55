"""The pictures of scaled attention: flips and −ΔP against the weight, and flips by layer.

All answers together: groups that the knockout's flips formed would hold all flips, or none, at
weight 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import altair as alt
import pandas as pd

from anchorscope.experiments.dose import WEIGHTS
from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_panel,
    figure_style as draw,
)
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_data import Pair, Row, Source
from anchorscope.figures.figure_fit import Request, fitted
from anchorscope.figures.figure_main import SHARES
from anchorscope.figures.figure_page import Axis
from anchorscope.figures.figure_style import Figure, Style

NEEDED = (
    "model dataset site position layer weight label anchor n n_paired flips flips_low flips_high "
    "random random_low random_high step_high delta_p delta_p_low delta_p_high random_delta_p "
    "random_delta_p_low random_delta_p_high signal headline thin"
)
FRACTIONS = {0.125: "⅛", 0.25: "¼", 0.5: "½"}
TOKENS = {"exact question tokens": False, "random question tokens": True}
"""Which tokens are weighed → whether these are the control."""
COLOURS = {
    0.0: "#08306b", 0.125: "#2171b5", 0.25: "#4292c6", 0.5: "#9ecae1",
    2.0: "#fdae6b", 4.0: "#e6550d", 8.0: "#8c2d04",
}  # fmt: skip
"""Weight → its colour: blue below 1, darker the further from it."""
TIPS = {
    "weight": ("w", ""),
    "tokens": ("tokens", ""),
    "value": ("value", ".1f"),
    "low": ("from", ".1f"),
    "high": ("to", ".1f"),
    "n": ("n", ",d"),
}


@dataclass(frozen=True)
class Quantity:
    """What a row of panels shows."""

    name: str  # of its panels
    title: str  # of the value axis
    exact: dict[str, Source]
    control: dict[str, Source]


FLIPS = Quantity(
    "flips",
    "Flips (%)",
    data.values_of("flips", "flips_low", "flips_high", 100),
    data.values_of("random", "random_low", "random_high", 100),
)
DEPTH = Quantity(
    "depth",
    "−ΔP (points)",
    data.values_of("delta_p", "delta_p_high", "delta_p_low", -1),
    data.values_of("random_delta_p", "random_delta_p_high", "random_delta_p_low", -1),
)


@fitted
def weights(table: pd.DataFrame, request: Request) -> Figure:
    """Flips above −ΔP against the weight, each dataset at its headline layer; a column a model."""
    look, rows = request.look, _rows(table, request)
    rows = rows[data.true(rows["headline"])]
    across = draw.columns_across(len(request.panels), look.columns)
    width = draw.width_of(across, look)
    measured = _measured(rows)
    names = [in_words(weight) for weight in sorted([*measured, 1.0])]
    shared = draw.encodings(_datasets(request.datasets), look, width)
    lines = {
        (i, quantity.name): _by_dataset(rows, model, request.datasets, quantity)
        for (i, model), quantity in product(enumerate(request.panels), (FLIPS, DEPTH))
    }
    deepest = [row for (_, name), part in lines.items() if name == DEPTH.name for row in part]
    axes = {FLIPS.name: SHARES, DEPTH.name: _depth_axis(deepest)}
    views = []
    for i, (_, label) in enumerate(request.panels):
        column = []
        for quantity in (FLIPS, DEPTH):
            last = quantity is DEPTH
            title = "Attention multiplied by w" if last else None
            x = figure_panel.name_axis("weight", title, names, labels=last)
            y = figure_panel.value_axis("value", quantity.title, *axes[quantity.name], look)
            name = f"{quantity.name}_{i}"
            part = lines[i, quantity.name]
            column.append(_panel(part, x, y, shared, look, TIPS | _SERIES, name))
        column[0] = column[0].properties(title=draw.panel_heading(label, look))
        views.append(alt.VConcatChart(vconcat=column, spacing=8, resolve=draw.one_legend()))
    caption = _caption(rows, request, "at the headline layer")
    return draw.figure_of(views, across, width, request.title, caption, look)


@fitted
def layers(table: pd.DataFrame, request: Request) -> Figure:
    """Flips by layer, a line a weight; a panel for each model and dataset."""
    rows, panels = _rows(table, request), [*product(request.panels, request.datasets)]
    across, look = draw.beside(len(request.panels), len(request.datasets), request.look)
    width = draw.width_of(across, look)
    measured = _measured(rows)
    shared = draw.encodings([_weight_series(one) for one in measured], look, width)
    views = []
    for i, ((model, label), (dataset, name)) in enumerate(panels):
        cell = data.cell_of(rows, model, dataset)
        labels: Row = {"model": label, "dataset": name}
        lines: list[Row] = []
        for weight in measured:
            fixed = labels | {"weight": in_words(weight), "series": _weight_series(weight).name}
            some = cell[cell["weight"] == weight]
            lines += _lines(some, FLIPS, fixed, WEIGHTS.index(weight), x="layer")
        x = figure_panel.layer_axis(data.layer_count(cell), "Layer")
        y = figure_panel.value_axis(
            "value", FLIPS.title if i % across == 0 else None, *SHARES, look
        )
        panel = _panel(lines, x, y, shared, look, draw.LAYER | TIPS, f"layers_{i}")
        heading = draw.panel_heading(name, look, below=label)
        views.append(panel.properties(title=heading))
    caption = _caption(rows, request, "by layer")
    return draw.figure_of(views, across, width, request.title, caption, look)


_SERIES = {"series": ("dataset", "")}


def in_words(weight: float) -> str:
    """A weight as the axis has it: `¼`."""
    return FRACTIONS.get(weight, f"{weight:g}")


def _rows(table: pd.DataFrame, request: Request) -> pd.DataFrame:
    """The rows of all answers at the read-out, where some sample counts.

    Raises AnchorscopeError: missing columns, or another read-out.
    """
    data.require(table, NEEDED)
    rows = data.at_readout(table, request.readout) if len(table) else table
    everyone = (rows["label"].astype(str) == "all") & (rows["anchor"] == "all")
    return rows[everyone & (rows["n_paired"] > 0)]


def _measured(rows: pd.DataFrame) -> list[float]:
    """The weights that some sample was measured at; all, where none was."""
    return [one for one in WEIGHTS if (rows["weight"] == one).any()] or list(WEIGHTS)


def _datasets(datasets: Sequence[Pair]) -> list[draw.Series]:
    """A series for each dataset, in the colour of its Q-Anchored answers elsewhere."""
    colours = {one.name: one.colour for one in draw.paper_series(datasets)}
    return [
        draw.Series(name, colours[draw.series_name("Q", name)], [1, 0], draw.marker_of(i))
        for i, (_, name) in enumerate(datasets)
    ]


def _weight_series(weight: float) -> draw.Series:
    """The series of a weight."""
    marker = draw.marker_of(WEIGHTS.index(weight))
    note = " (knockout)" if weight == 0 else ""
    return draw.Series(f"w = {in_words(weight)}{note}", COLOURS[weight], [1, 0], marker)


def _by_dataset(
    rows: pd.DataFrame, model: Pair, datasets: Sequence[Pair], quantity: Quantity
) -> list[Row]:
    """The lines of a model's panel, through the clean pass at weight 1."""
    lines: list[Row] = []
    for i, (key, name) in enumerate(datasets):
        cell = data.cell_of(rows, model[0], key)
        if cell.empty:
            continue
        numbers = [
            column for column, _, _ in (*quantity.exact.values(), *quantity.control.values())
        ]
        clean = cell.iloc[:1].assign(weight=1.0, **dict.fromkeys(numbers, 0.0))
        fixed: Row = {"model": model[1], "dataset": name, "series": name}
        fixed["marker"] = draw.marker_of(i)
        lines += _lines(pd.concat([cell, clean]), quantity, fixed, i, x="weight")
    return lines


def _lines(frame: pd.DataFrame, quantity: Quantity, fixed: Row, place: int, x: str) -> list[Row]:
    """The line of the exact tokens, and the dotted one of the control's."""
    lines: list[Row] = []
    for tokens, is_control in TOKENS.items():
        numbers = quantity.control if is_control else quantity.exact
        labels: Row = {"tokens": tokens, "condition": tokens, "chance": is_control}
        labels |= {"marker": draw.marker_of(place)} | fixed
        points = data.layer_count(frame) if x == "layer" else 1
        some = numbers | {"n": ("n_paired", 1, 0)}
        for row in data.line_rows(frame, some, labels, points, place, x=x):
            weight = row["weight"]
            lines.append(row | {"weight": weight if isinstance(weight, str) else _word(weight)})
    return lines


def _word(weight: object) -> str:
    return in_words(float(str(weight)))


def _panel(
    rows: Sequence[Row],
    x: alt.X,
    y: alt.Y,
    shared: draw.Encodings,
    look: Style,
    tips: figure_panel.Tips,
    name: str,
) -> alt.LayerChart:
    some = len(rows) > 0
    return figure_panel.line_panel(
        rows, x, y, shared, look, tips, name=name, chance=some, crosses=some
    )


def _depth_axis(rows: Sequence[Row]) -> Axis:
    """The axis of −ΔP: from 0, or the least multiple of 20 below all, to that above all."""
    ends = [float(str(row[end])) for row in rows for end in ("value", "low", "high")]
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    first = 20 * math.floor(min(low + 5, 0) / 20)
    last = max(20, 20 * math.ceil(high / 20))
    return (min(first, low), last), [*range(first, last + 1, 20)]


def falls(rows: pd.DataFrame) -> pd.Series:
    """Of each cell, whether flips fall at no weight from 0 to 1 against their intervals.

    `rows` are of the headline layers.
    """
    below = rows[rows["weight"] < 1]
    return (below["step_high"] >= 0).groupby([below["model"], below["dataset"]]).all()


def _caption(rows: pd.DataFrame, request: Request, where: str) -> Caption:
    """What is drawn, how it is done, whether flips fall, and what is left out."""
    headline = rows[data.true(rows["headline"])]
    if headline.empty:
        return Caption(["Not measured: no sample has what the experiment needs."])
    cells = data.cells_of(rows, request.panels, request.datasets)
    monotone = falls(headline)
    steadily = (
        f"Flips fall with every step from 0 to 1, within intervals, in {monotone.sum()} of "
        f"{len(monotone)} cells (headline layer)."
        if len(monotone)
        else ""
    )
    level = f"{100 * request.level:g}\u00a0%"
    return Caption(
        [
            "Predictions that flip when attention to the exact question tokens (solid) or to as "
            f"many others (dotted) is multiplied by w, {where}; "
            f"{notes.size_note(headline['n_paired'])} samples; {level} intervals.",
            f"w = 0 is the knockout, 1 the clean pass. {steadily}",
            _grey(cells),
            "Crosses: too few samples to rely on." if data.true(rows["thin"]).any() else "",
        ],
        [
            "log w is added to the attention scores of all later tokens, in all heads and layers, "
            "before the softmax. All answers, whatever the knockout does to them.",
            "Flips that fall with w say that the verdict depends on how much is read from the "
            "question, not only on whether it is; what the model does with the same tokens at "
            "weights that it never learned, they do not say. Above 1 flips need not rise.",
            "A sample counts if its control weighs as many tokens. Left out: "
            f"{notes.span(headline['n'] - headline['n_paired'])} of {notes.span(headline['n'])} "
            "samples of a cell.",
            f"Intervals: {level} clustered bootstrap, probes held fixed.",
            *_not_falling(monotone, request),
            *notes.missing_note([name for name, cell in cells.items() if cell.empty]),
            *request.notes,
        ],
    )


def _grey(cells: dict[str, pd.DataFrame]) -> str:
    """What is grey, in how many cells."""
    measured = [cell for cell in cells.values() if len(cell)]
    grey = sum(not data.true(cell["signal"]).all() for cell in measured)
    return (
        f"Hollow grey: layers without a signal (in {grey} of {len(measured)} cells)."
        if grey
        else ""
    )


def _not_falling(monotone: pd.Series, request: Request) -> list[str]:
    """The cells in which flips rise at some weight towards 1."""
    models, datasets = dict(request.panels), dict(request.datasets)
    names = [
        f"{models.get(model, model)} on {datasets.get(dataset, dataset)}"
        for model, dataset in monotone.index[~monotone]
    ]
    return [f"Flips do not fall steadily: {'; '.join(names)}."] if names else []


CHARTS = {"weights": weights, "layers": layers}
"""View → what draws it."""
