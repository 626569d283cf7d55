"""The figure: ΔP by layer for each model, and below it the share of flips; drawn from the table.

Panels, axes, colours, line styles and the order of the legend follow the figures of
arXiv 2601.07422; the share of flips under a random knockout is added, so that no curve is shown
without what flips by itself.
"""

import html
import json
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from anchorscope.errors import AnchorscopeError
from anchorscope.figure_data import (
    ANCHORS,
    Panel,
    distinct,
    marker_of,
    panel_of,
    select,
    series_name,
)
from anchorscope.files import atomic

# category10, then six of category20b for data sets 6 to 8
CATEGORY10 = "1f77b4 ff7f0e 2ca02c d62728 9467bd 8c564b e377c2 7f7f7f bcbd22 17becf"
FURTHER = "393b79 e7969c 637939 e7ba52 843c39 7b4173"
COLOURS = [f"#{code}" for code in f"{CATEGORY10} {FURTHER}".split()]
DASHES: dict[str, list[float]] = {"Q": [1, 0], "A": [6, 4]}
GROUPINGS = {
    "per_layer": "groups formed at each layer by its own flips",
    "reference_layer": "groups formed at one reference layer",
    "replicate": "groups formed by a second prompt for the same answer",
}
NO_SIGNAL = "#bdbdbd"
INK, FAINT = "#222222", "#e4e4e4"
NOTES_SHOWN = 3


@dataclass(frozen=True)
class Style:
    """The look of a figure; nothing here changes a number. Sizes are in CSS pixels.

    `columns` is the largest number of panels side by side; `legend_columns` and `wrap`
    (characters a line of the caption) follow from the width where they are 0.
    """

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


THEMES: dict[str, Style] = {
    "screen": Style(),
    # two panels and their axes fill a text column of 160 mm at 96 px an inch
    "paper": Style(
        panel_width=236,
        panel_height=160,
        share_height=46,
        columns=2,
        spacing=18,
        title_size=11,
        panel_title_size=10.5,
        label_size=9,
        caption_size=8.5,
        line_width=1.4,
        marker_size=18,
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
    theme = given.pop("theme", "screen")
    known = [field.name for field in fields(Style)]
    unknown = sorted(set(given) - set(known))
    if theme not in THEMES or unknown:
        wrong = unknown or [f"theme: {theme}"]
        raise AnchorscopeError(
            f"the chart knows no setting {', '.join(wrong)}",
            "chart",
            f"use one of: theme ({', '.join(THEMES)}), {', '.join(known)}",
        )
    return replace(THEMES[theme], **given)


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


def chart(
    table: pd.DataFrame,
    *,
    title: str,
    panels: Sequence[tuple[str, str]],
    datasets: Sequence[tuple[str, str]],
    readout: tuple[str, str],
    style: Any = None,
    grouping: str | None = None,
    level: float = 0.95,
) -> "Figure":
    """The figure of one read-out: a column per model, ΔP above the share of flips.

    Args:
        table: rows of `results/tables/<figure>.csv`; `thin` and `signal` are obeyed if present.
        title: the figure's title.
        panels: (model key, label) in the order of the panels.
        datasets: (dataset key, label) in the order of the legend.
        readout: (site, position).
        style: see `style_of`.
        grouping: which grouping; by default `per_layer`, or the only one there is.
        level: level of the intervals in the table, for the caption.

    Raises:
        AnchorscopeError: missing columns, or nothing measured at this read-out or grouping.
    """
    look = style_of(style)
    panels, datasets = distinct(panels), distinct(datasets)
    rows, grouping = select(table, readout, grouping)
    columns = [panel_of(rows, model, label, datasets) for model, label in panels]
    across = _columns(len(columns), look.columns)
    series = [series_name(anchor, label) for _, label in datasets for anchor in ANCHORS]
    width = across * (look.panel_width + look.spacing + 40)
    shared, controls = _encodings(series, look, width), "random" in set(rows["condition"])
    views = [
        _column(panel, shared, look, note=_share_note(controls) if i % across == 0 else " ")
        for i, panel in enumerate(columns)
    ]
    caption = _caption(columns, readout, grouping, level, controls)
    return Figure(
        concat=views,
        columns=across,
        spacing={"row": look.spacing, "column": 0.7 * look.spacing},
        resolve=_one_legend(),
        title=_title(title, caption, look, width),
        config=_config(look),
        background="white",
    )


def _columns(count: int, most: int) -> int:
    """Panels side by side, the rows as even as they can be."""
    return math.ceil(count / math.ceil(count / max(1, most))) if count else 1


def layer_ticks(layers: int) -> list[int]:
    """Major ticks of the layer axis: every 5 up to 30 layers, 10 up to 50, 20 beyond."""
    step = 5 if layers <= 30 else 10 if layers <= 50 else 20
    return list(range(0, max(layers, 1), step))


def delta_range(curves: Iterable[Mapping[str, Any]]) -> tuple[float, float]:
    """Range of a panel's ΔP axis: holds every line and band; 0 is near its top, never cut."""
    ends = [row[k] for row in curves for k in ("delta_p", "ci_low", "ci_high")]
    seen = [value for value in ends if value is not None]
    low = 20 * math.floor(min(seen, default=-20) / 20)
    high = 5 * math.ceil(max(seen, default=0) / 5)
    return min(-20, low), max(5, high)


def delta_ticks(low: float, high: float) -> list[int]:
    """Every 20 percentage points from `low` to `high`."""
    return list(range(20 * math.ceil(low / 20), math.floor(high) + 1, 20))


def _x(panel: Panel, title: str | None) -> alt.X:
    ticks = layer_ticks(panel.layers)
    axis = alt.Axis(values=ticks, tickCount=len(ticks), title=title, format="d", grid=False)
    last = max(panel.layers - 1, 1)
    return alt.X("layer:Q", scale=alt.Scale(domain=[0, last], nice=False), axis=axis)


def _y(name: str, title: str, domain: Sequence[float], ticks: Sequence[int], look: Style) -> alt.Y:
    # one fixed width for labels keeps a model's two panels in line
    extent = 2.6 * look.label_size
    axis = alt.Axis(
        values=list(ticks),
        tickCount=len(ticks),  # else Vega thins out the values it was given
        title=title,
        format="d",
        grid=True,
        minExtent=extent,
        maxExtent=extent,
    )
    return alt.Y(f"{name}:Q", scale=alt.Scale(domain=list(domain), nice=False), axis=axis)


def _outline(marker: str, r: float) -> str:
    """The marker as an SVG path around (0, 0), its outline traced five times in one stroke.

    A legend entry's dash pattern runs along its marker too: traced once, the outline looks torn;
    the later rounds fill the gaps of the first.
    """
    if marker == "circle":
        return f"M{-r},0" + f"A{r},{r},0,1,1,{r},0A{r},{r},0,1,1,{-r},0" * 5 + "Z"
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
    return "M" + "L".join(f"{x},{y}" for x, y in corners * 5) + "Z"


def legend_symbol(marker: str) -> str:
    """A piece of line with its marker, as the SVG path of a legend entry."""
    return "M-1,0L1,0" + _outline(marker, 0.25)


@dataclass(frozen=True)
class Encodings:
    """The channels that all panels share, and with them the one legend."""

    legend: alt.Color
    colour: alt.ColorValue
    dash: alt.StrokeDash
    shape: alt.Shape


def _encodings(series: Sequence[str], look: Style, width: float) -> Encodings:
    names = list(series)
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
        columnPadding=1.2 * look.label_size,
    )
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(names))]
    dashes = [DASHES[ANCHORS[i % 2]] for i in range(len(names))]
    shapes = [legend_symbol(marker_of(i // 2)) for i in range(len(names))]
    colour: dict[str, Any] = {"field": "series", "type": "nominal", "legend": legend.to_dict()}
    colour["scale"] = {"domain": names, "range": colours}
    return Encodings(
        alt.Color(**colour),
        alt.ColorValue(NO_SIGNAL, condition={"test": "datum.signal", **colour}),
        alt.StrokeDash("series:N", scale=alt.Scale(domain=names, range=dashes), legend=legend),
        alt.Shape("series:N", scale=alt.Scale(domain=names, range=shapes), legend=legend),
    )


def _legend_columns(names: Sequence[str], look: Style, width: float) -> int:
    """Four entries a line, or two, or one: as many as the figure is wide for."""
    for count in (4, 2):
        longest = [max((len(name) for name in names[i::count]), default=0) for i in range(count)]
        if sum(look.label_size * (0.47 * chars + 3.8) for chars in longest) <= 1.05 * width:
            return count
    return 1


def _column(panel: Panel, shared: Encodings, look: Style, note: str) -> alt.VConcatChart:
    """One model: ΔP above, share of flips below."""
    views = (_curves(panel, shared, look), _shares(panel, shared, look, note))
    return alt.VConcatChart(vconcat=views, spacing=10, resolve=_one_legend())


def _one_legend() -> alt.Resolve:
    """All panels share the scales that the legend explains."""
    return alt.Resolve(scale=dict.fromkeys(("color", "strokeDash", "shape"), "shared"))


def _curves(panel: Panel, shared: Encodings, look: Style) -> alt.LayerChart:
    """ΔP of one model: bands, lines, markers; an invisible layer carries tooltips and legend."""
    low, high = delta_range(panel.curves)
    ticks = delta_ticks(low, high)
    y = _y("delta_p", "ΔP", (low, high), ticks, look)
    x = _x(panel, "Layer")
    data = alt.Chart(pd.DataFrame(panel.curves)).encode(detail="series:N")
    size = look.marker_size
    layers: list[Any] = [_zero_line(x, y)]
    if panel.layers <= 30:
        layers.append(_minor_ticks(panel, x, look.panel_height))
    band = alt.Y("ci_low:Q", scale=alt.Scale(domain=[low, high], nice=False), title="ΔP")
    layers += [
        data.mark_area(opacity=look.band_opacity).encode(
            x, band, y2="ci_high:Q", color=shared.colour
        ),
        data.mark_line(strokeWidth=look.line_width).encode(
            x, y, color=shared.colour, strokeDash=shared.dash
        ),
        _markers(data, x, y, shared, size),
        data.mark_point(filled=True, opacity=0, size=3 * size).encode(
            x,
            y,
            color=shared.legend,
            strokeDash=shared.dash,
            shape=shared.shape,
            tooltip=_tooltips("anchor", "delta_p", "ci_low", "ci_high", "n", "share", "probe_auc"),
        ),
    ]
    if not any(row["delta_p"] is not None for row in panel.curves):
        layers.append(_empty_note("nothing to draw here", look, look.panel_height))
    heading = alt.TitleParams(
        panel.label, fontSize=look.panel_title_size, anchor="middle", frame="group"
    )
    return alt.LayerChart(
        layer=layers, width=look.panel_width, height=look.panel_height, title=heading
    )


def _shares(panel: Panel, shared: Encodings, look: Style, note: str) -> alt.LayerChart:
    """Share of flips of one model, in the colour of the data set's Q-Anchored line."""
    x, y = _x(panel, None), _y("share", "Flips (%)", (0, 100), (0, 50, 100), look)
    data = alt.Chart(pd.DataFrame(panel.shares)).encode(detail=["series:N", "condition:N"])
    exact = data.transform_filter("datum.condition === 'knockout'")
    chance = data.transform_filter("datum.condition === 'random'")
    width = 0.75 * look.line_width
    views: list[Any] = [
        chance.mark_line(strokeWidth=width, strokeDash=[1.5, 2.5], opacity=0.65).encode(
            x, y, color=shared.colour
        ),
        exact.mark_line(strokeWidth=width).encode(x, y, color=shared.colour),
        _markers(exact, x, y, shared, 0.5 * look.marker_size),
        data.mark_point(filled=True, opacity=0, size=3 * look.marker_size).encode(
            x, y, tooltip=_tooltips("condition", "share", "n")
        ),
    ]
    if not panel.shares:
        views.append(_empty_note("nothing measured", look, look.share_height))
    heading = alt.TitleParams(
        note,
        fontSize=0.88 * look.label_size,
        fontWeight="normal",
        anchor="start",
        frame="group",
        offset=4,
    )
    return alt.LayerChart(
        layer=views, width=look.panel_width, height=look.share_height, title=heading
    )


def _share_note(controls: bool) -> str:
    key = "solid: knockout, dotted: random tokens" if controls else "under knockout"
    return f"Share of flips ({key})"


def _markers(data: alt.Chart, x: alt.X, y: alt.Y, shared: Encodings, size: float) -> alt.Chart:
    points = data.transform_filter("datum.mark").mark_point(filled=True, opacity=1, size=size)
    return points.encode(x, y, color=shared.colour, shape=alt.Shape("marker:N", scale=None))


def _zero_line(x: alt.X, y: alt.Y) -> alt.Chart:
    line = alt.Chart(alt.Data(values=[{"delta_p": 0}]))
    return line.mark_rule(color="#777777", strokeWidth=0.8).encode(y)


def _minor_ticks(panel: Panel, x: alt.X, height: float) -> alt.Chart:
    """A small tick at every layer; Vega-Lite's axes have major ticks only."""
    layers = alt.Chart(alt.Data(values=[{"layer": k} for k in range(panel.layers)]))
    return layers.mark_rule(color="#777777", strokeWidth=0.7).encode(
        x, y=alt.value(height), y2=alt.value(height + 3)
    )


def _empty_note(text: str, look: Style, height: float) -> alt.Chart:
    nothing = alt.Chart(alt.Data(values=[{}]))
    return nothing.mark_text(text=text, color="#777777", fontSize=look.label_size).encode(
        x=alt.value(look.panel_width / 2), y=alt.value(height / 2)
    )


def _tooltips(*names: str) -> list[alt.Tooltip]:
    titles = {
        "anchor": ("anchor", ""),
        "condition": ("condition", ""),
        "delta_p": ("ΔP", ".1f"),
        "ci_low": ("interval from", ".1f"),
        "ci_high": ("interval to", ".1f"),
        "n": ("n", ",d"),
        "share": ("share (%)", ".1f"),
        "probe_auc": ("probe AUC", ".3f"),
    }
    tips = [alt.Tooltip("model:N", title="model"), alt.Tooltip("dataset:N", title="dataset")]
    tips.append(alt.Tooltip("layer:Q", title="layer", format="d"))
    for name in names:
        title, number = titles[name]
        tip = alt.Tooltip(f"{name}:Q", title=title, format=number)
        tips.append(tip if number else alt.Tooltip(f"{name}:N", title=title))
    return tips


def _caption(
    columns: Sequence[Panel], readout: tuple[str, str], grouping: str, level: float, controls: bool
) -> list[str]:
    """The sentences below the title: read-out, grouping, n, interval, and what is not drawn."""
    counts = [count for panel in columns for count in panel.samples]
    size = f"{min(counts, default=0):,}"
    if counts and max(counts) != min(counts):
        size += f" to {max(counts):,}"
    basics = (
        f"Read-out {'/'.join(readout)}; {GROUPINGS.get(grouping, grouping)}; "
        f"n\u00a0=\u00a0{size} samples a cell; "
        f"bands: pointwise {100 * level:g}\u00a0% bootstrap intervals, probes held fixed."
    )
    told = (
        (
            "No signal (clean probe AUC below 0.6 or within chance, grey)",
            [w for p in columns for w in p.weak],
        ),
        ("Not drawn, too few samples", [t for p in columns for t in p.thin]),
        ("Not measured", [m for p in columns for m in p.missing]),
    )
    return [basics] + [f"{what}: {_few(items)}." for what, items in told if items]


def _few(items: Sequence[str]) -> str:
    more = len(items) - NOTES_SHOWN
    shown = "; ".join(items[:NOTES_SHOWN])
    return f"{shown}; and {more} more" if more > 0 else shown


def _balanced(text: str, most: int) -> list[str]:
    """Lines of at most `most` characters and about equal length."""
    lines = textwrap.wrap(text, most)
    narrower = (textwrap.wrap(text, k) for k in range(len(text) // len(lines), most))
    return next((even for even in narrower if len(even) == len(lines)), lines)


def _title(text: str, caption: Sequence[str], look: Style, width: float) -> alt.TitleParams:
    wrap = look.wrap or max(30, int(width / (0.5 * look.caption_size)))
    lines = [line for part in caption for line in _balanced(part, wrap)]
    return alt.TitleParams(
        text,
        subtitle=lines,
        anchor="middle",
        fontSize=look.title_size,
        subtitleFontSize=look.caption_size,
        subtitleColor="#555555",
        subtitleLineHeight=1.3 * look.caption_size,
        subtitlePadding=5,
        offset=14,
    )


def _config(look: Style) -> dict[str, Any]:
    axis = {
        "labelFontSize": look.label_size,
        "titleFontSize": look.label_size,
        "titleFontWeight": "normal",
        "labelColor": INK,
        "titleColor": INK,
        "gridColor": FAINT,
        "domainColor": "#777777",
        "tickColor": "#777777",
        "labelFlush": False,
    }
    legend = {"labelFontSize": look.label_size, "labelColor": INK, "offset": 8}
    return {
        "font": look.font,
        "axis": axis,
        "legend": legend,
        "title": {"color": INK},
        "view": {"stroke": "#cccccc"},
    }


RUNTIME = "window.vegaEmbed = vegaEmbed;"
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data: blob:; \
script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ margin: 12px; background: white; font-family: Arial, Helvetica, sans-serif; }}
#figure {{ display: block; width: 100%; max-width: {most}px; margin: 0 auto; }}
#figure svg.marks {{ display: block; width: 100%; height: auto; }}
</style>
<script>{runtime}</script>
</head>
<body>
<div id="figure" role="figure" aria-label="{title}"></div>
<script>
const spec = {spec};
vegaEmbed("#figure", spec, {{
  renderer: "svg",
  actions: {{ export: true, source: false, compiled: false, editor: false }},
}}).catch((error) => {{ document.getElementById("figure").textContent = String(error); }});
</script>
</body>
</html>
"""


def save(figure: alt.TopLevelMixin, stem: str | Path) -> list[Path]:
    """Write the figure beside `stem` as .vl.json, .html, .svg, .pdf and .png; return the paths.

    The HTML holds its own copy of the Vega runtime and asks nothing of a network; the PNG has
    two pixels a CSS pixel. Each file appears whole or not at all. The same table and settings
    give the same bytes of the specification.

    Raises:
        AnchorscopeError: the chart cannot be drawn.
    """
    import vl_convert

    version = ".".join(alt.SCHEMA_VERSION.split(".")[:2]).removeprefix("v")
    spec = figure.to_dict()
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    try:
        svg = vl_convert.vegalite_to_svg(spec, vl_version=version)
    except ValueError as error:
        raise AnchorscopeError(f"cannot draw the figure: {error}", f"{stem}.vl.json") from error
    makers: dict[str, Callable[[], str | bytes]] = {
        ".vl.json": lambda: text,
        ".html": lambda: _page(spec, svg, vl_convert.javascript_bundle(RUNTIME, version)),
        ".svg": lambda: svg,
        ".pdf": lambda: vl_convert.svg_to_pdf(svg),
        ".png": lambda: vl_convert.svg_to_png(svg, scale=2),
    }
    return [_write(Path(f"{stem}{ending}"), make()) for ending, make in makers.items()]


def _write(path: Path, content: str | bytes) -> Path:
    raw = content.encode("utf-8") if isinstance(content, str) else content
    with atomic(path) as draft:
        draft.write_bytes(raw)
    return path


def _page(spec: Mapping[str, Any], svg: str, runtime: str) -> str:
    """The figure as one HTML file; labels can end neither the script nor an attribute."""
    safe = json.dumps(spec, sort_keys=True, ensure_ascii=True)
    for mark in "<>&":
        safe = safe.replace(mark, f"\\u{ord(mark):04x}")
    title = spec.get("title", "")
    title = str(title["text"] if isinstance(title, Mapping) else title)
    natural = float(svg.split('width="', 1)[1].split('"', 1)[0])
    return PAGE.format(
        title=html.escape(title, quote=True),
        most=math.ceil(1.5 * natural),
        runtime=runtime,
        spec=safe,
    )
