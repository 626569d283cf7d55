"""The figure `calibration`: at which read-outs the instrument recovers a known truth."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import pandas as pd

from anchorscope.calibration.calibration import DEFAULT_READOUT
from anchorscope.calibration.requirements import FLOORS
from anchorscope.figures import figure_data as data
from anchorscope.figures import figure_style as draw
from anchorscope.figures.figure_fit import Asked, fitted
from anchorscope.figures.figure_readouts import POSITIONS, SITES
from anchorscope.figures.figure_style import Figure, Style
from anchorscope.figures.figures import GROUPINGS
from anchorscope.storage.errors import AnchorscopeError

Pair = tuple[str, str]
Row = dict[str, Any]
NEEDED = (
    "model dataset seed site position layer grouping z kind n_truth_q n_truth_a pathway_auc "
    "sensitivity specificity headline"
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
TICKS = (0, 0.25, 0.5, 0.75, 1)


@fitted
def calibration_chart(
    calibration: pd.DataFrame,
    asked: Asked,
) -> Figure:
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
    grouping = asked.grouping or "per_layer"
    rows = _headline(calibration, grouping)
    rows = rows[rows["dataset"].isin([key for key, _ in datasets])]
    across = draw.columns_across(len(panels), look.columns)
    width = draw.width_of(across, look)
    shared = draw.encodings(_series(datasets), look, width)
    small = replace(look, panel_height=round(0.6 * look.panel_height))
    views = [
        _model(rows[rows["model"] == key], label, datasets, shared, small) for key, label in panels
    ]
    caption = _caption(rows, panels, datasets, grouping, asked.level)
    return draw.figure_of(views, across, width, asked.title, caption, look)


def floors_of(column: str) -> tuple[float, float | None]:
    """What a measure must reach in each cell and in the mean: its first floor over both labels."""
    floor = next(one for one in FLOORS if one.column == column and one.z == "all")
    return floor.low, floor.mean_low


def _headline(calibration: pd.DataFrame, grouping: str) -> pd.DataFrame:
    """The rows that are drawn: headline layer, all kinds, all labels."""
    everyone = (calibration["kind"].astype(str) == "all") & (calibration["z"].astype(str) == "all")
    chosen = calibration[everyone & (calibration["grouping"] == grouping)]
    if chosen.empty:
        held = ", ".join(sorted(set(calibration["grouping"].astype(str))))
        raise AnchorscopeError(
            f"no rows of all kinds and labels with the grouping {grouping}",
            f"the table holds: {held or 'nothing'}",
            "name one of these, or build the calibration again",
            see="not-measured",
        )
    return chosen[data.true(chosen["headline"])]


def _series(datasets: Sequence[Pair]) -> list[draw.Series]:
    """Data sets in the colours of their Q-Anchored lines, and the mean."""
    known = [
        draw.Series(
            label, draw.COLOURS[2 * i % len(draw.COLOURS)], [1, 0], draw.marker_of(i), line=False
        )
        for i, (_, label) in enumerate(datasets)
    ]
    return [*known, draw.Series(MEAN, draw.INK, [1, 0], None)]


def _model(
    rows: pd.DataFrame, label: str, datasets: Sequence[Pair], shared: draw.Encodings, look: Style
) -> alt.VConcatChart:
    """The measures of one model below one another."""
    measured = set(rows["site"] + "/" + rows["position"])
    readouts = [name for name in READOUTS if name in measured]
    views: list[alt.LayerChart] = []
    for column in MEASURES:
        points = _points(rows, column, readouts, label, datasets)
        last = len(views) == len(MEASURES) - 1
        views.append(_measure(points, column, readouts, shared, look, last=last))
    views[0] = views[0].properties(title=draw.panel_heading(label, look))
    return alt.VConcatChart(vconcat=views, spacing=12, resolve=draw.one_legend())


def _points(
    rows: pd.DataFrame, column: str, readouts: Sequence[str], label: str, datasets: Sequence[Pair]
) -> list[Row]:
    """A point for each dataset, seed and read-out, side by side around the read-out's place."""
    points = []
    for i, (key, name) in enumerate(datasets):
        aside = 0.7 * (i + 0.5) / len(datasets) - 0.35
        for row in rows[rows["dataset"] == key].to_dict("records"):
            readout = f"{row['site']}/{row['position']}"
            if readout not in readouts or pd.isna(row[column]):
                continue
            points.append(
                {"model": label, "series": name, "readout": readout, "marker": draw.marker_of(i)}
                | {"measure": MEASURES[column]}
                | {"at": round(readouts.index(readout) + aside, 3)}
                | {"value": data.number(row[column], 4), "layer": int(row["layer"])}
                | {"low": data.number(row.get(f"{column}_low"), 4)}
                | {"high": data.number(row.get(f"{column}_high"), 4)}
                | {"q": int(row["n_truth_q"]), "a": int(row["n_truth_a"]), "signal": _seen(row)}
            )
    return points


def _seen(row: dict[Any, Any]) -> bool:
    return "signal" not in row or bool(data.true(pd.Series([row["signal"]])).all())


def _measure(
    points: Sequence[Row],
    column: str,
    readouts: Sequence[str],
    shared: draw.Encodings,
    look: Style,
    *,
    last: bool,
) -> alt.LayerChart:
    """One measure by read-out; the last one names the read-outs for all."""
    width, height = look.panel_width, look.panel_height
    ends = alt.Scale(domain=[-0.5, max(len(readouts), 1) - 0.5], nice=False)
    names = "[" + ", ".join(f"'{name}'" for name in readouts) + "]"
    axis = alt.Axis(
        title=None,
        values=list(range(len(readouts))),
        tickCount=len(readouts),
        labelExpr=f"{names}[datum.value]" if last else "''",
        labelAngle=-40,
        labelAlign="right",
        labelLimit=0,
        labelOverlap=False,
        ticks=last,
        grid=False,
    )
    x = alt.X("at:Q", scale=ends, axis=axis)
    y = draw.value_axis("value", MEASURES[column], (0, 1), TICKS, look, number=".2f")
    layers: list[Any] = []
    if DEFAULT_READOUT in readouts:
        layers = [_shade(readouts, ends)]
        layers += [_floor(value, dash, readouts, ends, y) for value, dash in _floor_lines(column)]
    if points:
        layers += [*_marks(points, x, y, shared, look), _means(points, readouts, ends, y, look)]
    else:
        layers.append(draw.empty_note("not measured", width, height, look))
    return alt.LayerChart(layer=layers, width=width, height=height)


def _shade(readouts: Sequence[str], ends: alt.Scale) -> alt.Chart:
    """The default read-out's place."""
    base = alt.Chart(alt.Data(values=[_place(readouts)]))
    return base.mark_rect(color=draw.FAINT, opacity=0.6).encode(
        alt.X("at:Q", scale=ends), x2="to:Q"
    )


def _place(readouts: Sequence[str]) -> Row:
    """Where the default read-out begins and ends."""
    place = readouts.index(DEFAULT_READOUT)
    return {"at": place - 0.5, "to": place + 0.5}


def _floor_lines(column: str) -> list[tuple[float, list[float]]]:
    each, mean = floors_of(column)
    return [(each, [1.5, 2.5]), *([] if mean is None else [(mean, [6.0, 4.0])])]


def _floor(
    value: float, dash: list[float], readouts: Sequence[str], ends: alt.Scale, y: alt.Y
) -> alt.Chart:
    """A floor, at the read-out that has to reach it."""
    base = alt.Chart(alt.Data(values=[_place(readouts) | {"value": value}]))
    line = base.mark_rule(color=draw.SOFT, strokeDash=dash, strokeWidth=1.2)
    return line.encode(alt.X("at:Q", scale=ends), y, x2="to:Q")


def _marks(
    points: Sequence[Row], x: alt.X, y: alt.Y, shared: draw.Encodings, look: Style
) -> list[alt.Chart]:
    """Intervals where there are any, points, and the invisible layer with legend and tooltips."""
    base = alt.Chart(pd.DataFrame(list(points)))
    tips = [
        alt.Tooltip(f"{name}:{kind}", title=title)
        for name, kind, title in (
            ("model", "N", "model"), ("series", "N", "dataset"), ("readout", "N", "read-out"),
            ("layer", "Q", "layer"), ("value", "Q", "value"), ("low", "Q", "interval from"),
            ("high", "Q", "interval to"), ("q", "Q", "truth Q"), ("a", "Q", "truth A"),
        )
    ]  # fmt: skip
    size = 1.3 * look.marker_size
    drawn = []
    if any(row["low"] is not None for row in points):
        low = alt.Y("low:Q", scale=y["scale"], title=y["axis"]["title"])
        bars = base.transform_filter("datum.low !== null").mark_rule(strokeWidth=1, opacity=0.7)
        drawn.append(bars.encode(x, low, y2="high:Q", color=shared.colour))
    shape = alt.Shape("marker:N", scale=None)
    point = base.mark_point(filled=False, opacity=1, size=size, strokeWidth=1)
    drawn.append(point.encode(x, y, color=shared.colour, fill=shared.fill, shape=shape))
    key = base.mark_point(filled=True, opacity=0, size=3 * size)
    drawn.append(key.encode(x, y, color=shared.legend, shape=shared.shape, tooltip=tips))
    return drawn


def _means(
    points: Sequence[Row], readouts: Sequence[str], ends: alt.Scale, y: alt.Y, look: Style
) -> alt.Chart:
    """The mean over a model's datasets at each read-out, as a short level line."""
    means = pd.DataFrame(list(points)).groupby("readout")["value"].mean()
    values = [
        {"at": k - 0.4, "to": k + 0.4, "value": round(float(means[name]), 4)}
        for k, name in enumerate(readouts)
        if name in means
    ]
    base = alt.Chart(alt.Data(values=values))
    line = base.mark_rule(color=draw.INK, strokeWidth=0.75 * look.line_width)
    return line.encode(alt.X("at:Q", scale=ends), y, x2="to:Q")


def _caption(
    rows: pd.DataFrame,
    panels: Sequence[Pair],
    datasets: Sequence[Pair],
    grouping: str,
    level: float,
) -> list[str]:
    """What a point is, n, floors and intervals; no signal; blanks and cells not measured."""
    shown = rows[rows["model"].isin([key for key, _ in panels])]
    sizes = [data.span(shown[f"n_truth_{name}"]) for name in "qa"]
    told = [
        f"Headline layer of each read-out; {GROUPINGS.get(grouping, grouping)}; "
        f"n\u00a0=\u00a0{sizes[0]} samples of truth Q and {sizes[1]} of truth A a cell.",
        MEANINGS,
        f"Shaded: the default read-out, {DEFAULT_READOUT}; floors there: dashed in the mean over "
        "datasets, dotted in each."
        + (f" Bars: {100 * level:g}\u00a0% bootstrap intervals." if _barred(shown) else ""),
    ]
    unseen, missing = [], []
    for model, label in panels:
        for dataset, name in datasets:
            cell = shown[(shown["model"] == model) & (shown["dataset"] == dataset)]
            if cell.empty:
                missing.append(f"{label} on {name}")
            unseen += [
                f"{label} on {name} at {row['site']}/{row['position']}"
                for row in cell.to_dict("records")
                if not _seen(row)
            ]
    blank = int(shown[list(MEASURES)].isna().sum().sum())
    notes = ((f"{data.UNSEEN} (hollow grey)", unseen), ("Not measured", missing))
    told += [f"{what}: {data.few(items)}." for what, items in notes if items]
    return [*told, f"Left out: {blank} values without a sample of that truth."] if blank else told


def _barred(rows: pd.DataFrame) -> bool:
    names = [f"{column}_low" for column in MEASURES if f"{column}_low" in rows]
    return bool(rows[names].notna().any().any())
