"""What a figure draws of its table: the rows of each model's column, rounded."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import pandas as pd

from anchorscope.figures.figure_request import Pair, Request
from anchorscope.figures.figure_style import Series, marker_of
from anchorscope.storage.errors import AnchorscopeError, stale

KEYS = "model dataset site position condition grouping anchor layer"
NUMBERS = (
    "n share delta_p ci_low ci_high probe_auc answer_accuracy flip_share flip_low flip_high "
    "n_paired thin signal cell_signal headline"
)
FLAGS = ("signal", "cell_signal", "headline", "thin")
DRAWN = ("value", "low", "high", "n")


def require(table: pd.DataFrame, columns: Iterable[str]) -> None:
    """Refuse a table that lacks one of the columns: AnchorscopeError."""
    if absent := [name for name in columns if name not in table]:
        what = f"the table lacks the columns {', '.join(absent)}"
        raise stale(what, f"its columns: {', '.join(map(str, table.columns))}", "the table")


def at_readout(table: pd.DataFrame, readout: Pair) -> pd.DataFrame:
    """The table's rows at the read-out. Raises AnchorscopeError: nothing measured there."""
    rows = rows_at(table, readout)
    if rows.empty:
        measured = sorted({*(table["site"] + "/" + table["position"])})
        where = f"the table holds: {', '.join(measured) or 'nothing'}"
        do = "name one of these, or add this one to the config and measure it"
        what = f"no rows of the read-out {'/'.join(readout)}"
        raise AnchorscopeError(what, where, do, see="not-measured")
    return rows


def rows_at(table: pd.DataFrame, readout: Pair) -> pd.DataFrame:
    """The table's rows at the read-out, if any."""
    return table[(table["site"] == readout[0]) & (table["position"] == readout[1])]


def select(table: pd.DataFrame, readout: Pair | None) -> pd.DataFrame:
    """The curve's rows at the read-out, or at all of them; groups of too few samples are `thin`.

    Raises AnchorscopeError: missing columns, or nothing measured at this read-out.
    """
    require(table, f"{KEYS} {NUMBERS}".split())
    rows = at_readout(table, readout) if readout else table
    thin = (true(rows["thin"]) | (rows["n"].fillna(0) == 0)) & (rows["anchor"] != "all")
    return rows.assign(thin=thin)


def layer_count(rows: pd.DataFrame) -> int:
    """Layers of a model by its rows; 1 where there are none."""
    return int(rows["layer"].max()) + 1 if len(rows) else 1


def shown(table: pd.DataFrame, request: Request, columns: Iterable[str]) -> pd.DataFrame:
    """The rows of the request's cells at its read-out, with the labels of model and dataset.

    Columns of flags hold booleans; `marker` and `offset` tell the datasets apart, see `in_runs`.
    Raises AnchorscopeError: one of the `columns` is missing.
    """
    require(table, columns)
    return labelled(rows_at(table, request.readout), request)


def labelled(rows: pd.DataFrame, request: Request) -> pd.DataFrame:
    """The rows of the request's cells, as `shown`, at whatever read-out."""
    models, datasets = dict(request.panels), dict(request.datasets)
    rows = rows[rows["model"].isin(models) & rows["dataset"].isin(datasets)].copy()
    place = rows["dataset"].map({key: i for i, key in enumerate(datasets)}).astype(int)
    return rows.assign(
        model=rows["model"].map(models),
        dataset=rows["dataset"].map(datasets),
        marker=place.map(marker_of),
        offset=place,
        **{name: true(rows[name]) for name in FLAGS if name in rows},
    )


def numbered(
    rows: pd.DataFrame,
    column: str,
    factor: float = 1,
    n: str = "n_paired",
    ends: str = "",
    **labels: Any,
) -> pd.DataFrame:
    """The rows with what is drawn of them, blank where the table has none; and labels.

    `value` is a column of the table, `low` and `high` are the ends of its interval, times a factor;
    `n` is how many samples stand behind it. `ends`: what the columns of the interval begin with, if
    not with the column's name.
    """
    low, high = (f"{ends or column}_{end}" for end in ("low", "high"))
    columns = {"value": (column, factor), "low": (low, factor), "high": (high, factor), "n": (n, 1)}
    drawn = {
        name: (times * rows[column]).astype(float) if column in rows else math.nan
        for name, (column, times) in columns.items()
    }
    return rows.assign(**drawn, **labels)


def by_group(rows: pd.DataFrame, anchor: str = "") -> pd.DataFrame:
    """Rows in the series of their dataset and group, as the main figure has them.

    `anchor`: of all rows; else each row's own, `all` as Q-Anchored.
    """
    anchors = rows["anchor"].replace("all", "Q") if not anchor else pd.Series(anchor, rows.index)
    series = anchors + "-Anchored (" + rows["dataset"] + ")"
    return rows.assign(series=series, offset=rows["offset"] + 4 * (anchors == "A"))


def in_series(rows: pd.DataFrame, column: str, series: Mapping[Any, Series]) -> pd.DataFrame:
    """Rows in the series that their values of a column name."""
    return rows.assign(
        series=rows[column].map({name: one.name for name, one in series.items()}),
        marker=rows[column].map({name: one.marker for name, one in series.items()}),
        offset=rows[column].map([*series].index).astype(int),
    )


def in_runs(
    rows: pd.DataFrame,
    labels: Iterable[str] = (),
    numbers: Sequence[str] = (),
    x: str = "layer",
    digits: int = 5,
) -> pd.DataFrame:
    """Lines of `value` along `x`, cut into runs with and without a signal, each of one colour.

    Rows of one model, dataset and series, with the same `labels`, are a line; `offset` says where
    its markers begin. Lines without any number are left out; a blank within a line keeps its row,
    so that the line breaks there. Points of `thin` groups belong to no run. Returned are these
    columns, what is drawn, further `numbers`, `signal`, `thin`, the number of the `run`, whether
    the point has a `mark`, and whether it is an `edge`, see `_edges`.
    """
    by = list(dict.fromkeys(["model", "dataset", "series", *labels]))
    order = [name for name in ("offset", *by, x) if name in rows]
    lines = rows.sort_values(order, ignore_index=True)
    lines["line"] = lines.groupby(by, sort=False, dropna=False).ngroup()
    lines = lines.sort_values(["line", x], ignore_index=True)
    kept = dict.fromkeys([*by, "marker", "chance", "line", x, *DRAWN, *numbers])
    drawn = lines[[name for name in kept if name in lines]].copy()
    rounded = [name for name in (*DRAWN, *numbers) if name in drawn]
    drawn[rounded] = drawn[rounded].astype(float).round(digits)
    drawn["signal"] = lines.get("signal", True)
    drawn["thin"] = lines.get("thin", False)

    kind = drawn["signal"].astype(int).mask(drawn["thin"], 2)
    stretch = (drawn["line"].ne(drawn["line"].shift()) | kind.ne(kind.shift())).cumsum()
    drawn["run"] = stretch - stretch.groupby(drawn["line"]).transform("first")

    has_value = drawn["value"].notna()
    drawn["mark"] = has_value & _marked(lines, has_value, stretch, drawn["signal"])
    kept_lines = has_value.groupby(drawn["line"]).transform("any")
    whole = [drawn[kept_lines].assign(edge=False), *_edges(drawn, kind, kept_lines)]
    return pd.concat(whole).sort_values(["line", "run", x]).drop(columns="line")


def _marked(
    lines: pd.DataFrame, has_value: pd.Series, stretch: pd.Series, signal: pd.Series
) -> pd.Series:
    """Where a line has markers: every few points, more often without a signal, and at points that
    no line reaches. Markers tell series apart; the line carries the data.
    """
    place = lines.groupby("line").cumcount()
    step = (lines.groupby("line")["line"].transform("size") / 8).apply(math.ceil)
    offset = lines.get("offset", 0)
    every_step = place % step == offset % step
    often = ~signal & (place % (step // 4).clip(1) == 0)
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


def stacked(rows: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Shares in percent, one on the other: `value`, `start`, `end` and `middle` of each series.

    `columns`: column of a share → its series, in order; a row with a blank is left out.
    """
    rows = rows.dropna(subset=[*columns])
    parts, start = [], pd.Series(0.0, rows.index)
    for column, series in columns.items():
        part = numbered(rows, column, 100, series=series, start=start)
        parts.append(part.assign(end=start + part["value"], middle=start + part["value"] / 2))
        start = parts[-1]["end"]
    return pd.concat(parts).round(2)


def true(column: pd.Series) -> pd.Series:
    """A column of booleans as a CSV gives it back; a blank is false."""
    return column.astype(str).str.lower().isin(["true", "1", "1.0"])


def cells_of(rows: pd.DataFrame, request: Request) -> dict[str, pd.DataFrame]:
    """Rows of every cell by its name in a caption; of `labelled` rows."""
    cells = dict(iter(rows.groupby(["model", "dataset"])))
    return {
        f"{model} on {dataset}": cells.get((model, dataset), rows.head(0))
        for (_, model), (_, dataset) in product(request.panels, request.datasets)
    }
