"""One panel: its axes, and layers of bands, lines, markers, bars, cells and tooltips.

Every panel has a name of its own in its figure, and every layer that the figure's page acts on has
the panel's name and its role: `delta_p_0_reach`. The page finds them by these names alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import altair as alt
import pandas as pd

from anchorscope.figures.figure_data import Row
from anchorscope.figures.figure_style import CROSS, DOTTED, INK, SOFT, Encodings, Style, tooltips

REACH = "reach"
"""Role of the unseen marks that carry tooltips and the legend: what a pointer reaches."""
TICKS = "ticks"
"""Role of small ticks below the axis, which leave with the part of it that is out of sight."""
ABSENT = "absent"
"""Role of the words in a panel without data."""
FADING = ("band", "behind", "dotted", "rings", "line", "markers", "crosses", "counts", "bars")
"""Roles of what fades while another series is singled out."""
Rows = pd.DataFrame | Sequence[Row]
Tips = Mapping[str, tuple[str, str]]
FEW_LAYERS = 10


def layer_axis(layers: int, title: str | None, *, labels: bool = True, margin: float = 0) -> alt.X:
    """The x channel of layers: all labelled up to 10, then every 5, above 30 every 10, above 50
    every 20. `margin`: room beside the first and the last, in layers.
    """
    step = next((step for most, step in ((FEW_LAYERS, 1), (30, 5), (50, 10)) if layers <= most), 20)
    ends = (-margin, max(layers - 1, 1) + margin)
    ticks = list(range(0, max(layers, 1), step))
    return number_axis("layer", title, ends, ticks, number="d", labels=labels, least_step=1)


def number_axis(
    field: str,
    title: str | None,
    domain: Sequence[float],
    ticks: Sequence[float],
    *,
    number: str = "~g",
    labels: bool = True,
    least_step: float = 0,
    log: bool = False,
) -> alt.X:
    """The x channel of any number: a weight, a popularity, a recall.

    Args:
        field: column of the rows.
        title: of the axis; None where another panel's says it.
        domain: its ends, above 0 where `log`.
        ticks: where it is labelled.
        number: format of the labels.
        labels: whether they are shown.
        least_step: between ticks, once a reader has zoomed; 0 for any.
        log: whether the scale is logarithmic.
    """
    axis = alt.Axis(
        values=list(ticks),
        tickCount=len(ticks),
        tickMinStep=least_step or alt.Undefined,
        title=title,
        labels=labels,
        format=number,
        grid=False,
    )
    ends = list(domain)
    scale = alt.Scale(type="log", domain=ends, nice=False) if log else None
    return alt.X(f"{field}:Q", scale=scale or alt.Scale(domain=ends, nice=False), axis=axis)


def name_axis(
    field: str,
    title: str | None,
    names: Sequence[str],
    *,
    labels: bool = True,
    labelled: Sequence[str] | None = None,
) -> alt.X:
    """The x channel of names, in their order: datasets, or conditions.

    `labelled`: those with a label, or all; without `labels` none has.
    """
    values = list(names if labelled is None else labelled)
    axis = alt.Axis(title=title, values=values, labels=labels, labelAngle=0, grid=False)
    return alt.X(f"{field}:N", scale=alt.Scale(domain=list(names)), axis=axis)


def name_rows(
    field: str, title: str | None, names: Sequence[str], labelled: Sequence[str] | None = None
) -> alt.Y:
    """The y channel of names, the first at the bottom; `labelled`: those with a label, or all."""
    axis = alt.Axis(title=title, values=list(names if labelled is None else labelled), grid=False)
    return alt.Y(f"{field}:N", scale=alt.Scale(domain=list(names)[::-1]), axis=axis)


def value_axis(
    field: str,
    title: str | None,
    domain: Sequence[float],
    ticks: Sequence[float],
    look: Style,
    *,
    number: str = "d",
    labels: bool = True,
) -> alt.Y:
    """The y channel of a column of the data; without labels it takes no room beside the panel."""
    # one fixed width for labels keeps panels above one another in line
    extent = 3 * look.label_size if labels else 0
    axis = alt.Axis(
        values=list(ticks),
        tickCount=len(ticks),  # else Vega thins out the values it was given
        title=title,
        format=number,
        grid=True,
        # a blank is as high as a label: panels beside one another stay in line
        labelExpr="datum.label" if labels else "' '",
        ticks=labels,
        minExtent=extent,
        maxExtent=extent,
    )
    return alt.Y(f"{field}:Q", scale=alt.Scale(domain=list(domain), nice=False), axis=axis)


def line_panel(
    rows: Rows,
    x: alt.X,
    y: alt.Y,
    shared: Encodings,
    look: Style,
    tips: Tips,
    *,
    name: str,
    under: Sequence[alt.Chart] = (),
    height: float = 0,
    weight: float = 0.75,
    chance: bool = False,
    crosses: bool = False,
) -> alt.LayerChart:
    """Bands where there are any, lines, markers and legend of rows with value, low and high.

    Args:
        rows: of `figure_data.line_rows`.
        x, y: the axes.
        shared: channels of all panels.
        look: sizes.
        tips: what a tooltip tells, see `tooltips`.
        name: of the panel, no other's in its figure; letters, digits and `_`.
        under: layers below all others.
        height: of the panel, if not the look's own.
        weight: of lines and markers, beside the look's own.
        chance: whether rows may be of `chance`, which are dotted, with small hollow markers.
        crosses: whether rows may be `thin`, which are crosses, with their n but for flips.
    """
    stroke, size = weight * look.line_width, weight**2 * look.marker_size
    table = pd.DataFrame(rows)
    data = alt.Chart(table).encode(detail=["series:N", "condition:N", "run:N"])
    thin = data.transform_filter("datum.thin").encode(x, y, color=shared.colour)
    thick = data.transform_filter("!datum.thin").encode(x, y, color=shared.colour)
    line = thick.mark_line(strokeWidth=stroke)
    views = [*under, _band(thick, y, look, name)]
    if chance:
        dotted = line.transform_filter("datum.chance")
        dotted = dotted.mark_line(strokeWidth=stroke, strokeDash=DOTTED, opacity=0.65)
        points = data.transform_filter("datum.chance")
        rings = _markers(points, x, y, shared, size, hollow=True)
        views += [_part(dotted, name, "dotted"), _part(rings, name, "rings")]
        line, data = (one.transform_filter("!datum.chance") for one in (line, data))
    markers = _markers(data, x, y, shared, size)
    views += [_part(line.encode(strokeDash=shared.dash), name, "line")]
    views += [_part(markers, name, "markers")]
    if crosses:
        views += _crosses(thin, look, name, counts=not chance)
    reach = alt.Chart(table).transform_filter("!datum.edge").encode(x, y)
    views.append(_reach(reach, shared, look, tips, name))
    return _panel(views, table, look, name, height)


def claim_panel(
    rows: Rows,
    x: alt.X,
    y: alt.Y,
    shared: Encodings,
    look: Style,
    tips: Tips,
    *,
    name: str,
    height: float = 0,
) -> alt.LayerChart:
    """Lines about 0 with bands, and markers that are filled where something is claimed.

    Rows have `value`, `low`, `high`, `series`, `marker` and the field of `x`; `claimed` fills a
    marker; lines of rows that are `behind` are thin, without band and markers. All keep the colour
    of their series. For other arguments see `line_panel`.
    """
    table = pd.DataFrame(rows)
    data = alt.Chart(table).encode(x, y, color=shared.legend)
    zero = alt.Chart(alt.Data(values=[{"value": 0}])).mark_rule(color=SOFT, strokeWidth=0.8)
    front, back = data.transform_filter("!datum.behind"), data.transform_filter("datum.behind")
    thin = back.mark_line(strokeWidth=0.5 * look.line_width, opacity=0.65)
    line = front.mark_line(strokeWidth=0.75 * look.line_width)
    marked = front.mark_point(size=look.marker_size, strokeWidth=1, opacity=1)
    white = alt.FillValue("white", condition=_where("datum.claimed", shared.legend))
    markers = marked.encode(fill=white, shape=alt.Shape("marker:N", scale=None))
    views = [
        zero.encode(y),
        _band(front, y, look, name),
        _part(thin.encode(strokeDash=shared.dash), name, "behind"),
        _part(line.encode(strokeDash=shared.dash), name, "line"),
        _part(markers, name, "markers"),
        _reach(data, shared, look, tips, name),
    ]
    return _panel(views, table, look, name, height, "not measured, or too few pairs")


def share_panel(
    rows: Rows,
    x: alt.X,
    y: alt.Y,
    shared: Encodings,
    look: Style,
    tips: Tips,
    *,
    name: str,
    height: float = 0,
) -> alt.LayerChart:
    """Shares stacked at each layer, in the colours of their series.

    `rows` are of `figure_data.stacked_rows`; `x` is a layer axis with a margin of ½. For other
    arguments see `line_panel`.
    """
    table = pd.DataFrame(rows)
    data = alt.Chart(table)
    left = alt.X("left:Q", scale=x["scale"], axis=x["axis"])
    low = alt.Y("low:Q", scale=y["scale"], axis=y["axis"])
    cells = data.mark_rect(stroke="white", strokeWidth=0.5, opacity=0.9)
    cells = cells.encode(left, low, x2="right:Q", y2="high:Q", color=shared.legend)
    middle = alt.Y("middle:Q", scale=y["scale"], axis=y["axis"])
    reach = _reach(data.encode(x, middle), shared, look, tips, name)
    return _panel([_part(cells, name, "bars"), reach], table, look, name, height)


def bar_panel(
    rows: Rows,
    x: alt.X,
    y: alt.Y,
    shared: Encodings,
    look: Style,
    tips: Tips,
    *,
    name: str,
    height: float = 0,
) -> alt.LayerChart:
    """Bars of `value` side by side at each name of `x`, with whiskers from `low` to `high`.

    Rows have `value`, `low`, `high`, `series`, `signal` and the field of `x`; bars without a signal
    are grey. For other arguments see `line_panel`.
    """
    table = pd.DataFrame(rows)
    aside = alt.XOffset("series:N", sort=None)
    data = alt.Chart(table).encode(x, xOffset=aside)
    bars = data.mark_bar().encode(y, color=shared.colour)
    low = alt.Y("low:Q", scale=y["scale"], title=y["axis"]["title"])
    whiskers = data.transform_filter("datum.low !== null").mark_rule(color=INK)
    whiskers = whiskers.encode(low, y2="high:Q", detail="series:N")
    reach = data.mark_bar(opacity=0).encode(y, color=shared.legend, tooltip=tooltips(tips))
    views = [_part(bars, name, "bars"), _part(whiskers, name, "line"), _part(reach, name, REACH)]
    return _panel(views, table, look, name, height)


def heat_panel(
    rows: Rows,
    x: alt.X,
    y: alt.Y,
    colour: alt.Color,
    look: Style,
    tips: Tips,
    *,
    name: str,
    number: str = ".2f",
    height: float = 0,
) -> alt.LayerChart:
    """A cell for each pair of names of `x` and `y`, coloured by `value`, which is written in it.

    Not written are values of rows whose `written` is false. `colour` is the channel of `value`; the
    panel has no part in the legend of series. For other arguments see `line_panel`.
    """
    table = pd.DataFrame(rows)
    data = alt.Chart(table).encode(x, y)
    cells = data.mark_rect(stroke="white").encode(color=colour, tooltip=tooltips(tips))
    text = data.transform_filter("datum.written !== false")
    text = text.mark_text(fontSize=0.85 * look.label_size, color=INK)
    words = text.encode(text=alt.Text("value:Q", format=number))
    return _panel([_part(cells, name, REACH), words], table, look, name, height)


def minor_ticks(x: alt.X, height: float, name: str) -> list[alt.Chart]:
    """A small tick at every layer, up to 30; Vega-Lite's axes have major ticks only."""
    last = x["scale"]["domain"][1]
    ticks = alt.Chart(alt.sequence(0, last + 1, as_="layer")).mark_rule(color=SOFT, strokeWidth=0.7)
    ends = {"y": alt.value(height), "y2": alt.value(height + 3)}
    return [_part(ticks.encode(x, **ends), name, TICKS)] if last < 30 else []


def empty_note(text: str, width: float, height: float, look: Style) -> alt.Chart:
    """Words in a panel without data, above a line in its middle."""
    note = alt.Chart(alt.Data(values=[{}]))
    note = note.mark_text(text=text, color=SOFT, fontSize=look.label_size)
    return note.encode(x=alt.value(width / 2), y=alt.value(height / 3))


def _part(view: alt.Chart, panel: str, role: str) -> alt.Chart:
    """The layer under its name: the panel's, and its role."""
    return view.properties(name=f"{panel}_{role}")


def _panel(
    views: Sequence[alt.Chart],
    table: pd.DataFrame,
    look: Style,
    name: str,
    height: float,
    note: str = "not measured",
) -> alt.LayerChart:
    """The layers as a panel, with a note where there are no rows."""
    width, height = look.panel_width, height or look.panel_height
    views = list(views)
    if table.empty:
        views.append(_part(empty_note(note, width, height, look), name, ABSENT))
    return alt.LayerChart(layer=views, width=width, height=height, name=name)


def _band(data: alt.Chart, y: alt.Y, look: Style, name: str) -> alt.Chart:
    """The area from `low` to `high`."""
    low = alt.Y("low:Q", scale=y["scale"], title=y["axis"]["title"])
    return _part(data.mark_area(opacity=look.band_opacity).encode(y=low, y2="high:Q"), name, "band")


def _markers(
    data: alt.Chart, x: alt.X, y: alt.Y, shared: Encodings, size: float, *, hollow: bool = False
) -> alt.Chart:
    """Markers at the rows whose `mark` is true, in the shape that `marker` names.

    Without a signal they are hollow and grey; `hollow` ones keep the colour of their series.
    """
    kept = data.transform_filter("datum.mark && !datum.thin")
    points = kept.mark_point(filled=False, size=size, strokeWidth=1, opacity=0.8 if hollow else 1)
    markers = points.encode(x, y, color=shared.colour, shape=alt.Shape("marker:N", scale=None))
    return markers if hollow else markers.encode(fill=shared.fill)


def _crosses(thin: alt.Chart, look: Style, name: str, *, counts: bool) -> list[alt.Chart]:
    """Crosses at `thin` points, and with `counts` their n above them."""
    cross = thin.mark_point(shape=CROSS, size=0.5 * look.marker_size, strokeWidth=1, opacity=1)
    views = [_part(cross, name, "crosses")]
    if counts:
        numbers = thin.transform_filter("datum.mark").encode(text=alt.Text("n:Q", format=",d"))
        numbers = numbers.mark_text(dy=-0.6 * look.label_size, fontSize=0.7 * look.label_size)
        views.append(_part(numbers, name, "counts"))
    return views


def _reach(data: alt.Chart, shared: Encodings, look: Style, tips: Tips, name: str) -> alt.Chart:
    """Unseen points with the tooltips and the legend; `data` has their places."""
    points = data.mark_point(filled=True, opacity=0, size=3 * look.marker_size)
    channels = {"color": shared.legend, "strokeDash": shared.dash, "shape": shared.shape}
    return _part(points.encode(tooltip=tooltips(tips), **channels), name, REACH)


def _where(test: str, channel: alt.Color) -> dict[str, Any]:
    """The channel as the condition of another: it applies where the test of a row holds."""
    return {"test": test, **cast(dict[str, Any], channel.to_dict())}
