"""A figure drawn as SVG, and as wide as it is to be printed."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import altair as alt

from anchorscope.figures.figure_style import Figure, Style

PX_PER_MM = 96 / 25.4
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


def fit(draw: Callable[[Style], Figure], look: Style, width_mm: float) -> Figure:
    """The figure whose panels are as wide as its width asks for, to a pixel or so.

    Where they would be too narrow to read, fewer stand side by side.
    """
    panel, wanted = look.panel_width, width_mm * PX_PER_MM
    for _ in range(TRIES):
        figure = draw(replace(look, panel_width=panel))
        figure["usermeta"] = {**figure["usermeta"], "width_mm": width_mm}
        panels = _panels_width(figure)
        beside = size_of(as_svg(figure.to_dict(validate=False)))[0] - panels
        before, panel = panel, max(NARROWEST, round(panel * (wanted - beside) / panels))
        if panel < READABLE and look.columns > 1:
            return fit(draw, replace(look, columns=look.columns - 1), width_mm)
        if panel == before:
            break
    return figure


def _panels_width(figure: Figure) -> float:
    """How wide the panels are that stand side by side, together, in CSS pixels."""
    side_by_side = figure["concat"][: figure["columns"]]
    return float(sum(column["vconcat"][0]["width"] for column in side_by_side))
