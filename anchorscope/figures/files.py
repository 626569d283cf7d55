"""Arguments of chart functions from a rule's parameters, and the files of a drawn figure."""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import altair as alt
import jinja2

from anchorscope.figures.fit import VERSION, as_pdf, as_svg, printed_width, size_of
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic

TEMPLATE = Path(__file__).resolve().parents[2] / "resources" / "figure" / "page.html"


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


def save(figures: Mapping[str, alt.TopLevelMixin], stem: str | Path) -> list[Path]:
    """Write a figure as .vl.json, .html, .svg, .pdf and .png, and return the paths.

    `figures` maps labels to figures. Each file shows the first, and a reader of the HTML can switch
    to the others. The HTML holds its own copy of the Vega runtime and needs no network. The PNG has
    two pixels per CSS pixel, or 300 dpi if the figure has a printed width. The same table and
    settings give the same bytes of the specification.

    Raises:
        AnchorscopeError: The chart cannot be drawn.
    """
    import vl_convert

    # all figures are built in the same way, so only the first is validated
    specs = {label: one.to_dict(validate=not k) for k, (label, one) in enumerate(figures.items())}
    spec = next(iter(specs.values()))
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    try:
        svg = as_svg(spec)
    except ValueError as error:
        what = f"cannot draw the figure: {error}"
        raise AnchorscopeError(what, f"{stem}.vl.json", see="drawing") from error
    printed = printed_width(spec)
    contents = {
        ".vl.json": text.encode(),
        ".html": _page(specs, Path(stem).name, size_of(svg)[0]).encode(),
        ".svg": svg.encode(),
        ".pdf": as_pdf(svg, printed),
        ".png": vl_convert.svg_to_png(svg, scale=300 / 96 if printed else 2),
    }
    for ending, content in contents.items():
        with atomic(f"{stem}{ending}") as draft:
            draft.write_bytes(content)
    return [Path(f"{stem}{ending}") for ending in contents]


def _page(specs: Mapping[str, dict[str, Any]], name: str, width: float) -> str:
    """Return the HTML page on which a reader chooses one of the specifications.

    `name` is the name of files that a reader exports. `width` is the figure's, in CSS pixels.
    """
    first = next(iter(specs.values()))
    title = first.get("title", {}).get("text", name)
    return jinja2.Template(TEMPLATE.read_text(encoding="utf-8"), autoescape=True).render(
        title=title if isinstance(title, str) else " ".join(title),
        name=name,
        specs=[spec | {"datasets": {}} for spec in specs.values()],
        # Altair names data by their hash, so equal rows have the same name
        datasets={name: rows for spec in specs.values() for name, rows in spec["datasets"].items()},
        labels=list(specs),
        width=round(width),
        runtime=_runtime(),
    )


@lru_cache
def _runtime() -> str:
    """Return the JavaScript of Vega, Vega-Lite and vega-embed."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VERSION)
