"""`anchorscope list`: the catalogue, and which of its products are there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from anchorscope.config.catalogue import Dataset, Model
from anchorscope.config.settings import Config
from anchorscope.workflow.paths import PICTURES


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
                "models": entry.models,
                "datasets": entry.datasets,
                "readout": entry.readout,
                "cells": len(config.cells(name)),
                "cells_built": len(built & set(config.cells(name))),
                "pictures": _pictures(config, name),
            }
            for name, entry in config.figures.items()
        ],
    }


def _pictures(config: Config, figure: str) -> list[str]:
    paths = [Path(config.root, "figures", f"{figure}.{kind}") for kind in PICTURES]
    return [str(path) for path in paths if path.is_file()]


def source(entry: Model | Dataset) -> str:
    """Where an entry comes from, in a word or an id."""
    if getattr(entry, "train", None):
        return "trained here"
    return "calibration world" if getattr(entry, "world", None) else str(entry.hub or entry.local)


def text(found: dict[str, list[dict[str, Any]]]) -> str:
    """The catalogue as three tables."""
    models = [
        (row["name"], row["source"], row["prompt"], _names(row["measured_on"]))
        for row in found["models"]
    ]
    datasets = [
        (row["name"], row["source"], _names(row["measured_with"])) for row in found["datasets"]
    ]
    figures = [
        (row["name"], f"{row['cells_built']} of {row['cells']} cells", _names(row["pictures"][:1]))
        for row in found["figures"]
    ]
    parts = (
        (("MODEL", "SOURCE", "PROMPT", "MEASURED ON"), models),
        (("DATASET", "SOURCE", "MEASURED WITH"), datasets),
        (("FIGURE", "BUILT", "PICTURE"), figures),
    )
    return "\n\n".join(columns([head, *rows]) for head, rows in parts)


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "-"


def columns(rows: Iterable[Sequence[str]]) -> str:
    """Rows of texts, each column as wide as its widest."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(t.ljust(w) for t, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
