"""The card of a detector: what it is, how to use it, what it beats, where it fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from anchorscope.detectors.registry import METHODS
from anchorscope.detectors.saved.quality import Interval

RESOURCES = Path(__file__).resolve().parents[3] / "resources" / "detector"


def text(config: Mapping[str, Any]) -> str:
    """The card in Markdown, from the content of config.json."""
    environment = Environment(  # of Markdown, in which nothing is escaped
        loader=FileSystemLoader(RESOURCES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters |= {"shown": shown, "layers": layers_of}
    name, method = name_of(config["model"], config["binding"]["family"]), METHODS[config["method"]]
    template = environment.get_template("card.md")
    return template.render(**config, name=name, label=f"{method.label} ({method.about})")


def name_of(model: Mapping[str, str | None], family: str) -> str:
    """The model's name, without its owner or folder; its family where none is known."""
    return str(model.get("name") or family).rstrip("/").rpartition("/")[2]


def layers_of(layers: Sequence[int], what: str = "layer") -> str:
    """Such as `layer 3`, or `layers 3, 4`."""
    return f"{what}{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}"


def shown(estimate: Mapping[str, float | None]) -> str:
    """An estimate of the report with its interval, or that there is none."""
    return str(Interval(*(float("nan") if one is None else one for one in estimate.values())))
