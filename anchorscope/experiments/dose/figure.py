"""The pictures of scaled attention: flips and −ΔP against the weight, and flips by layer.

All answers together: groups that the knockout's flips formed would hold all flips, or none, at
weight 0.
"""

import pandas as pd

from anchorscope.experiments import flip_figure
from anchorscope.experiments.dose import COLUMNS, WEIGHTS
from anchorscope.experiments.flip_figure import EXACT, FLIPS, RANDOM
from anchorscope.figures import figure_data as data, figure_notes as notes, figure_style as draw
from anchorscope.figures.figure_axis import Axis, axis_of
from anchorscope.figures.figure_picture import (
    Caption,
    Panel,
    Picture,
    Request,
    as_chart,
    by_cell,
    by_model,
)
from anchorscope.figures.figure_style import Series

SHARES = {EXACT: "flips", RANDOM: "random"}
DEPTHS = {EXACT: "delta_p", RANDOM: "random_delta_p"}
FRACTIONS = {0.125: "⅛", 0.25: "¼", 0.5: "½"}
COLOURS = {
    0.0: "#08306b", 0.125: "#2171b5", 0.25: "#4292c6", 0.5: "#9ecae1",
    2.0: "#fdae6b", 4.0: "#e6550d", 8.0: "#8c2d04",
}  # fmt: skip
"""Weight → its colour: blue below 1, darker the further from it."""
TIPS = {"w": ("w", ""), "tokens": ("tokens", ""), "value": ("value", ".1f"), **draw.INTERVAL}


@as_chart
def weights(table: pd.DataFrame, request: Request) -> Picture:
    """Flips above −ΔP against the weight, each dataset at its headline layer; a column a model."""
    rows = flip_figure.all_answers(data.shown(table, request, COLUMNS))
    rows = rows[rows["headline"]]
    flips, depth = (_by_weight(rows, *one) for one in ((SHARES, 100), (DEPTHS, -1)))
    words = [in_words(weight) for weight in sorted([*_measured(rows), 1.0])]
    below = Axis("Attention multiplied by w", names=words, field="w")
    depths = axis_of(depth, "−ΔP (points)", least=20)
    panels = [Panel("flips", flips, FLIPS, TIPS, below), Panel("depth", depth, depths, TIPS, below)]
    caption = _caption(rows, request, "at the headline layer")
    return Picture(by_model(request), draw.dataset_series(request.datasets), panels, caption)


@as_chart
def layers(table: pd.DataFrame, request: Request) -> Picture:
    """Flips by layer, a line a weight; a panel for each model and dataset."""
    rows = flip_figure.all_answers(data.shown(table, request, COLUMNS))
    series = {weight: _weight_series(weight) for weight in WEIGHTS}
    points = data.in_series(flip_figure.points_of(rows, SHARES), "weight", series)
    points = points.assign(w=points["weight"].map(in_words))
    lines = data.in_runs(points, ["w", "tokens", "condition"])
    panel = Panel("layers", lines, FLIPS, draw.LAYER | TIPS, height=1.5)
    caption = _caption(rows, request, "by layer")
    measured = [series[weight] for weight in _measured(rows)]
    return Picture(by_cell(request), measured, [panel], caption)


def in_words(weight: float) -> str:
    """A weight as the axis has it: `¼`."""
    return FRACTIONS.get(weight, f"{weight:g}")


def _measured(rows: pd.DataFrame) -> list[float]:
    """The weights that some sample was measured at; all, where none was."""
    return [one for one in WEIGHTS if (rows["weight"] == one).any()] or list(WEIGHTS)


def _weight_series(weight: float) -> Series:
    """The series of a weight."""
    marker = draw.marker_of(WEIGHTS.index(weight))
    note = " (knockout)" if weight == 0 else ""
    return Series(f"w = {in_words(weight)}{note}", COLOURS[weight], [1, 0], marker)


def _by_weight(rows: pd.DataFrame, columns: dict[str, str], factor: float) -> pd.DataFrame:
    """A line of each dataset and sort of tokens, through the clean pass at weight 1."""
    points = flip_figure.points_of(rows, columns, factor).assign(series=lambda one: one["dataset"])
    clean = points.drop_duplicates(["model", "dataset", "tokens"])
    points = pd.concat([points, clean.assign(weight=1.0, value=0.0, low=0.0, high=0.0)])
    lines = data.in_runs(points, ["tokens", "condition"], x="weight")
    return lines.assign(w=lines["weight"].map(in_words))


def falls(rows: pd.DataFrame) -> pd.Series:
    """Of each cell, whether flips fall at no weight from 0 to 1 against their intervals.

    `rows` are of the headline layers.
    """
    below = rows[rows["weight"] < 1]
    return (below["step_high"] >= 0).groupby([below["model"], below["dataset"]]).all()


def _caption(rows: pd.DataFrame, request: Request, where: str) -> Caption:
    """What is drawn, how it is done, and whether flips fall."""
    headline = rows[rows["headline"]]
    monotone = falls(headline)
    rising = [f"{model} on {dataset}" for model, dataset in monotone.index[~monotone]]
    return notes.caption(
        request,
        rows,
        "Predictions that flip when attention to the exact question tokens (solid) or to as many "
        f"others (dotted) is multiplied by w, {where}",
        f"{notes.size_note(headline['n_paired'])} samples",
        [
            "w = 0 is the knockout, 1 the clean pass. Flips fall with every step from 0 to 1, "
            f"within intervals, in {monotone.sum()} of {len(monotone)} cells (headline layer)."
        ],
        [
            notes.left_out(headline, "cell"),
            f"Flips do not fall steadily: {'; '.join(rising)}." if rising else "",
        ],
    )
