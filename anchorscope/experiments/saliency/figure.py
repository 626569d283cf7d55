"""The pictures of saliency: densities by group, and what flows by layer and by head."""

import math
from collections.abc import Sequence
from itertools import product

import altair as alt
import pandas as pd

from anchorscope.experiments.knockout.figure_controls import auc_axis
from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_panel,
    figure_style as draw,
)
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_data import Pair, Row, Source
from anchorscope.figures.figure_fit import Request, fitted
from anchorscope.figures.figure_page import Axis
from anchorscope.figures.figure_style import Figure, Style

COLUMNS = (
    "model dataset site position part arm head label anchor layer n n_paired flow flow_low "
    "flow_high random random_low random_high auc auc_low auc_high random_auc random_auc_low "
    "random_auc_high crossed_auc loss x density random_density thin signal"
)
GROUPS = {"Q": ("Q-Anchored", draw.BLUE), "A": ("A-Anchored", draw.ORANGE)}
"""Anchor → entry of the legend and colour, where a panel is of one cell."""
SOURCES = {
    "exact question tokens": ("density", "flow", "auc"),
    "random question tokens": ("random_density", "random", "random_auc"),
}
"""Where attention flows from → columns of the table."""
LABELS = {"all": "", "0": "right answers", "1": "wrong answers"}
TARGETS = {"answer": "the exact answer tokens", "later": "all later tokens"}
UNITS = {"logit": "logits", "probe": "nats"}
"""What was differentiated → the unit of the flow."""
DENSITY_TIPS = {
    "series": ("group", ""),
    "tokens": ("from", ""),
    "x": ("saliency", ".3~g"),
    "value": ("density", ".2f"),
    "n": ("n", ",d"),
}
LAYER_TIPS = draw.LAYER | {
    "series": ("group", ""),
    "tokens": ("from", ""),
    "value": ("value", ".3~g"),
    "low": ("from", ".3~g"),
    "high": ("to", ".3~g"),
    "n": ("n", ",d"),
}
HEAD_TIPS = draw.LAYER | {"head": ("head", "d"), "tokens": ("from", ""), "value": ("AUC", ".2f")}
MOST_NUMBERED = 12
"""Heads of a layer that have room for numbers."""
CIRCULAR = (
    "Groups by the same probe's flips are nearly circular: a gradient is a first-order knockout."
)
CROSS_ENTROPY = (
    "The loss is the probe's cross-entropy: its gradient carries the factor 1 − p, so that any "
    "token, random ones too, tells an unsure sample from a sure one."
)


@fitted
def density(table: pd.DataFrame, request: Request) -> Figure:
    """Each cell's densities of what flows to the answer; `grouping` tells nothing here."""
    return _densities(table, request, "answer", ("all",))


@fitted
def later(table: pd.DataFrame, request: Request) -> Figure:
    """The same to all later tokens."""
    return _densities(table, request, "later", ("all",))


@fitted
def label(table: pd.DataFrame, request: Request) -> Figure:
    """What flows to the answer, right answers above wrong ones."""
    return _densities(table, request, "answer", ("0", "1"))


@fitted
def layers(table: pd.DataFrame, request: Request) -> Figure:
    """What flows to the answer in each layer, and how well it tells the groups, by model."""
    rows, arm = _rows(table, request, "answer")
    rows = rows[rows["label"] == "all"]
    of_layers, look = rows[(rows["part"] == "layer") & (rows["arm"] == arm)], request.look
    across = draw.columns_across(len(request.panels), look.columns)
    width = draw.width_of(across, look)
    columns = [_layer_rows(of_layers, model, request.datasets) for model in request.panels]
    drawn = pd.DataFrame([row for column in columns for rows in column for row in rows])
    series = draw.paper_series(request.datasets, drawn if len(drawn) else None)
    shared = draw.encodings(series, look, width)
    title, views = f"Saliency ({_unit(of_layers)})", []
    for number, ((model, name), lines) in enumerate(zip(request.panels, columns, strict=True)):
        depth = data.layer_count(of_layers[of_layers["model"] == model])
        flow, auc = _layer_panels(*lines, title, depth, shared, look, name=str(number))
        both = [flow.properties(title=draw.panel_heading(name, look)), auc]
        views.append(alt.VConcatChart(vconcat=both, spacing=12, resolve=draw.one_legend()))
    what = (
        f"From the exact question tokens to {TARGETS[arm]}, and how well it tells Q from A; "
        "dotted: from random ones"
    )
    caption = _caption(rows[rows["arm"] == arm], what, request)
    return draw.figure_of(views, across, width, request.title, caption, look)


@fitted
def heads(table: pd.DataFrame, request: Request) -> Figure:
    """How well the flow of each head to the answer tells the groups, beside random tokens."""
    rows, _ = _rows(table, request, "answer")
    of_heads, look = rows[(rows["part"] == "head") & (rows["anchor"] == "all")], request.look
    cells = [*product(request.panels, request.datasets)]
    across = draw.columns_across(2 * min(len(request.datasets), 2), 2 * look.columns)
    look = _smaller(look, across)
    views = []
    for place, ((model, dataset), (tokens, columns)) in enumerate(product(cells, SOURCES.items())):
        cell = data.cell_of(of_heads, model[0], dataset[0])
        named: Row = {"model": model[1], "dataset": dataset[1], "tokens": tokens}
        below = f"{model[1]}, {tokens.replace(' question', '')}"
        heading = draw.panel_heading(dataset[1], look, below=below)
        panel = _heat(cell, columns[2], named, look, f"heads_{place}")
        views.append(panel.properties(title=heading))
    width = across * (look.panel_width + 0.7 * look.spacing) + 4 * look.label_size
    what = (
        "How well what flows through a head, from question tokens to the exact answer tokens, "
        "tells Q from A (AUC; 0.5: not at all)"
    )
    caption = _caption(rows[rows["part"] == "head"], what, request, best_of_many=True)
    return draw.figure_of(views, across, width, request.title, caption, look)


CHARTS = {"density": density, "later": later, "label": label, "layers": layers, "heads": heads}
"""View → what draws it."""


def _rows(table: pd.DataFrame, request: Request, arm: str) -> tuple[pd.DataFrame, str]:
    """The rows at the read-out that are of some sample, and the arm, or `later` in its place.

    Where a read-out has not read the answer, nothing flows to it. Raises AnchorscopeError: missing
    columns, or another read-out.
    """
    data.require(table, COLUMNS)
    rows = data.at_readout(table, request.readout) if len(table) else table
    rows = rows[rows["n_paired"] > 0].assign(label=rows["label"].astype(str))
    return rows, arm if not len(rows) or (rows["arm"] == arm).any() else "later"


def _densities(table: pd.DataFrame, request: Request, arm: str, labels: Sequence[str]) -> Figure:
    """A panel for each cell and label: models below one another, datasets side by side."""
    rows, arm = _rows(table, request, arm)
    rows = rows[(rows["arm"] == arm) & rows["label"].isin(labels)]
    points = rows[rows["part"] == "density"]
    side_by_side = len(request.datasets) if len(request.datasets) > 1 else len(request.panels)
    across = draw.columns_across(side_by_side, 2 * request.look.columns)
    look = _smaller(request.look, across)
    width = across * (look.panel_width + 0.7 * look.spacing) + 4 * look.label_size
    series = [draw.Series(name, colour, [1, 0], None) for name, colour in GROUPS.values()]
    shared = draw.encodings(series, look, width)
    axes = _density_axes(points)
    views = []
    for place, (model, dataset) in enumerate(product(request.panels, request.datasets)):
        cell = data.cell_of(rows, model[0], dataset[0])
        panels = []
        for label_, words in ((one, LABELS[one]) for one in labels):
            here = cell[cell["label"] == label_]
            last = label_ == labels[-1]
            panel = _density_panel(
                *(_density_rows(here, model[1], dataset[1]), axes, shared, look),
                title=f"Saliency ({_unit(rows)})" if last else None,
                first=place % across == 0,
                name=f"density_{place}_{label_}",
            )
            below = ", ".join(filter(None, (model[1], words, _auc_words(here))))
            panels.append(panel.properties(title=draw.panel_heading(dataset[1], look, below=below)))
        views.append(alt.VConcatChart(vconcat=panels, spacing=8, resolve=draw.one_legend()))
    what = f"Solid: from the exact question tokens to {TARGETS[arm]}; dotted: from random ones"
    return draw.figure_of(views, across, width, request.title, _caption(rows, what, request), look)


def _smaller(look: Style, across: int) -> Style:
    """The sizes of panels of single cells."""
    sizes = {"panel_width": look.panel_width // (2 if across > 2 else 1)}
    sizes |= {"panel_height": round(0.65 * look.panel_height)}
    return look.model_copy(update=sizes)


def _unit(rows: pd.DataFrame) -> str:
    """The unit of the flow."""
    return UNITS.get(str(rows["loss"].iloc[0]) if len(rows) else "logit", "logits")


def _auc_words(rows: pd.DataFrame) -> str:
    """How well the sums of one cell tell the groups, in a heading."""
    sums = rows[(rows["part"] == "sum") & (rows["anchor"] == "all")].dropna(subset=["auc"])
    if sums.empty:
        return ""
    one = sums.iloc[0]
    grey = "" if data.true(sums["signal"]).all() else ", no signal"
    return f"AUC {one['auc']:.2f}, random {one['random_auc']:.2f}{grey}"


def _density_rows(cell: pd.DataFrame, model: str, dataset: str) -> list[Row]:
    """The lines of one panel: each group, from exact and from random tokens."""
    rows: list[Row] = []
    for (anchor, (series, _)), (tokens, columns) in product(GROUPS.items(), SOURCES.items()):
        line = cell[(cell["part"] == "density") & (cell["anchor"] == anchor)]
        line = line.assign(x=[float(f"{x:.4g}") for x in line["x"]], thin=False)
        numbers: dict[str, Source] = {"value": (columns[0], 1, 4), "n": ("n_paired", 1, 0)}
        fixed: Row = {"model": model, "dataset": dataset, "series": series, "tokens": tokens}
        fixed |= {"condition": columns[0], "chance": columns[0] != "density", "marker": None}
        lines = data.line_rows(line, numbers, fixed, len(line), 0, x="x")
        rows += [row | {"mark": False} for row in lines]
    return rows


def _density_axes(points: pd.DataFrame) -> tuple[Axis, Axis]:
    """Ends and ticks of x, which is logarithmic, and of y; the same in all panels."""
    if points.empty:
        return ((0.1, 1), [0.1, 1]), ((0, 1), [0, 1])
    ends = (float(points["x"].min()), float(points["x"].max()))
    top = float(points[["density", "random_density"]].max().max())
    return (ends, _log_ticks(*ends)), _linear_axis([top])


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with steps between them where these are few."""
    decades = math.log10(high / low)
    steps = (1, 2, 5) if decades < 1.5 else (1, 3) if decades < 2.5 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [float(f"{step}e{power}") for power in powers for step in steps]
    return [tick for tick in ticks if low <= tick <= high]


def _linear_axis(values: Sequence[float]) -> Axis:
    """From 0 or the least to the greatest of the values, with two to five ticks."""
    high = max([*values, 1e-9])
    step = 10 ** math.floor(math.log10(high))
    step = step / 2 if high < 2 * step else 2 * step if high >= 5 * step else step
    return (0, 1.05 * high), [step * k for k in range(int(1.05 * high / step) + 1)]


def _numbers(rows: Sequence[Row]) -> list[float]:
    """All that rows hold of values and ends of intervals."""
    values = (row.get(column) for row in rows for column in ("value", "low", "high"))
    return [value for value in values if isinstance(value, (int, float)) and value == value]


def _density_panel(
    rows: Sequence[Row],
    axes: tuple[Axis, Axis],
    shared: draw.Encodings,
    look: Style,
    *,
    title: str | None,
    first: bool,
    name: str,
) -> alt.LayerChart:
    """One panel; the first of a row labels its y axis, that with a `title` its x axis."""
    x = figure_panel.number_axis("x", title, *axes[0], log=True, labels=title is not None)
    y = figure_panel.value_axis(
        "value", "Density" if first else None, *axes[1], look, number="~g", labels=first
    )
    some = len(rows) > 0
    return figure_panel.line_panel(
        rows, x, y, shared, look, DENSITY_TIPS, name=name, chance=some, weight=1
    )


def _layer_panels(
    flows: list[Row],
    aucs: list[Row],
    title: str,
    depth: int,
    shared: draw.Encodings,
    look: Style,
    *,
    name: str,
) -> list[alt.LayerChart]:
    """A model's flow by layer, its axis under the `title`, and the AUC below it."""
    parts = [
        (f"flow_{name}", flows, title, _linear_axis(_numbers(flows)), "~g"),
        (f"auc_{name}", aucs, "AUC for Q", auc_axis(min([0.5, *_numbers(aucs)])), ".1f"),
    ]
    panels = []
    for place, (key, points, words, axis, form) in enumerate(parts):
        x = figure_panel.layer_axis(depth, "Layer" if place else None)
        y = figure_panel.value_axis("value", words, *axis, look, number=form)
        panel = figure_panel.line_panel(
            *(points, x, y, shared, look, LAYER_TIPS),
            name=key,
            height=round(0.8 * look.panel_height),
            chance=len(points) > 0,
            crosses=len(points) > 0 and not place,
        )
        panels.append(panel)
    return panels


def _layer_rows(
    table: pd.DataFrame, model: Pair, datasets: Sequence[Pair]
) -> tuple[list[Row], list[Row]]:
    """The lines of one model's panels: the flow of each group, and the AUC of each dataset."""
    flows: list[Row] = []
    aucs: list[Row] = []
    of_model = table[table["model"] == model[0]]
    points = data.layer_count(of_model)
    for (i, (key, name)), anchor, (tokens, columns) in product(
        enumerate(datasets), (*GROUPS, "all"), SOURCES.items()
    ):
        line = of_model[(of_model["dataset"] == key) & (of_model["anchor"] == anchor)]
        column = columns[2] if anchor == "all" else columns[1]
        numbers = data.values_of(column, f"{column}_low", f"{column}_high")
        numbers |= {"n": ("n_paired", 1, 0)}
        fixed: Row = {"model": model[1], "dataset": name, "marker": draw.marker_of(i)}
        fixed |= {"series": draw.series_name("Q" if anchor == "all" else anchor, name)}
        fixed |= {"tokens": tokens, "condition": column, "chance": column.startswith("random")}
        lines = data.line_rows(line, numbers, fixed, points, i + 4 * (anchor == "A"))
        (aucs if anchor == "all" else flows).extend(lines)
    return flows, aucs


def _heat(cell: pd.DataFrame, column: str, named: Row, look: Style, name: str) -> alt.LayerChart:
    """A cell for each head and layer, coloured by its AUC."""
    if cell.empty:
        note = figure_panel.empty_note("not measured", look.panel_width, look.panel_height, look)
        return alt.LayerChart(layer=[note], width=look.panel_width, height=look.panel_height)
    count = int(cell["head"].max()) + 1
    named = named | {"written": count <= MOST_NUMBERED}
    rows = [
        named | {"head": int(head), "layer": int(layer), "value": round(float(value), 3)}
        for head, layer, value in cell[["head", "layer", column]].to_numpy()
    ]
    numbers = list(range(count))
    step = 1 if count <= MOST_NUMBERED else 8
    x = alt.X(
        "head:O",
        title="Head",
        scale=alt.Scale(domain=numbers),
        axis=alt.Axis(labelAngle=0, values=numbers[::step]),
    )
    depth = list(range(int(cell["layer"].max()) + 1))
    y = alt.Y(
        "layer:O",
        title="Layer",
        scale=alt.Scale(domain=depth[::-1]),
        axis=alt.Axis(values=depth[:: 1 if len(depth) <= MOST_NUMBERED else 5], titlePadding=12),
    )
    scale = alt.Scale(
        domain=[0, 0.5, 1], range=[draw.ORANGE, "#ffffff", draw.BLUE], interpolate="rgb"
    )
    legend = alt.Legend(title="AUC", orient="bottom", format=".1f", values=[0, 0.5, 1])
    colour = alt.Color("value:Q", scale=scale, legend=legend)
    return figure_panel.heat_panel(rows, x, y, colour, look, HEAD_TIPS, name=name)


def _caption(
    rows: pd.DataFrame, what: str, request: Request, *, best_of_many: bool = False
) -> Caption:
    """What is drawn, n, AUCs and what to make of them; how it is done, as details."""
    if rows.empty:
        return Caption(["Not measured: no sample has what the experiment needs."])
    cells = data.cells_of(rows, request.panels, request.datasets)
    sums = rows[(rows["part"] == "sum") & (rows["anchor"] == "all")]
    whole = rows[(rows["anchor"] == "all") & (rows["label"] == rows["label"].iloc[0])]
    sizes = whole.groupby(["model", "dataset"])[["n", "n_paired"]].max()
    loss = CROSS_ENTROPY if str(rows["loss"].iloc[0]) == "probe" else ""
    verdict = _verdict(sums) if len(sums) else ""
    many = "The best of many heads tells more by chance: choose it on other samples."
    return Caption(
        [
            f"{what}; {'/'.join(request.readout)}, {notes.size_note(sizes['n_paired'])} a cell.",
            verdict,
            CIRCULAR,
            loss,
            many if best_of_many else "",
            notes.grey_note(cells),
        ],
        [
            "Saliency: |Σ over heads A ⊙ ∂L/∂A|, A the attention weights after the softmax, L "
            f"the {'cross-entropy' if loss else 'logit'} of the probe at the headline layer; mean "
            "over the pairs of a source and a target; layers up to the headline layer added up, "
            "where none is named.",
            "Targets: the exact answer tokens, or every later token outside the exact question "
            "tokens that the read-out has seen. Random: as many other question tokens, to the "
            "same targets, mean over the draws. Densities are for each factor of ten.",
            f"Left out: {notes.span(sizes['n'] - sizes['n_paired'])} of {notes.span(sizes['n'])} "
            "samples of a cell, whose question has too few other tokens for the control.",
            f"Intervals: {100 * request.level:g}\u00a0% clustered bootstrap, probes held fixed.",
            *notes.no_signal_notes(
                {name: cell.assign(cell_signal=cell["signal"]) for name, cell in cells.items()}
            ),
            *notes.missing_note([name for name, cell in cells.items() if cell.empty]),
            *request.notes,
        ],
    )


def _verdict(sums: pd.DataFrame) -> str:
    """How well exact and random tokens tell the groups, over the cells drawn."""
    known = sums.dropna(subset=["auc"])
    if known.empty:
        return "AUC for the group: one group is empty."
    text = f"AUC for the group: {_range(known['auc'])}, random {_range(known['random_auc'])}."
    crossed = sums["crossed_auc"].dropna()
    if len(crossed):
        text += f" For right answers that flip behind another question: {_range(crossed)}."
    return text


def _range(values: pd.Series) -> str:
    """Least and greatest with two digits."""
    ends = dict.fromkeys(f"{end:.2f}" for end in (values.min(), values.max()))
    return " to ".join(ends)
