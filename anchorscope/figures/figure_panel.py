"""One panel: layers of bands, lines, markers, bars, cells and tooltips.

A panel's name is unique in its figure. Layers that the figure's page acts on are named after the
panel and their role, such as `delta_p_0_reach`. The page finds them by these names.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import altair as alt
import pandas as pd

from anchorscope.figures.figure_style import (
    CROSS,
    DOTTED,
    INK,
    NO_SIGNAL,
    SOFT,
    THIN,
    Encodings,
    Style,
    tooltips,
)

REACH = "reach"
"""Role of the invisible marks that carry tooltips and the legend."""
TICKS = "ticks"
"""Role of small ticks below the axis, which are hidden outside the zoomed range."""
UPRIGHT = "upright"
"""Role of upright lines."""
ABSENT = "absent"
"""Role of the words in a panel without data."""
LOOKS: Mapping[str, Sequence[float]] = {
    "solid": [1, 0],
    "dashed": [6, 4],
    "dotted": DOTTED,
    "dotdashed": [6, 2, 1.5, 2],
    "longdashed": [12, 4],
}
"""Value of the column `look` → dashes of the line in `claims`. The values are roles, too."""
FADING = ("band", *LOOKS, "rings", "faint", "line", "markers", "crosses", "counts", "bars")
"""Roles of layers that fade while another series is chosen."""
Tips = Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class Frame:
    """Name, axes and sizes of a panel."""

    name: str  # unique in the figure; letters, digits and `_`
    x: alt.X
    y: alt.Y
    shared: Encodings  # channels of all panels, and with them the legend
    look: Style  # sizes; `panel_height` is the panel's own
    tips: Tips  # fields of the tooltips, see `tooltips`
    under: Sequence[alt.Chart] = ()  # layers below all others

    def part(self, view: alt.Chart, role: str) -> alt.Chart:
        """Name a layer after the panel and its role."""
        return view.properties(name=f"{self.name}_{role}")

    def band(self, data: alt.Chart) -> alt.Chart:
        """Draw the area from `low` to `high`."""
        area = data.mark_area(opacity=0.15)
        return self.part(area.encode(_as(self.y, "low"), y2="high:Q"), "band")

    def reach(self, data: alt.Chart) -> alt.Chart:
        """Draw invisible points that carry tooltips and legend, at the places of `data`."""
        points = data.mark_point(filled=True, opacity=0, size=3 * self.look.marker_size)
        points = points.encode(
            color=self.shared.legend,
            strokeDash=self.shared.dash,
            strokeWidth=self.shared.thickness,
            shape=self.shared.shape,
        )
        return self.part(points.encode(tooltip=tooltips(self.tips)), REACH)

    def panel(
        self, rows: pd.DataFrame, views: Sequence[alt.Chart], note: str = "not measured"
    ) -> alt.LayerChart:
        """Combine layers into a panel; show the note if there are no rows."""
        width, height, views = self.look.panel_width, self.look.panel_height, [*self.under, *views]
        if rows.empty:
            words = alt.Chart(alt.Data(values=[{}]))
            words = words.mark_text(text=note, color=SOFT, fontSize=self.look.label_size)
            words = words.encode(x=alt.value(width / 2), y=alt.value(height / 3))
            views.append(self.part(words, ABSENT))
        return alt.LayerChart(layer=views, width=width, height=height, name=self.name)


Draw = Callable[[pd.DataFrame, Frame], alt.LayerChart]
"""Function that draws a panel from rows, or a note without rows."""


def lines(rows: pd.DataFrame, frame: Frame, weight: float = 0.75) -> alt.LayerChart:
    """Draw rows of `figure_data.in_runs` as bands, lines and markers.

    Layers without a signal are thin, light lines without markers. Rows marked `chance` are dotted,
    with small hollow markers. Rows marked `thin` are crosses, with their n unless the rows have a
    column `chance`. `weight` multiplies the size of lines and markers.
    """
    place: dict[str, Any] = {"x": frame.x, "y": frame.y, "color": frame.shared.colour}
    stroke, size = weight * frame.look.line_width, weight**2 * frame.look.marker_size
    data = alt.Chart(rows).encode(detail=["series:N", "condition:N", "run:N"], **place)
    thick = data.transform_filter("!datum.thin")
    line = thick.mark_line(strokeWidth=stroke)
    views = [frame.band(thick)]
    dotted = "chance" in rows
    if dotted:
        beside = line.transform_filter("datum.chance")
        beside = beside.mark_line(strokeWidth=stroke, strokeDash=DOTTED, opacity=0.65)
        rings = _markers(data.transform_filter("datum.chance"), size, opacity=0.8)
        views += [frame.part(beside, "dotted"), frame.part(rings, "rings")]
        line, data = (one.transform_filter("!datum.chance") for one in (line, data))
    # single points without a signal are hollow and grey, and behind those with one
    markers = _markers(data, size).encode(fill=frame.shared.fill, order="signal:O")
    faint = line.transform_filter("!datum.signal").encode(color=alt.value(NO_SIGNAL))
    faint = faint.mark_line(strokeWidth=THIN * frame.look.line_width)
    strong = line.transform_filter("datum.signal").encode(strokeDash=frame.shared.dash)
    views += [frame.part(faint, "faint"), frame.part(strong, "line")]
    views += [frame.part(markers, "markers"), *_crosses(rows, frame, place, counts=not dotted)]
    reach = alt.Chart(rows).transform_filter("!datum.edge").encode(frame.x, frame.y)
    return frame.panel(rows, [*views, frame.reach(reach)])


def _markers(data: alt.Chart, size: float, opacity: float = 1) -> alt.Chart:
    """Draw markers at rows whose `mark` is true, in the shape named by `marker`."""
    kept = data.transform_filter("datum.mark && !datum.thin")
    points = kept.mark_point(filled=False, size=size, strokeWidth=1, opacity=opacity)
    return points.encode(shape=alt.Shape("marker:N", scale=None))


def _crosses(
    rows: pd.DataFrame, frame: Frame, place: dict[str, Any], *, counts: bool
) -> list[alt.Chart]:
    """Draw crosses at `thin` points, with their n above if `counts`."""
    look, thin = frame.look, alt.Chart(rows).transform_filter("datum.thin").encode(**place)
    cross = thin.mark_point(shape=CROSS, size=0.5 * look.marker_size, strokeWidth=1, opacity=1)
    numbers = thin.transform_filter("datum.mark").encode(text=alt.Text("n:Q", format=",d"))
    numbers = numbers.mark_text(dy=-0.6 * look.label_size, fontSize=0.7 * look.label_size)
    views = [frame.part(cross, "crosses"), frame.part(numbers, "counts")]
    return views if counts else views[:1]


def claims(
    rows: pd.DataFrame, frame: Frame, looks: Sequence[str] = ("solid", "dashed")
) -> alt.LayerChart:
    """Draw lines about 0 with bands, and markers that are filled where a claim is made.

    Rows have `value`, `low`, `high`, `series` and `marker`. `look` is one of `looks`. Rows that are
    `banded` have a band, and `claimed` fills a marker. A row with `least` stands for a cell with
    too few pairs, `n`, for a line. The panel says so if no row has a line.
    """
    note = absent(rows)
    rows = rows[~_too_few(rows)].drop(columns="least", errors="ignore")
    look, colour = frame.look, frame.shared.legend
    data = alt.Chart(rows).encode(frame.x, frame.y, color=colour, detail="quantity:N")
    lines = {
        name: data.transform_filter(f"datum.look === '{name}'").mark_line(
            strokeWidth=(0.75 if name == "solid" else 0.55) * look.line_width,
            strokeDash=LOOKS[name],
        )
        for name in looks
    }
    solid = data.transform_filter("datum.look === 'solid'")
    marked = solid.mark_point(size=0.7 * look.marker_size, strokeWidth=1, opacity=1)
    claimed = {"test": "datum.claimed", **cast(dict[str, Any], colour.to_dict())}
    white = alt.FillValue("white", condition=claimed)
    views = [
        level(0, frame.y),
        frame.band(data.transform_filter("datum.banded")),
        *(frame.part(line, name) for name, line in lines.items()),
        frame.part(marked.encode(fill=white, shape=alt.Shape("marker:N", scale=None)), "markers"),
        frame.reach(data),
    ]
    return frame.panel(rows, views, note)


def absent(rows: pd.DataFrame) -> str:
    """Say why a panel has no line, see `claims`; empty if it has one."""
    short = _too_few(rows)
    if not short.all():
        return ""
    if rows.empty:
        return "not measured"
    most = "at most " if len(rows) > 1 else ""
    return f"{most}{rows['n'].max():.0f} of {rows['least'].max():.0f} pairs"


def _too_few(rows: pd.DataFrame) -> pd.Series:
    return rows.reindex(columns=["least"])["least"].notna()


def shares(rows: pd.DataFrame, frame: Frame) -> alt.LayerChart:
    """Draw shares stacked at each name of `y`, in the colours of their series.

    `rows` are of `figure_data.stacked`.
    """
    data, x, y, colour = alt.Chart(rows), frame.x, frame.y, frame.shared.legend
    cells = data.mark_bar().encode(_as(x, "start"), y, x2="end:Q", color=colour)
    places = data.encode(_as(x, "middle"), y)
    return frame.panel(rows, [frame.part(cells, "bars"), frame.reach(places)])


def bars(rows: pd.DataFrame, frame: Frame) -> alt.LayerChart:
    """Draw bars of `value` at each name of one axis, series side by side, with whiskers.

    Bars without a signal are hollow, and `thin` bars are pale. Rows marked `point` become points.
    """
    data, along = _side_by_side(rows, frame)
    singles = data.transform_filter("!datum.point")
    filled = singles.mark_bar(strokeWidth=1).encode(
        along,
        color=frame.shared.legend,
        stroke=frame.shared.stroke,
        fillOpacity=alt.condition("datum.signal", alt.value(1), alt.value(0)),
        opacity=alt.condition("datum.thin", alt.value(0.35), alt.value(1)),
    )
    size = 0.5 * frame.look.marker_size
    dots = data.transform_filter("datum.point").encode(along)
    views = [
        frame.part(filled, "bars"),
        frame.part(whiskers(singles, along).encode(color=alt.value(INK)), "line"),
        dots.mark_point(color=INK, filled=True, size=size, opacity=0.8),
        frame.reach(data.encode(along)),
    ]
    return frame.panel(rows, views)


def points(rows: pd.DataFrame, frame: Frame) -> alt.LayerChart:
    """Draw points of `value` at each name of one axis, series side by side, with whiskers.

    Points without a signal are hollow and grey.
    """
    data, along = _side_by_side(rows, frame)
    drawn = data.mark_point(filled=False, opacity=1, size=frame.look.marker_size, strokeWidth=1)
    drawn = drawn.encode(along, color=frame.shared.colour, fill=frame.shared.fill)
    drawn = drawn.encode(shape=alt.Shape("marker:N", scale=None))
    ends = [whiskers(data, along).encode(color=frame.shared.colour)]
    views = [drawn, frame.reach(data.encode(along))]
    return frame.panel(rows, [*ends, *views] if rows["low"].notna().any() else views)


def heat(
    rows: pd.DataFrame, frame: Frame, colour: alt.Color, number: str = ".2f"
) -> alt.LayerChart:
    """Draw a cell for each pair of names of `x` and `y`, coloured by `value` and labelled with it.

    Rows whose `written` is false have no label. `colour` is the channel of `value`. The panel has
    no part in the legend of series.
    """
    data = alt.Chart(rows).encode(frame.x, frame.y)
    cells = data.mark_rect(stroke="white").encode(color=colour, tooltip=tooltips(frame.tips))
    text = data.transform_filter("datum.written !== false")
    text = text.mark_text(fontSize=0.85 * frame.look.label_size, color=INK)
    words = text.encode(text=alt.Text("value:Q", format=number))
    return frame.panel(rows, [frame.part(cells, REACH), words])


def level(value: float, y: alt.Y) -> alt.Chart:
    """Draw a thin line across a panel."""
    rule = alt.Chart(alt.Data(values=[{"value": value}])).mark_rule(color=SOFT, strokeWidth=0.8)
    return rule.encode(y)


def upright(places: pd.DataFrame, x: alt.X) -> list[alt.Chart]:
    """Draw thin grey upright lines, if there are places."""
    return [_rule(places, x)] if len(places) else []


def coloured_lines(places: pd.DataFrame, frame: Frame) -> alt.Chart:
    """Draw thin upright lines in the colours of their series, or grey without one."""
    series: Any = frame.shared.legend.to_dict()
    of_series = {"test": "isValid(datum.series)", **series}
    lines = _rule(places, frame.x).encode(color=alt.ColorValue(SOFT, condition=of_series))
    return frame.part(lines, UPRIGHT)


def _rule(places: pd.DataFrame, x: alt.X) -> alt.Chart:
    return alt.Chart(places).mark_rule(color=SOFT, strokeWidth=0.8).encode(x)


def minor_ticks(frame: Frame) -> list[alt.Chart]:
    """Draw a small tick at every layer, up to 30. Vega-Lite's axes have major ticks only."""
    last, height = frame.x["scale"]["domain"][1], frame.look.panel_height
    ticks = alt.Chart(alt.sequence(0, last + 1, as_="layer")).mark_rule(color=SOFT, strokeWidth=0.7)
    ends = {"y": alt.value(height), "y2": alt.value(height + 3)}
    return [frame.part(ticks.encode(frame.x, **ends), TICKS)] if last < 30 else []


def whiskers(data: alt.Chart, along: Any) -> alt.Chart:
    """Draw lines from `low` to `high` along the axis of values."""
    kept = data.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1)
    end = {"y2": "high:Q"} if isinstance(along, alt.Y) else {"x2": "high:Q"}
    return kept.encode(_as(along, "low"), detail="series:N", **end)


def _side_by_side(rows: pd.DataFrame, frame: Frame) -> tuple[alt.Chart, Any]:
    """Place rows at the names of one axis, side by side by series; return also the other axis."""
    data = alt.Chart(rows)
    if _of_names(frame.x):
        return data.encode(frame.x, xOffset=alt.XOffset("series:N", sort=None)), frame.y
    return data.encode(frame.y, yOffset=alt.YOffset("series:N", sort=None)), frame.x


def _of_names(channel: Any) -> bool:
    return str(channel["shorthand"]).endswith(":N")


def _as(channel: Any, field: str) -> Any:
    """Return the same axis for another field."""
    named = channel.copy(deep=False)
    named["shorthand"] = f"{field}:Q"
    return named
