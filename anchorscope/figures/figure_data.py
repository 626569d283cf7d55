"""What a figure draws of its table: the rows of each model's column, rounded, and what to say."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, product
from typing import Any

import pandas as pd

from anchorscope.figures.figure_style import ANCHORS, marker_of
from anchorscope.storage.errors import AnchorscopeError, stale

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
# a picture of cells with fewer samples, and with thin groups, is a preview
ENOUGH = 300
BANDS = "bootstrap intervals, with the probe's own variance"
AUC_BANDS = "bootstrap intervals, probes held fixed"
Row = dict[Any, Any]
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


def thinking_notes(records: Mapping[str, Mapping[str, Any]], models: Sequence[Pair]) -> list[str]:
    """What chat templates do about thinking, by the records of the prompts, for a caption."""
    told: dict[str, list[str]] = {}
    for key, label in models:
        own = [record for path, record in records.items() if f"/prompts/{key}/" in f"/{path}"]
        for words in sorted({record["thinking"] for record in own if record.get("thinking")}):
            told.setdefault(words, []).append(label)
    return [f"{', '.join(labels)}: {words}." for words, labels in told.items()]


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
    held = table["site"] + "/" + table["position"]
    return _measured(rows_at(table, readout), f"read-out {'/'.join(readout)}", held)


def rows_at(table: pd.DataFrame, readout: Pair) -> pd.DataFrame:
    """The table's rows at the read-out, if any."""
    return table[(table["site"] == readout[0]) & (table["position"] == readout[1])]


def at_grouping(table: pd.DataFrame, grouping: str | None) -> tuple[pd.DataFrame, str]:
    """The table's rows of the grouping, and the grouping: `per_layer` where none is named.

    Raises AnchorscopeError: nothing measured with it.
    """
    held = table["grouping"]
    chosen: str = grouping or ("per_layer" if "per_layer" in set(held) else min(held))
    return _measured(table[held == chosen], f"grouping {chosen}", held), chosen


def _measured(rows: pd.DataFrame, what: str, held: Iterable[str]) -> pd.DataFrame:
    if rows.empty:
        known = f"the table holds: {', '.join(sorted(set(held))) or 'nothing'}"
        do = "name one of these, or add this one to the config and measure it"
        raise AnchorscopeError(f"no rows of the {what}", known, do, see="not-measured")
    return rows


def select(
    table: pd.DataFrame, readout: Pair | None, grouping: str | None
) -> tuple[pd.DataFrame, str]:
    """The curve's rows at the read-out, or at all, and grouping; and the grouping.

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
    step, labels = marker_step(layer_count(mine)), dict(datasets)
    keys = {"dataset": list(labels), "condition": conditions, "anchor": anchors}
    lines = mine[mine[list(keys)].isin(keys).all(axis=1)]
    i, j, k = (lines[name].map(known.index).astype(int) for name, known in keys.items())
    group, label = lines["anchor"].replace("all", "Q"), lines["dataset"].map(labels)
    shown: Row = {"model": model[1], "dataset": label, "anchor": group + "-Anchored"}
    shown |= {"series": group + "-Anchored (" + label + ")", "marker": i.map(marker_of)}
    shown |= {"condition": lines["condition"], "chance": j > 0}
    line = (i * len(conditions) + j) * len(anchors) + k
    lines = lines.assign(**shown, line=line, offset=i + k * (step // 2))
    return _in_runs(lines, list(shown), numbers, step)


def line_rows(
    frame: pd.DataFrame,
    numbers: Mapping[str, Source],
    shown: Row,
    layers: int,
    offset: int,
    *,
    probe: bool = True,
) -> list[Row]:
    """One line of a panel, as `panel_rows`; none if it is all blank or the table lacks its column.

    Args:
        frame: the line's rows of the table.
        numbers: what a row holds, the line's height first.
        shown: what all rows share.
        layers: of the model.
        offset: of the markers, so that those of several lines do not meet.
        probe: whether it tells of the read-out's probe; what does not is never grey.
    """
    if next(iter(numbers.values()))[0] not in frame:
        return []
    line = frame.assign(line=0, offset=offset, **({} if probe else {"signal": True}))
    rows = _in_runs(line, [], numbers, marker_step(layers)).astype(object)
    return rows.where(rows.notna(), None).assign(**shown).to_dict("records")


def _in_runs(
    lines: pd.DataFrame, shown: Sequence[str], numbers: Mapping[str, Source], step: int
) -> pd.DataFrame:
    """Lines, told apart by `line`, in runs with and without a signal, each drawn in one colour.

    Blanks keep their row, so that the line breaks there; a line of blanks has no rows. A run
    without a signal reaches to the points beside it, which come twice, there as `edge`. Points of
    `thin` groups belong to no line.
    """
    lines = lines.sort_values(["line", "layer"], ignore_index=True)
    rows, line = lines[[*shown, "line", "layer"]].copy(), lines["line"]
    for name, (source, factor, digits) in numbers.items():
        rows[name] = (factor * lines[source]).round(digits) if source in lines else float("nan")
        rows[name] = rows[name] if digits else rows[name].astype("Int64")
    rows["signal"] = true(lines["signal"])
    rows["thin"] = true(lines["thin"]) if "thin" in lines else False
    drawn = rows[next(iter(numbers))].notna()
    sort = rows["signal"].astype(int).mask(rows["thin"], 2)
    each = (line.ne(line.shift()) | sort.ne(sort.shift())).cumsum()
    before, after = (drawn.groupby(each).shift(side, fill_value=False) for side in (1, -1))
    often = ~rows["signal"] & (rows["layer"] % max(1, step // 4) == 0)
    staggered = rows["layer"] % step == lines["offset"] % step
    rows["run"] = each - each.groupby(line).transform("first")
    rows["mark"] = drawn & (~(before | after) | often | staggered)
    grey = rows.assign(signal=False, mark=False, edge=True)
    kept, beside = drawn.groupby(line).transform("any"), sort.groupby(line)
    ends = [
        grey.assign(run=rows["run"] - side)[kept & sort.eq(1) & beside.shift(side).eq(0)]
        for side in (1, -1)
    ]
    found = pd.concat([rows[kept].assign(edge=False), *ends]).sort_values(["line", "run", "layer"])
    return found.drop(columns="line")


def values_of(column: str, low: str = "", high: str = "", factor: float = 1) -> dict[str, Source]:
    """What a row of a small panel holds: `value`, and `low` and `high` where there is a band."""
    ends = (("value", column), ("low", low), ("high", high))
    return {name: (source, factor, 4) for name, source in ends}


def marker_step(layers: int) -> int:
    """A marker at every so many layers: markers tell series apart, the line carries the data."""
    return max(1, math.ceil(layers / 8))


def true(column: pd.Series) -> pd.Series:
    """A column of booleans as a CSV gives it back; a blank is false."""
    return column.astype(str).str.lower().isin(["true", "1", "1.0"])


def sample_size(cell: pd.DataFrame, cut: str) -> int:
    """Samples of a cell, at the layer that has most."""
    counts = cell["n"][(cell["condition"] == cut) & (cell["anchor"] == "all")].dropna()
    return int(counts.max()) if len(counts) else 0


def is_preview(cells: Mapping[str, pd.DataFrame], condition: str) -> bool:
    """Whether a cell of few samples has groups that are too thin for a line."""
    return any(
        sample_size(rows, condition) < ENOUGH and rows["thin"][rows["condition"] == condition].any()
        for rows in cells.values()
    )


def thin_note(cells: Mapping[str, pd.DataFrame], condition: str) -> list[str]:
    """The caption's words on thin groups, as `Llama-3.2-1B on NQ, Q-Anchored at layer 5`."""
    said = []
    for (name, rows), anchor in product(cells.items(), ANCHORS):
        curve = rows[(rows["condition"] == condition) & (rows["anchor"] == anchor)]
        if curve["thin"].any():
            said.append(f"{name}, {anchor}-Anchored {_where(curve, curve['thin'])}")
    if not said:
        return []
    more = f" Preview: draw at least {ENOUGH} samples a cell."
    told = f"Crosses with their n: too few samples to rely on, {few(said)}."
    return [told + more if is_preview(cells, condition) else told]


def unseen_note(cells: Mapping[str, pd.DataFrame]) -> list[str]:
    """The caption's words on what is grey; cells of one read-out by name, empty ones unmeasured."""
    known = {name: rows for name, rows in cells.items() if len(rows)}
    by_place: dict[str, list[str]] = {}
    for name, rows in known.items():
        layers = rows.drop_duplicates("layer")
        weak = ~true(layers["signal"])
        if weak.any():
            by_place.setdefault(_where(layers, weak), []).append(name)
    places = sorted(by_place.items(), key=lambda item: len(item[1]))
    said = [f"{few(names)} {where}" for where, names in places]
    if places and sum(map(len, by_place.values())) == len(known) and len(places[-1][1]) > 1:
        said[-1] = f"{'all other cells' if said[1:] else 'every cell'} {places[-1][0]}"
    told = [f"{UNSEEN} (hollow grey): {'; '.join(said)}. {UNTOLD}"] if said else []
    blank = [name for name, rows in known.items() if not true(rows["cell_signal"]).any()]
    others = [name for name in blank if name not in by_place.get(EVERYWHERE, [])]
    return told + ([f"{UNSEEN} in the cell as a whole: {few(others)}."] if others else [])


def _where(rows: pd.DataFrame, chosen: pd.Series) -> str:
    """At which layers the chosen ones of the rows lie, in words."""
    layers = sorted(rows["layer"][chosen].astype(int))
    return EVERYWHERE if chosen.all() else f"at {layer_list(layers)}"


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


def missing_note(names: Sequence[str]) -> list[str]:
    """The caption's words on what was not measured."""
    return [f"Not measured: {few(names)}."] if names else []


def span(values: Iterable[float], factor: float = 1) -> str:
    """Least to greatest in size, in whole numbers: `900`, `812 to 1,000`, `−75 to −88`."""
    found = sorted((factor * value for value in values), key=abs) or [0]
    ends = dict.fromkeys(f"{end:,.0f}" for end in (found[0], found[-1]))
    return " to ".join(ends).replace("-", "\u2212")


def size_note(counts: Iterable[float]) -> str:
    """The same in a caption."""
    return f"n\u00a0=\u00a0{span(counts)}"


def few(items: Sequence[str], most: int = 3) -> str:
    """The first of them in words, and how many more there are."""
    shown = "; ".join(items[:most])
    return f"{shown}; and {len(items) - most} more" if len(items) > most else shown


def layer_list(layers: Sequence[int]) -> str:
    """[5] as `layer 5`, [0, 1, 2, 5] as `layers 0–2, 5`."""
    runs = [
        [layer for _, layer in run]
        for _, run in groupby(enumerate(layers), key=lambda item: item[1] - item[0])
    ]
    named = ", ".join(f"{run[0]}–{run[-1]}" if run[1:] else str(run[0]) for run in runs)
    return f"layer{'' if len(layers) == 1 else 's'} {named}"
