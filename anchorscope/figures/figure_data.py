"""What a figure draws of its table: the rows of each model's column, rounded, and what to say."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from anchorscope.figures.figure_style import ANCHORS, UNSEEN, UNTOLD, few, marker_of, series_name
from anchorscope.storage.errors import AnchorscopeError

KEYS = "model dataset site position condition grouping anchor layer"
NUMBERS = (
    "n share delta_p ci_low ci_high probe_auc answer_accuracy flip_share flip_low flip_high "
    "n_paired thin signal cell_signal headline"
)
# the control that stands beside a condition; other conditions have `random`
BESIDE = {"matched": "placebo", "placebo": "placebo"}
EVERYWHERE = "at every layer"
Row = dict[str, Any]


@dataclass(frozen=True)
class Panel:
    """What one model's column draws.

    `curves`, `flips` and `follows` are rows of the chart's data: ΔP in percentage points, shares
    in percent. `samples` is the size of each cell, `paired` how many of these are paired;
    `covered`, at the headline layer, how many Q-Anchored right answers have a counted pair, and
    how many there are. `weak` names each cell and where it has no signal, `blank` cells without
    one as a whole, `thin` and `missing` curves that are not drawn.
    `refitted`: whether each
    cell's intervals carry the probes' own variance.
    """

    label: str
    layers: int
    curves: list[Row] = field(default_factory=list)
    flips: list[Row] = field(default_factory=list)
    follows: list[Row] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    paired: list[int] = field(default_factory=list)
    covered: list[tuple[int, int]] = field(default_factory=list)
    weak: list[tuple[str, str]] = field(default_factory=list)
    blank: list[str] = field(default_factory=list)
    thin: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    refitted: list[bool] = field(default_factory=list)


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
    panel.refitted.append("inflation" not in cell or bool((cell["inflation"] > 1).any()))
    told = f"{panel.label} on {name}"
    panel.weak.extend((told, where) for where in unseen_at(cell))
    if not true(cell["cell_signal"]).any():
        panel.blank.append(told)
    common = {"model": panel.label, "dataset": name, "marker": marker_of(i)}
    _add_flips(panel, cell, common, i, cut)
    _add_follows(panel, cell, common, i)
    for j, anchor in enumerate(ANCHORS):
        curve, series = _rows(cell, cut, anchor), series_name(anchor, name)
        shown = common | {"anchor": f"{anchor}-Anchored", "series": series}
        offset = i + j * (marker_step(panel.layers) // 2)
        panel.curves.extend(_curve_rows(curve, shown, panel.layers, offset))
        panel.thin.extend(_thin_note(curve, panel.label, series))
        if curve.empty:
            panel.missing.append(f"{series} of {panel.label}")


def _add_flips(panel: Panel, cell: pd.DataFrame, common: Row, i: int, cut: str) -> None:
    """Flips of the paired samples under the cut and under the control beside it."""
    for condition in dict.fromkeys((cut, BESIDE.get(cut, "random"))):
        rows = _rows(cell, condition, "all")
        shown = common | {"condition": condition, "anchor": "all", "chance": condition != cut}
        shown["series"] = series_name("Q", common["dataset"])
        panel.flips.extend(_flip_rows(rows, shown, panel.layers, i))
        if condition == cut and rows["n_paired"].notna().any():
            panel.paired.append(int(rows["n_paired"].max()))


def _add_follows(panel: Panel, cell: pd.DataFrame, common: Row, i: int) -> None:
    """Q-Anchored right answers that follow another question; where too few do, the line breaks."""
    groups = _rows(cell, "knockout", "Q").set_index("layer")
    right = (groups["n"] * groups["answer_accuracy"]).round()
    for condition in ("matched", "placebo"):
        rows = _rows(cell, condition, "Q")
        ends = ["flip_share", "flip_low", "flip_high"]
        rows = rows.assign(of=rows["layer"].map(right), **rows[ends].mask(_thin(rows)))
        shown = common | {"condition": condition, "anchor": "Q", "chance": condition != "matched"}
        shown["series"] = series_name("Q", common["dataset"])
        panel.follows.extend(_flip_rows(rows, shown, panel.layers, i))
        head = rows[true(rows["headline"])].dropna(subset=["n_paired", "of"])
        if condition == "matched":
            panel.covered.extend((int(n), int(of)) for n, of in head[["n_paired", "of"]].values)


def _flip_rows(rows: pd.DataFrame, shown: Row, layers: int, offset: int) -> list[Row]:
    """Shares of flips with their intervals, in percent; none where nothing was measured."""
    if rows["flip_share"].isna().all():
        return []
    ends = {"flips": "flip_share", "low": "flip_low", "high": "flip_high"}
    values = {key: [number(100 * x, 1) for x in rows[name]] for key, name in ends.items()}
    at, seen = [int(layer) for layer in rows["layer"]], list(true(rows["signal"]))
    marks = marked(values["flips"], at, marker_step(layers), offset, seen)
    counts = {
        key: list(rows[name]) for key, name in (("n", "n_paired"), ("of", "of")) if name in rows
    }
    return in_runs(
        shown
        | {"layer": at[i], "mark": marks[i], "signal": bool(seen[i])}
        | {key: number(counts[key][i], 0) for key in counts}
        | {key: values[key][i] for key in ends}
        for i in range(len(at))
    )


def unseen_at(cell: pd.DataFrame) -> list[str]:
    """Where a cell of one read-out has no signal, as `at layers 0–2`; nothing where it has one."""
    layers = cell.drop_duplicates("layer").sort_values("layer")
    weak = [int(layer) for layer in layers["layer"][~true(layers["signal"])]]
    if not weak:
        return []
    return [EVERYWHERE if len(weak) == len(layers) else f"at {layer_list(weak)}"]


def unseen_note(weak: Sequence[tuple[str, str]], blank: Sequence[str], cells: int) -> list[str]:
    """The caption's words on what is grey.

    Args:
        weak: each cell's name and where it has no signal.
        blank: cells without a signal as a whole.
        cells: how many cells there are.
    """
    by_place: dict[str, list[str]] = {}
    for name, where in weak:
        by_place.setdefault(where, []).append(name)
    places = sorted(by_place.items(), key=lambda item: len(item[1]))
    said = [f"{few(names)} {where}" for where, names in places]
    if places and len(weak) == cells and len(places[-1][1]) > 1:
        said[-1] = f"{'all other cells' if said[1:] else 'every cell'} {places[-1][0]}"
    told = [f"{UNSEEN} (hollow grey): {'; '.join(said)}. {UNTOLD}"] if said else []
    others = [name for name in blank if (name, EVERYWHERE) not in weak]
    return told + ([f"{UNSEEN} in the cell as a whole: {few(others)}."] if others else [])


def in_runs(rows: Iterable[Row]) -> list[Row]:
    """A line's rows by layer, cut into runs with and without a signal, each drawn in one colour.

    A run without a signal reaches to the points beside it, which come twice, there as `edge`.
    """
    cut: list[Row] = []
    run, before = 0, None
    for row in rows:
        if before and before["signal"] != row["signal"]:
            edge = {"signal": False, "mark": False, "edge": True}
            if row["signal"]:
                cut.append(row | edge | {"run": run})
            else:
                cut.append(before | edge | {"run": run + 1})
            run += 1
        cut.append(row | {"run": run, "edge": False})
        before = row
    return cut


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


def marked(
    values: list[float | None], layers: list[int], step: int, offset: int, seen: Sequence[bool]
) -> list[bool]:
    """Every `step`th layer, staggered by series; more without a signal (`seen`); lone points."""
    marks = []
    for i, (value, layer) in enumerate(zip(values, layers, strict=True)):
        beside = [k for k in (i - 1, i + 1) if 0 <= k < len(values) and seen[k] == seen[i]]
        lone = all(values[k] is None for k in beside)
        often = max(1, step // 4)
        told = lone or layer % step == offset % step or (not seen[i] and layer % often == 0)
        marks.append(value is not None and told)
    return marks


def _curve_rows(curve: pd.DataFrame, shown: Row, layers: int, offset: int) -> list[Row]:
    """A curve's points; a thin one keeps its row, with ΔP blank, so that the line breaks there."""
    drawn, numbers = curve.copy(), ["delta_p", "ci_low", "ci_high"]
    drawn[numbers] = drawn[numbers].mask(_thin(curve))
    values = [number(value, 2) for value in drawn["delta_p"]]
    if not any(value is not None for value in values):
        return []
    at, seen = [int(layer) for layer in drawn["layer"]], list(true(drawn["signal"]))
    marks = marked(values, at, marker_step(layers), offset, seen)
    return in_runs(
        shown
        | {"layer": at[i], "delta_p": values[i], "mark": marks[i], "n": number(row["n"], 0)}
        | {"ci_low": number(row["ci_low"], 2), "ci_high": number(row["ci_high"], 2)}
        | {"share": number(100 * row["share"], 1), "probe_auc": number(row["probe_auc"], 3)}
        | {"signal": bool(seen[i])}
        for i, row in enumerate(drawn.to_dict("records"))
    )


def line_rows(
    frame: pd.DataFrame,
    column: str,
    shown: Row,
    layers: int,
    offset: int,
    *,
    factor: float = 1,
    band: tuple[str, str] | None = None,
    probe: bool = True,
) -> list[Row]:
    """One line of a small panel: `value` (and `low`, `high`) of a column times `factor`.

    Blanks keep their row, so that the line breaks there; a column of blanks, or one that the
    table lacks, gives no rows. What tells nothing of the read-out's `probe` is never grey.
    """
    if column not in frame or frame[column].isna().all():
        return []
    frame = frame.sort_values("layer")
    values = [number(factor * value, 4) for value in frame[column]]
    at = [int(layer) for layer in frame["layer"]]
    seen = list(true(frame["signal"])) if probe else [True] * len(at)
    marks = marked(values, at, marker_step(layers), offset, seen)
    ends = [
        [number(factor * value, 4) for value in frame[name]] if name in frame else [None] * len(at)
        for name in band or ("", "")
    ]
    return in_runs(
        shown
        | {"layer": at[i], "value": values[i], "mark": marks[i], "signal": bool(seen[i])}
        | {"low": ends[0][i], "high": ends[1][i]}
        for i in range(len(at))
    )


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
