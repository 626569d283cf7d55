"""The figure: ΔP by layer for each model, below it flips, and what follows another question.

Panels, axes, colours, line styles and the order of the legend follow the figures of
arXiv 2601.07422. Two rows are added: flips of the paired samples beside those under a random
knockout, so that no curve is shown without what flips by itself; and, where it was measured, the
share of Q-Anchored right answers that follow a matched question.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from anchorscope.figures import figure_data as data
from anchorscope.figures import figure_style as draw
from anchorscope.figures.figure_data import Pair, Row
from anchorscope.figures.figure_fit import (
    Asked,
    as_pdf,
    as_svg,
    asked_of,
    fitted,
    printed_width,
)
from anchorscope.figures.figure_page import Axis, Choice, page
from anchorscope.figures.figure_style import Figure, Style
from anchorscope.passes.interventions import ARMS, REGISTRY
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic

GROUPINGS = {
    "per_layer": "groups formed at each layer by its own flips",
    "reference_layer": "groups formed at one reference layer",
    "replicate": "groups formed by a second prompt for the same answer",
}
DELTA_TIPS = {
    "anchor": ("anchor", ""),
    "delta_p": ("ΔP", ".1f"),
    "ci_low": ("interval from", ".1f"),
    "ci_high": ("interval to", ".1f"),
    "n": ("n", ",d"),
    "share": ("share (%)", ".1f"),
    "probe_auc": ("probe AUC", ".3f"),
}
FLIP_TIPS = {
    "condition": ("condition", ""),
    "flips": ("flips (%)", ".1f"),
    "low": ("interval from", ".1f"),
    "high": ("interval to", ".1f"),
    "n": ("paired samples", ",d"),
}
FOLLOW_TIPS = FLIP_TIPS | {
    "flips": ("follow (%)", ".1f"),
    "n": ("pairs", ",d"),
    "of": ("Q-Anchored right answers", ",d"),
}
FOLLOWS = "Q-Anchored right answers that follow a matched question"
# conditions that few samples, or some alone, are measured under: offered after all others
LAST = [one.name for one in REGISTRY if one.partial]
# range and ticks of the panels of flips, in percent
SHARES: Axis = ((0, 100), [0, 50, 100])
CUTS = {one.name: f"ΔP when {one.when}" for one in REGISTRY}


@fitted
def chart(table: pd.DataFrame, asked: Asked) -> Figure:
    """The figure of one read-out: a column per model, ΔP above flips and what follows.

    Args:
        table: rows of `results/tables/<figure>.csv`. Points marked `thin` break the line; layers
            without `signal` are drawn hollow and grey; both are named in the caption.
        asked: given as the keywords of `Asked`, see `fitted`.

    Raises:
        AnchorscopeError: missing columns, or nothing measured at this read-out or grouping.
    """
    look, panels, datasets = asked.look, asked.panels, asked.datasets
    rows, grouping = data.select(table, asked.readout, asked.grouping)
    columns = [data.panel_of(rows, model, label, datasets) for model, label in panels]
    across = draw.columns_across(len(columns), look.columns)
    width = draw.width_of(across, look)
    shared = draw.encodings(draw.paper_series(datasets), look, width)
    notes = [flip_note(rows)]
    notes += [FOLLOWS] if any(panel.follows for panel in columns) else []
    views = [
        _column(
            panel, shared, look, [draw.row_heading(n, look, shown=i % across == 0) for n in notes]
        )
        for i, panel in enumerate(columns)
    ]
    caption = told(columns, f"Read-out {'/'.join(asked.readout)}", grouping, asked.level)
    return draw.figure_of(views, across, width, asked.title, caption, look)


def keywords(params: Any) -> Row:
    """What a chart function is given, from the parameters of a rule that draws one."""
    given: Row = {"style": params.chart, "level": params.level}
    for name in ("models", "datasets"):
        labels = params.label[name]
        given["panels" if name == "models" else name] = [
            (k, labels[k]) for k in getattr(params, name)
        ]
    if hasattr(params, "readout"):
        given["readout"] = tuple(params.readout.split("/"))
    if hasattr(params, "grouping"):
        given["grouping"] = params.grouping
    return given


def choices(table: pd.DataFrame, **keywords: Any) -> list[Choice]:
    """All that the figure's page can switch to: every read-out, control and grouping measured.

    The figure itself comes first, then what shares most with it; nothing measured at 64 samples
    stands before what was measured at all.

    Args: as of `chart`, whose figure this goes with.

    Raises:
        AnchorscopeError: as `chart` does.
    """
    asked = asked_of(**keywords)
    panels, datasets, readout = asked.panels, asked.datasets, asked.readout
    drawn, grouping = data.select(table, readout, asked.grouping)
    drawn = drawn[drawn["model"].isin([model for model, _ in panels])]
    follows = bool(drawn.loc[drawn["condition"] == "matched", "flip_share"].notna().any())
    keys = ["site", "position", "condition", "grouping"]
    first = (*readout, "knockout", grouping)
    own = f"{data.KEYS} {data.NUMBERS} inflation".split()
    table = table[[name for name in own if name in table]]
    known = table[table["condition"].isin(CUTS)]
    found = sorted(
        dict.fromkeys([first, *known[keys].itertuples(index=False, name=None)]),
        key=lambda one: (one != first, one[3] != grouping, one[2] in LAST, one[:2] != readout),
    )
    views = []
    for site, position, condition, grouped in found:
        rows = data.select(table, (site, position), grouped)[0]
        columns = [data.panel_of(rows, *model, datasets, condition) for model in panels]
        at = f"{site}/{position}"
        views.append(
            Choice(
                readout=at,
                condition=condition,
                grouping=grouped,
                title=asked.title if condition == "knockout" else CUTS[condition],
                caption=told(columns, f"Read-out {at}", grouped, asked.level, condition),
                note=flip_note(rows, condition),
                rows=[
                    part for c in columns for part in (c.curves, c.flips, c.follows)[: 2 + follows]
                ],
                axes=[a for c in columns for a in (_axis(c), SHARES, SHARES)[: 2 + follows]],
            )
        )
    return views


def _axis(panel: data.Panel) -> Axis:
    """Range and ticks of a panel's ΔP axis."""
    ends = delta_range(panel.curves)
    return ends, delta_ticks(*ends)


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


def delta_ticks(low: float, high: float) -> list[float]:
    """Every 20 percentage points from `low` to `high`."""
    return list(range(20 * math.ceil(low / 20), math.floor(high) + 1, 20))


def _column(
    panel: data.Panel, shared: draw.Encodings, look: Style, notes: Sequence[alt.TitleParams]
) -> alt.VConcatChart:
    """One model: ΔP above; below, under their headings, flips and, if noted, what follows."""
    y = draw.value_axis("delta_p", "ΔP", *_axis(panel), look)
    above = delta_view(panel, y, draw.layer_axis(panel.layers, "Layer"), shared, look)
    views = [above.properties(title=draw.panel_heading(panel.label, look))]
    below = (("Flips (%)", panel.flips, FLIP_TIPS), ("Follow (%)", panel.follows, FOLLOW_TIPS))
    for note, (title, rows, tips) in zip(notes, below, strict=False):
        share = draw.value_axis("flips", title, *SHARES, look)
        x = draw.layer_axis(panel.layers, None)
        views.append(flip_view(rows, share, x, shared, look, tips).properties(title=note))
    return alt.VConcatChart(vconcat=views, spacing=10, resolve=draw.one_legend())


def delta_view(
    panel: data.Panel, y: alt.Y, x: alt.X, shared: draw.Encodings, look: Style
) -> alt.LayerChart:
    """ΔP of one panel: bands, lines, markers; an invisible layer carries tooltips and legend."""
    base = alt.Chart(pd.DataFrame(panel.curves)).encode(detail=["series:N", "run:N"])
    layers: list[Any] = [draw.zero_rule(y, "delta_p")]
    if panel.layers <= 30:
        layers.append(draw.minor_ticks(panel.layers, x, look.panel_height))
    # no axis of its own: the line's has the title
    band = alt.Y("ci_low:Q", scale=y["scale"], title=y["axis"]["title"])
    tips = draw.tooltips(**DELTA_TIPS)
    layers += [
        base.mark_area(opacity=look.band_opacity).encode(
            x, band, y2="ci_high:Q", color=shared.colour
        ),
        base.mark_line(strokeWidth=look.line_width).encode(
            x, y, color=shared.colour, strokeDash=shared.dash
        ),
        draw.marker_layer(base, x, y, shared, look.marker_size),
        draw.key_layer(base, x, y, shared, look).encode(tooltip=tips),
    ]
    if not any(row["delta_p"] is not None for row in panel.curves):
        layers.append(
            draw.empty_note("nothing to draw here", look.panel_width, look.panel_height, look)
        )
    return alt.LayerChart(layer=layers, width=look.panel_width, height=look.panel_height)


def flip_view(
    rows: Sequence[Row],
    y: alt.Y,
    x: alt.X,
    shared: draw.Encodings,
    look: Style,
    tips: Mapping[str, Pair],
) -> alt.LayerChart:
    """Flips of one panel, in the colour of the dataset's Q-Anchored line; dotted: by `chance`."""
    base = alt.Chart(pd.DataFrame(list(rows))).encode(detail=["series:N", "condition:N", "run:N"])
    exact = base.transform_filter("!datum.chance")
    chance = base.transform_filter("datum.chance")
    band = alt.Y("low:Q", scale=y["scale"], title=y["axis"]["title"])
    width = 0.75 * look.line_width
    views: list[Any] = [
        base.mark_area(opacity=look.band_opacity).encode(x, band, y2="high:Q", color=shared.colour),
        chance.mark_line(strokeWidth=width, strokeDash=draw.DOTTED, opacity=0.65).encode(
            x, y, color=shared.colour
        ),
        exact.mark_line(strokeWidth=width).encode(x, y, color=shared.colour),
        draw.marker_layer(chance, x, y, shared, 0.5 * look.marker_size, hollow=True),
        draw.marker_layer(exact, x, y, shared, 0.5 * look.marker_size),
        base.transform_filter("!datum.edge")
        .mark_point(filled=True, opacity=0, size=3 * look.marker_size)
        .encode(x, y, tooltip=draw.tooltips(**tips)),
    ]
    if not rows:
        views.append(draw.empty_note("nothing measured", look.panel_width, look.share_height, look))
    return alt.LayerChart(layer=views, width=look.panel_width, height=look.share_height)


def flip_note(rows: pd.DataFrame, condition: str = "knockout") -> str:
    """What the lines of the flips' panels are, of the conditions in a table's rows."""
    names = {"random": "random tokens", "question": "whole question"}
    name, beside = names.get(condition, condition), data.control_of(condition)
    if beside == condition or beside not in set(rows["condition"]):
        return f"Flips among paired samples ({name})"
    return f"Flips among paired samples (dotted: {names.get(beside, beside)})"


def told(
    columns: Sequence[data.Panel],
    subject: str,
    grouping: str,
    level: float,
    condition: str = "knockout",
) -> list[str]:
    """The caption: read-out, grouping, n and interval; what follows; what is grey or missing.

    Args:
        columns: what is drawn.
        subject: what begins the caption, as `Read-out mlp/final`.
        grouping, level, condition: of what is drawn.
    """
    groups = GROUPINGS.get(grouping, grouping)
    if condition in ARMS:
        groups = (
            "groups formed by the knockout's flips, of samples with a counted pair; lower row: "
            "right answers"
        )
    cells = {name: cell for panel in columns for name, cell in panel.cells.items()}
    count = data.size_note([data.sample_size(cell, condition) for cell in cells.values()])
    paired = [count for panel in columns for count in panel.paired]
    lower = f", lower row: {data.size_note(paired)} paired samples" if paired else ""
    refitted = any("inflation" not in c or (c["inflation"] > 1).any() for c in cells.values())
    basics = (
        f"{subject}; {groups}; {count} samples a cell{lower}; "
        f"bands: pointwise {100 * level:g}\u00a0% {data.BANDS if refitted else data.AUC_BANDS}."
    )
    thin = [name for panel in columns for name in panel.thin]
    return [
        basics,
        *_followed(columns),
        *data.unseen_note(cells),
        *([f"Not drawn, too few samples: {data.few(thin)}."] if thin else []),
        *data.missing_note([name for panel in columns for name in panel.missing]),
    ]


def _followed(columns: Sequence[data.Panel]) -> list[str]:
    """What the row of following answers shows, and of how many."""
    if not any(panel.follows for panel in columns):
        return []
    said = (
        "Lowest row: the same answer behind a matched question, for which it is wrong "
        "(dotted: behind a placebo, for which it stays right)"
    )
    covered = [pair for panel in columns for pair in panel.covered]
    if not covered:
        return [f"{said}."]
    pairs = data.size_note([n for n, _ in covered])
    shares = [round(100 * n / of) for n, of in covered if of]
    percent = data.sample_count(shares)
    return [
        f"{said}; headline layer: {pairs} pairs, {percent}\u00a0% of the Q-Anchored right answers."
    ]


def save(figure: alt.TopLevelMixin, stem: str | Path, views: Sequence[Choice] = ()) -> list[Path]:
    """Write the figure beside `stem` as .vl.json, .html, .svg, .pdf and .png; return the paths.

    `views` is what a reader of the HTML can switch to, see `choices`.

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
        ".html": lambda: page(spec, svg, Path(stem).name, views),
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
