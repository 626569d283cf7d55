"""The pictures of saliency: densities by group, and what flows by layer and by head."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import altair as alt
import pandas as pd

from anchorscope.experiments.flip_figure import EXACT, RANDOM, points_of
from anchorscope.experiments.saliency import COLUMNS, TARGETS
from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_panel,
    figure_style as draw,
)
from anchorscope.figures.figure_axis import Axis, Ticks, auc_axis, ticks_of
from anchorscope.figures.figure_picture import (
    Caption,
    Column,
    Panel,
    Picture,
    Request,
    as_chart,
    by_cell,
    by_model,
    small,
)
from anchorscope.figures.figure_style import Series

GROUPS = {
    "Q": Series("Q-Anchored", draw.BLUE, [1, 0], None),
    "A": Series("A-Anchored", draw.ORANGE, [1, 0], None),
}
"""Anchor → entry of the legend, where a panel is of one cell."""
DENSITIES = {EXACT: "density", RANDOM: "random_density"}
AUCS = {EXACT: "auc", RANDOM: "random_auc"}
LABELS = {"all": "", "0": "right answers", "1": "wrong answers"}
UNITS = {"logit": "logits", "probe": "nats"}
"""What was differentiated → the unit of the flow."""
TIPS = {"series": ("group", ""), "tokens": ("from", ""), "value": ("value", ".3~g")}
DENSITY_TIPS = TIPS | {"x": ("saliency", ".3~g"), "n": ("n", ",d")}
LAYER_TIPS = draw.LAYER | {"tokens": ("from", ""), "value": ("AUC", ".2f")} | draw.INTERVAL
HEAD_TIPS = draw.LAYER | {"head": ("head", ""), "tokens": ("from", ""), "value": ("AUC", ".2f")}
MOST_NUMBERED = 12
"""Heads of a layer, or layers, that all have a label."""
CIRCULAR = (
    "Groups by the same probe's flips are nearly circular: a gradient is a first-order knockout."
)
CROSS_ENTROPY = (
    "The loss is the probe's cross-entropy: its gradient carries the factor 1 − p, so that any "
    "token, random ones too, tells an unsure sample from a sure one."
)


@as_chart
def density(table: pd.DataFrame, request: Request) -> Picture:
    """Each cell's densities of what flows to the answer; `grouping` tells nothing here."""
    return _densities(table, request, "answer", ("all",))


@as_chart
def later(table: pd.DataFrame, request: Request) -> Picture:
    """The same to all later tokens."""
    return _densities(table, request, "later", ("all",))


@as_chart
def label(table: pd.DataFrame, request: Request) -> Picture:
    """What flows to the answer, right answers above wrong ones."""
    return _densities(table, request, "answer", ("0", "1"))


@as_chart
def layers(table: pd.DataFrame, request: Request) -> Picture:
    """How well what flows to the answer in each layer tells the groups, by model."""
    rows, arm = _rows(table, request, "answer")
    rows = rows[(rows["label"] == "all") & (rows["arm"] == arm)]
    of_layers = rows[rows["part"] == "layer"]
    everyone = of_layers[of_layers["anchor"] == "all"]
    points = points_of(everyone, AUCS, 1).assign(series=lambda one: one["dataset"])
    auc = data.in_runs(points, ["tokens", "condition"])
    panel = Panel("auc", auc, partial(auc_axis, title="AUC for Q", least=0.5), LAYER_TIPS)
    what = (
        "How well what flows from the exact question tokens to "
        f"{TARGETS[arm]} tells Q from A; dotted: from random ones"
    )
    series = draw.dataset_series(request.datasets)
    return Picture(by_model(request), series, [panel], _caption(rows, what, request))


@as_chart
def heads(table: pd.DataFrame, request: Request) -> Picture:
    """How well the flow of each head to the answer tells the groups, beside random tokens."""
    rows, _ = _rows(table, request, "answer")
    rows = rows[rows["part"] == "head"]
    cells = points_of(rows[rows["anchor"] == "all"], AUCS, 1)
    heads_, depth = (
        [str(one) for one in range(int(cells[name].max()) + 1 if len(cells) else 0)]
        for name in ("head", "layer")
    )
    cells = cells.filter(["model", "dataset", "layer", "tokens", "value"]).assign(
        head=cells["head"].astype(int).astype(str),
        read=cells["layer"].astype(str),
        value=cells["value"].round(3),
    )
    columns = [
        Column({**column.of, "tokens": tokens}, column.heading, f"{column.below}, {words}")
        for column in by_cell(request).columns
        for tokens, words in ((EXACT, "exact tokens"), (RANDOM, "random tokens"))
    ]
    layout = small(columns, 2 * min(len(request.datasets), 2), request.look)
    cells["written"] = layout.has_room_for_numbers(len(heads_), len(depth))
    below = _numbered("Head", "head", heads_, 8)
    beside = _numbered("Layer", "read", depth, 5)
    panel = Panel(
        "heads", cells, replace(beside, names=depth[::-1]), HEAD_TIPS, below, _heat_of_aucs()
    )
    what = (
        "How well what flows through a head, from question tokens to the exact answer tokens, "
        "tells Q from A (AUC; 0.5: not at all)"
    )
    many = "The best of many heads looks good by chance: select heads on held-out samples."
    return Picture(layout, [], [panel], _caption(rows, what, request, many, intervals=""))


def _rows(table: pd.DataFrame, request: Request, arm: str) -> tuple[pd.DataFrame, str]:
    """The rows at the read-out that are of some sample, and the arm, or `later` in its place.

    Where a read-out has not read the answer, nothing flows to it. Raises AnchorscopeError: missing
    columns.
    """
    rows = data.shown(table, request, COLUMNS)
    rows = rows[rows["n_paired"] > 0].assign(label=rows["label"].astype(str))
    return rows, arm if not len(rows) or (rows["arm"] == arm).any() else "later"


def _densities(table: pd.DataFrame, request: Request, arm: str, labels: Sequence[str]) -> Picture:
    """A panel for each cell and label: models below one another, datasets side by side."""
    rows, arm = _rows(table, request, arm)
    rows = rows[(rows["arm"] == arm) & rows["label"].isin(labels)]
    points = points_of(
        rows[(rows["part"] == "density") & rows["anchor"].isin(GROUPS)], DENSITIES, 1
    )
    points = points.assign(
        series=points["anchor"].map({anchor: one.name for anchor, one in GROUPS.items()}),
        x=[float(f"{x:.4g}") for x in points["x"]],
        thin=False,
    )
    lines = data.in_runs(points, ["label", "tokens", "condition"], x="x").assign(mark=False)
    across, up = _density_ticks(lines)
    below = Axis(f"Saliency ({_unit(rows)})", across, field="x", kind="log", number="~g")
    panel = Panel("density", lines, Axis("Density", up), DENSITY_TIPS, below)
    cells = by_cell(request).columns
    side_by_side = len(request.datasets) if len(request.datasets) > 1 else len(cells)
    columns = [
        _with_auc(column, rows, label)
        for start in range(0, len(cells), side_by_side)
        for label in labels
        for column in cells[start : start + side_by_side]
    ]
    layout = small(columns, side_by_side, request.look)
    what = f"Solid: from the exact question tokens to {TARGETS[arm]}; dotted: from random ones"
    return Picture(layout, [*GROUPS.values()], [panel], _caption(rows, what, request, intervals=""))


def _unit(rows: pd.DataFrame) -> str:
    """The unit of the flow."""
    return UNITS.get(str(rows["loss"].iloc[0]) if len(rows) else "logit", "logits")


def _with_auc(column: Column, rows: pd.DataFrame, label: str) -> Column:
    """A cell's column of the answers of a label; its heading says how well the sums tell groups."""
    cell = rows[(rows["model"] == column.of["model"]) & (rows["dataset"] == column.of["dataset"])]
    sums = cell[(cell["part"] == "sum") & (cell["anchor"] == "all") & (cell["label"] == label)]
    words = [column.below, LABELS[label]]
    for one in sums.dropna(subset=["auc"]).head(1).to_dict("records"):
        words.append(f"AUC {one['auc']:.2f}")
        words.append(f"random {one['random_auc']:.2f}{'' if one['signal'] else ', no signal'}")
    below = ", ".join(filter(None, words))
    return replace(column, of={**column.of, "label": label}, below=below)


def _density_ticks(points: pd.DataFrame) -> tuple[Ticks, Ticks]:
    """Ends and ticks of x, which is logarithmic, and of y; the same in all panels."""
    if points.empty:
        return ((0.1, 1), [0.1, 1]), ((0, 1), [0, 1])
    ends = (float(points["x"].min()), float(points["x"].max()))
    return (ends, _log_ticks(*ends)), ticks_of([float(points["value"].max())])


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with steps between them where these are few."""
    decades = math.log10(high / low)
    steps = (1, 2, 5) if decades < 1.5 else (1, 3) if decades < 2.5 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [float(f"{step}e{power}") for power in powers for step in steps]
    return [tick for tick in ticks if low <= tick <= high]


def _numbered(title: str, field: str, names: Sequence[str], every: int) -> Axis:
    """Numbers as names, all with labels where these are few."""
    step = 1 if len(names) <= MOST_NUMBERED else every
    return Axis(title, names=names, labelled=names[::step], field=field)


def _heat_of_aucs() -> figure_panel.Draw:
    """Draws heads in the colours of their AUCs."""
    colours = [draw.ORANGE, "#ffffff", draw.BLUE]
    scale = alt.Scale(domain=[0, 0.5, 1], range=colours, interpolate="rgb")
    legend = alt.Legend(title="AUC", orient="bottom", format=".1f", values=[0, 0.5, 1])
    return partial(figure_panel.heat, colour=alt.Color("value:Q", scale=scale, legend=legend))


def _caption(
    rows: pd.DataFrame,
    what: str,
    request: Request,
    many: str = "",
    intervals: str = notes.CLUSTERED,
) -> Caption:
    """What is drawn, n, AUCs and what to make of them; how it is done, as details."""
    whole = rows[(rows["anchor"] == "all") & (rows["label"] == rows["label"].max())]
    sizes = whole.groupby(["model", "dataset"])[["n", "n_paired"]].max()
    loss = CROSS_ENTROPY if _unit(rows) == UNITS["probe"] else ""
    return notes.caption(
        request,
        rows,
        f"{what}; {'/'.join(request.readout)}",
        f"{notes.size_note(sizes['n_paired'])} samples per cell",
        [_verdict(rows[(rows["part"] == "sum") & (rows["anchor"] == "all")]), CIRCULAR, loss, many],
        [notes.left_out(sizes, "cell")],
        intervals=intervals,
    )


def _verdict(sums: pd.DataFrame) -> str:
    """How well exact and random tokens tell the groups, over the cells drawn."""
    known = sums.dropna(subset=["auc"])
    if known.empty:
        return "AUC for the group: one group is empty." if len(sums) else ""
    text = f"AUC for the group: {_range(known['auc'])}, random {_range(known['random_auc'])}."
    crossed = sums["crossed_auc"].dropna()
    if len(crossed):
        text += f" For right answers that flip behind another question: {_range(crossed)}."
    return text


def _range(values: pd.Series) -> str:
    """Least and greatest with two digits."""
    ends = dict.fromkeys(f"{end:.2f}" for end in (values.min(), values.max()))
    return " to ".join(ends)
