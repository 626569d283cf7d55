"""A figure's request, and functions that select, label and round the rows that it draws."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pandas as pd

from anchorscope.config.readouts import READOUTS, not_measured
from anchorscope.figures.style import Chart, Series, Style, marker_of, style_of
from anchorscope.storage.errors import stale

KeyLabel = tuple[str, str]
KEYS = "model dataset site position condition grouping anchor layer"
NUMBERS = "n share delta_p ci_low ci_high probe_auc thin predicts headline"
FLAGS = ("predicts", "headline", "thin")
DRAWN = ("value", "low", "high", "n")


def distinct(named: Sequence[KeyLabel]) -> list[KeyLabel]:
    """Add the key to labels that are not unique: the legend tells series apart by label alone."""
    labels = [label for _, label in named]
    return [
        (key, f"{label} [{key}]" if labels.count(label) > 1 else str(label)) for key, label in named
    ]


@dataclass(frozen=True)
class Request:
    """Content and style of a figure."""

    title: str  # the figure's title
    panels: Sequence[KeyLabel]  # (model key, label) in the order of the panels
    datasets: Sequence[KeyLabel]  # (dataset key, label) in the order of the legend
    readout: tuple[str, str] = ("mlp", "final")  # (site, position)
    condition: str = "knockout"  # condition whose ΔP the main figure draws
    level: float = 0.95  # level of the intervals in the tables, for the caption
    at_resid: Sequence[str] = ()  # labels of models that lack the site and are read at `resid`
    no_answers: str = ""  # the caption's sentence on responses that were left out
    look: Style = field(default_factory=Style)

    @property
    def where(self) -> str:
        """First words of captions: the read-out."""
        instead = f" (resid/{self.readout[1]} in {', '.join(self.at_resid)})"
        return f"Read-out {'/'.join(self.readout)}{instead if self.at_resid else ''}"


ChartFunction = Callable[..., Chart]
"""Function that draws a figure from tables and the keywords of `request_of`."""


def request_of(
    panels: Sequence[KeyLabel],
    datasets: Sequence[KeyLabel],
    style: Style | Mapping[str, object] | None = None,
    **others: Any,
) -> Request:
    """Return a `Request` with distinct labels and the look `style`."""
    return Request(
        panels=distinct(panels), datasets=distinct(datasets), look=style_of(style), **others
    )


def require(table: pd.DataFrame, columns: Iterable[str]) -> None:
    """Raise an AnchorscopeError if the table lacks one of the columns."""
    if absent := [name for name in columns if name not in table]:
        what = f"the table lacks the columns {', '.join(absent)}"
        raise stale(what, f"its columns: {', '.join(map(str, table.columns))}", "the table")


def at_readout(table: pd.DataFrame, readout: tuple[str, str]) -> pd.DataFrame:
    """Return `rows_at`.

    Raises:
        AnchorscopeError: There are none.
    """
    rows = rows_at(table, readout)
    if rows.empty:
        raise not_measured("/".join(readout), measured_in(table), "the table")
    return rows


def rows_at(table: pd.DataFrame, readout: tuple[str, str]) -> pd.DataFrame:
    """Return the table's rows at the read-out, if any. A model without its site is at `resid`."""
    site, position = readout
    lacks = ~table["model"].isin(table["model"][table["site"] == site])
    at_site = (table["site"] == site) | (lacks & (table["site"] == "resid"))
    return table[at_site & (table["position"] == position)]


def measured_in(table: pd.DataFrame) -> list[str]:
    """Return the read-outs of a table's rows, in the order of `READOUTS`."""
    found = {*(table["site"] + "/" + table["position"])}
    return [one for one in READOUTS if one in found]


def select(table: pd.DataFrame, readout: tuple[str, str] | None) -> pd.DataFrame:
    """Return the curve's rows at the read-out, or at all read-outs if it is None.

    Groups `Q` and `A` are also marked `thin` if they have no samples. The group `all` never is.

    Raises:
        AnchorscopeError: Columns are missing, or nothing was measured at this read-out.
    """
    require(table, f"{KEYS} {NUMBERS}".split())
    rows = at_readout(table, readout) if readout else table
    thin = (true(rows["thin"]) | (rows["n"].fillna(0) == 0)) & (rows["anchor"] != "all")
    return rows.assign(thin=thin)


def layer_count(rows: pd.DataFrame) -> int:
    """Return a model's number of layers, as found in its rows, or 1 if there are no rows."""
    return int(rows["layer"].max()) + 1 if len(rows) else 1


def shown(table: pd.DataFrame, request: Request, columns: Iterable[str]) -> pd.DataFrame:
    """Return the rows of the request's cells at its read-out, labelled.

    `model` and `dataset` hold labels, and the columns in `FLAGS` hold booleans. `marker` and
    `offset` tell the datasets apart, see `in_lines`.

    Raises:
        AnchorscopeError: One of the `columns` is missing.
    """
    require(table, columns)
    return labelled(rows_at(table, request.readout), request)


def labelled(rows: pd.DataFrame, request: Request) -> pd.DataFrame:
    """Return the rows of the request's cells, labelled as in `shown`, at every read-out."""
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
    """Add the columns that are drawn: `value`, `low`, `high` and `n`, float64.

    `value` is `column`; `low` and `high` are `<ends>_low` and `<ends>_high`, where `ends` defaults
    to `column`. All three are multiplied by `factor`. A column that the table lacks becomes NaN.
    """
    low, high = (f"{ends or column}_{end}" for end in ("low", "high"))
    columns = {"value": (column, factor), "low": (low, factor), "high": (high, factor), "n": (n, 1)}
    drawn = {
        name: (times * rows[column]).astype(float) if column in rows else math.nan
        for name, (column, times) in columns.items()
    }
    return rows.assign(**drawn, **labels)


def by_group(rows: pd.DataFrame, anchor: str = "") -> pd.DataFrame:
    """Assign rows to the main figure's series, one for each dataset and group.

    `anchor` sets one group for all rows. By default, rows keep their own, and `all` counts as `Q`.
    """
    anchors = rows["anchor"].replace("all", "Q") if not anchor else pd.Series(anchor, rows.index)
    series = anchors + "-Anchored (" + rows["dataset"] + ")"
    return rows.assign(series=series, offset=rows["offset"] + 4 * (anchors == "A"))


def in_series(rows: pd.DataFrame, column: str, series: Mapping[Any, Series]) -> pd.DataFrame:
    """Assign rows to series by their values of a column."""
    return rows.assign(
        series=rows[column].map({name: one.name for name, one in series.items()}),
        marker=rows[column].map({name: one.marker for name, one in series.items()}),
        offset=rows[column].map([*series].index).astype(int),
    )


def in_lines(
    rows: pd.DataFrame,
    labels: Iterable[str] = (),
    numbers: Sequence[str] = (),
    x: str = "layer",
    digits: int = 5,
) -> pd.DataFrame:
    """Order rows along lines of `value`, and flag the points where the probe predicts or a marker.

    Rows of one model, dataset and series, with the same `labels`, form a line along `x`. `offset`
    is the place of its first marker. A line without any number is left out. A row without a number
    stays, so that the line breaks there. The line also breaks at points of `thin` groups.

    Returns:
        The columns that define and style lines, `DRAWN`, `numbers`, `predicts`, `thin`, and three
        flags. `mark`: the point has a marker. `strong`: it is on the line where the probe predicts.
        `faint`: it is on the grey line, which extends to neighbouring points of the other.
    """
    by = list(dict.fromkeys(["model", "dataset", "series", *labels]))
    order = [name for name in ("offset", *by, x) if name in rows]
    lines = rows.sort_values(order, ignore_index=True)
    line = lines.groupby(by, sort=False, dropna=False).ngroup()
    order_of_lines = line.argsort(kind="stable")
    lines, line = lines.iloc[order_of_lines], line.iloc[order_of_lines]
    kept = dict.fromkeys([*by, "marker", "chance", x, *DRAWN, *numbers])
    drawn = lines[[name for name in kept if name in lines]].copy()
    rounded = [name for name in (*DRAWN, *numbers) if name in drawn]
    drawn[rounded] = drawn[rounded].astype(float).round(digits)
    drawn["predicts"] = lines.get("predicts", True)
    drawn["thin"] = lines.get("thin", False)

    known = drawn["value"].notna() & ~drawn["thin"]
    weak = known & ~drawn["predicts"]
    drawn["strong"] = known & drawn["predicts"]
    drawn["faint"] = weak | (known & _beside(weak, line))
    # markers tell series apart: every few points get one, and so does a point that no line reaches
    step = (line.groupby(line).transform("size") / 8).apply(math.ceil)
    place = line.groupby(line).cumcount()
    every = drawn["strong"] & (place % step == lines.get("offset", 0) % step)
    in_line = _beside(drawn["strong"], line).where(drawn["strong"], _beside(known, line))
    drawn["mark"] = every | (known & ~in_line)
    return drawn[drawn["value"].notna().groupby(line).transform("any")]


def _beside(known: pd.Series, line: pd.Series) -> pd.Series:
    """Return which points have a neighbour on the same line for which `known` is true."""
    of_line = known.groupby(line)
    return of_line.shift(1, fill_value=False) | of_line.shift(-1, fill_value=False)


def stacked(rows: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Stack shares: return `value`, `start`, `end` and `middle` of each series, in percent.

    `columns` maps the column of each share to its series, in order. Rows with a blank are left out.
    """
    rows = rows.dropna(subset=[*columns])
    parts, start = [], pd.Series(0.0, rows.index)
    for column, series in columns.items():
        part = numbered(rows, column, 100, series=series, start=start)
        parts.append(part.assign(end=start + part["value"], middle=start + part["value"] / 2))
        start = parts[-1]["end"]
    return pd.concat(parts).round(2)


def true(column: pd.Series) -> pd.Series:
    """Return a column read from CSV as booleans; a blank is false."""
    return column.astype(str).str.lower().isin(["true", "1", "1.0"])


def cells_of(rows: pd.DataFrame, request: Request) -> dict[str, pd.DataFrame]:
    """Return a dict of cell → its `labelled` rows. Cells are named as in captions."""
    cells = dict(iter(rows.groupby(["model", "dataset"])))
    return {
        f"{model} on {dataset}": cells.get((model, dataset), rows.head(0))
        for (_, model), (_, dataset) in product(request.panels, request.datasets)
    }
