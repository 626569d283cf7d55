"""The figure `calibration`: at which read-outs the instrument recovers a known truth."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from anchorscope.calibration.calibration import DEFAULT_READOUT
from anchorscope.calibration.requirements import FLOORS
from anchorscope.experiments.tables import rows_where
from anchorscope.figures import figure_data as data
from anchorscope.figures import figure_panel
from anchorscope.figures import figure_style as draw
from anchorscope.figures.figure_fit import Asked, fitted
from anchorscope.figures.figure_readouts import POSITIONS, SITES
from anchorscope.figures.figure_style import Figure, Style
from anchorscope.figures.figures import GROUPINGS

Pair = tuple[str, str]
NEEDED = (
    "model dataset seed site position layer grouping z kind n_truth_q n_truth_a pathway_auc "
    "pathway_auc_low pathway_auc_high sensitivity specificity headline signal"
)
MEASURES = {
    "pathway_auc": "Pathway AUC",
    "sensitivity": "Sensitivity",
    "specificity": "Specificity",
}
MEANINGS = (
    "Pathway AUC: of −ΔP, truth Q against truth A; sensitivity: flips among truth Q; "
    "specificity: non-flips among truth A."
)
READOUTS = [f"{site}/{position}" for site in SITES for position in POSITIONS]
MEAN = "Mean of the datasets"
TIPS = {
    "model": "model", "series": "dataset", "readout": "read-out", "layer": "layer",
    "value": "value", "low": "interval from", "high": "interval to", "n_truth_q": "truth Q",
    "n_truth_a": "truth A",
}  # fmt: skip
"""What a point's tooltip holds, by its title."""


@fitted
def calibration_chart(calibration: pd.DataFrame, asked: Asked) -> Figure:
    """A column per model: pathway AUC, sensitivity and specificity at each read-out.

    Every dataset is a point at its headline layer, over all kinds and labels; the means over a
    model's datasets are ticks. The default read-out is shaded. Lines across it are the floors that
    it must reach: dashed in the mean, dotted in each cell.

    Args:
        calibration: rows of `results/tables/calibration.csv`; fractions.
        asked: as of `anchorscope.figures.figures.chart`; `readout` tells nothing here.

    Raises:
        AnchorscopeError: missing columns, or nothing measured with this grouping.
    """
    look, panels, datasets = asked.look, asked.panels, asked.datasets
    data.require(calibration, NEEDED)
    everyone = rows_where(calibration.astype({"kind": str, "z": str}), kind="all", z="all")
    rows, grouping = data.at_grouping(everyone[data.true(everyone["headline"])], asked.grouping)
    rows = rows[rows["model"].isin(dict(panels)) & rows["dataset"].isin(dict(datasets))]
    across = draw.columns_across(len(panels), look.columns)
    width = draw.width_of(across, look)
    small = look.model_copy(update={"panel_height": round(0.6 * look.panel_height)})
    series = [
        draw.Series(
            label, draw.COLOURS[2 * i % len(draw.COLOURS)], [1, 0], draw.marker_of(i), line=False
        )
        for i, (_, label) in enumerate(datasets)
    ]
    series.append(draw.Series(MEAN, draw.INK, [1, 0], None))
    shared = draw.encodings(series, look, width)
    views = [_model(rows, panel, datasets, shared, small) for panel in panels]
    caption = _caption(rows, panels, datasets, grouping, asked.level)
    return draw.figure_of(views, across, width, asked.title, caption, look)


def floors_of(column: str) -> tuple[float, float | None]:
    """What a measure must reach in each cell and in the mean: its first floor over both labels."""
    floor = next(one for one in FLOORS if one.column == column and one.z == "all")
    return floor.low, floor.mean_low


def _model(
    rows: pd.DataFrame,
    panel: Pair,
    datasets: Sequence[Pair],
    shared: draw.Encodings,
    look: Style,
) -> alt.VConcatChart:
    """The measures of one model below one another."""
    rows = rows[rows["model"] == panel[0]]
    rows = rows.assign(model=panel[1], readout=rows["site"] + "/" + rows["position"])
    readouts = [name for name in READOUTS if name in set(rows["readout"])]
    last = list(MEASURES)[-1]
    views = [
        _measure(_points(rows, column, datasets), column, readouts, shared, look, column == last)
        for column in MEASURES
    ]
    views[0] = views[0].properties(title=draw.panel_heading(panel[1], look))
    return alt.VConcatChart(vconcat=views, spacing=12, resolve=draw.one_legend())


def _points(rows: pd.DataFrame, column: str, datasets: Sequence[Pair]) -> pd.DataFrame:
    """A point for each dataset, seed and read-out where there is a value."""
    names, rows = [key for key, _ in datasets], rows[rows[column].notna()]
    blank = pd.Series(float("nan"), rows.index)
    ends = {end: rows.get(f"{column}_{end}", blank).round(4) for end in ("low", "high")}
    rows = rows.assign(
        series=rows["dataset"].map(dict(datasets)),
        marker=[draw.marker_of(names.index(name)) for name in rows["dataset"]],
        value=rows[column].round(4),
        signal=data.true(rows["signal"]),
        **ends,
    )
    return rows[[*TIPS, "marker", "signal"]]


def _measure(
    points: pd.DataFrame,
    column: str,
    readouts: Sequence[str],
    shared: draw.Encodings,
    look: Style,
    last: bool,
) -> alt.LayerChart:
    """One measure by read-out; the last one names the read-outs for all."""
    width, height = look.panel_width, look.panel_height
    if points.empty:
        note = figure_panel.empty_note("not measured", width, height, look)
        return alt.LayerChart(layer=[note], width=width, height=height)
    axis = alt.Axis(
        title=None,
        labels=last,
        ticks=last,
        labelAngle=-40,
        labelAlign="right",
        labelLimit=0,
        labelOverlap=False,
        grid=False,
    )
    scale = alt.Scale(domain=list(readouts), paddingInner=0, paddingOuter=0)
    x = alt.X("readout:N", scale=scale, axis=axis)
    y = figure_panel.value_axis(
        "value", MEASURES[column], (0, 1), (0, 0.25, 0.5, 0.75, 1), look, number=".2f"
    )
    layers: list[alt.Chart] = []
    if DEFAULT_READOUT in readouts:
        default = alt.Chart(alt.Data(values=[{"readout": DEFAULT_READOUT}]))
        layers.append(default.mark_rect(color=draw.FAINT, opacity=0.6).encode(x))
        each, mean = floors_of(column)
        for floor, dash in ((each, [1.5, 2.5]), (mean, [6.0, 4.0])):
            if floor is not None:
                values = pd.DataFrame({"readout": [DEFAULT_READOUT], "value": [floor]})
                mark = {"color": draw.SOFT, "strokeDash": dash, "strokeWidth": 1.2}
                layers.append(_level(values, x, y, 0, mark))
    means = points.groupby("readout", as_index=False).agg({"value": "mean"}).round(4)
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


def _caption(
    rows: pd.DataFrame,
    panels: Sequence[Pair],
    datasets: Sequence[Pair],
    grouping: str,
    level: float,
) -> list[str]:
    """What a point is, n, floors and intervals; no signal; blanks and cells not measured."""
    shown = rows[rows["model"].isin(dict(panels)) & rows["dataset"].isin(dict(datasets))]
    sizes = [data.span(shown[f"n_truth_{name}"]) for name in "qa"]
    told = [
        f"Headline layer of each read-out; {GROUPINGS.get(grouping, grouping)}; "
        f"n\u00a0=\u00a0{sizes[0]} samples of truth Q and {sizes[1]} of truth A a cell.",
        MEANINGS,
        f"Shaded: the default read-out, {DEFAULT_READOUT}; floors there: dashed in the mean over "
        "datasets, dotted in each."
        + (
            f" Bars: {100 * level:g}\u00a0% bootstrap intervals."
            if rows["pathway_auc_low"].notna().any()
            else ""
        ),
    ]
    names = rows["model"].map(dict(panels)) + " on " + rows["dataset"].map(dict(datasets))
    every = [f"{label} on {name}" for _, label in panels for _, name in datasets]
    missing = [name for name in every if name not in set(names)]
    grey = (names + " at " + rows["site"] + "/" + rows["position"])[~data.true(rows["signal"])]
    unseen = sorted(grey, key=lambda name: every.index(name.rpartition(" at ")[0]))
    blank = int(rows[list(MEASURES)].isna().sum().sum())
    notes = ((f"{data.UNSEEN} (hollow grey)", unseen), ("Not measured", missing))
    told += [f"{what}: {data.few(items)}." for what, items in notes if items]
    return [*told, f"Left out: {blank} values without a sample of that truth."] if blank else told
