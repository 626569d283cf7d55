"""A cell in words: the sentences of the report, and the screen of `anchorscope show`.

The words are in `resources/report/cell.txt`; numbers in words are made here, for all templates.
"""

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from anchorscope.experiments.strength import LEAST_AUC

RESOURCES = Path(__file__).resolve().parents[2] / "resources" / "report"
WIDTH = 80
Found = Mapping[str, Any]


def figures(value: float, digits: int = 0) -> str:
    """A number in words: `−12.3`, `1,024`; never a negative zero."""
    shown = f"{value:,.{digits}f}"
    return shown.removeprefix("-") if not float(shown.replace(",", "")) else shown.replace("-", "−")


def ends(found: Found | None, factor: float = 1, digits: int = 2, unit: str = "") -> str:
    """A number with its interval: `0.08 [0.04, 0.12]`, `97 % [93, 99]`."""
    if found is None or pd.isna(found["value"]):
        return "unknown"
    said, others = figures(factor * found["value"], digits) + unit, (found["low"], found["high"])
    if not any(map(pd.isna, others)):
        said += " [{}, {}]".format(*(figures(factor * end, digits) for end in others))
    return said.replace(" ", "\u00a0")


def templates(*, autoescape: bool) -> Environment:
    """The report's templates, with numbers in words as filters."""
    loader = FileSystemLoader(RESOURCES)
    made = Environment(
        loader=loader, autoescape=autoescape, undefined=StrictUndefined, trim_blocks=True
    )
    made.filters |= {"figures": figures, "ends": ends}
    made.globals["least_auc"] = LEAST_AUC
    return made


def text(found: Found) -> str:
    """A cell, from `cell_summary.summary`, as a screen of lines."""
    layer = f"layer {found['headline_layer']} of 0-{found['layers'] - 1}"
    lines = [
        f"{found['model']} on {found['dataset']}, read-out {found['readout']}, headline {layer}\n"
    ]
    words: Any = templates(autoescape=False).get_template("cell.txt").module
    for line in words.screen(found).splitlines():
        name, _, said = line.partition("|")
        for part in textwrap.wrap(said, WIDTH):
            lines.append(f"{name:<18}{part}")
            name = ""
    return "\n".join(lines)
