"""Draw one panel: layers of bands, lines, markers, bars, cells and tooltips."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import altair as alt
import pandas as pd

from anchorscope.figures.style import (
    CROSS,
    DOTTED,
    INK,
    SOFT,
    THIN,
    UNPREDICTED,
    Encodings,
    Style,
    balanced,
    tooltips,
)

SINGLED = alt.selection_point(name="singled", fields=["series"], bind="legend")
"""Selection of the series that a reader chooses in the legend."""
FADED = 0.1
"""Factor on the opacity of all series that are not chosen."""
LOOKS: Mapping[str, Sequence[float]] = {"solid": [1, 0], "dashed": [6, 4], "dotted": DOTTED}
"""Value of the column `look` → dash pattern of the line in `claims`."""
Tips = Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class Frame:
    """Axes and sizes of a panel."""

    x: alt.X
    y: alt.Y
    shared: Encodings  # channels that all panels share, so that there is one legend
    look: Style  # sizes; `panel_height` is the panel's own
    tips: Tips  # fields of the tooltips, see `tooltips`
    note: str  # words in a panel without rows
    under: Sequence[alt.Chart] = ()  # layers below all others

    def band(self, data: alt.Chart) -> alt.Chart:
        """Draw the area from `low` to `high`."""
        return fading(data.mark_area().encode(_as(self.y, "low"), alt.Y2("high:Q")), 0.15)

    def reach(self, data: alt.Chart) -> alt.Chart:
        """Draw invisible points, which carry tooltips and legend, at the places of `data`."""
        points = data.mark_point(filled=True, opacity=0, size=3 * self.look.marker_size)
        return points.encode(**self.shared.legend).encode(tooltip=tooltips(self.tips))

    def panel(self, rows: pd.DataFrame, views: Sequence[alt.Chart]) -> alt.LayerChart:
        """Combine layers of the rows into a panel; show the note if there are no rows."""
        width, height, layers = self.look.panel_width, self.look.panel_height, [*self.under, *views]
        if rows.empty:
            layers.append(self._words(width / 2, height / 5))
        return _Placed(data=rows, layer=layers, width=width, height=height)

    def _words(self, x: float, y: float) -> alt.Chart:
        """Write the note at a place of the panel, in lines that fit its width."""
        size, most = self.look.label_size, int(self.look.panel_width / (0.5 * self.look.label_size))
        lines = [part for line in self.note.splitlines() for part in balanced(line, most)]
        words = alt.Chart(alt.Data(values=[{}])).mark_text(text=lines, color=SOFT, fontSize=size)
        return words.encode(alt.XValue(x), alt.YValue(y))


class _Placed(alt.LayerChart):
    """Panel that Altair does not copy: each is in one figure, and copies would double the time.

    Channels are objects. If they were dicts, Altair would search all its classes for their type.
    """

    def __deepcopy__(self, memo: object) -> Self:
        """Return the panel itself."""
        return self


Draw = Callable[[pd.DataFrame, Frame], alt.LayerChart]
"""Function that draws a panel from rows, or the panel's note if there are no rows."""


def fading(view: alt.Chart, opacity: float = 1) -> alt.Chart:
    """Let the series of a layer fade while others are chosen in the legend."""
    shown = {"param": SINGLED.name, "value": opacity}
    return view.encode(opacity=alt.OpacityValue(FADED * opacity, condition=shown))


def legend_key(shared: Encodings) -> alt.Chart:
    """Draw an invisible point that ties the legend to `SINGLED`, for the figure's first panel."""
    point = alt.Chart(alt.Data(values=[{}])).mark_point(filled=True, opacity=0)
    return point.encode(**shared.legend).properties(name="legend").add_params(SINGLED)


def lines(rows: pd.DataFrame, frame: Frame, weight: float = 0.75) -> alt.LayerChart:
    """Draw rows of `data.in_lines` as bands, lines and markers.

    Where the probe does not predict, lines are narrow, grey and without markers. Rows marked
    `chance` are dotted, with small hollow markers. Rows marked `thin` are crosses. `weight`
    multiplies the widths of other lines. Its square multiplies the areas of markers.
    """
    stroke, size = weight * frame.look.line_width, weight**2 * frame.look.marker_size
    every = alt.Chart().encode(frame.x, frame.y)
    data = every.encode(detail=[alt.Detail("series:N"), alt.Detail("condition:N")])
    strong = _only(data, "strong").encode(color=frame.shared.colour)
    faint = _only(data, "faint").encode(color=alt.ColorValue(UNPREDICTED))
    points = every.encode(color=frame.shared.grey_unless_predicting, detail=alt.Detail("series:N"))
    thin = points.transform_filter("datum.thin")
    views = [frame.band(faint), frame.band(strong)]
    if "chance" in rows:
        beside = strong.transform_filter("datum.chance").mark_line(
            strokeWidth=stroke, strokeDash=DOTTED
        )
        rings = _markers(points.transform_filter("datum.chance"), size)
        views += [fading(beside, 0.65), fading(rings, 0.8)]
        strong, points = (one.transform_filter("!datum.chance") for one in (strong, points))
    # single points whose probe does not predict are hollow and grey, and behind the others
    markers = _markers(points, size).encode(fill=frame.shared.fill, order=alt.Order("predicts:O"))
    grey = faint.mark_line(strokeWidth=THIN * frame.look.line_width)
    line = strong.mark_line(strokeWidth=stroke).encode(strokeDash=frame.shared.dash)
    crosses = thin.mark_point(shape=CROSS, size=0.5 * frame.look.marker_size, strokeWidth=1)
    views += [fading(one) for one in (grey, line, markers, crosses)]
    return frame.panel(rows, [*views, frame.reach(every)])


def _only(data: alt.Chart, flag: str) -> alt.Chart:
    """Blank all numbers where the flag is false, so that lines and bands break there."""
    return data.transform_calculate(
        **{name: f"datum.{flag} ? datum.{name} : null" for name in ("value", "low", "high")}
    )


def _markers(data: alt.Chart, size: float) -> alt.Chart:
    """Draw markers at rows whose `mark` is true, in the shape named by `marker`."""
    points = data.transform_filter("datum.mark").mark_point(size=size, strokeWidth=1)
    return points.encode(shape=alt.Shape("marker:N", scale=None))


def claims(rows: pd.DataFrame, frame: Frame, at: float) -> alt.LayerChart:
    """Draw lines with bands, a line `at` a value, and markers that are filled where a claim holds.

    Rows have `value`, `low`, `high`, `series`, `marker` and `look`, one of `LOOKS`. Rows that are
    `banded` have a band. Solid lines have markers, other lines only where a row is `claimed`.
    """
    look, colour = frame.look, frame.shared.colour
    data = alt.Chart().encode(frame.x, frame.y, color=colour, detail=alt.Detail("quantity:N"))
    lines = [
        data.transform_filter(f"datum.look === '{name}'").mark_line(
            strokeWidth=(0.75 if name == "solid" else 0.55) * look.line_width, strokeDash=dash
        )
        for name, dash in LOOKS.items()
    ]
    marked = data.transform_filter("datum.look === 'solid' || datum.claimed")
    marked = marked.mark_point(size=0.7 * look.marker_size, strokeWidth=1)
    claimed = {"test": "datum.claimed", **cast(dict[str, Any], colour.to_dict())}
    white = alt.FillValue("white", condition=claimed)
    marked = marked.encode(fill=white, shape=alt.Shape("marker:N", scale=None))
    views = [frame.band(data.transform_filter("datum.banded"))]
    views += [fading(one) for one in (*lines, marked)]
    return frame.panel(rows, [level(at, frame.y), *views, frame.reach(data)])


def shares(rows: pd.DataFrame, frame: Frame) -> alt.LayerChart:
    """Draw shares stacked at each name of `y`, in the colours of their series.

    `rows` come from `data.stacked`.
    """
    data = alt.Chart().encode(frame.y)
    cells = data.mark_bar().encode(
        _as(frame.x, "start"), x2=alt.X2("end:Q"), color=frame.shared.colour
    )
    return frame.panel(rows, [fading(cells), frame.reach(data.encode(_as(frame.x, "middle")))])


def bars(rows: pd.DataFrame, frame: Frame) -> alt.LayerChart:
    """Draw bars of `value` at each name of one axis, series side by side, with whiskers.

    Bars whose probe does not predict are hollow, and `thin` bars are pale.
    """
    data, along = _side_by_side(frame)
    chosen = alt.when(~SINGLED).then(alt.value(FADED)).when("datum.thin").then(alt.value(0.35))
    filled = data.mark_bar(strokeWidth=1).encode(
        along,
        color=frame.shared.colour,
        stroke=frame.shared.stroke,
        fillOpacity=alt.condition("datum.predicts", alt.value(1), alt.value(0)),
        opacity=chosen.otherwise(alt.value(1)),
    )
    ends = whiskers(data, along).encode(color=alt.ColorValue(INK))
    return frame.panel(rows, [filled, fading(ends), frame.reach(data.encode(along))])


def points(rows: pd.DataFrame, frame: Frame) -> alt.LayerChart:
    """Draw points of `value` at each name of one axis, series side by side, with whiskers.

    Points whose probe does not predict are hollow and grey.
    """
    data, along = _side_by_side(frame)
    grey = frame.shared.grey_unless_predicting
    drawn = data.mark_point(size=frame.look.marker_size, strokeWidth=1)
    drawn = drawn.encode(along, color=grey, fill=frame.shared.fill)
    drawn = drawn.encode(shape=alt.Shape("marker:N", scale=None))
    ends = [whiskers(data, along).encode(color=grey)] if rows["low"].notna().any() else []
    views = [fading(one) for one in (*ends, drawn)]
    return frame.panel(rows, [*views, frame.reach(data.encode(along))])


def heat(
    rows: pd.DataFrame, frame: Frame, colour: alt.Color, number: str = ".2f"
) -> alt.LayerChart:
    """Draw a cell for each pair of names of `x` and `y`, with the colour and label of its `value`.

    Rows whose `written` is false have no label. `colour` is the channel of `value`. The panel does
    not use the legend of series.
    """
    data = alt.Chart().encode(frame.x, frame.y)
    cells = data.mark_rect(stroke="white").encode(color=colour, tooltip=tooltips(frame.tips))
    text = data.transform_filter("datum.written !== false")
    text = text.mark_text(fontSize=0.85 * frame.look.label_size, color=INK)
    return frame.panel(rows, [cells, text.encode(text=alt.Text("value:Q", format=number))])


def level(value: float, y: alt.Y) -> alt.Chart:
    """Draw a thin line across a panel at one value of y."""
    rule = alt.Chart(alt.Data(values=[{"value": value}])).mark_rule(color=SOFT, strokeWidth=0.8)
    return rule.encode(y)


def upright(places: pd.DataFrame, x: alt.X) -> list[alt.Chart]:
    """Draw a thin upright line at each of `places`, if there are any."""
    lines = alt.Chart(places).mark_rule(color=SOFT, strokeWidth=0.8).encode(x)
    return [lines] if len(places) else []


def headlines(rows: pd.DataFrame, frame: Frame) -> list[alt.Chart]:
    """Draw an upright line at each headline layer."""
    layers = rows["layer"][rows["headline"] > 0].unique()
    return upright(pd.DataFrame({"layer": layers}), frame.x)


def whiskers(data: alt.Chart, along: Any) -> alt.Chart:
    """Draw lines from `low` to `high` along the axis of values."""
    kept = data.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1)
    end = alt.Y2("high:Q") if isinstance(along, alt.Y) else alt.X2("high:Q")
    return kept.encode(_as(along, "low"), end, detail=alt.Detail("series:N"))


def _side_by_side(frame: Frame) -> tuple[alt.Chart, Any]:
    """Place series side by side at the names of one axis. Return the chart and the other axis."""
    if str(frame.x["shorthand"]).endswith(":N"):
        return alt.Chart().encode(frame.x, xOffset=alt.XOffset("series:N", sort=None)), frame.y
    return alt.Chart().encode(frame.y, yOffset=alt.YOffset("series:N", sort=None)), frame.x


def _as(channel: Any, field: str) -> Any:
    """Return a channel with the same axis for another numeric field."""
    named = channel.copy(deep=False)
    named["shorthand"] = f"{field}:Q"
    return named
