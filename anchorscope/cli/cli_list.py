"""`anchorscope list`: the catalogue, and which of its products are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anchorscope.config.catalogue import Dataset, Model
from anchorscope.config.settings import Config
from anchorscope.workflow.paths import PICTURES

SHOWN = {
    "models": ("name", "source", "prompt", "measured_on"),
    "datasets": ("name", "source", "measured_with"),
    "figures": ("name", "cells", "cells_built", "pictures"),
}


def catalogue(config: Config) -> dict[str, list[dict[str, Any]]]:
    """Models, datasets and figures as rows of plain data, with what is built of each.

    Built means there: whether it is up to date, `snakemake -n` says.
    """
    built = {(path.parent.name, path.stem) for path in Path(config.root, "delta_p").glob("*/*.csv")}
    return {
        "models": [
            {
                "name": name,
                "source": source(entry),
                "prompt": entry.prompt,
                "gated": entry.gated,
                "measured_on": [on for on in config.datasets if (name, on) in built],
            }
            for name, entry in config.models.items()
        ],
        "datasets": [
            {
                "name": name,
                "source": source(entry),
                "prepared": Path(config.results, "data", f"{name}.parquet").is_file(),
                "measured_with": [model for model in config.models if (model, name) in built],
            }
            for name, entry in config.datasets.items()
        ],
        "figures": [
            {
                "name": name,
                "cells": len(config.cells(name)),
                "cells_built": len(built & set(config.cells(name))),
                "pictures": [
                    str(path)
                    for path in sorted(Path(config.root, "figures").glob(f"{name}.*"))
                    if path.name.removeprefix(f"{name}.") in PICTURES
                ],
            }
            for name, entry in config.figures.items()
        ],
    }


def source(entry: Model | Dataset) -> str:
    """Where an entry comes from, in a word or an id."""
    if getattr(entry, "train", None):
        return "trained here"
    return "calibration world" if getattr(entry, "world", None) else str(entry.hub or entry.local)


def text(found: dict[str, list[dict[str, Any]]]) -> str:
    """The catalogue as three tables."""
    parts = []
    for part, keys in SHOWN.items():
        rows = [[_word(row[key]) for key in keys] for row in found[part]]
        rows.insert(0, [key.replace("_", " ").upper() for key in keys])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        padded = [map(str.ljust, row, widths) for row in rows]
        parts.append("\n".join("  ".join(row).rstrip() for row in padded))
    return "\n\n".join(parts)


def _word(value: Any) -> str:
    return (", ".join(value) or "-") if isinstance(value, list) else str(value)
