"""What a figure draws of its table: the rows of each model's column, rounded."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import pandas as pd

from anchorscope.figures.figure_style import marker_of
from anchorscope.storage.errors import AnchorscopeError, stale

KEYS = "model dataset site position condition grouping anchor layer"
NUMBERS = (
    "n share delta_p ci_low ci_high probe_auc answer_accuracy flip_share flip_low flip_high "
    "n_paired thin signal cell_signal headline"
)
Row = dict[str, str | int | float | bool | None]
Pair = tuple[str, str]
# what a row holds of each number: its column of the table, factor, digits
Source = tuple[str, float, int]
CURVE: dict[str, Source] = {
    "value": ("delta_p", 1, 2),
    "low": ("ci_low", 1, 2),
    "high": ("ci_high", 1, 2),
    "n": ("n", 1, 0),
    "share": ("share", 100, 1),
    "probe_auc": ("probe_auc", 1, 3),
}
SHARES: dict[str, Source] = {
    "value": ("flip_share", 100, 1),
    "low": ("flip_low", 100, 1),
    "high": ("flip_high", 100, 1),
    "n": ("n_paired", 1, 0),
    "of": ("of", 1, 0),
}


def distinct(pairs: Sequence[Pair]) -> list[Pair]:
    """Equal labels get their key added: the legend tells series apart by label alone."""
    labels = [label for _, label in pairs]
    return [
        (key, f"{label} [{key}]" if labels.count(label) > 1 else str(label)) for key, label in pairs
    ]


def require(table: pd.DataFrame, columns: str) -> None:
    """Refuse a table that lacks one of the columns (named in one string): AnchorscopeError."""
    if absent := [name for name in columns.split() if name not in table]:
        what = f"the table lacks the columns {', '.join(absent)}"
        raise stale(what, f"its columns: {', '.join(map(str, table.columns))}", "the table")


def at_readout(table: pd.DataFrame, readout: Pair) -> pd.DataFrame:
    """The table's rows at the read-out. Raises AnchorscopeError: nothing measured there."""
    readouts = table["site"] + "/" + table["position"]
    return _not_empty(rows_at(table, readout), f"read-out {'/'.join(readout)}", readouts)


def rows_at(table: pd.DataFrame, readout: Pair) -> pd.DataFrame:
    """The table's rows at the read-out, if any."""
    return table[(table["site"] == readout[0]) & (table["position"] == readout[1])]


def at_grouping(table: pd.DataFrame, grouping: str | None) -> tuple[pd.DataFrame, str]:
    """The table's rows of the grouping, and the grouping: `per_layer` where none is named.

    Raises AnchorscopeError: nothing measured with it.
    """
    groupings = table["grouping"]
    chosen: str = grouping or ("per_layer" if "per_layer" in set(groupings) else min(groupings))
    return _not_empty(table[groupings == chosen], f"grouping {chosen}", groupings), chosen


def _not_empty(rows: pd.DataFrame, what: str, choices: Iterable[str]) -> pd.DataFrame:
    """The rows. Raises AnchorscopeError, which lists what there is, if there are none."""
    if rows.empty:
        where = f"the table holds: {', '.join(sorted(set(choices))) or 'nothing'}"
        do = "name one of these, or add this one to the config and measure it"
        raise AnchorscopeError(f"no rows of the {what}", where, do, see="not-measured")
    return rows


def select(
    table: pd.DataFrame, readout: Pair | None, grouping: str | None
) -> tuple[pd.DataFrame, str]:
    """The curve's rows at the read-out, or at all of them, and grouping; and the grouping.

    Groups of too few samples are `thin`. `of` is how many right answers the knockout's group has at
    the layer. Raises AnchorscopeError: missing columns, or nothing measured at this read-out or
    grouping.
    """
    require(table, f"{KEYS} {NUMBERS}")
    rows, chosen = at_grouping(at_readout(table, readout) if readout else table, grouping)
    thin = (true(rows["thin"]) | (rows["n"].fillna(0) == 0)) & (rows["anchor"] != "all")
    cut = rows[rows["condition"] == "knockout"]
    place = ["model", "dataset", "site", "position", "anchor", "layer"]
    right = cut[place].assign(of=(cut["n"] * cut["answer_accuracy"]).round())
    return rows.assign(thin=thin).merge(right, on=place, how="left"), chosen


def layer_count(rows: pd.DataFrame) -> int:
    """Layers of a model by its rows; 1 where there are none."""
    return int(rows["layer"].max()) + 1 if len(rows) else 1


def panel_rows(
    rows: pd.DataFrame,
    model: Pair,
    datasets: Sequence[Pair],
    anchors: Sequence[str],
    conditions: Sequence[str],
    numbers: Mapping[str, Source],
) -> pd.DataFrame:
    """The lines of one panel of a model: one for each dataset, condition and group.

    `rows` are as `select` returns them; the group `all` is drawn as Q-Anchored; of the conditions
    those behind the first are its controls, marked `chance`.
    """
    mine = rows[rows["model"] == model[0]]
    step, names = marker_step(layer_count(mine)), dict(datasets)
    keys = {"dataset": list(names), "condition": conditions, "anchor": anchors}
    lines = mine[mine[list(keys)].isin(keys).all(axis=1)]
    i, j, k = (lines[key].map(values.index).astype(int) for key, values in keys.items())
    group = lines["anchor"].replace("all", "Q") + "-Anchored"
    name = lines["dataset"].map(names)
    labels: dict[str, str | pd.Series] = {
        "model": model[1],
        "dataset": name,
        "anchor": group,
        "series": group + " (" + name + ")",
        "marker": i.map(marker_of),
        "condition": lines["condition"],
        "chance": j > 0,
    }
    line = (i * len(conditions) + j) * len(anchors) + k
    lines = lines.assign(**labels, line=line, offset=i + k * (step // 2))
    return _in_runs(lines, list(labels), numbers, step)


def line_rows(
    frame: pd.DataFrame,
    numbers: Mapping[str, Source],
    labels: Row,
    points: int,
    offset: int,
    *,
    x: str = "layer",
    probe: bool = True,
) -> list[Row]:
    """One line of a panel, as `panel_rows`; none if it is all blank or the table lacks its column.

    Args:
        frame: the line's rows of the table.
        numbers: what a row holds, the line's height first.
        labels: what all rows share.
        points: of the line, such as the layers of the model.
        offset: of the markers, so that those of several lines do not meet.
        x: the column along which the line runs.
        probe: whether it tells of the read-out's probe; what does not is never grey.
    """
    if next(iter(numbers.values()))[0] not in frame:
        return []
    line = frame.assign(line=0, offset=offset, **({} if probe else {"signal": True}))
    rows = _in_runs(line, [], numbers, marker_step(points), x).astype(object)
    records = rows.where(rows.notna(), None).assign(**labels).to_dict("records")
    return [{str(name): value for name, value in record.items()} for record in records]


def stacked_rows(
    frame: pd.DataFrame, columns: Mapping[str, str], labels: Row, factor: float = 100
) -> list[Row]:
    """What `figure_panel.share_panel` draws: a row for each layer and column, stacked in order.

    Args:
        frame: a row for each `layer`.
        columns: column of a share → its series; a layer with a blank is left out.
        labels: what all rows share.
        factor: on the shares.
    """
    rows: list[Row] = []
    for _, layer in frame.dropna(subset=list(columns)).sort_values("layer").iterrows():
        place, low = int(layer["layer"]), 0.0
        for column, series in columns.items():
            value = factor * float(layer[column])
            numbers = {"value": value, "low": low, "high": low + value, "middle": low + value / 2}
            row = {name: round(number, 2) for name, number in numbers.items()}
            ends = {"layer": place, "left": place - 0.5, "right": place + 0.5}
            rows.append({**row, **ends, "series": series, **labels})
            low += value
    return rows


def _in_runs(
    lines: pd.DataFrame,
    labels: Sequence[str],
    numbers: Mapping[str, Source],
    step: int,
    x: str = "layer",
) -> pd.DataFrame:
    """Cut lines into runs with and without a signal, each drawn in one colour.

    `lines` has a column `line`, which tells them apart, and `offset`, where a line's markers begin.
    Rows of a line without any number are left out; a blank within a line keeps its row, so that the
    line breaks there. Points of `thin` groups belong to no run. Returned are the columns `labels`,
    `x` and `numbers`, `signal`, `thin`, the number of the `run`, whether the point has a `mark`,
    and whether it is an `edge`, see `_edges`.
    """
    lines = lines.sort_values(["line", x], ignore_index=True)
    rows, line = lines[[*labels, "line", x]].copy(), lines["line"]
    for name, (column, factor, digits) in numbers.items():
        values = factor * lines[column] if column in lines else pd.Series(math.nan, lines.index)
        rows[name] = values.round(digits) if digits else values.round().astype("Int64")
    rows["signal"] = true(lines["signal"])
    rows["thin"] = true(lines["thin"]) if "thin" in lines else False

    kind = rows["signal"].astype(int).mask(rows["thin"], 2)
    stretch = (line.ne(line.shift()) | kind.ne(kind.shift())).cumsum()
    rows["run"] = stretch - stretch.groupby(line).transform("first")

    has_value = rows[next(iter(numbers))].notna()
    rows["mark"] = has_value & _marked(rows, lines, has_value, stretch, step, x)

    kept = has_value.groupby(line).transform("any")
    rows = pd.concat([rows[kept].assign(edge=False), *_edges(rows, kind, kept)])
    return rows.sort_values(["line", "run", x]).drop(columns="line")


def _marked(
    rows: pd.DataFrame,
    lines: pd.DataFrame,
    has_value: pd.Series,
    stretch: pd.Series,
    step: int,
    x: str,
) -> pd.Series:
    """Where a line has markers: every `step` points, more often without a signal, and at points
    that no line reaches.
    """
    place = rows["layer"] if x == "layer" else rows.groupby("line").cumcount()
    every_step = place % step == lines["offset"] % step
    often = ~rows["signal"] & (place % max(1, step // 4) == 0)
    neighbours = has_value.groupby(stretch)
    alone = ~(neighbours.shift(1, fill_value=False) | neighbours.shift(-1, fill_value=False))
    return every_step | often | alone


def _edges(rows: pd.DataFrame, kind: pd.Series, kept: pd.Series) -> list[pd.DataFrame]:
    """The ends of runs with a signal beside runs without one, a second time, as part of the latter.

    So the grey line reaches as far as the coloured one. `kind` is 0 without a signal, 1 with one.
    """
    grey = rows.assign(signal=False, mark=False, edge=True)
    neighbours = kind.groupby(rows["line"])
    return [
        grey.assign(run=rows["run"] - side)[kept & kind.eq(1) & neighbours.shift(side).eq(0)]
        for side in (1, -1)
    ]


def values_of(column: str, low: str = "", high: str = "", factor: float = 1) -> dict[str, Source]:
    """What a row of a small panel holds: `value`, and `low` and `high` where there is a band."""
    ends = (("value", column), ("low", low), ("high", high))
    return {name: (source, factor, 4) for name, source in ends}


def marker_step(layers: int) -> int:
    """A marker at every few layers: markers tell series apart, the line carries the data."""
    return max(1, math.ceil(layers / 8))


def true(column: pd.Series) -> pd.Series:
    """A column of booleans as a CSV gives it back; a blank is false."""
    return column.astype(str).str.lower().isin(["true", "1", "1.0"])


def cells_of(
    rows: pd.DataFrame, panels: Sequence[Pair], datasets: Sequence[Pair]
) -> dict[str, pd.DataFrame]:
    """Rows of every cell, by its name in a caption."""
    return {
        f"{label} on {name}": cell_of(rows, model, dataset)
        for (model, label), (dataset, name) in product(panels, datasets)
    }


def cell_of(rows: pd.DataFrame, model: str, dataset: str) -> pd.DataFrame:
    """The rows of one cell."""
    return rows[(rows["model"] == model) & (rows["dataset"] == dataset)]
