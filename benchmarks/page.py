"""The results as Markdown."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all but the first column are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def measured(notes: Mapping[str, Any]) -> str:
    """How a text on times begins; `notes` as `timing.notes` gives them."""
    return f"Measured on {notes['when']}: {notes['machine']}; {notes['clock']}"


def results(found: pd.DataFrame, notes: Mapping[str, Any]) -> str:
    """One table a workload and stage, then the floor; the machine first."""
    parts = [
        f"{measured(notes)}, median of "
        f"{notes['rounds']} round{'s' * (notes['rounds'] > 1)}; work waiting for a core "
        f"(load) {notes['load']}."
    ]
    for cell, rows in found.groupby(["workload", "stage"], sort=False):
        head = (f"{cell[0]}, {cell[1]}", "seconds", "ratio", "largest difference", "peak memory")
        parts.append(table(head, map(_line, rows.to_dict("records"))))
    if notes["floor"]:
        parts.append(floor(notes["floor"]))
    return "\n\n".join(parts)


def _line(row: Mapping[Any, Any]) -> list[str]:
    return [
        row["way"],
        f"{row['seconds']:.3g}",
        f"{row['ratio']:.2f}",
        f"{row['max_difference']:.0e}" if row["max_difference"] else "0",
        f"{row['peak_mb']:,.0f} MB",
    ]


def floor(shares: Mapping[str, Mapping[str, float]]) -> str:
    """The floor of the measured passes, by workload."""
    head = (
        "measured passes", "tokens needed", "operations", "matrix product", "floor", "reached",
    )  # fmt: skip
    rows = [
        [
            name,
            f"{one['tokens']:,}",
            f"{one['operations'] / 1e9:,.0f} G",
            f"{one['gemm_gflops']:.0f} G/s",
            f"{one['floor_seconds']:.2f} s",
            f"{100 * one['share']:.0f} %",
        ]
        for name, one in shares.items()
    ]
    return table(head, rows)
