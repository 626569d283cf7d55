"""The figure: ΔP by layer for each model, and below it the share of flips; drawn from the table.

Panels, axes, colours, line styles and the order of the legend follow the figures of
arXiv 2601.07422; the share of flips under a random knockout is added, so that no curve is shown
without what flips by itself.
"""

import html
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from anchorscope.errors import AnchorscopeError
from anchorscope.figure_data import Panel, distinct, panel_of, select
from anchorscope.figure_fit import VERSION, as_pdf, as_svg, fitted, printed_width, size_of
from anchorscope.figure_style import (
    DOTTED,
    UNSEEN,
    Encodings,
    Figure,
    Style,
    columns_across,
    empty_note,
    encodings,
    few,
    figure_of,
    key_layer,
    layer_axis,
    marker_layer,
    minor_ticks,
    one_legend,
    panel_heading,
    paper_series,
    row_heading,
    rule_at,
    sample_count,
    style_of,
    tooltips,
    value_axis,
)
from anchorscope.files import atomic

GROUPINGS = {
    "per_layer": "groups formed at each layer by its own flips",
    "reference_layer": "groups formed at one reference layer",
    "replicate": "groups formed by a second prompt for the same answer",
}
NOTHING = "nothing to draw here"
NUMBERS = {
    "n": ("n", ",d"),
    "share": ("share (%)", ".1f"),
}
DELTA_TIPS = {
    "anchor": ("anchor", ""),
    "delta_p": ("ΔP", ".1f"),
    "ci_low": ("interval from", ".1f"),
    "ci_high": ("interval to", ".1f"),
    **NUMBERS,
    "probe_auc": ("probe AUC", ".3f"),
}
SHARE_TIPS = {"condition": ("condition", ""), **NUMBERS}


@fitted
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
) -> Figure:
    """The figure of one read-out: a column per model, ΔP above the share of flips.

    Args:
        table: rows of `results/tables/<figure>.csv`. Points marked `thin` break the line; cells
            without `signal` are drawn grey; both are named in the caption.
        title: the figure's title.
        panels: (model key, label) in the order of the panels.
        datasets: (dataset key, label) in the order of the legend.
        readout: (site, position).
        style: see `anchorscope.figure_style.style_of`.
        grouping: which grouping; by default `per_layer`, or the only one there is.
        level: level of the intervals in the table, for the caption.

    Raises:
        AnchorscopeError: missing columns, or nothing measured at this read-out or grouping.
    """
    look = style_of(style)
    panels, datasets = distinct(panels), distinct(datasets)
    rows, grouping = select(table, readout, grouping)
    columns = [panel_of(rows, model, label, datasets) for model, label in panels]
    across = columns_across(len(columns), look.columns)
    width = across * (look.panel_width + look.spacing + 40)
    shared = encodings(paper_series(datasets), look, width)
    note = share_note("random" in set(rows["condition"]))
    views = [
        _column(panel, shared, look, row_heading(note, look, shown=i % across == 0))
        for i, panel in enumerate(columns)
    ]
    caption = [basics(columns, f"Read-out {'/'.join(readout)}", grouping, level)]
    caption += untold(columns)
    return figure_of(views, across, title=title, caption=caption, look=look, width=width)


def delta_range(curves: Iterable[Mapping[str, Any]]) -> tuple[float, float]:
    """Range of a panel's ΔP axis: holds every line and band; 0 is near its top, never cut.

    It does not end at a tick: a label that sticks out above would lift the panel's title out of
    line with its neighbours'.
    """
    ends = [row[k] for row in curves for k in ("delta_p", "ci_low", "ci_high")]
    seen = [value for value in ends if value is not None]
    low = 20 * math.floor(min(seen, default=-20) / 20)
    high = 5 * math.ceil(max(seen, default=0) / 5)
    return min(-20, low), max(5, high + (5 if high % 20 == 0 else 0))


def delta_ticks(low: float, high: float) -> list[int]:
    """Every 20 percentage points from `low` to `high`."""
    return list(range(20 * math.ceil(low / 20), math.floor(high) + 1, 20))


def _column(
    panel: Panel, shared: Encodings, look: Style, note: alt.TitleParams
) -> alt.VConcatChart:
    """One model: ΔP above, share of flips below."""
    low, high = delta_range(panel.curves)
    y = value_axis("delta_p", "ΔP", (low, high), delta_ticks(low, high), look)
    above = delta_view(panel, y, layer_axis(panel.layers, "Layer"), shared, look)
    below = value_axis("share", "Flips (%)", (0, 100), (0, 50, 100), look)
    shares = share_view(panel, below, layer_axis(panel.layers, None), shared, look)
    views = (
        above.properties(title=panel_heading(panel.label, look)),
        shares.properties(title=note),
    )
    return alt.VConcatChart(vconcat=views, spacing=10, resolve=one_legend())


def delta_view(panel: Panel, y: alt.Y, x: alt.X, shared: Encodings, look: Style) -> alt.LayerChart:
    """ΔP of one panel: bands, lines, markers; an invisible layer carries tooltips and legend."""
    data = alt.Chart(pd.DataFrame(panel.curves)).encode(detail="series:N")
    layers: list[Any] = [rule_at(y, "delta_p")]
    if panel.layers <= 30:
        layers.append(minor_ticks(panel.layers, x, look.panel_height))
    # no axis of its own: the line's has the title
    band = alt.Y("ci_low:Q", scale=y["scale"], title=y["axis"]["title"])
    tips = tooltips(**DELTA_TIPS)
    layers += [
        data.mark_area(opacity=look.band_opacity).encode(
            x, band, y2="ci_high:Q", color=shared.colour
        ),
        data.mark_line(strokeWidth=look.line_width).encode(
            x, y, color=shared.colour, strokeDash=shared.dash
        ),
        marker_layer(data, x, y, shared, look.marker_size),
        key_layer(data, x, y, shared, look).encode(tooltip=tips),
    ]
    if not any(row["delta_p"] is not None for row in panel.curves):
        layers.append(empty_note(NOTHING, look, look.panel_width, look.panel_height))
    return alt.LayerChart(layer=layers, width=look.panel_width, height=look.panel_height)


def share_view(panel: Panel, y: alt.Y, x: alt.X, shared: Encodings, look: Style) -> alt.LayerChart:
    """Share of flips of one panel, in the colour of the dataset's Q-Anchored line."""
    data = alt.Chart(pd.DataFrame(panel.shares)).encode(detail=["series:N", "condition:N"])
    exact = data.transform_filter("datum.condition === 'knockout'")
    chance = data.transform_filter("datum.condition === 'random'")
    width = 0.75 * look.line_width
    views: list[Any] = [
        chance.mark_line(strokeWidth=width, strokeDash=DOTTED, opacity=0.65).encode(
            x, y, color=shared.colour
        ),
        exact.mark_line(strokeWidth=width).encode(x, y, color=shared.colour),
        marker_layer(exact, x, y, shared, 0.5 * look.marker_size),
        data.mark_point(filled=True, opacity=0, size=3 * look.marker_size).encode(
            x, y, tooltip=tooltips(**SHARE_TIPS)
        ),
    ]
    if not panel.shares:
        views.append(empty_note("nothing measured", look, look.panel_width, look.share_height))
    return alt.LayerChart(layer=views, width=look.panel_width, height=look.share_height)


def share_note(controls: bool) -> str:
    """What the lines of the flips' panels are."""
    key = "solid: knockout, dotted: random tokens" if controls else "under knockout"
    return f"Share of flips ({key})"


def basics(columns: Sequence[Panel], readout: str, grouping: str, level: float) -> str:
    """The caption's first sentence: read-out, grouping, n and interval."""
    counts = [count for panel in columns for count in panel.samples]
    return (
        f"{readout}; {GROUPINGS.get(grouping, grouping)}; "
        f"n\u00a0=\u00a0{sample_count(counts)} samples a cell; "
        f"bands: pointwise {100 * level:g}\u00a0% bootstrap intervals, probes held fixed."
    )


def untold(columns: Sequence[Panel]) -> list[str]:
    """The caption's further sentences: what is grey, and what is not drawn."""
    told = (
        (f"{UNSEEN}, grey", [w for p in columns for w in p.weak]),
        ("Not drawn, too few samples", [t for p in columns for t in p.thin]),
        ("Not measured", [m for p in columns for m in p.missing]),
    )
    return [f"{what}: {few(items)}." for what, items in told if items]


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
    two pixels a CSS pixel, for print 300 to an inch. Each file appears whole or not at all. The
    same table and settings give the same bytes of the specification.

    Raises:
        AnchorscopeError: the chart cannot be drawn.
    """
    import vl_convert

    spec = figure.to_dict()
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    try:
        svg = as_svg(spec)
    except ValueError as error:
        raise AnchorscopeError(
            f"cannot draw the figure: {error}", f"{stem}.vl.json", see="drawing"
        ) from error
    makers: dict[str, Callable[[], str | bytes]] = {
        ".vl.json": lambda: text,
        ".html": lambda: _page(spec, svg, vl_convert.javascript_bundle(RUNTIME, VERSION)),
        ".svg": lambda: svg,
        ".pdf": lambda: as_pdf(svg, printed_width(spec)),
        ".png": lambda: vl_convert.svg_to_png(svg, scale=300 / 96 if printed_width(spec) else 2),
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
    natural, _ = size_of(svg)
    return PAGE.format(
        title=html.escape(title, quote=True),
        most=math.ceil(1.5 * natural),
        runtime=runtime,
        spec=safe,
    )
