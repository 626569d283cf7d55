"""Pictures that compare methods: their AUC, and what they read."""

from collections.abc import Iterable, Sequence

import altair as alt
import pandas as pd

from anchorscope.detectors import evaluation, reads as reads_table, verdict
from anchorscope.detectors.registry import in_order, label_of
from anchorscope.figures import data, marks, notes, style
from anchorscope.figures.axis import Axis
from anchorscope.figures.marks import Frame
from anchorscope.figures.picture import (
    Caption,
    Column,
    Layout,
    Panel,
    Picture,
    Request,
    as_chart,
    by_cell,
    small,
)
from anchorscope.figures.style import Series
from anchorscope.statements import say

COLOURS = (
    *(style.BLUE, style.ORANGE, style.GREEN, style.PURPLE, style.SKY, style.RED),
    *("#8c564b", "#222222"),
)
TERMS = ("pair", "answer", "question")
"""Order of the stacked bars. The pair comes first, because its whisker is measured from 0."""
AUC_TIPS = {"label": ("method", ""), "value": ("AUC", ".3f"), **style.INTERVAL}
SHARE_TIPS = {
    "label": ("method", ""), "series": ("reads", ""), "value": ("share, %", ".1f"),
    "low": ("from", ".1f"), "high": ("to", ".1f"), "comparison_right": ("compares both", ""),
}  # fmt: skip


def rows_of(table: pd.DataFrame, request: Request, columns: Iterable[str]) -> pd.DataFrame:
    """Return the rows of `data.shown`, with the label of each method in the column `label`."""
    rows = data.shown(table, request, columns)
    return rows.assign(label=rows["detector"].map(label_of))


def methods_axis(detectors: Iterable[str]) -> Axis:
    """Return the axis of methods, in order from top to bottom."""
    names = [label_of(name) for name in in_order(detectors)]
    return Axis(None, names=names, field="label", grid=True)


def height_of(names: Axis, layout: Layout) -> float:
    """Return the height of a panel with one row per name, relative to the style's panel height."""
    look, rows = layout.look, max(1, len(names.names or ()))
    return 1.5 * look.label_size * rows / look.panel_height


@as_chart
def forest(table: pd.DataFrame, request: Request) -> Picture:
    """Draw the AUC of every method: one panel per dataset, one colour per model."""
    rows = rows_of(table, request, evaluation.COLUMNS)
    rows = rows[rows["metric"] == "auroc"]
    series = {
        label: Series(label, COLOURS[i % len(COLOURS)], [1, 0], style.marker_of(i), line=False)
        for i, (_, label) in enumerate(request.panels)
    }
    points = data.numbered(rows, "estimate", n="n", ends="ci", predicts=True)
    kept = [*AUC_TIPS, "model", "dataset", "series", "marker", "predicts"]
    points = data.in_series(points, "model", series).filter(kept).round(4)
    names = methods_axis(rows["detector"])
    lowest = min([0.4, *(rows["ci_low"].dropna() - 0.02)])
    auc = Axis("AUC", ((lowest, 1.01), [0.5, 0.75, 1]), number=".2~f")
    columns = [Column({"dataset": label}, label) for _, label in request.datasets]
    layout = small(columns, len(columns), request.look)

    def chance(rows: pd.DataFrame, frame: Frame) -> Sequence[alt.Chart]:
        return marks.upright(pd.DataFrame({"value": [0.5]}), frame.x)

    drawn, height = marks.points, height_of(names, layout)
    panel = Panel(points, names, AUC_TIPS, auc, drawn, height, under=chance)
    return Picture(layout, [*series.values()], [panel], _forest_caption(rows, request))


def _forest_caption(rows: pd.DataFrame, request: Request) -> Caption:
    """Write the caption: AUC, n, and which methods beat the text models and the plain probe."""
    return notes.caption(
        request,
        rows,
        f"{request.where}; AUC of wrong against right answers, out of fold",
        say.size(rows["n"], "samples per cell"),
        verdict.beating(rows, verdict.IN_CAPTION),
        ["No method, penalty, layer, gate or sign was selected on the samples it scores."],
        intervals="clustered bootstrap intervals, methods held fixed",
        thin="",
    )


@as_chart
def reads(table: pd.DataFrame, request: Request) -> Picture:
    """Draw shares of question, answer and pair term, as a stacked bar per method in each cell."""
    shares = {f"share_{term}": style.TERMS[term].name for term in TERMS}
    rows = rows_of(table, request, reads_table.COLUMNS)
    bars = data.stacked(rows, shares)
    bars = bars.filter([*SHARE_TIPS, "model", "dataset", "start", "end", "middle"])
    names, layout = methods_axis(rows["detector"]), by_cell(request)
    share = Axis("Share (%)", ((0, 108), [0, 50, 100]))
    panel = Panel(bars, names, SHARE_TIPS, share, _shares, height_of(names, layout))
    series = [style.TERMS[term] for term in TERMS]
    return Picture(layout, series, [panel], _reads_caption(rows, request))


def _shares(rows: pd.DataFrame, frame: Frame) -> alt.LayerChart:
    """Draw stacked bars, the interval of the pair's share, and a dot where `comparison` holds."""
    panel = marks.shares(rows, frame)
    pair = alt.Chart(rows).encode(frame.y)
    pair = pair.transform_filter(f"datum.series === '{style.TERMS['pair'].name}'")
    dots = pair.transform_filter("datum.comparison_right === 'yes'").encode(x=alt.XDatum(104))
    size = 0.7 * frame.look.marker_size
    whiskers = marks.whiskers(pair, frame.x).encode(color=alt.ColorValue(style.INK))
    panel.layer += [
        whiskers,
        dots.mark_point(filled=True, color=style.PURPLE, size=size, opacity=1),
    ]
    return panel


def _reads_caption(rows: pd.DataFrame, request: Request) -> Caption:
    """Write the caption: what a share is, n, and which methods compare question and answer."""
    return notes.caption(
        request,
        rows,
        f"{request.where}; the answers of two questions are swapped",
        f"{say.size([*rows['n_right'], *rows['n_wrong']], 'pairs per cell')}; whiskers on the "
        "pair share",
        [verdict.comparing(rows)],
        [
            "A share is the mean square of a term of the logit, relative to all three terms, over "
            "right answers. A method that adds something read off the question to something read "
            "off the answer has a pair share of 0. Token probabilities have a pair share without "
            "reading truth: any answer, right or wrong, is less likely after another question."
        ],
    )
