"""From a rule's parameters to a chart function, and from its chart to the files of a figure."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt

from anchorscope.figures.figure_fit import as_pdf, as_svg, printed_width
from anchorscope.figures.figure_page import Choice, page
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic


def keywords(params: Any, title: str) -> dict[str, Any]:
    """What a chart function is given, from the parameters of a rule that draws one.

    `title` is the figure's where the config names none.
    """
    site, position = (params.get("readout") or "mlp/final").split("/")
    return {
        "title": params.get("title") or title,
        "style": params.chart,
        "level": params.level,
        "panels": [(key, params.label["models"][key]) for key in params.models],
        "datasets": [(key, params.label["datasets"][key]) for key in params.datasets],
        "readout": (site, position),
    }


def narrowed(request: Mapping[str, Any]) -> dict[str, Any]:
    """The same request for a narrow page: at most two small panels, or one, stand side by side."""
    style = {**request["style"], "columns": 1, "theme": "screen", "width": None}
    return {**request, "style": style}


def save(
    figure: alt.TopLevelMixin,
    stem: str | Path,
    choices: Sequence[Choice] = (),
    narrow: alt.TopLevelMixin | None = None,
) -> list[Path]:
    """Write the figure beside `stem` as .vl.json, .html, .svg, .pdf and .png; return the paths.

    `choices` is what a reader of the HTML can switch to, see the function; `narrow` what a window
    that is too narrow for the figure shows in its place, of the same rows. The HTML holds its own
    copy of the Vega runtime and asks nothing of a network; the PNG has two pixels a CSS pixel, for
    print 300 to an inch. Each file appears whole or not at all. The same table and settings give
    the same bytes of the specification.
    Raises AnchorscopeError: the chart cannot be drawn.
    """
    import vl_convert

    spec = figure.to_dict()
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    try:
        svg = as_svg(spec)
    except ValueError as error:
        what = f"cannot draw the figure: {error}"
        raise AnchorscopeError(what, f"{stem}.vl.json", see="drawing") from error
    printed = printed_width(spec)
    contents = {
        ".vl.json": text.encode(),
        ".html": page(
            spec, svg, Path(stem).name, choices, narrow.to_dict() if narrow else None
        ).encode(),
        ".svg": svg.encode(),
        ".pdf": as_pdf(svg, printed),
        ".png": vl_convert.svg_to_png(svg, scale=300 / 96 if printed else 2),
    }
    for ending, content in contents.items():
        with atomic(f"{stem}{ending}") as draft:
            draft.write_bytes(content)
    return [Path(f"{stem}{ending}") for ending in contents]
