"""Tables: the cells of a figure in one table, in the figure's order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from anchorscope.storage import provenance
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.provenance import MAKE_NUMBERS, first_difference, settings_by_key

COLUMNS = (
    "model", "dataset", "site", "position", "condition", "grouping", "anchor", "layer", "n",
    "share", "delta_p", "ci_low", "ci_high", "probe_auc", "answer_accuracy", "n_blocked",
)  # fmt: skip
"""What every figure's table holds first; more columns may follow."""

OWN = frozenset(
    "dataset local sample_size style dtype batch_tokens train worlds training_seed".split()
)
"""Settings that a model or a dataset has of its own; the others are those of the whole figure."""


def check_settings(products: Iterable[str | Path]) -> None:
    """Refuse cells that were made with different settings: one was copied, or is of another config.

    Every record on the way to each of the products is compared with those of the same rule.

    Args:
        products: one of each cell; those without a record are passed over.

    Raises:
        AnchorscopeError: a setting differs, with both values and products.
    """
    known: dict[str, tuple[dict[str, Any], str]] = {}
    for product in products:
        for rule, found, path in settings_of(product):
            first, other = known.setdefault(rule, (found, path))
            _compare(rule, first, found, f"{other} and {path}")


def settings_of(product: str | Path) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Of every record on the way to a product: its rule, settings by dotted key, and product.

    Without what a model or a dataset has of its own; nothing of a product without a record.
    """
    if not provenance.beside(product).is_file():
        return
    whole = provenance.read(product)
    for path, record in {**whole.get("inputs", {}), str(product): whole}.items():
        if (rule := record.get("rule")) in MAKE_NUMBERS:
            yield rule, settings_by_key(record.get("settings", {}), OWN), path


def _compare(rule: str, one: Mapping[str, Any], other: Mapping[str, Any], where: str) -> None:
    if (key := first_difference(one, other)) is not None:
        raise AnchorscopeError(
            f"the cells were made with different settings: `{key}` of {rule} is "
            f"{one.get(key)!r} and {other.get(key)!r}",
            where,
            "delete the one that is not of this config and run snakemake again; results of "
            "another config belong into a root of their own",
            see="stale-product",
        )


def join(cells: Sequence[Sequence[str]], frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Put the tables of several cells below one another, `model` and `dataset` first.

    Works for each kind of a cell's tables (curve, contrasts, controls, strata, …): rows keep
    their order within a cell, columns theirs; a cell may have no rows.

    Args:
        cells: (model key, dataset key) of each cell, in the order of panels and legend.
        frames: the cells' tables, in the same order.

    Raises:
        AnchorscopeError: a cell comes twice, cells and tables do not pair up, or their columns
            differ.
    """
    keys = [(str(model), str(dataset)) for model, dataset in cells]
    if len(keys) != len(frames) or not keys:
        raise AnchorscopeError(
            f"{len(keys)} cells but {len(frames)} tables",
            "table",
            "run snakemake again",
            see="stale-product",
        )
    twice = [key for key in dict.fromkeys(keys) if keys.count(key) > 1]
    if twice:
        raise AnchorscopeError(
            "a cell comes twice",
            " on ".join(twice[0]),
            "name each model and dataset once",
            see="config",
        )
    columns = list(frames[0].columns)
    for (model, dataset), frame in zip(keys, frames, strict=True):
        if list(frame.columns) != columns:
            differing = sorted(set(frame.columns) ^ set(columns)) or ["their order"]
            raise AnchorscopeError(
                f"the cells' tables have different columns: {', '.join(differing)}",
                f"{model} on {dataset}",
                "delete the tables under delta_p/ and run snakemake again",
                see="stale-product",
            )
    named = []
    for (model, dataset), frame in zip(keys, frames, strict=True):
        rest = frame.drop(columns=["model", "dataset"], errors="ignore")
        rest.insert(0, "model", model)
        rest.insert(1, "dataset", dataset)
        named.append(rest)
    filled = [frame for frame in named if len(frame)] or named[:1]
    return pd.concat(filled, ignore_index=True)
