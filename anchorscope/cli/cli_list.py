"""`anchorscope list`: the catalogue, and which of its products are built."""

from pathlib import Path
from typing import Any

from anchorscope.config.sections import Dataset, Model
from anchorscope.config.settings import Config
from anchorscope.workflow.paths import PICTURES

Row = dict[str, Any]


def catalogue(config: Config) -> dict[str, list[Row]]:
    """Models, datasets and figures as rows of plain data, with what is built of each."""
    root = Path(config.root)
    built = {(path.parent.name, path.stem) for path in root.glob("delta_p/*/*.csv")}
    models: list[Row] = [
        {
            "name": name,
            "source": source(entry),
            "prompt": entry.prompt,
            "measured_on": [dataset for dataset in config.datasets if (name, dataset) in built],
        }
        for name, entry in config.models.items()
    ]
    datasets: list[Row] = [
        {
            "name": name,
            "source": source(entry),
            "measured_with": [model for model in config.models if (model, name) in built],
        }
        for name, entry in config.datasets.items()
    ]
    figures: list[Row] = []
    for name in config.figures:
        cells = set(config.cells(name))
        pictures = [f"{root}/figures/{name}.{kind}" for kind in PICTURES]
        figures.append(
            {
                "name": name,
                "cells": len(cells),
                "cells_built": len(built & cells),
                "pictures": [path for path in pictures if Path(path).is_file()],
            }
        )
    return {"models": models, "datasets": datasets, "figures": figures}


def source(entry: Model | Dataset) -> str:
    """Where an entry comes from: a hub id, a path, or what it is."""
    if getattr(entry, "train", None):
        return "trained from its recipe"
    return "calibration world" if getattr(entry, "world", None) else str(entry.hub or entry.local)


def text(tables: dict[str, list[Row]]) -> str:
    """The tables of `catalogue` as text."""
    parts = []
    for entries in tables.values():
        rows = [[_cell(value) for value in row.values()] for row in entries]
        rows.insert(0, [key.replace("_", " ").upper() for key in (entries or [{}])[0]])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        padded = [map(str.ljust, row, widths) for row in rows]
        parts.append("\n".join("  ".join(row).rstrip() for row in padded))
    return "\n\n".join(parts)


def _cell(value: Any) -> str:
    return (", ".join(value) or "-") if isinstance(value, list) else str(value)
