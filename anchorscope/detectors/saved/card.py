"""The card of a detector: what it is, how to use it, what it beats, where it fails.

And how its numbers are written, wherever they are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from anchorscope.detectors.registry import METHODS

TEMPLATES = Path(__file__).parent
MEASURES = {
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "brier": "Brier score",
    "accuracy_90": "accuracy at 90% coverage",
    "accuracy_80": "accuracy at 80% coverage",
}
"""Those of `metrics.metrics` that are told of a saved detector → their names in text."""


class Interval(NamedTuple):
    """An estimate with the ends of its interval; NaN where there is none."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, row: Mapping[Any, Any], name: str) -> Interval:
        """That of a column of a table's row and the columns of its ends."""
        ends = "ci" if name == "estimate" else name
        columns = (row[one] for one in (name, f"{ends}_low", f"{ends}_high"))
        return cls(*(float("nan") if one is None else float(one) for one in columns))

    def __str__(self) -> str:
        """With a real minus sign, and none before a zero."""
        if np.isnan(self.value):
            return "not known"
        value, low, high = (f"{one:.3f}".replace("nan", "?") for one in self)
        return f"{value} [{low}, {high}]".replace("-0.000", "0.000").replace("-", "−")


def text(config: Mapping[str, Any]) -> str:
    """The card in Markdown, from the content of config.json."""
    environment = Environment(  # of Markdown, in which nothing is escaped
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters |= {"shown": shown, "layers": layers_of, "described": _described}
    name = name_of(config["model"], config["binding"]["family"])
    return environment.get_template("card.md").render(**config, name=name, measures=MEASURES)


def _described(method: str) -> str:
    """A method by its label, and what it is."""
    return f"{METHODS[method].label} ({METHODS[method].about})"


def name_of(model: Mapping[str, str | None], family: str) -> str:
    """The model's name, without its owner or folder; its family where none is known."""
    return str(model.get("name") or family).rstrip("/").rpartition("/")[2]


def layers_of(layers: Sequence[int], what: str = "layer") -> str:
    """Such as `layer 3`, or `layers 3, 4`."""
    return f"{what}{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}"


def shown(row: Mapping[str, Any], name: str = "estimate") -> str:
    """A number of a row of the report with its interval, or that there is none."""
    return str(Interval.of(row, name))
