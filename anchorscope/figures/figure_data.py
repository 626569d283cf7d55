"""What a figure draws of its table: the rows of each model's column, rounded, and what to say."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from anchorscope.figures.figure_style import ANCHORS, marker_of, series_name
from anchorscope.passes.interventions import BY_NAME
from anchorscope.storage.errors import AnchorscopeError

KEYS = "model dataset site position condition grouping anchor layer"
NUMBERS = (
    "n share delta_p ci_low ci_high probe_auc answer_accuracy flip_share flip_low flip_high "
    "n_paired thin signal cell_signal headline"
)
EVERYWHERE = "at every layer"
UNSEEN = "No signal"
UNTOLD = (
    "At these layers the probe is not shown to know more than the text alone, so its contrasts are "
    "not interpretable."
)
BANDS = "bootstrap intervals, with the probe's own variance"
AUC_BANDS = "bootstrap intervals, probes held fixed"
Row = dict[str, Any]
Pair = tuple[str, str]
# what a row holds of each number: its column of the table, factor, digits
Source = tuple[str, float, int]
CURVE: dict[str, Source] = {
    "delta_p": ("delta_p", 1, 2),
    "ci_low": ("ci_low", 1, 2),
    "ci_high": ("ci_high", 1, 2),
    "n": ("n", 1, 0),
    "share": ("share", 100, 1),
    "probe_auc": ("probe_auc", 1, 3),
}
SHARES: dict[str, Source] = {
    "flips": ("flip_share", 100, 1),
    "low": ("flip_low", 100, 1),
    "high": ("flip_high", 100, 1),
    "n": ("n_paired", 1, 0),
}


def control_of(condition: str) -> str:
    """The control that stands beside a condition; a control stands alone."""
    return BY_NAME[condition].control or condition


@dataclass(frozen=True)
class Panel:
    """What one model's column draws, and what its caption needs.

    `curves`, `flips` and `follows` are rows of the chart's data: ΔP in percentage points, shares
    in percent. `cells` are the table's rows by cell, `paired` how many of a cell's samples are
    paired; `covered`, at the headline layer, how many Q-Anchored right answers have a counted
    pair, and how many there are. `thin` and `missing` name curves that are not drawn.
    """

    label: str
    layers: int
    curves: list[Row] = field(default_factory=list)
    flips: list[Row] = field(default_factory=list)
    follows: list[Row] = field(default_factory=list)
    cells: dict[str, pd.DataFrame] = field(default_factory=dict)
    paired: list[int] = field(default_factory=list)
    covered: list[tuple[int, int]] = field(default_factory=list)
    thin: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def distinct(pairs: Sequence[Pair]) -> list[Pair]:
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


def at_readout(table: pd.DataFrame, readout: Pair) -> pd.DataFrame:
    """The table's rows at the read-out.

    Raises:
        AnchorscopeError: nothing measured there.
    """
    here = rows_at(table, readout)
    if here.empty:
        measured = sorted(set(table["site"] + "/" + table["position"]))
        raise AnchorscopeError(
            f"no rows at the read-out {'/'.join(readout)}",
            f"the table holds: {', '.join(measured) or 'nothing'}",
            "name one of these in the figure, or add the read-out to `readouts` and measure it",
            see="not-measured",
        )
    return here


def rows_at(table: pd.DataFrame, readout: Pair) -> pd.DataFrame:
    """The table's rows at the read-out, if any."""
    return table[(table["site"] == readout[0]) & (table["position"] == readout[1])]


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


def select(table: pd.DataFrame, readout: Pair, grouping: str | None) -> tuple[pd.DataFrame, str]:
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
    datasets: Sequence[Pair],
    condition: str = "knockout",
) -> Panel:
    """Everything one model's column shows of a condition; `rows` as `select` returns them."""
    mine = rows[rows["model"] == model]
    panel = Panel(label, layer_count(mine))
    for i, (key, name) in enumerate(datasets):
        cell = mine[mine["dataset"] == key]
        if cell.empty:
            panel.missing.append(f"{label} on {name}")
        else:
            _add_cell(panel, cell, name, i, condition)
    if len(panel.missing) == len(datasets):
        panel.missing[:] = [label]
    return panel


def layer_count(rows: pd.DataFrame) -> int:
    """Layers of a model by its rows; 1 where there are none."""
    return int(rows["layer"].max()) + 1 if len(rows) else 1


def _add_cell(panel: Panel, cell: pd.DataFrame, name: str, i: int, cut: str) -> None:
    """One dataset of the panel, the `i`-th of the legend."""
    panel.cells[f"{panel.label} on {name}"] = cell
    common = {"model": panel.label, "dataset": name, "marker": marker_of(i)}
    _add_flips(panel, cell, common, i, cut)
    _add_follows(panel, cell, common, i)
    for j, anchor in enumerate(ANCHORS):
        curve, series = _rows(cell, cut, anchor), series_name(anchor, name)
        shown = common | {"anchor": f"{anchor}-Anchored", "series": series}
        offset = i + j * (marker_step(panel.layers) // 2)
        # a thin point keeps its row, with ΔP blank, so that the line breaks there
        drawn = _masked(curve, ["delta_p", "ci_low", "ci_high"])
        panel.curves.extend(line_rows(drawn, CURVE, shown, panel.layers, offset))
        panel.thin.extend(_thin_note(curve, panel.label, series))
        if curve.empty:
            panel.missing.append(f"{series} of {panel.label}")


def _add_flips(panel: Panel, cell: pd.DataFrame, common: Row, i: int, cut: str) -> None:
    """Flips of the paired samples under the cut and under the control beside it."""
    for condition in dict.fromkeys((cut, control_of(cut))):
        rows = _rows(cell, condition, "all")
        shown = common | {"condition": condition, "anchor": "all", "chance": condition != cut}
        shown["series"] = series_name("Q", common["dataset"])
        panel.flips.extend(line_rows(rows, SHARES, shown, panel.layers, i))
        if condition == cut and rows["n_paired"].notna().any():
            panel.paired.append(int(rows["n_paired"].max()))


def _add_follows(panel: Panel, cell: pd.DataFrame, common: Row, i: int) -> None:
    """Q-Anchored right answers that follow another question; where too few do, the line breaks."""
    groups = _rows(cell, "knockout", "Q").set_index("layer")
    right = (groups["n"] * groups["answer_accuracy"]).round()
    for condition in ("matched", "placebo"):
        rows = _rows(cell, condition, "Q")
        rows = _masked(rows, ["flip_share", "flip_low", "flip_high"])
        rows = rows.assign(of=rows["layer"].map(right))
        shown = common | {"condition": condition, "anchor": "Q", "chance": condition != "matched"}
        shown["series"] = series_name("Q", common["dataset"])
        panel.follows.extend(line_rows(rows, SHARES | {"of": ("of", 1, 0)}, shown, panel.layers, i))
        head = rows[true(rows["headline"])].dropna(subset=["n_paired", "of"])
        if condition == "matched":
            panel.covered.extend((int(n), int(of)) for n, of in head[["n_paired", "of"]].values)


def line_rows(
    frame: pd.DataFrame,
    numbers: Mapping[str, Source],
    shown: Row,
    layers: int,
    offset: int,
    *,
    probe: bool = True,
) -> list[Row]:
    """One line of a panel, by layer, as `in_runs` cuts it.

    Blanks keep their row, so that the line breaks there; a line of blanks, or of a column that
    the table lacks, gives no rows.

    Args:
        frame: the line's rows of the table.
        numbers: what a row holds, the line's height first.
        shown: what all rows share.
        layers: of the model.
        offset: of the markers, see `marked`.
        probe: whether it tells of the read-out's probe; what does not is never grey.
    """
    height = next(iter(numbers.values()))[0]
    if height not in frame or frame[height].isna().all():
        return []
    frame = frame.sort_values("layer")
    points: dict[str, list[Any]] = {
        name: [number(factor * x, digits) for x in frame[source]]
        if source in frame
        else [None] * len(frame)
        for name, (source, factor, digits) in numbers.items()
    }
    at = [int(layer) for layer in frame["layer"]]
    seen = true(frame["signal"]).tolist() if probe else [True] * len(at)
    marks = marked(points[next(iter(points))], at, marker_step(layers), offset, seen)
    points |= {"layer": at, "mark": marks, "signal": seen}
    return in_runs(
        shown | dict(zip(points, values, strict=True))
        for values in zip(*points.values(), strict=True)
    )


def values_of(column: str, low: str = "", high: str = "", factor: float = 1) -> dict[str, Source]:
    """What a row of a small panel holds: `value`, and `low` and `high` where there is a band."""
    ends = (("value", column), ("low", low), ("high", high))
    return {name: (source, factor, 4) for name, source in ends}


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


def marker_step(layers: int) -> int:
    """A marker at every so many layers: markers tell series apart, the line carries the data."""
    return max(1, math.ceil(layers / 8))


def marked(
    values: Sequence[float | None],
    layers: Sequence[int],
    step: int,
    offset: int,
    seen: Sequence[bool],
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


def number(value: Any, digits: int) -> float | None:
    """Rounded; 0 digits make an integer; a blank stays one."""
    return None if pd.isna(value) else round(float(value), digits or None)


def true(column: pd.Series) -> pd.Series:
    """A column of booleans as a CSV gives it back; a blank is false."""
    if column.dtype == bool:
        return column
    return column.astype(str).str.lower().isin(["true", "1", "1.0"])


def _rows(cell: pd.DataFrame, condition: str, anchor: str) -> pd.DataFrame:
    chosen = cell[(cell["condition"] == condition) & (cell["anchor"] == anchor)]
    return chosen if chosen["layer"].is_monotonic_increasing else chosen.sort_values("layer")


def sample_size(cell: pd.DataFrame, cut: str) -> int:
    """Samples of a cell, at the layer that has most."""
    measured = cell[cell["condition"] == cut]
    everyone = measured[measured["anchor"] == "all"]
    groups = measured[measured["anchor"].isin(ANCHORS)]
    counts = everyone["n"] if len(everyone) else groups.groupby("layer")["n"].sum()
    return int(counts.max()) if len(counts) and counts.notna().any() else 0


def _thin(curve: pd.DataFrame) -> pd.Series:
    """Too few samples or clusters for a point on the line."""
    return true(curve["thin"]) | (curve["n"].fillna(0) == 0)


def _masked(curve: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """The curve with columns left blank where it is thin."""
    return curve.assign(**curve[columns].mask(_thin(curve)))


def unseen_note(cells: Mapping[str, pd.DataFrame]) -> list[str]:
    """The caption's words on what is grey; cells of one read-out by name, empty ones unmeasured."""
    known = {name: rows for name, rows in cells.items() if len(rows)}
    by_place: dict[str, list[str]] = {}
    for name, rows in known.items():
        layers = rows.drop_duplicates("layer").sort_values("layer")
        weak = [int(layer) for layer in layers["layer"][~true(layers["signal"])]]
        if weak:
            where = EVERYWHERE if len(weak) == len(layers) else f"at {layer_list(weak)}"
            by_place.setdefault(where, []).append(name)
    places = sorted(by_place.items(), key=lambda item: len(item[1]))
    said = [f"{few(names)} {where}" for where, names in places]
    if places and sum(map(len, by_place.values())) == len(known) and len(places[-1][1]) > 1:
        said[-1] = f"{'all other cells' if said[1:] else 'every cell'} {places[-1][0]}"
    told = [f"{UNSEEN} (hollow grey): {'; '.join(said)}. {UNTOLD}"] if said else []
    blank = [name for name, rows in known.items() if not true(rows["cell_signal"]).any()]
    others = [name for name in blank if name not in by_place.get(EVERYWHERE, [])]
    return told + ([f"{UNSEEN} in the cell as a whole: {few(others)}."] if others else [])


def cells_of(
    rows: pd.DataFrame, panels: Sequence[Pair], datasets: Sequence[Pair]
) -> dict[str, pd.DataFrame]:
    """Rows of every cell, by its name in a caption."""
    return {
        f"{label} on {name}": cell_of(rows, model, dataset)
        for model, label in panels
        for dataset, name in datasets
    }


def cell_of(rows: pd.DataFrame, model: str, dataset: str) -> pd.DataFrame:
    """The rows of one cell."""
    return rows[(rows["model"] == model) & (rows["dataset"] == dataset)]


def missing_note(names: Sequence[str]) -> list[str]:
    """The caption's words on what was not measured."""
    return [f"Not measured: {few(names)}."] if names else []


def _thin_note(curve: pd.DataFrame, label: str, series: str) -> list[str]:
    """Where a curve was not drawn, as `Q-Anchored (PopQA) of Llama-3.2-1B at layers 0–2, 5`."""
    layers = [int(layer) for layer in curve["layer"][_thin(curve)]]
    if not layers:
        return []
    where = EVERYWHERE if len(layers) == len(curve) else f"at {layer_list(layers)}"
    return [f"{series} of {label} {where}"]


def sample_count(counts: Sequence[int]) -> str:
    """`900`, or `812 to 1,000` where cells differ."""
    ends = dict.fromkeys(f"{end:,}" for end in (min(counts, default=0), max(counts, default=0)))
    return " to ".join(ends)


def size_note(counts: Sequence[int]) -> str:
    """The same in a caption."""
    return f"n\u00a0=\u00a0{sample_count(counts)}"


def few(items: Sequence[str], most: int = 3) -> str:
    """The first of them in words, and how many more there are."""
    more = len(items) - most
    shown = "; ".join(items[:most])
    return f"{shown}; and {more} more" if more > 0 else shown


def layer_list(layers: Sequence[int]) -> str:
    """[5] as `layer 5`, [0, 1, 2, 5] as `layers 0–2, 5`."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][1] + 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    named = ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs)
    return f"layer{'' if len(layers) == 1 else 's'} {named}"
