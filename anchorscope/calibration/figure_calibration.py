"""The figure `calibration`: at which read-outs the instrument recovers a known truth."""

from itertools import cycle
from typing import Any

import altair as alt
import pandas as pd

from anchorscope.calibration.calibration import DEFAULT_READOUT
from anchorscope.calibration.requirements import FLOORS
from anchorscope.experiments.tables import rows_where
from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_panel,
    figure_style as draw,
)
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_fit import Request, fitted
from anchorscope.figures.figure_readouts import POSITIONS, SITES
from anchorscope.figures.figure_style import Figure, Style
from anchorscope.figures.figure_verdict import GROUPINGS

NEEDED = (
    "model dataset seed site position layer grouping z kind n_truth_q n_truth_a pathway_auc "
    "pathway_auc_low pathway_auc_high sensitivity specificity headline signal"
)
MEASURES = {
    "pathway_auc": "Pathway AUC", "sensitivity": "Sensitivity", "specificity": "Specificity",
}  # fmt: skip
READOUTS = [f"{site}/{position}" for site in SITES for position in POSITIONS]
TIPS = {
    "model": "model", "series": "dataset", "readout": "read-out", "layer": "layer",
    "value": "value", "low": "interval from", "high": "interval to", "n_truth_q": "truth Q",
    "n_truth_a": "truth A",
}  # fmt: skip
"""What a point's tooltip holds, by its title."""


@fitted
def calibration_chart(calibration: pd.DataFrame, request: Request) -> Figure:
    """A column per model: pathway AUC, sensitivity and specificity at each read-out.

    Every dataset is a point at its headline layer, over all kinds and labels; the means over a
    model's datasets are ticks. The default read-out is shaded. Lines across it are the floors that
    it must reach: dashed in the mean, dotted in each cell.

    Drawn are rows of `results/tables/calibration.csv`, fractions; `readout` tells nothing here.
    Raises AnchorscopeError: missing columns, or nothing measured with this grouping.
    """
    look, models, datasets = request.look, dict(request.panels), dict(request.datasets)
    data.require(calibration, NEEDED)
    everyone = rows_where(calibration.astype({"kind": str, "z": str}), kind="all", z="all")
    rows, grouping = data.at_grouping(everyone[data.true(everyone["headline"])], request.grouping)
    rows = rows[rows["model"].isin(models) & rows["dataset"].isin(datasets)]
    markers = {name: draw.marker_of(i) for i, name in enumerate(datasets)}
    rows = rows.assign(
        model=rows["model"].map(models),
        series=rows["dataset"].map(datasets),
        readout=rows["site"] + "/" + rows["position"],
        marker=rows["dataset"].map(markers),
        signal=data.true(rows["signal"]),
    )
    across = draw.columns_across(len(models), look.columns)
    width = draw.width_of(across, look)
    small = look.model_copy(update={"panel_height": round(0.85 * look.panel_height)})
    series = [
        draw.Series(label, colour, [1, 0], markers[name], line=False)
        for (name, label), colour in zip(datasets.items(), cycle(draw.COLOURS[::2]), strict=False)
    ]
    series.append(draw.Series("Mean of the datasets", draw.INK, [1, 0], None))
    shared = draw.encodings(series, look, width)
    views = []
    for model in models.values():
        of_model = rows[rows["model"] == model]
        panels = [_panel(of_model, column, shared, small) for column in MEASURES]
        panels[0] = panels[0].properties(title=draw.panel_heading(model, look))
        views.append(alt.VConcatChart(vconcat=panels, spacing=12, resolve=draw.one_legend()))
    caption = _caption(rows, request, GROUPINGS.get(grouping, grouping))
    return draw.figure_of(views, across, width, request.title, caption, look)


def _panel(rows: pd.DataFrame, column: str, shared: draw.Encodings, look: Style) -> alt.LayerChart:
    """One measure of a model by read-out; the last one names the read-outs for all."""
    width, height = look.panel_width, look.panel_height
    names = {column: "value", f"{column}_low": "low", f"{column}_high": "high"}
    points = rows.rename(columns=names).reindex(columns=[*TIPS, "marker", "signal"])
    points = points[points["value"].notna()].round(4)
    if points.empty:
        note = figure_panel.empty_note("not measured", width, height, look)
        return alt.LayerChart(layer=[note], width=width, height=height)
    readouts = [name for name in READOUTS if name in set(rows["readout"])]
    last = column == list(MEASURES)[-1]
    words: dict[str, Any] = {"labelAngle": -40, "labelAlign": "right", "labelLimit": 0}
    axis = alt.Axis(title=None, ticks=last, grid=False, labels=last, labelOverlap=False, **words)
    scale = alt.Scale(domain=readouts, paddingInner=0, paddingOuter=0)
    x = alt.X("readout:N", scale=scale, axis=axis)
    ticks = (0, 0.25, 0.5, 0.75, 1)
    y = figure_panel.value_axis("value", MEASURES[column], (0, 1), ticks, look, number=".2f")
    layers: list[alt.Chart] = []
    if DEFAULT_READOUT in readouts:
        default = pd.DataFrame({"readout": [DEFAULT_READOUT]})
        layers.append(alt.Chart(default).mark_rect(color=draw.FAINT, opacity=0.6).encode(x))
        floor = next(one for one in FLOORS if one.column == column and one.z == "all")
        for least, dash in ((floor.low, draw.DOTTED), (floor.mean_low, draw.DASHES["A"])):
            mark = {"color": draw.SOFT, "strokeDash": dash, "strokeWidth": 1.2}
            layers.append(_level(default.assign(value=least), x, y, 0, mark))
    means = points.groupby("readout")["value"].mean().round(4).reset_index()
    line = {"color": draw.INK, "strokeWidth": 0.75 * look.line_width}
    layers += [*_marks(points, x, y, shared, look), _level(means, x, y, 0.1, line)]
    return alt.LayerChart(layer=layers, width=width, height=height)


def _level(
    values: pd.DataFrame, x: alt.X, y: alt.Y, inset: float, mark: dict[str, Any]
) -> alt.Chart:
    """A level line across each read-out's place."""
    to = alt.X2("readout", bandPosition=1 - inset)
    return alt.Chart(values).mark_rule(**mark).encode(x.bandPosition(inset), y, x2=to)


def _marks(
    points: pd.DataFrame, x: alt.X, y: alt.Y, shared: draw.Encodings, look: Style
) -> list[alt.Chart]:
    """Intervals where there are any, points, and the invisible layer with legend and tooltips."""
    aside = alt.XOffset("series:N", sort=None, scale=alt.Scale(paddingOuter=0.6))
    base = alt.Chart(points).encode(x, xOffset=aside)
    size, drawn = 1.3 * look.marker_size, []
    if points["low"].notna().any():
        low = alt.Y("low:Q", scale=y["scale"], title=y["axis"]["title"])
        bars = base.transform_filter("datum.low !== null").mark_rule(strokeWidth=1, opacity=0.7)
        drawn.append(bars.encode(low, y2="high:Q", color=shared.colour))
    shape = alt.Shape("marker:N", scale=None)
    point = base.mark_point(filled=False, opacity=1, size=size, strokeWidth=1)
    drawn.append(point.encode(y, color=shared.colour, fill=shared.fill, shape=shape))
    tips = [alt.Tooltip(name, title=title) for name, title in TIPS.items()]
    key = base.mark_point(filled=True, opacity=0, size=3 * size)
    drawn.append(key.encode(y, color=shared.legend, shape=shared.shape, tooltip=tips))
    return drawn


def _caption(rows: pd.DataFrame, request: Request, grouping: str) -> Caption:
    """What a point is, n, and what is grey; measures, floors, blanks and gaps as details."""
    q, a = (notes.span(rows[f"n_truth_{name}"]) for name in "qa")
    bars = f"Bars: {100 * request.level:g}\u00a0% bootstrap intervals."
    every = [f"{label} on {name}" for _, label in request.panels for _, name in request.datasets]
    names = rows["model"] + " on " + rows["series"]
    places = (names + " at " + rows["readout"])[~rows["signal"]]
    grey = sorted(places, key=lambda name: every.index(name.rpartition(" at ")[0]))
    blank = int(rows[list(MEASURES)].isna().sum().sum())
    return Caption(
        [
            f"Headline layer of each read-out; {grouping}; "
            f"n\u00a0=\u00a0{q} samples of truth Q and {a} of truth A a cell.",
            f"Hollow grey: no signal beyond text models ({len(grey)} points)." if grey else "",
            f"Shaded: the default read-out, {DEFAULT_READOUT}.",
            bars if rows["pathway_auc_low"].notna().any() else "",
        ],
        [
            "Pathway AUC: of −ΔP, truth Q against truth A; sensitivity: flips among truth Q; "
            "specificity: non-flips among truth A.",
            "Floors at the default read-out: dashed in the mean over datasets, dotted in each.",
            *([f"{notes.NO_SIGNAL} (hollow grey): {'; '.join(grey)}."] if grey else []),
            *notes.missing_note([name for name in every if name not in set(names)]),
            *([f"Left out: {blank} values without a sample of that truth."] if blank else []),
        ],
    )
