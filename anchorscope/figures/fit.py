"""Draw a figure as SVG or PDF, at its printed width."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import altair as alt

from anchorscope.figures.style import Chart, Style

PX_PER_MM = 96 / 25.4
NARROWEST, READABLE = 30, 150  # widths of a panel in CSS pixels
# invisible marks, which carry the tooltips of the HTML page and are most of an SVG's bytes
INVISIBLE = re.compile(r'<path [^<>]* opacity="0"/>')
VERSION = ".".join(alt.SCHEMA_VERSION.split(".")[:2]).removeprefix("v")


def as_svg(spec: Mapping[str, Any]) -> str:
    """Draw a specification as SVG, without its invisible marks.

    The size is in millimetres if the specification has a printed width.

    Raises:
        ValueError: The specification cannot be drawn.
    """
    import vl_convert

    svg = INVISIBLE.sub("", vl_convert.vegalite_to_svg(dict(spec), vl_version=VERSION))
    printed = printed_width(spec)
    return _resized(svg, printed, "mm") if printed else svg


def as_pdf(svg: str, width_mm: float = 0) -> bytes:
    """Convert SVG to PDF with embedded fonts; `width_mm` 0 gives one point per pixel."""
    import vl_convert

    # the converter reads every unit as points
    return vl_convert.svg_to_pdf(_resized(svg, width_mm * 72 / 25.4, "") if width_mm else svg)


def printed_width(spec: Mapping[str, Any]) -> float:
    """Return the printed width of a specification in millimetres, or 0 if it has none."""
    return float((spec.get("usermeta") or {}).get("width_mm", 0))


def size_of(svg: str) -> tuple[float, float]:
    """Return width and height of an SVG picture, in CSS pixels."""
    width, height = re.findall(r'viewBox="0 0 (\S+) (\S+)"', svg)[0]
    return float(width), float(height)


def _resized(svg: str, wide: float, unit: str) -> str:
    """Resize an SVG picture to a width in `unit`, without changing its view box."""
    width, height = size_of(svg)
    size = f'width="{wide:.6g}{unit}" height="{wide * height / width:.6g}{unit}"'
    return re.sub(r'width="[^"]*" height="[^"]*"', size, svg, count=1)


def fit(draw: Callable[[Style], Chart], look: Style, width_mm: float) -> Chart:
    """Draw a figure whose panels fill the printed width, to about a pixel.

    If panels would be too narrow to read, put fewer of them side by side.
    """
    panel, wanted = look.panel_width, width_mm * PX_PER_MM
    # the legend may be wider than the panels at first, so the space beside them is measured twice
    for _ in range(2):
        tried = draw(replace(look, panel_width=panel))
        side_by_side = tried["concat"][: tried["columns"]]
        panels = sum(column["vconcat"][0]["width"] for column in side_by_side)
        beside = size_of(as_svg(tried.to_dict(validate=False)))[0] - panels
        panel = max(NARROWEST, round(panel * (wanted - beside) / panels))
    if panel < READABLE and look.columns > 1:
        return fit(draw, replace(look, columns=look.columns - 1), width_mm)
    figure = draw(replace(look, panel_width=panel))
    figure["usermeta"] = {**figure["usermeta"], "width_mm": width_mm}
    return figure
