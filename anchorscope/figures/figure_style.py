"""The look that all figures share: sizes, colours, axes, markers, legend, title and caption."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import altair as alt
import pandas as pd

from anchorscope.storage.errors import AnchorscopeError

ANCHORS = ("Q", "A")

# category10, then six of category20b for datasets 6 to 8
CATEGORY10 = "1f77b4 ff7f0e 2ca02c d62728 9467bd 8c564b e377c2 7f7f7f bcbd22 17becf"
FURTHER = "393b79 e7969c 637939 e7ba52 843c39 7b4173"
COLOURS = [f"#{code}" for code in f"{CATEGORY10} {FURTHER}".split()]
DASHES: dict[str, list[float]] = {"Q": [1, 0], "A": [6, 4]}
DOTTED = [1.5, 2.5]
CROSS = "M-1,-1L1,1M-1,1L1,-1"
MARKERS = "circle square triangle-up diamond cross triangle-down triangle-right triangle-left"
NO_SIGNAL = "#bdbdbd"
INK, FAINT, SOFT = "#222222", "#e4e4e4", "#777777"


@dataclass(frozen=True)
class Style:
    """The look of a figure; nothing here changes a number. Sizes are in CSS pixels.

    `columns` is the largest number of panels side by side; `legend_columns` and `wrap`
    (characters a line of the caption) follow from the width where they are 0. `width_mm` is that
    of the whole figure: 0 leaves it to `panel_width`; None is a printed column or page.
    `title` and `caption` may be `none`.
    """

    width_mm: float | None = 0
    panel_width: int = 340
    panel_height: int = 230
    share_height: int = 62
    columns: int = 3
    spacing: int = 26
    font: str = "Arial, Helvetica, Liberation Sans, sans-serif"
    title_size: float = 15
    panel_title_size: float = 14
    label_size: float = 12
    caption_size: float = 11.5
    line_width: float = 2
    band_opacity: float = 0.15
    marker_size: float = 34
    legend_columns: int = 0
    wrap: int = 0
    title: str | None = None
    caption: str | None = None


THEMES: dict[str, Style] = {
    "screen": Style(),
    "paper": Style(
        width_mm=None,
        panel_width=236,
        panel_height=160,
        share_height=46,
        columns=2,
        spacing=18,
        title_size=12,
        panel_title_size=11.5,
        label_size=10,
        caption_size=9,
        line_width=1.4,
        marker_size=22,
    ),
}


def style_of(settings: Any = None) -> Style:
    """The style that `settings` ask for: a `Style`, a mapping, a settings object, or None.

    `theme` names the style to start from; every other key overrides one field of it.

    Raises:
        AnchorscopeError: a theme or a key that does not exist.
    """
    if settings is None or isinstance(settings, Style):
        return settings or Style()
    given = settings.model_dump() if hasattr(settings, "model_dump") else dict(settings)
    given = {key: value for key, value in given.items() if value is not None}
    if "panel_width" in given:
        given.setdefault("width_mm", 0)
    try:
        return replace(THEMES[given.pop("theme", "screen")], **given)
    except (KeyError, TypeError) as error:
        known = ", ".join(["theme", *Style.__dataclass_fields__])
        do = f"use theme: {' or '.join(THEMES)}, and of the others: {known}"
        what = f"no such setting of the chart: {error}"
        raise AnchorscopeError(what, "chart", do, see="config") from error


class Figure(alt.ConcatChart):
    """A chart whose legend is centred under all panels.

    Vega reads `config.legend.layout`, but Vega-Lite's schema, and so Altair, does not know it:
    it is added to the finished specification.
    """

    def to_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The specification, Vega-Lite JSON as a dictionary."""
        spec = super().to_dict(*args, **kwargs)
        legend = spec.setdefault("config", {}).setdefault("legend", {})
        legend["layout"] = {"bottom": {"anchor": "middle"}}
        return spec


def columns_across(count: int, most: int) -> int:
    """Panels side by side, the rows as even as they can be."""
    return math.ceil(count / math.ceil(count / max(1, most))) if count else 1


def width_of(across: int, look: Style) -> float:
    """About how wide a figure is, for its legend and caption."""
    return across * (look.panel_width + look.spacing + 40)


def layer_axis(layers: int, title: str | None, *, labels: bool = True) -> alt.X:
    """The x channel of a panel: a tick every 5 layers up to 30, every 10 up to 50, then 20."""
    step = 5 if layers <= 30 else 10 if layers <= 50 else 20
    ticks = list(range(0, max(layers, 1), step))
    axis = alt.Axis(
        values=ticks, tickCount=len(ticks), title=title, format="d", grid=False, labels=labels
    )
    scale = alt.Scale(domain=[0, max(layers - 1, 1)], nice=False)
    return alt.X("layer:Q", scale=scale, axis=axis)


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


def _outline(marker: str, r: float) -> str:
    """The marker as an SVG path around (0, 0), its outline traced many times in one stroke.

    A legend entry's dash pattern runs along its marker too: traced once, the outline looks torn;
    the later rounds fill the gaps of the first.
    """
    if marker == "circle":
        return f"M{-r},0" + f"A{r},{r},0,1,1,{r},0A{r},{r},0,1,1,{-r},0" * 11 + "Z"
    t = round(r / 3, 3)
    half = [(-t, -r), (t, -r), (t, -t), (r, -t), (r, t), (t, t)]
    corners = {
        "square": [(-r, -r), (r, -r), (r, r), (-r, r)],
        "diamond": [(0, -r), (r, 0), (0, r), (-r, 0)],
        "triangle-up": [(0, -r), (r, r), (-r, r)],
        "triangle-down": [(0, r), (-r, -r), (r, -r)],
        "triangle-right": [(r, 0), (-r, r), (-r, -r)],
        "triangle-left": [(-r, 0), (r, -r), (r, r)],
        "cross": [*half, *((-x, -y) for x, y in half)],
    }[marker]
    return "M" + "L".join(f"{x},{y}" for x, y in corners * 11) + "Z"


@dataclass(frozen=True)
class Series:
    """An entry of the legend; `marker` in Vega's names, None for a bare line; or no `line`."""

    name: str
    colour: str
    dash: Sequence[float]
    marker: str | None
    line: bool = True


def paper_series(
    datasets: Sequence[tuple[str, str]], rows: pd.DataFrame | None = None
) -> list[Series]:
    """Q- and A-Anchored of each dataset, in the paper's order, colours and dashes.

    Those of which the rows drawn have no signal at all are grey.
    """
    unseen = set() if rows is None else set(rows["series"]) - set(rows["series"][rows["signal"]])
    found = []
    for k, ((i, (_, label)), anchor) in enumerate(product(enumerate(datasets), ANCHORS)):
        name = series_name(anchor, label)
        colour = NO_SIGNAL if name in unseen else COLOURS[k % len(COLOURS)]
        found.append(Series(name, colour, DASHES[anchor], marker_of(i)))
    return found


def series_name(anchor: str, dataset: str) -> str:
    """An entry of the legend, as the paper words it."""
    return f"{anchor}-Anchored ({dataset})"


def marker_of(i: int) -> str:
    """The marker shape, in Vega's names, of the `i`-th dataset."""
    shapes = MARKERS.split()
    return shapes[i % len(shapes)]


@dataclass(frozen=True)
class Encodings:
    """The channels that all panels share, and with them the one legend."""

    legend: alt.Color
    colour: alt.ColorValue
    fill: alt.FillValue
    dash: alt.StrokeDash
    shape: alt.Shape


def encodings(series: Sequence[Series], look: Style, width: float) -> Encodings:
    """Colours, dashes and markers of the series, by the data's column `series`."""
    names = [one.name for one in series]
    legend = alt.Legend(
        title=None,
        orient="bottom",
        direction="horizontal",
        columns=look.legend_columns or _legend_columns(names, look, width),
        symbolSize=64 * look.label_size,
        symbolOpacity=1,
        symbolStrokeWidth=0.9 * look.line_width,
        labelLimit=0,
        rowPadding=-0.6 * look.label_size,
        # entries are set by this machine's font; where it is shown another may be wider
        columnPadding=2.2 * look.label_size,
    )

    def channel(values: list[Any]) -> dict[str, Any]:
        scale = {"domain": names, "range": values}
        return {"field": "series", "type": "nominal", "scale": scale, "legend": legend.to_dict()}

    colour = channel([one.colour for one in series])
    seen: dict[str, Any] = {"test": "datum.signal", **colour}
    return Encodings(
        alt.Color(**colour),
        alt.ColorValue(NO_SIGNAL, condition=seen),
        alt.FillValue("white", condition=seen),
        alt.StrokeDash(**channel([list(one.dash) for one in series])),
        alt.Shape(**channel([_symbol(one) for one in series])),
    )


def _symbol(series: Series) -> str:
    """A piece of line with its marker, or one of both, as the SVG path of a legend entry."""
    line = "M-1,0L1,0" if series.line else ""
    return line + (_outline(series.marker, 0.25) if series.marker else "")


def _legend_columns(names: Sequence[str], look: Style, width: float) -> int:
    """Four entries a line, or fewer: as many as the figure is wide for."""
    for count in (4, 2):
        longest = [max(map(len, names[i::count]), default=0) for i in range(count)]
        if look.label_size * sum(0.47 * chars + 4.8 for chars in longest) <= 1.05 * width:
            return count
    return 1


def one_legend() -> alt.Resolve:
    """All panels share the scales that the legend explains."""
    return alt.Resolve(scale=dict.fromkeys(("color", "strokeDash", "shape"), "shared"))


def key_layer(data: alt.Chart, x: alt.X, y: alt.Y, shared: Encodings, look: Style) -> alt.Chart:
    """Invisible points that carry the legend; the caller adds its tooltips."""
    own = data.transform_filter("!datum.edge")
    points = own.mark_point(filled=True, opacity=0, size=3 * look.marker_size)
    return points.encode(x, y, color=shared.legend, strokeDash=shared.dash, shape=shared.shape)


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


def thin_layers(
    data: alt.Chart, x: alt.X, y: alt.Y, shared: Encodings, look: Style
) -> list[alt.Chart]:
    """Groups of too few samples: small crosses, with their n beside some of them."""
    thin = data.transform_filter("datum.thin").encode(x, y, color=shared.colour)
    cross = thin.mark_point(shape=CROSS, size=0.5 * look.marker_size, strokeWidth=1, opacity=1)
    told = thin.transform_filter("datum.mark")
    words = told.mark_text(dy=-0.6 * look.label_size, fontSize=0.7 * look.label_size)
    return [cross, words.encode(text=alt.Text("n:Q", format=",d"))]


def line_panel(
    rows: pd.DataFrame | Sequence[Mapping[Any, Any]],
    x: alt.X,
    y: alt.Y,
    shared: Encodings,
    look: Style,
    tips: Mapping[str, tuple[str, str]],
    *,
    also: Sequence[dict[str, Any]] = (),
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
        also: rows that have tooltips alone.
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
    thick = data.transform_filter("!datum.thin")
    over = thin_layers(data, x, y, shared, look)[: 1 if chance else 2] if crosses else []
    band = thick.mark_area(opacity=look.band_opacity)
    line = thick.mark_line(strokeWidth=stroke).encode(x, y, color=shared.colour)
    views = [*under, band.encode(x, low, y2="high:Q", color=shared.colour)]
    if chance:
        dotted = line.transform_filter("datum.chance")
        views.append(dotted.mark_line(strokeWidth=stroke, strokeDash=DOTTED, opacity=0.65))
        points = data.transform_filter("datum.chance")
        views.append(marker_layer(points, x, y, shared, size, hollow=True))
        line, data = (one.transform_filter("!datum.chance") for one in (line, data))
    views.append(line.encode(strokeDash=shared.dash))
    views += [marker_layer(data, x, y, shared, size), *over]
    told = alt.Chart(pd.concat([table, pd.DataFrame(also)]))
    views.append(key_layer(told, x, y, shared, look).encode(tooltip=tooltips(**tips)))
    if table.empty:
        views.append(empty_note("not measured", width, height, look))
    return alt.LayerChart(layer=views, width=width, height=height)


def minor_ticks(x: alt.X, height: float) -> list[alt.Chart]:
    """A small tick at every layer, up to 30; Vega-Lite's axes have major ticks only."""
    last = x["scale"]["domain"][1]
    data = alt.Chart(alt.sequence(0, last + 1, as_="layer"))
    ticks = data.mark_rule(color=SOFT, strokeWidth=0.7)
    ends = {"y": alt.value(height), "y2": alt.value(height + 3)}
    return [ticks.encode(x, **ends)] if last < 30 else []


def zero_rule(y: alt.Y) -> alt.Chart:
    """A horizontal line at 0 of the y channel."""
    rule = alt.Chart(alt.Data(values=[{"value": 0}])).mark_rule(color=SOFT, strokeWidth=0.8)
    return rule.encode(y)


def empty_note(text: str, width: float, height: float, look: Style) -> alt.Chart:
    """Words in the middle of a panel without data."""
    note = alt.Chart(alt.Data(values=[{}]))
    note = note.mark_text(text=text, color=SOFT, fontSize=look.label_size)
    return note.encode(x=alt.value(width / 2), y=alt.value(height / 2))


def panel_heading(text: str, look: Style, **more: Any) -> alt.TitleParams:
    """The title of a panel; a long one wraps: it makes the figure no wider."""
    size = look.panel_title_size
    shown = wrapped(text, look.panel_width, 0.56 * size)
    return alt.TitleParams(shown, fontSize=size, anchor="middle", frame="group", **more)


def wrapped(text: str, width: float, character: float) -> str | list[str]:
    """A text as it is, or as lines that fit a width; `character`: that of one."""
    lines = balanced(text, max(12, int(width / character)))
    return lines if len(lines) > 1 else text


def row_heading(text: str, look: Style, *, shown: bool = True) -> alt.TitleParams:
    """What a row of panels shows, above its first panel; above the others as many blank lines."""
    size = 0.88 * look.label_size
    lines = wrapped(text, look.panel_width + look.spacing, 0.5 * size)
    blank = " " if isinstance(lines, str) else [" "] * len(lines)
    return alt.TitleParams(
        lines if shown else blank,
        fontSize=size,
        fontWeight="normal",
        anchor="start",
        frame="group",
        offset=4,
    )


def tooltips(**fields: tuple[str, str]) -> list[alt.Tooltip]:
    """Model, dataset and layer, then each field as (title, number format or "")."""
    every = {"model": ("model", ""), "dataset": ("dataset", ""), "layer": ("layer", "d")} | fields
    return [
        alt.Tooltip(f"{name}:Q", title=title, format=number)
        if number
        else alt.Tooltip(f"{name}:N", title=title)
        for name, (title, number) in every.items()
    ]


def balanced(text: str, most: int) -> list[str]:
    """Lines of at most `most` characters and about equal length."""
    lines = textwrap.wrap(text, most)
    if len(lines) < 2:
        return [text]
    narrower = (textwrap.wrap(text, k) for k in range(len(text) // len(lines), most))
    return next((even for even in narrower if len(even) == len(lines)), lines)


def title_of(text: str, caption: Sequence[str], look: Style, width: float) -> alt.TitleParams:
    """The title with the caption's sentences below it, each balanced over lines that fit."""
    wrap = look.wrap or max(30, int(width / (0.5 * look.caption_size)))
    lines = [line for part in caption for line in balanced(part, wrap)]
    return alt.TitleParams(
        wrapped(text, width, 0.6 * look.title_size),
        subtitle=lines,
        anchor="middle",
        fontSize=look.title_size,
        subtitleFontSize=look.caption_size,
        subtitleColor="#555555",
        subtitleLineHeight=1.3 * look.caption_size,
        subtitlePadding=5,
        offset=14,
    )


def config_of(look: Style) -> dict[str, Any]:
    """The specification's `config`."""
    size = {"labelFontSize": look.label_size, "labelColor": INK}
    axis = size | {"titleFontSize": look.label_size, "titleFontWeight": "normal"}
    axis |= {"titleColor": INK, "gridColor": FAINT, "labelFlush": False}
    return {
        "font": look.font,
        "axis": axis | {"domainColor": SOFT, "tickColor": SOFT},
        "legend": size | {"offset": 8},
        "title": {"color": INK},
        "view": {"stroke": "#cccccc"},
    }


def heading_of(title: str, caption: Sequence[str], look: Style) -> tuple[str, list[str]]:
    """Title and caption, blank where the look is `none`."""
    return "" if look.title else title, [] if look.caption else list(caption)


def figure_of(
    views: Sequence[Any], across: int, width: float, title: str, caption: Sequence[str], look: Style
) -> Figure:
    """The views in rows of `across`, under one title and above one legend."""
    title, caption = heading_of(title, caption, look)
    return Figure(
        concat=list(views),
        columns=across,
        spacing={"row": look.spacing, "column": 0.7 * look.spacing},
        resolve=one_legend(),
        title=title_of(title, caption, look, width) if title or caption else alt.Undefined,
        config=config_of(look),
        background="white",
    )
