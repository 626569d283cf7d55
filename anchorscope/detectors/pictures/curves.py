"""Curves of detection: reliability, risk against coverage, and AUC by layer."""

import math
from collections.abc import Sequence

import altair as alt
import pandas as pd

from anchorscope.detectors.pictures.comparisons import COLOURS, TABLES, rows_of
from anchorscope.detectors.registry import label_of
from anchorscope.figures import figure_data as data, figure_notes as notes, figure_style as draw
from anchorscope.figures.figure_axis import Axis, auc_axis
from anchorscope.figures.figure_panel import Frame
from anchorscope.figures.figure_picture import Panel, Picture, Request, as_chart, by_cell
from anchorscope.figures.figure_style import Series

METHODS = ("text", "output", "before", "probe", "mixture-of-probes")
"""Whose curves are drawn; the tables have all."""
SERIES = {
    name: Series(label_of(name), COLOURS[i], [1, 0], draw.marker_of(i))
    for i, name in enumerate(METHODS)
}
"""Each method keeps its colour in every picture."""
ANCHORS = {
    "Q": Series("Q-Anchored", draw.BLUE, [1, 0], "circle"),
    "A": Series("A-Anchored", draw.ORANGE, [6, 4], "square"),
    "all": Series("all answers", draw.SOFT, [2, 3], "diamond"),
}
TIPS = {"series": ("method", ""), "x": ("at", ".3f"), "value": ("wrong, %", ".1f"), **draw.INTERVAL}
LAYER_TIPS = {**draw.LAYER, "series": ("group", ""), "value": ("AUC", ".3f"), **draw.INTERVAL}


@as_chart
def reliability(curves: pd.DataFrame, request: Request) -> Picture:
    """Share of wrong answers against predicted probability, by cell."""
    rows = rows_of(curves, request, "detection-curves")
    rows = rows[rows["curve"] == "reliability"]
    lines, series = _curves(rows)
    ends = [*lines["x"], *(lines["low"] / 100)]
    lowest = min(math.floor(10 * min(ends)), 9) / 10 if ends else 0.0
    ticks = [lowest, (lowest + 1) / 2, 1]
    below = Axis("predicted probability of wrong", ((lowest, 1), ticks), field="x", number="~g")
    up = Axis("Wrong (%)", ((100 * lowest, 100), [100 * one for one in ticks]), number="d")
    panel = Panel("reliability", lines, up, TIPS, below, under=_diagonal)
    caption = notes.caption(
        request,
        rows,
        f"{request.where}; ten bins of equal number; a calibrated method lies on the diagonal",
        details=[
            "Probabilities at the share of wrong answers in the training fold.",
            _not_drawn(rows),
        ],
        thin="",
    )
    return Picture(by_cell(request), series, [panel], caption)


@as_chart
def risk(curves: pd.DataFrame, request: Request) -> Picture:
    """Share of wrong answers among those kept, against how many are kept, by cell."""
    rows = rows_of(curves, request, "detection-curves")
    rows = rows[rows["curve"] == "risk"]
    lines, series = _curves(rows)
    below = Axis("share of answers kept", ((0, 1), [0, 0.5, 1]), field="x", number="~g")
    panel = Panel("risk", lines, Axis("Wrong (%)"), TIPS, below)
    caption = notes.caption(
        request,
        rows,
        f"{request.where}; the answers least likely to be wrong are kept first; at 1 all are kept",
        details=[_not_drawn(rows)],
        thin="",
    )
    return Picture(by_cell(request), series, [panel], caption)


@as_chart
def layers(table: pd.DataFrame, request: Request) -> Picture:
    """AUC of each layer's probe, among Q-Anchored, A-Anchored and all answers, by cell."""
    rows = data.shown(table, request, TABLES["detection-layers"])
    points = data.numbered(rows[~rows["thin"]], "auc", n="n")
    lines = data.in_runs(data.in_series(points, "anchor", ANCHORS))
    heads = rows[rows["headline"]]
    cells = [cell for _, cell in heads.groupby(["model", "dataset"])]
    return Picture(
        by_cell(request),
        [*ANCHORS.values()],
        [Panel("layers", lines, auc_axis(lines), LAYER_TIPS)],
        notes.caption(
            request,
            rows,
            f"{request.where}; the probe of each layer; groups by flips at the headline layer",
            sentences=[
                "There Q-Anchored answers have an AUC above that of A-Anchored ones, intervals "
                f"apart, in {sum(map(_apart, cells))} of {len(cells)} cells."
            ],
            details=[_not_drawn(rows)],
            thin="",
        ),
    )


def _apart(cell: pd.DataFrame) -> bool:
    """Whether the interval of Q-Anchored answers lies above that of A-Anchored ones."""
    low, high = (
        cell[cell["anchor"] == anchor][f"auc_{end}"]
        for anchor, end in (("Q", "low"), ("A", "high"))
    )
    return bool(len(low) and len(high) and low.iloc[0] > high.iloc[0])


def _curves(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[Series]]:
    """The lines of the methods' curves, in percent, without thin points; and their series."""
    points = rows[~rows["thin"] & rows["detector"].isin(METHODS)]
    points = data.numbered(points, "y", 100, n="n")
    lines = data.in_runs(data.in_series(points, "detector", SERIES), x="x")
    measured = set(rows["detector"])
    return lines, [one for name, one in SERIES.items() if name in measured]


def _diagonal(rows: pd.DataFrame, frame: Frame) -> Sequence[alt.Chart]:
    """Where a calibrated method lies."""
    if rows.empty:
        return []
    ends = [{"x": end, "value": 100 * end} for end in frame.x["scale"]["domain"]]
    line = alt.Chart(alt.Data(values=ends)).mark_line(color=draw.SOFT, strokeWidth=0.8)
    return [line.encode(frame.x, frame.y)]


def _not_drawn(rows: pd.DataFrame) -> str:
    """Says that points were left out, where some were."""
    left = int(rows["thin"].sum())
    return f"{left} points of too few samples are not drawn." if left else ""
