"""`anchorscope list`: the catalogue, and which of its products are there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from anchorscope.config.catalogue import Dataset, Model
from anchorscope.config.settings import Config

PICTURES = ("html", "svg", "pdf", "png", "vl.json")
SOURCES = ("hub", "local", "train", "world")


def catalogue(config: Config) -> dict[str, list[dict[str, Any]]]:
    """Models, datasets and figures as rows of plain data, with what is built of each.

    Built means there: whether it is up to date, `snakemake -n` says.
    """
    return {
        "models": [_model(config, name) for name in config.models],
        "datasets": [_dataset(config, name) for name in config.datasets],
        "figures": [_figure(config, name) for name in config.figures],
    }


def _model(config: Config, name: str) -> dict[str, Any]:
    entry = config.models[name]
    cells = sorted(path.stem for path in Path(config.root, "delta_p", name).glob("*.csv"))
    return {
        "name": name,
        "source": source(entry),
        "prompt": entry.prompt,
        "gated": entry.gated,
        "measured_on": [dataset for dataset in cells if dataset in config.datasets],
    }


def _dataset(config: Config, name: str) -> dict[str, Any]:
    table = Path(config.results, "data", f"{name}.parquet")
    questions = None
    if table.is_file():
        import pyarrow.parquet as pq

        questions = int(pq.read_metadata(table).num_rows)
    cells = Path(config.root, "delta_p").glob(f"*/{name}.csv")
    return {
        "name": name,
        "source": source(config.datasets[name]),
        "questions": questions,
        "measured_with": sorted(p.parent.name for p in cells if p.parent.name in config.models),
    }


def _figure(config: Config, name: str) -> dict[str, Any]:
    cells = config.cells(name)
    built = [Path(config.root, "delta_p", model, f"{dataset}.csv") for model, dataset in cells]
    pictures = [Path(config.root, "figures", f"{name}.{kind}") for kind in PICTURES]
    return {
        "name": name,
        "models": config.figures[name].models,
        "datasets": config.figures[name].datasets,
        "readout": config.figures[name].readout,
        "cells": len(cells),
        "cells_built": sum(path.is_file() for path in built),
        "pictures": [str(path) for path in pictures if path.is_file()],
    }


def source(entry: Model | Dataset) -> str:
    """Where an entry comes from, in a word or an id."""
    kind = next(name for name in SOURCES if getattr(entry, name, None) is not None)
    if kind == "train":
        return "trained here"
    return "calibration world" if kind == "world" else str(getattr(entry, kind))


def text(found: dict[str, list[dict[str, Any]]]) -> str:
    """The catalogue as three tables."""
    models = [
        (row["name"], row["source"], row["prompt"], _names(row["measured_on"]))
        for row in found["models"]
    ]
    datasets = [
        (row["name"], row["source"], _count(row["questions"]), _names(row["measured_with"]))
        for row in found["datasets"]
    ]
    figures = [
        (
            row["name"],
            f"{row['cells_built']} of {row['cells']} cells",
            row["pictures"][0] if row["pictures"] else "not drawn",
        )
        for row in found["figures"]
    ]
    parts = (
        (("MODEL", "SOURCE", "PROMPT", "MEASURED ON"), models),
        (("DATASET", "SOURCE", "QUESTIONS", "MEASURED WITH"), datasets),
        (("FIGURE", "BUILT", "PICTURE"), figures),
    )
    return "\n\n".join(columns([head, *rows]) for head, rows in parts)


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "-"


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def columns(rows: Iterable[Sequence[str]]) -> str:
    """Rows of texts, each column as wide as its widest."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(t.ljust(w) for t, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
