"""Results of answers without their questions: flips and ΔP by group and layer, and pictures."""

import pandas as pd

from anchorscope.experiments import flips
from anchorscope.experiments.answer_only import ANSWER_ONLY, COLUMNS, QUESTION
from anchorscope.experiments.flips import Arm, Words
from anchorscope.experiments.measured import Arrays, PerSample
from anchorscope.figures import marks, notes, style
from anchorscope.figures.axis import axis_of
from anchorscope.figures.picture import Caption, Panel, Picture, Request, as_chart, by_model
from anchorscope.statements import say
from anchorscope.statistics.analysis import Analysis

LEFT_OUT, BLOCKED = "question left out", "every question token blocked"
WORDS = Words(
    arms={"answer-only": "the answer alone"},
    columns=COLUMNS,
    what="Predictions that flip when the question is left out, or all of it is blocked",
    tokens={LEFT_OUT: "flips", BLOCKED: "question"},
)
TIPS = {"anchor": ("group", ""), "series": ("condition", ""), "value": ("value", ".1f")}
TIPS |= style.INTERVAL


def table(analysis: Analysis, measured: Arrays) -> pd.DataFrame:
    """Return a row for each layer, label and anchor, with flips and ΔP."""
    # In tables of arms, columns of the control begin with `random`.
    named = {name.replace("question", "random"): name for name in COLUMNS}
    return flips.table(analysis, named, arms(measured)).rename(columns=named)


def per_sample(analysis: Analysis, measured: Arrays) -> PerSample:
    """Return whether each sample flips at the headline layer."""
    return flips.per_sample(analysis, arms(measured))


def arms(measured: Arrays) -> dict[str, Arm]:
    """Return the experiment's only arm, by name."""
    return {ANSWER_ONLY.name: flips.against_control(measured, ANSWER_ONLY.name, QUESTION.name)}


@as_chart
def bars(table: pd.DataFrame, request: Request) -> Picture:
    """Draw flips and −ΔP of each dataset's groups at its headline layer."""
    rows = flips.rows_of(table, request, WORDS)
    rows = rows[rows["headline"]]
    columns = {LEFT_OUT: "delta_p", BLOCKED: "question_delta_p"}
    flipped = flips.beside(flips.points_of(rows, WORDS.tokens))
    depth = flips.beside(flips.points_of(rows, columns, factor=-1))
    depths = axis_of(depth, "−ΔP (points)", least=100)
    panels = [
        Panel(some, axis, TIPS, flips.groups(request), marks.bars)
        for some, axis in ((flipped, flips.FLIPS), (depth, depths))
    ]
    return Picture(by_model(request), flips.sorts(WORDS), panels, _caption(rows, request))


@as_chart
def layers(table: pd.DataFrame, request: Request) -> Picture:
    """Draw flips by layer."""
    return flips.by_layer(flips.rows_of(table, request, WORDS), request, WORDS)


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
