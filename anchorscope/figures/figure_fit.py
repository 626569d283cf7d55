"""A figure drawn as SVG, and as wide as it is to be printed."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Protocol, Required, TypedDict, Unpack

import altair as alt
import pandas as pd

from anchorscope.config.settings import PAPER
from anchorscope.figures.figure_data import Pair, distinct
from anchorscope.figures.figure_style import Figure, Style, style_of

PX_PER_MM = 96 / 25.4
COLUMN_MM, PAGE_MM = 85, 180
TRIES, NARROWEST, READABLE = 3, 30, 150
# carries a page's tooltips: most of a picture's bytes, and nothing to see
INVISIBLE = re.compile(r'<path [^<>]* opacity="0"/>')
VERSION = ".".join(alt.SCHEMA_VERSION.split(".")[:2]).removeprefix("v")


def as_svg(spec: Mapping[str, Any]) -> str:
    """The picture of a specification, without marks that nobody sees.

    In millimetres where the specification asks for them. Raises ValueError: it cannot be drawn.
    """
    import vl_convert

    svg = INVISIBLE.sub("", vl_convert.vegalite_to_svg(dict(spec), vl_version=VERSION))
    printed = printed_width(spec)
    return _resized(svg, printed, "mm") if printed else svg


def as_pdf(svg: str, width_mm: float = 0) -> bytes:
    """The picture as PDF, fonts embedded, so wide; 0: a point for each of its pixels."""
    import vl_convert

    # the converter takes every unit for points
    return vl_convert.svg_to_pdf(_resized(svg, width_mm * 72 / 25.4, "") if width_mm else svg)


def printed_width(spec: Mapping[str, Any]) -> float:
    """The width in millimetres that a specification asks for; 0: none."""
    return float((spec.get("usermeta") or {}).get("width_mm", 0))


def size_of(svg: str) -> tuple[float, float]:
    """Width and height of an SVG picture, in CSS pixels."""
    width, height = re.findall(r'viewBox="0 0 (\S+) (\S+)"', svg)[0]
    return float(width), float(height)


def _resized(svg: str, wide: float, unit: str) -> str:
    """The same picture in another size; the view box keeps its pixels."""
    width, height = size_of(svg)
    size = f'width="{wide:.6g}{unit}" height="{wide * height / width:.6g}{unit}"'
    return re.sub(r'width="[^"]*" height="[^"]*"', size, svg, count=1)


@dataclass(frozen=True)
class Request:
    """What a figure shows, and how it looks."""

    title: str  # the figure's title
    panels: Sequence[Pair]  # (model key, label) in the order of the panels
    datasets: Sequence[Pair]  # (dataset key, label) in the order of the legend
    readout: Pair = ("mlp", "final")  # (site, position)
    grouping: str | None = None  # which grouping; None: `per_layer`, or the only one there is
    level: float = 0.95  # of the intervals in the tables, for the caption
    notes: Sequence[str] = ()  # sentences that end the details
    no_answers: str = ""  # the caption's words on responses that were left out
    look: Style = field(default_factory=Style)  # sizes and the like


class Keywords(TypedDict, total=False):
    """The same as the keywords of a chart function: `style` gives the look, see `style_of`."""

    title: Required[str]
    panels: Required[Sequence[Pair]]
    datasets: Required[Sequence[Pair]]
    readout: Pair
    grouping: str | None
    level: float
    notes: Sequence[str]
    no_answers: str
    style: Style | Mapping[str, object] | None


class Chart(Protocol):
    """A function that draws a figure of tables, and of what else comes before the keywords."""

    def __call__(self, *tables: pd.DataFrame | str, **keywords: Unpack[Keywords]) -> Figure:
        """The figure."""


def request_of(keywords: Keywords) -> Request:
    """What the keywords of a chart function ask for; equal labels are told apart."""
    return Request(
        title=keywords["title"],
        panels=distinct(keywords["panels"]),
        datasets=distinct(keywords["datasets"]),
        readout=keywords.get("readout", Request.readout),
        grouping=keywords.get("grouping"),
        level=keywords.get("level", Request.level),
        notes=keywords.get("notes", ()),
        no_answers=keywords.get("no_answers", ""),
        look=style_of(keywords.get("style")),
    )


def fitted(draw: Callable[..., Figure]) -> Chart:
    """Turn a function of tables and a `Request` into one of tables and `Keywords`.

    Its figures are `width_mm` wide where their style says so: panels take what axes and spaces
    leave, found by drawing; text is set at its own size, not scaled. Without a width of its own,
    `paper` is a column wide for one panel, else a page.
    """

    @wraps(draw)
    def chart(*tables: pd.DataFrame | str, **keywords: Unpack[Keywords]) -> Figure:
        request = request_of(keywords)
        look, width = request.look, request.look.width_mm
        if width is None and (look.theme, look.panel_width) == ("paper", PAPER["panel_width"]):
            width = COLUMN_MM if len(request.panels) == 1 else PAGE_MM
        if not width:
            return draw(*tables, request)
        return _fit(lambda look: draw(*tables, replace(request, look=look)), look, width)

    return chart


def _fit(draw: Callable[[Style], Figure], look: Style, width_mm: float) -> Figure:
    """The figure whose panels are as wide as its width asks for, to a pixel or so.

    Where they would be too narrow to read, fewer stand side by side.
    """
    panel, before = look.panel_width, (0, 0.0)
    for _ in range(TRIES):
        figure = draw(look.model_copy(update={"panel_width": panel}))
        figure["usermeta"] = {**figure["usermeta"], "width_mm": width_mm}
        width = size_of(as_svg(figure.to_dict()))[0]
        slope = max(1.0, (width - before[1]) / (panel - before[0]))
        more = round((width_mm * PX_PER_MM - width) / slope)
        panel, before = max(NARROWEST, panel + more), (panel, width)
        if panel < READABLE and look.columns > 1:
            return _fit(draw, look.model_copy(update={"columns": look.columns - 1}), width_mm)
        if panel == before[0]:
            break
    return figure
