"""One panel: its axes, and layers of bands, lines, markers, crosses and tooltips."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from anchorscope.figures.figure_style import CROSS, DOTTED, SOFT, Encodings, Style, tooltips


def layer_axis(layers: int, title: str | None, *, labels: bool = True) -> alt.X:
    """The x channel of a panel: a tick every 5 layers up to 30, every 10 up to 50, then 20."""
    step = 5 if layers <= 30 else 10 if layers <= 50 else 20
    ticks = list(range(0, max(layers, 1), step))
    fixed: dict[str, Any] = {"tickCount": len(ticks), "format": "d", "grid": False}
    axis = alt.Axis(values=ticks, title=title, labels=labels, **fixed)
    return alt.X("layer:Q", scale=alt.Scale(domain=[0, max(layers - 1, 1)], nice=False), axis=axis)


def value_axis(
    name: str,
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
    return alt.Y(f"{name}:Q", scale=alt.Scale(domain=list(domain), nice=False), axis=axis)


def marker_layer(
    data: alt.Chart, x: alt.X, y: alt.Y, shared: Encodings, size: float, *, hollow: bool = False
) -> alt.Chart:
    """Markers at the rows whose `mark` is true, in the shape that `marker` names.

    Without a signal they are hollow and grey; `hollow` ones keep the colour of their series.
    """
    kept = data.transform_filter("datum.mark && !datum.thin")
    points = kept.mark_point(filled=False, size=size, strokeWidth=1, opacity=0.8 if hollow else 1)
    drawn = points.encode(x, y, color=shared.colour, shape=alt.Shape("marker:N", scale=None))
    return drawn if hollow else drawn.encode(fill=shared.fill)


def line_panel(
    rows: pd.DataFrame | Sequence[Mapping[Any, Any]],
    x: alt.X,
    y: alt.Y,
    shared: Encodings,
    look: Style,
    tips: Mapping[str, tuple[str, str]],
    *,
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
        under: layers below all others.
        height: of the panel, if not the look's own.
        weight: of lines and markers, beside the look's own.
        chance: whether rows may be of `chance`, which are dotted, with small hollow markers.
        crosses: whether rows may be `thin`, which are crosses, with their n but for flips.
    """
    width, height = look.panel_width, height or look.panel_height
    stroke, size = weight * look.line_width, weight**2 * look.marker_size
    table = pd.DataFrame(rows)
    data = alt.Chart(table).encode(detail=["series:N", "condition:N", "run:N"])
    low = alt.Y("low:Q", scale=y["scale"], title=y["axis"]["title"])
    thin = data.transform_filter("datum.thin").encode(x, y, color=shared.colour)
    thick = data.transform_filter("!datum.thin").encode(x, y, color=shared.colour)
    band = thick.mark_area(opacity=look.band_opacity)
    line = thick.mark_line(strokeWidth=stroke)
    views = [*under, band.encode(y=low, y2="high:Q")]
    if chance:
        dotted = line.transform_filter("datum.chance")
        views.append(dotted.mark_line(strokeWidth=stroke, strokeDash=DOTTED, opacity=0.65))
        points = data.transform_filter("datum.chance")
        views.append(marker_layer(points, x, y, shared, size, hollow=True))
        line, data = (one.transform_filter("!datum.chance") for one in (line, data))
    views += [line.encode(strokeDash=shared.dash), marker_layer(data, x, y, shared, size)]
    if crosses:
        small = 0.5 * look.marker_size
        views.append(thin.mark_point(shape=CROSS, size=small, strokeWidth=1, opacity=1))
    if crosses and not chance:
        told = thin.transform_filter("datum.mark").encode(text=alt.Text("n:Q", format=",d"))
        views.append(told.mark_text(dy=-0.6 * look.label_size, fontSize=0.7 * look.label_size))
    # invisible points that carry the legend and the tooltips
    own = alt.Chart(table).transform_filter("!datum.edge")
    key = own.mark_point(filled=True, opacity=0, size=3 * look.marker_size)
    channels = {"color": shared.legend, "strokeDash": shared.dash, "shape": shared.shape}
    views.append(key.encode(x, y, tooltip=tooltips(**tips), **channels))
    if table.empty:
        views.append(empty_note("not measured", width, height, look))
    return alt.LayerChart(layer=views, width=width, height=height)


def minor_ticks(x: alt.X, height: float) -> list[alt.Chart]:
    """A small tick at every layer, up to 30; Vega-Lite's axes have major ticks only."""
    last = x["scale"]["domain"][1]
    ticks = alt.Chart(alt.sequence(0, last + 1, as_="layer")).mark_rule(color=SOFT, strokeWidth=0.7)
    ends = {"y": alt.value(height), "y2": alt.value(height + 3)}
    return [ticks.encode(x, **ends)] if last < 30 else []


def empty_note(text: str, width: float, height: float, look: Style) -> alt.Chart:
    """Words in the middle of a panel without data."""
    note = alt.Chart(alt.Data(values=[{}]))
    note = note.mark_text(text=text, color=SOFT, fontSize=look.label_size)
    return note.encode(x=alt.value(width / 2), y=alt.value(height / 2))
