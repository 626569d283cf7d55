"""Pictures of answers without their questions: flips and −ΔP as bars, and flips by layer."""

import pandas as pd

from anchorscope.experiments import flip_figure
from anchorscope.experiments.answer_only import COLUMNS
from anchorscope.experiments.flip_figure import Words
from anchorscope.figures import figure_notes as notes, figure_panel, figure_style as draw
from anchorscope.figures.figure_axis import axis_of
from anchorscope.figures.figure_picture import Caption, Panel, Picture, Request, as_chart, by_model

LEFT_OUT, BLOCKED = "question left out", "every question token blocked"
WORDS = Words(
    arms={"answer-only": "the answer alone"},
    columns=COLUMNS,
    what="Predictions that flip when the question is left out, or all of it is blocked",
    tokens={LEFT_OUT: "flips", BLOCKED: "question"},
)
MEAN = "mean"
TIPS = {"group": ("group", ""), "series": ("condition", ""), "value": ("value", ".1f")}
TIPS |= draw.INTERVAL


@as_chart
def bars(table: pd.DataFrame, request: Request) -> Picture:
    """Draw flips and −ΔP of each dataset's groups at its headline layer, and their means."""
    rows = flip_figure.rows_of(table, request, WORDS)
    rows = rows[rows["headline"]]
    flips = _with_means(flip_figure.points_of(rows, WORDS.tokens))
    columns = {LEFT_OUT: "delta_p", BLOCKED: "question_delta_p"}
    depth = _with_means(flip_figure.points_of(rows, columns, factor=-1))
    several = rows["dataset"].nunique() > 1
    below = flip_figure.groups(request, *([MEAN] if several else []))
    depths = axis_of(depth, "−ΔP (points)", least=100)
    panels = [
        Panel(flips, flip_figure.FLIPS, TIPS, below, figure_panel.bars),
        Panel(depth, depths, TIPS, below, figure_panel.bars),
    ]
    layout, series = by_model(request), flip_figure.sorts(WORDS)
    return Picture(layout, series, panels, _caption(rows, request))


@as_chart
def layers(table: pd.DataFrame, request: Request) -> Picture:
    """Draw flips by layer."""
    return flip_figure.by_layer(flip_figure.rows_of(table, request, WORDS), request, WORDS)


def _with_means(points: pd.DataFrame) -> pd.DataFrame:
    """Add bars of the groups' means over several datasets, with a point for each dataset.

    A mean has no interval.
    """
    points = flip_figure.beside(points).assign(group=points["anchor"] + "-Anchored")
    groups = points.groupby(["model", "anchor", "group", "series"], sort=False, as_index=False)
    means = groups.agg(value=("value", "mean"), signal=("signal", "all"), many=("value", "size"))
    means = means[means["many"] > 1].assign(
        dataset=MEAN, bar=lambda rows: MEAN + "\n" + rows["anchor"]
    )
    singles = points.merge(means[["model", "anchor", "series"]])
    singles = singles.assign(bar=MEAN + "\n" + singles["anchor"], point=True)
    return pd.concat([points, means.assign(thin=False, point=False), singles])


def _caption(rows: pd.DataFrame, request: Request) -> Caption:
    """Write the caption: the drawn quantities, and how many samples are left out."""
    several = rows["dataset"].nunique() > 1
    return notes.caption(
        request,
        rows,
        "Flips and −ΔP of Q- and A-Anchored answers at the headline layer, when the question is "
        "left out and when all of it is blocked",
        f"{notes.size_note(rows['n_paired'])} samples per group",
        ["Points: single datasets; bars: their means." if several else ""],
        [notes.left_out(rows, "group")],
        grey="Hollow: no signal",
        thin="Pale: too few samples to rely on.",
    )
