"""Pictures of answers without their questions: flips and −ΔP as bars, and flips by layer."""

import pandas as pd

from anchorscope.experiments import flip_figure
from anchorscope.experiments.answer_only import COLUMNS
from anchorscope.experiments.flip_figure import Words
from anchorscope.figures import marks, notes, style
from anchorscope.figures.axis import axis_of
from anchorscope.figures.picture import Caption, Panel, Picture, Request, as_chart, by_model
from anchorscope.statements import say

LEFT_OUT, BLOCKED = "question left out", "every question token blocked"
WORDS = Words(
    arms={"answer-only": "the answer alone"},
    columns=COLUMNS,
    what="Predictions that flip when the question is left out, or all of it is blocked",
    tokens={LEFT_OUT: "flips", BLOCKED: "question"},
)
TIPS = {"anchor": ("group", ""), "series": ("condition", ""), "value": ("value", ".1f")}
TIPS |= style.INTERVAL


@as_chart
def bars(table: pd.DataFrame, request: Request) -> Picture:
    """Draw flips and −ΔP of each dataset's groups at its headline layer."""
    rows = flip_figure.rows_of(table, request, WORDS)
    rows = rows[rows["headline"]]
    columns = {LEFT_OUT: "delta_p", BLOCKED: "question_delta_p"}
    flips = flip_figure.beside(flip_figure.points_of(rows, WORDS.tokens))
    depth = flip_figure.beside(flip_figure.points_of(rows, columns, factor=-1))
    depths = axis_of(depth, "−ΔP (points)", least=100)
    panels = [
        Panel(some, axis, TIPS, flip_figure.groups(request), marks.bars)
        for some, axis in ((flips, flip_figure.FLIPS), (depth, depths))
    ]
    return Picture(by_model(request), flip_figure.sorts(WORDS), panels, _caption(rows, request))


@as_chart
def layers(table: pd.DataFrame, request: Request) -> Picture:
    """Draw flips by layer."""
    return flip_figure.by_layer(flip_figure.rows_of(table, request, WORDS), request, WORDS)


def _caption(rows: pd.DataFrame, request: Request) -> Caption:
    """Write the caption: the drawn quantities, and how many samples are left out."""
    return notes.caption(
        request,
        rows,
        "Flips and −ΔP of Q- and A-Anchored answers at the headline layer, when the question is "
        "left out and when all of it is blocked",
        say.size(rows["n_paired"], "samples per group"),
        details=[notes.left_out(rows, "group")],
        grey="Hollow: the probe does not predict",
        thin="Pale: too few samples to rely on.",
    )
