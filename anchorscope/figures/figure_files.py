"""Arguments of chart functions from a rule's parameters, and the files of a drawn figure."""

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
    """Return the arguments of a chart function, from the parameters of a rule.

    `title` is used if the config has none.
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
    """Return the request for a narrow page: at most two small panels, or one, side by side."""
    style = {**request["style"], "columns": 1, "theme": "screen", "width": None}
    return {**request, "style": style}


def save(
    figure: alt.TopLevelMixin,
    stem: str | Path,
    choices: Sequence[Choice] = (),
    narrow: alt.TopLevelMixin | None = None,
) -> list[Path]:
    """Write the figure as .vl.json, .html, .svg, .pdf and .png, and return the paths.

    The HTML holds its own copy of the Vega runtime and needs no network. The PNG has two pixels per
    CSS pixel, or 300 dpi if the figure has a printed width. Each file is written whole or not at
    all. The same table and settings give the same bytes of the specification.

    Args:
        figure: The chart.
        stem: Path of the files without their endings.
        choices: Read-outs and conditions that a reader of the HTML can switch to.
        narrow: The chart of the same rows for windows that are too narrow for `figure`.

    Raises:
        AnchorscopeError: The chart cannot be drawn.
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
