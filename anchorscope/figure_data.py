"""What a figure draws of its table: the rows of each model's column, rounded, and what to say."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from anchorscope.errors import AnchorscopeError
from anchorscope.figure_style import ANCHORS, marker_of, series_name

KEYS = "model dataset site position condition grouping anchor layer"
NUMBERS = "n share delta_p ci_low ci_high probe_auc thin signal"


@dataclass(frozen=True)
class Panel:
    """What one model's column draws.

    `curves` and `shares` are rows of the chart's data: ΔP in percentage points, shares in
    percent. `samples` is the size of each cell. `weak` names cells without a signal, `thin` and
    `missing` curves that are not drawn.
    """

    label: str
    layers: int
    curves: list[dict[str, Any]] = field(default_factory=list)
    shares: list[dict[str, Any]] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    weak: list[str] = field(default_factory=list)
    thin: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def distinct(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Equal labels get their key added: the legend tells series apart by label alone."""
    labels = [label for _, label in pairs]
    return [
        (key, f"{label} [{key}]" if labels.count(label) > 1 else str(label)) for key, label in pairs
    ]


def require(table: pd.DataFrame, columns: str) -> None:
    """Refuse a table that lacks one of the columns, named in one string.

    Raises:
        AnchorscopeError: which it lacks.
    """
    absent = [name for name in columns.split() if name not in table]
    if absent:
        raise AnchorscopeError(
            f"the table lacks the columns {', '.join(absent)}",
            f"its columns: {', '.join(map(str, table.columns))}",
            "delete the table and run snakemake again",
            see="stale-product",
        )


def at_readout(table: pd.DataFrame, readout: tuple[str, str]) -> pd.DataFrame:
    """The table's rows at the read-out.

    Raises:
        AnchorscopeError: nothing measured there.
    """
    here = table[(table["site"] == readout[0]) & (table["position"] == readout[1])]
    if here.empty:
        measured = sorted(set(table["site"] + "/" + table["position"]))
        raise AnchorscopeError(
            f"no rows at the read-out {'/'.join(readout)}",
            f"the table holds: {', '.join(measured) or 'nothing'}",
            "name one of these in the figure, or add the read-out to `readouts` and measure it",
            see="not-measured",
        )
    return here


def at_grouping(table: pd.DataFrame, grouping: str | None) -> tuple[pd.DataFrame, str]:
    """The table's rows of the grouping, and the grouping: `per_layer` where none is named.

    Raises:
        AnchorscopeError: nothing measured with it.
    """
    groupings = sorted(set(table["grouping"]))
    chosen = grouping or ("per_layer" if "per_layer" in groupings else groupings[0])
    if chosen not in groupings:
        raise AnchorscopeError(
            f"no rows with the grouping {chosen}",
            f"the table holds: {', '.join(groupings)}",
            "name one of these, or measure this one",
            see="not-measured",
        )
    return table[table["grouping"] == chosen], chosen


def select(
    table: pd.DataFrame, readout: tuple[str, str], grouping: str | None
) -> tuple[pd.DataFrame, str]:
    """The curve's rows at the read-out and grouping, and the grouping.

    Raises:
        AnchorscopeError: missing columns, or nothing measured at this read-out or grouping.
    """
    require(table, f"{KEYS} {NUMBERS}")
    return at_grouping(at_readout(table, readout), grouping)


def panel_of(
    rows: pd.DataFrame,
    model: str,
    label: str,
    datasets: Sequence[tuple[str, str]],
    condition: str = "knockout",
) -> Panel:
    """Everything one model's column shows of a condition; `rows` as `select` returns them."""
    mine = rows[rows["model"] == model]
    layers = int(mine["layer"].max()) + 1 if len(mine) else 1
    panel = Panel(label, layers)
    for i, (key, name) in enumerate(datasets):
        cell = mine[mine["dataset"] == key]
        if cell.empty:
            panel.missing.append(f"{label} on {name}")
        else:
            _add_cell(panel, cell, name, i, condition)
    if len(panel.missing) == len(datasets):
        panel.missing[:] = [label]
    return panel


def _add_cell(panel: Panel, cell: pd.DataFrame, name: str, i: int, cut: str) -> None:
    """One dataset of the panel, the `i`-th of the legend."""
    panel.samples.append(_samples(cell, cut))
    signal = bool(true(cell["signal"]).any())
    if not signal:
        panel.weak.append(f"{panel.label} on {name}")
    common = {"model": panel.label, "dataset": name, "signal": signal, "marker": marker_of(i)}
    for condition in dict.fromkeys((cut, "random")):
        shown = common | {"condition": condition, "series": series_name("Q", name)}
        shown["chance"] = condition != cut
        panel.shares.extend(_share_rows(_rows(cell, condition, "Q"), shown, panel.layers, i))
    for j, anchor in enumerate(ANCHORS):
        curve, series = _rows(cell, cut, anchor), series_name(anchor, name)
        shown = common | {"anchor": f"{anchor}-Anchored", "series": series}
        offset = i + j * (marker_step(panel.layers) // 2)
        panel.curves.extend(_curve_rows(curve, shown, panel.layers, offset))
        panel.thin.extend(_thin_note(curve, panel.label, series))
        if curve.empty:
            panel.missing.append(f"{series} of {panel.label}")


def _rows(cell: pd.DataFrame, condition: str, anchor: str) -> pd.DataFrame:
    chosen = cell[(cell["condition"] == condition) & (cell["anchor"] == anchor)]
    return chosen if chosen["layer"].is_monotonic_increasing else chosen.sort_values("layer")


def true(column: pd.Series) -> pd.Series:
    """A column of booleans as a CSV gives it back; a blank is false."""
    if column.dtype == bool:
        return column
    return column.astype(str).str.lower().isin(["true", "1", "1.0"])


def _samples(cell: pd.DataFrame, cut: str) -> int:
    """Samples of a cell, at the layer that has most."""
    measured = cell[cell["condition"] == cut]
    everyone = measured[measured["anchor"] == "all"]
    groups = measured[measured["anchor"].isin(ANCHORS)]
    counts = everyone["n"] if len(everyone) else groups.groupby("layer")["n"].sum()
    return int(counts.max()) if len(counts) and counts.notna().any() else 0


def _thin(curve: pd.DataFrame) -> pd.Series:
    """Too few samples or clusters for a point on the line."""
    return true(curve["thin"]) | (curve["n"].fillna(0) == 0)


def number(value: Any, digits: int) -> float | None:
    """Rounded; 0 digits make an integer; a blank stays one."""
    return None if pd.isna(value) else round(float(value), digits or None)


def marker_step(layers: int) -> int:
    """A marker at every so many layers: markers tell series apart, the line carries the data."""
    return max(1, math.ceil(layers / 8))


def marked(values: list[float | None], layers: list[int], step: int, offset: int) -> list[bool]:
    """Every `step`th layer, staggered by series; and points without neighbours, else unseen."""
    marks = []
    for i, (value, layer) in enumerate(zip(values, layers, strict=True)):
        beside = (values[i - 1] if i else None, values[i + 1] if i + 1 < len(values) else None)
        lone = beside == (None, None)
        marks.append(value is not None and (lone or layer % step == offset % step))
    return marks


def _curve_rows(
    curve: pd.DataFrame, shown: dict[str, Any], layers: int, offset: int
) -> list[dict[str, Any]]:
    """A curve's points; a thin one keeps its row, with ΔP blank, so that the line breaks there."""
    drawn, numbers = curve.copy(), ["delta_p", "ci_low", "ci_high"]
    drawn[numbers] = drawn[numbers].mask(_thin(curve))
    values = [number(value, 2) for value in drawn["delta_p"]]
    if not any(value is not None for value in values):
        return []
    at = [int(layer) for layer in drawn["layer"]]
    marks = marked(values, at, marker_step(layers), offset)
    return [
        shown
        | {"layer": at[i], "delta_p": values[i], "mark": marks[i], "n": number(row["n"], 0)}
        | {"ci_low": number(row["ci_low"], 2), "ci_high": number(row["ci_high"], 2)}
        | {"share": number(100 * row["share"], 1), "probe_auc": number(row["probe_auc"], 3)}
        for i, row in enumerate(drawn.to_dict("records"))
    ]


def _share_rows(
    rows: pd.DataFrame, shown: dict[str, Any], layers: int, offset: int
) -> list[dict[str, Any]]:
    values = [number(100 * share, 1) for share in rows["share"]]
    at = [int(layer) for layer in rows["layer"]]
    marks = marked(values, at, marker_step(layers), offset)
    return [
        shown | {"layer": at[i], "share": values[i], "mark": marks[i], "n": number(n, 0)}
        for i, n in enumerate(rows["n"])
        if values[i] is not None
    ]


def line_rows(
    frame: pd.DataFrame,
    column: str,
    shown: dict[str, Any],
    layers: int,
    offset: int,
    *,
    factor: float = 1,
    band: tuple[str, str] | None = None,
) -> list[dict[str, Any]]:
    """One line of a small panel: `value` (and `low`, `high`) of a column times `factor`.

    Blanks keep their row, so that the line breaks there; a column of blanks, or one that the
    table lacks, gives no rows.
    """
    if column not in frame or frame[column].isna().all():
        return []
    frame = frame.sort_values("layer")
    values = [number(factor * value, 4) for value in frame[column]]
    at = [int(layer) for layer in frame["layer"]]
    marks = marked(values, at, marker_step(layers), offset)
    ends = [
        [number(factor * value, 4) for value in frame[name]] if name in frame else [None] * len(at)
        for name in band or ("", "")
    ]
    return [
        shown
        | {"layer": at[i], "value": values[i], "mark": marks[i]}
        | {"low": ends[0][i], "high": ends[1][i]}
        for i in range(len(at))
    ]


def _thin_note(curve: pd.DataFrame, label: str, series: str) -> list[str]:
    """Where a curve was not drawn, as `Q-Anchored (PopQA) of Llama-3.2-1B at layers 0–2, 5`."""
    layers = [int(layer) for layer in curve["layer"][_thin(curve)]]
    if not layers:
        return []
    if len(layers) == len(curve):
        return [f"{series} of {label} at every layer"]
    return [f"{series} of {label} at {layer_list(layers)}"]


def layer_list(layers: Sequence[int]) -> str:
    """`layer 5`, or `layers 0–2, 5`."""
    return f"{'layer' if len(layers) == 1 else 'layers'} {_ranges(layers)}"


def _ranges(numbers: Sequence[int]) -> str:
    """[0, 1, 2, 5] as `0–2, 5`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs)
