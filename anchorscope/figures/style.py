"""Style of all figures: sizes, colours, axes, markers, legend, title and caption."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import altair as alt
from pydantic import ValidationError

from anchorscope.config.settings import ChartSettings
from anchorscope.storage.errors import AnchorscopeError

ANCHORS = ("Q", "A")
LAYER = {"layer": ("layer", "d")}
"""Tooltip field of the layer."""
INTERVAL = {"low": ("from", ".3~r"), "high": ("to", ".3~r"), "n": ("n", ",d")}
"""Tooltip fields of an interval: its ends, and the number of samples."""
# Okabe and Ito's colours, which colour-blind readers can tell apart
BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072b2 #e69f00 #009e73 #cc79a7 #56b4e9".split()
RED = "#d55e00"

# two colours per dataset: category10 for datasets 1 to 5, six of category20b for datasets 6 to 8
CATEGORY10 = "1f77b4 ff7f0e 2ca02c d62728 9467bd 8c564b e377c2 7f7f7f bcbd22 17becf"
FURTHER = "393b79 e7969c 637939 e7ba52 843c39 7b4173"
COLOURS = [f"#{code}" for code in f"{CATEGORY10} {FURTHER}".split()]
DASHES: dict[str, list[float]] = {"Q": [1, 0], "A": [6, 4]}
DOTTED = [1.5, 2.5]
CROSS = "M-1,-1L1,1M-1,1L1,-1"
# a legend entry's dash pattern also leaves gaps in the outline of its marker, so the outline is
# drawn so many times that later rounds fill the gaps of the first
ROUNDS = 11
CORNERS = {
    "square": "-0.25,-0.25 0.25,-0.25 0.25,0.25 -0.25,0.25",
    "triangle-up": "0,-0.25 0.25,0.25 -0.25,0.25",
    "diamond": "0,-0.25 0.25,0 0,0.25 -0.25,0",
    "cross": "-0.083,-0.25 0.083,-0.25 0.083,-0.083 0.25,-0.083 0.25,0.083 0.083,0.083 "
    "0.083,0.25 -0.083,0.25 -0.083,0.083 -0.25,0.083 -0.25,-0.083 -0.083,-0.083",
    "triangle-down": "0,0.25 -0.25,-0.25 0.25,-0.25",
    "triangle-right": "0.25,0 -0.25,0.25 -0.25,-0.25",
    "triangle-left": "-0.25,0 0.25,-0.25 0.25,0.25",
}
# Vega's name of a marker → its outline around (0, 0), an SVG path
MARKERS = {"circle": "M-0.25,0" + "A0.25,0.25,0,1,1,0.25,0A0.25,0.25,0,1,1,-0.25,0" * ROUNDS + "Z"}
MARKERS |= {name: f"M{'L'.join(path.split() * ROUNDS)}Z" for name, path in CORNERS.items()}

UNPREDICTED = "#bdbdbd"
THIN = 0.5
"""Width of lines whose probe does not predict, relative to the style's line width."""
Chart = alt.ConcatChart
INK, FAINT, SOFT = "#222222", "#e4e4e4", "#777777"


@dataclass(frozen=True)
class Style:
    """The look of a figure: the config's `chart`, and sizes in CSS pixels."""

    chart: ChartSettings = field(default_factory=ChartSettings)
    columns: int = 3  # most panels in a row
    panel_width: int = 340
    panel_height: int = 160  # of ΔP
    share_height: int = 150  # of a panel below ΔP
    spacing: int = 26  # between panels
    title_size: float = 15
    panel_title_size: float = 14
    label_size: float = 12
    caption_size: float = 11.5
    line_width: float = 2
    marker_size: float = 34  # the area


PAPER: dict[str, Any] = {
    "columns": 2, "panel_width": 236, "panel_height": 112, "share_height": 106, "spacing": 18,
    "title_size": 12, "panel_title_size": 11.5, "label_size": 10, "caption_size": 9,
    "line_width": 1.4, "marker_size": 22,
}  # fmt: skip
"""Sizes of the theme `paper` that differ from the defaults."""


def style_of(settings: Style | Mapping[str, object] | None = None) -> Style:
    """Return the style for settings of the config's section `chart`. Return a `Style` unchanged.

    Raises:
        AnchorscopeError: `chart` has no such key, or does not take such a value.
    """
    if isinstance(settings, Style):
        return settings
    try:
        chart = ChartSettings.model_validate(settings or {})
    except ValidationError as error:
        wrong = [f"{one['loc'][0]}: {one['input']} ({one['msg']})" for one in error.errors()]
        do = f"correct them; the keys are {', '.join(ChartSettings.model_fields)}"
        what = f"wrong settings of the chart: {'; '.join(wrong)}"
        raise AnchorscopeError(what, "chart", do, see="config") from error
    style = Style(chart, **(PAPER if chart.theme == "paper" else {}))
    return replace(style, columns=chart.columns or style.columns)


def columns_across(count: int, most: int) -> int:
    """Return how many panels to put in a row, at most `most`, to make rows as even as possible."""
    return math.ceil(count / math.ceil(count / max(1, most))) if count else 1


@dataclass(frozen=True)
class Series:
    """An entry of the legend: a line, a marker, or a line with a marker."""

    name: str
    colour: str
    dash: Sequence[float]
    marker: str | None
    line: bool = True

    @property
    def symbol(self) -> str:
        """Symbol in the legend, as an SVG path."""
        return ("M-1,0L1,0" if self.line else "") + MARKERS.get(self.marker or "", "")


NOT_PREDICTING = Series("the probe does not predict", UNPREDICTED, [1, 0], None)
"""Entry of the legend for lines whose probe does not predict, whatever their series."""
# legend entries of the terms that a probe reads, in every picture of swapped answers
TERMS = {
    "question": Series("question", ORANGE, [1, 0], "square", line=False),
    "answer": Series("answer", SKY, [1, 0], "square", line=False),
    "pair": Series("pair", BLUE, [1, 0], "square", line=False),
}


def paper_series(datasets: Sequence[tuple[str, str]]) -> list[Series]:
    """Return the Q- and A-Anchored series of each dataset, in the paper's order and colours."""
    series = []
    for k, ((i, (_, label)), anchor) in enumerate(product(enumerate(datasets), ANCHORS)):
        name, colour = f"{anchor}-Anchored ({label})", COLOURS[k % len(COLOURS)]
        series.append(Series(name, colour, DASHES[anchor], marker_of(i)))
    return series


def dataset_series(datasets: Sequence[tuple[str, str]]) -> list[Series]:
    """Return a series for each dataset, in the colour of its Q-Anchored series."""
    return [
        Series(label, COLOURS[2 * i % len(COLOURS)], [1, 0], marker_of(i))
        for i, (_, label) in enumerate(datasets)
    ]


def marker_of(i: int) -> str:
    """Return the marker of the `i`-th dataset."""
    return list(MARKERS)[i % len(MARKERS)]


@dataclass(frozen=True)
class Encodings:
    """Channels that all panels share, so that there is one legend."""

    colour: alt.Color
    stroke: alt.Stroke
    grey_unless_predicting: alt.ColorValue
    fill: alt.FillValue
    dash: alt.StrokeDash
    legend: Mapping[str, Any]  # all channels that the legend explains, by name


def encodings(series: Sequence[Series], look: Style, width: float) -> Encodings:
    """Return the channels of colour, dashes and markers, by the column `series`."""
    names = [one.name for one in series]
    legend = alt.Legend(
        title=None,
        orient="bottom",
        direction="horizontal",
        columns=_legend_columns(names, look, width),
        symbolSize=64 * look.label_size,
        symbolOpacity=1,
        labelLimit=0,
        rowPadding=-0.6 * look.label_size,
        # widths are computed with this machine's font; the font of a reader may be wider
        columnPadding=2.2 * look.label_size,
    ).to_dict()

    def channel(values: list[Any], **more: Any) -> dict[str, Any]:
        scale = {"domain": names, "range": values, **more}
        return {"field": "series", "type": "nominal", "scale": scale, "legend": legend}

    colours = channel([one.colour for one in series])
    widths = [look.line_width * (THIN if one == NOT_PREDICTING else 0.9) for one in series]
    colour, dash = alt.Color(**colours), alt.StrokeDash(**channel([[*one.dash] for one in series]))
    predicting = {"test": "datum.predicts", **colours}
    return Encodings(
        colour=colour,
        stroke=alt.Stroke(**colours),
        grey_unless_predicting=alt.ColorValue(UNPREDICTED, condition=predicting),
        fill=alt.FillValue("white", condition=predicting),
        dash=dash,
        legend={
            "color": colour,
            "strokeDash": dash,
            # without a type Vega interpolates between widths
            "strokeWidth": alt.StrokeWidth(**channel(widths, type="ordinal"), sort=names),
            "shape": alt.Shape(**channel([one.symbol for one in series])),
        },
    )


def _legend_columns(names: Sequence[str], look: Style, width: float) -> int:
    """Return how many entries fit on a line of the legend: 4, 2 or 1."""
    for count in (4, 2):
        longest = [max(map(len, names[i::count]), default=0) for i in range(count)]
        if look.label_size * sum(0.47 * chars + 4.8 for chars in longest) <= width:
            return count
    return 1


def one_legend() -> alt.Resolve:
    """Let all panels share the scales that the legend explains."""
    return alt.Resolve(
        scale=dict.fromkeys(("color", "strokeDash", "strokeWidth", "shape"), "shared")
    )


def panel_heading(text: str, look: Style, below: str = "", gap: float = 4) -> alt.TitleParams:
    """Return the title of a panel, with a smaller line below it. Wrap long text."""
    size, small = look.panel_title_size, 0.88 * look.label_size
    return alt.TitleParams(
        wrapped(text, look.panel_width, 0.56 * size),
        fontSize=size,
        anchor="middle",
        frame="group",
        subtitle=wrapped(below, look.panel_width, 0.5 * small) if below else alt.Undefined,
        subtitleFontSize=small if below else alt.Undefined,
        subtitleColor=SOFT if below else alt.Undefined,
        offset=gap,
    )


def wrapped(text: str, width: float, character: float) -> str | list[str]:
    """Wrap a text that is wider than `width`, given the width of a character."""
    lines = balanced(text, max(12, int(width / character)))
    return lines if len(lines) > 1 else text


def balanced(text: str, most: int) -> list[str]:
    """Break a text into lines of about equal length, each of at most `most` characters."""
    lines = textwrap.wrap(text, most)
    if len(lines) < 2:
        return [text]
    narrower = (textwrap.wrap(text, k) for k in range(len(text) // len(lines), most))
    return next((even for even in narrower if len(even) == len(lines)), lines)


def row_lines(text: str, look: Style, *, visible: bool) -> list[str]:
    """Wrap a row's heading to a panel's width and spacing. If not `visible`, blank its lines."""
    width = look.panel_width + look.spacing
    lines = balanced(text, max(12, int(width / (0.5 * 0.88 * look.label_size))))
    return lines if visible else [" "] * len(lines)


def row_heading(lines: Sequence[str], look: Style) -> alt.TitleParams:
    """Return the heading of a row of panels."""
    return alt.TitleParams(
        list(lines),
        fontSize=0.88 * look.label_size,
        fontWeight="normal",
        anchor="start",
        frame="group",
        offset=4,
    )


def row_text(lines: Sequence[str], look: Style) -> alt.Chart:
    """Return the heading of a row as a chart layer, for a panel whose title names its column."""
    size = 0.88 * look.label_size
    words = alt.Chart(alt.Data(values=[{}])).mark_text(
        text=list(lines),
        align="left",
        baseline="bottom",
        fontSize=size,
        lineHeight=1.25 * size,
        color=INK,
    )
    first_line = -4 - 1.25 * size * (len(lines) - 1)
    return words.encode(alt.XValue(0), alt.YValue(first_line))


def tooltips(fields: Mapping[str, tuple[str, str]]) -> list[alt.Tooltip]:
    """Return tooltips for `fields`: column → (title, number format). Text has the format ""."""
    every = {"model": ("model", ""), "dataset": ("dataset", ""), **fields}
    return [
        # texts get an empty format: without it, Vega-Lite 6.4 looks for the text in the wrong place
        alt.Tooltip(f"{name}:{'Q' if number else 'N'}", title=title, format=number)
        for name, (title, number) in every.items()
    ]


def title_of(text: str, caption: Sequence[str], look: Style, width: float) -> alt.TitleParams:
    """Return the wrapped title with the lines of the caption below it."""
    return alt.TitleParams(
        wrapped(text, width, 0.6 * look.title_size),
        fontSize=look.title_size,
        anchor="middle",
        offset=14,
        subtitle=list(caption),
        subtitleFontSize=look.caption_size,
        subtitleColor="#555555",
        subtitleLineHeight=1.3 * look.caption_size,
        subtitlePadding=5,
    )


def caption_characters(look: Style, width: float) -> int:
    """Return how many characters fit on a line of the caption; `width` is in CSS pixels."""
    return max(30, int(width / (0.5 * look.caption_size)))


def config_of(look: Style) -> dict[str, Any]:
    """Return the `config` of a Vega-Lite specification."""
    size = {"labelFontSize": look.label_size, "labelColor": INK}
    axis = size | {"titleFontSize": look.label_size, "titleFontWeight": "normal"}
    axis |= {"titleColor": INK, "gridColor": FAINT, "labelFlush": False}
    centred = {"layout": {"expr": "{bottom: {anchor: 'middle'}}"}}
    return {
        "font": look.chart.font,
        "axis": axis | {"domainColor": SOFT, "tickColor": SOFT},
        "legend": size | {"offset": 8} | centred,
        "title": {"color": INK},
        "view": {"stroke": "#cccccc"},
    }
