"""The figure `calibration`: at which read-outs ΔP and flips show the true pathways."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import altair as alt
import pandas as pd

from anchorscope.config.readouts import READOUTS
from anchorscope.figures import data, marks, notes, style
from anchorscope.figures.axis import Axis
from anchorscope.figures.marks import Frame
from anchorscope.figures.picture import Caption, Panel, Picture, Request, as_chart, by_model
from anchorscope.figures.style import Series
from anchorscope.statements import say, span
from validation.calibration import DEFAULT_READOUT
from validation.checks import rows_where
from validation.requirements import CHECKS, OF_CELL, OF_MEAN

NEEDED = (
    "model dataset seed site position layer z kind n_truth_q n_truth_a pathway_auc "
    "pathway_auc_low pathway_auc_high sensitivity specificity headline predicts"
).split()
MEASURES = {
    "pathway_auc": "Pathway AUC", "sensitivity": "Sensitivity", "specificity": "Specificity",
}  # fmt: skip
TIPS = {
    "readout": ("read-out", ""), "layer": ("layer", "d"), "value": ("value", ".4~f"),
    "low": ("interval from", ".4~f"), "high": ("interval to", ".4~f"),
    "n_truth_q": ("truth Q", ",d"), "n_truth_a": ("truth A", ",d"),
}  # fmt: skip


@as_chart
def calibration_chart(calibration: pd.DataFrame, request: Request) -> Picture:
    """Draw pathway AUC, sensitivity and specificity at each read-out, one column per model.

    Each point is a dataset at its headline layer, over all kinds and labels. Short lines are means
    over a model's datasets. The default read-out is shaded. There, a dashed line marks the required
    mean, a dotted line the required value of each cell. `calibration` is the calibration table.

    Raises:
        AnchorscopeError: Columns are missing.
    """
    data.require(calibration, NEEDED)
    everyone = rows_where(calibration.astype({"kind": str, "z": str}), kind="all", z="all")
    rows = data.labelled(everyone[data.true(everyone["headline"])], request)
    rows = rows.assign(series=rows["dataset"], readout=rows["site"] + "/" + rows["position"])
    measured = set(rows["readout"])
    readouts = [name for name in READOUTS if name in measured]
    below = Axis(None, names=readouts, field="readout", angle=-40)
    panels = [_panel(rows, column, title, below) for column, title in MEASURES.items()]
    series = [replace(one, line=False) for one in style.dataset_series(request.datasets)]
    series.append(Series("Mean of the datasets", style.INK, [1, 0], None))
    return Picture(by_model(request), series, panels, _caption(rows, request))


def _panel(rows: pd.DataFrame, column: str, title: str, below: Axis) -> Panel:
    """Return the panel of one measure by read-out."""
    points = data.numbered(rows, column, n="n_truth_q").dropna(subset="value")
    points = points.filter([*TIPS, "model", "dataset", "series", "marker", "predicts"]).round(4)
    axis = Axis(title, ((0, 1), [0, 0.25, 0.5, 0.75, 1]), number=".2f")
    under = partial(_required, column=column)
    return Panel(points, axis, TIPS, below, _with_means, 0.85, under=under)


def _required(rows: pd.DataFrame, frame: Frame, column: str) -> Sequence[alt.Chart]:
    """Return the shade of the default read-out, and lines at the lower bounds required there."""
    if DEFAULT_READOUT not in set(rows["readout"]):
        return []
    default = pd.DataFrame({"readout": [DEFAULT_READOUT]})
    charts = [alt.Chart(default).mark_rect(color=style.FAINT, opacity=0.6).encode(frame.x)]
    for scope, dash in ((OF_CELL, style.DOTTED), (OF_MEAN, style.DASHES["A"])):
        lows = [one.low for one in CHECKS[scope] if one.column == column and one.rows["z"] == "all"]
        mark = {"color": style.SOFT, "strokeWidth": 1.2, "strokeDash": dash}
        charts.append(_level(default.assign(value=lows[0]), frame, 0, mark))
    return charts


def _with_means(rows: pd.DataFrame, frame: Frame) -> alt.LayerChart:
    """Return the points of the datasets, and a line at their mean, for each read-out."""
    panel = marks.points(rows, frame)
    if len(rows):
        means = rows.groupby("readout")["value"].mean().round(4).reset_index()
        mark = {"color": style.INK, "strokeWidth": 0.75 * frame.look.line_width}
        panel.layer.append(_level(means, frame, 0.1, mark))
    return panel


def _level(values: pd.DataFrame, frame: Frame, inset: float, mark: dict[str, Any]) -> alt.Chart:
    """Return a horizontal line at each read-out's value, across the width of the read-out."""
    to = alt.X2("readout", bandPosition=1 - inset)
    rules = alt.Chart(values).mark_rule(**mark)
    return rules.encode(frame.x.bandPosition(inset), frame.y, x2=to)


def _caption(rows: pd.DataFrame, request: Request) -> Caption:
    """Write a caption about points, n and grey marks, with details on measures and requirements."""
    grey = rows[~rows["predicts"]]
    points = list(grey["model"] + " on " + grey["dataset"] + " at " + grey["readout"])
    bars = rows["pathway_auc_low"].notna().any()
    blank = int(rows[list(MEASURES)].isna().sum().sum())
    return notes.caption(
        request,
        rows.drop(columns=["predicts", "thin"], errors="ignore"),
        f"Headline layer of each read-out; {say.groups}",
        f"{say.size(rows.n_truth_q, 'samples')} of truth Q and {span(rows.n_truth_a)} of truth A "
        "per cell",
        [
            f"{len(points)} hollow grey points: the probe does not predict the label."
            * bool(points),
            f"Shaded: the default read-out, {DEFAULT_READOUT}. Required there: dashed for the mean,"
            " dotted for each dataset.",
            f"Bars: {say.level(request.level)} bootstrap intervals." if bars else "",
        ],
        [
            "Pathway AUC: AUC of −ΔP, truth Q against truth A. Sensitivity: share of truth Q that "
            "flips. Specificity: share of truth A that does not flip.",
            f"Not predicted (hollow grey): {'; '.join(points)}." * bool(points),
            f"Left out: {blank} values of cells without samples of that truth." * bool(blank),
        ],
        intervals="",
    )
