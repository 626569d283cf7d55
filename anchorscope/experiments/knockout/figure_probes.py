"""The figure `probes`: how good the probes are, and whom the groups hold, layer by layer."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import altair as alt
import pandas as pd

from anchorscope.experiments.knockout.figure_controls import NEEDED, SIZE, auc_axis
from anchorscope.figures import figure_data as data, figure_panel, figure_style as draw
from anchorscope.figures.figure_data import Pair, Row
from anchorscope.figures.figure_fit import Asked, fitted
from anchorscope.figures.figure_page import Axis
from anchorscope.figures.figure_style import Figure, Style
from anchorscope.figures.figures import GROUPINGS, SHARES

CONTROLS = f"{NEEDED} floor_auc prompt_end_auc added_auc added_low added_high ece"
DENSITY = "model dataset site position condition layer x density"
TIPS = {"series": ("line", ""), "measure": ("of", ""), "value": ("value", ".3~f")}
# dotted beside the read-out's own AUC: column → what it is; the floor has no markers
BESIDE = {"prompt_end_auc": "AUC at the prompt's end", "floor_auc": "AUC of the hardest floor"}
KEY = "AUC: solid this read-out, dotted the hardest floor (what the text alone tells){before}."
BEFORE = ", hollow markers the same site at the prompt's end (before the answer is read)"
HUMPS = (
    "AUC, calibration error and density in the colour of the Q-Anchored line. "
    "Two humps in a density do not show two mechanisms."
)
# what a row of panels shows, title and number format of its y axis
MEASURES = {
    "auc": ("Probe AUC", "Probe AUC", ".1f"),
    "accuracy": ("Answer accuracy of the groups", "Right (%)", "d"),
    "popularity": ("Mean popularity of the groups", "Popularity", "~s"),
    "ece": ("Calibration error of the probes", "Error", ".2f"),
    "density": (
        "Density of Δlogit, layer of best AUC (solid: knockout, dotted: random tokens)",
        "Density (√)",
        "",
    ),
}
# what is drawn solid for the cell, dotted beside it, and for its groups: column of a measure
CELLS = {"auc": data.values_of("probe_auc", "auc_low", "auc_high"), "ece": data.values_of("ece")}
GROUPS = {
    "accuracy": data.values_of("answer_accuracy", factor=100) | SIZE,
    "popularity": data.values_of("popularity") | SIZE,
}
HUMP: dict[str, data.Source] = {"value": ("density", 1, 5), "x": ("x", 1, 4)}
Line = tuple[str, str, str, Mapping[str, data.Source], pd.DataFrame]
"""Measure, condition, group, numbers, and the rows of the table."""


@fitted
def probes_chart(
    controls: pd.DataFrame, curve: pd.DataFrame, density: pd.DataFrame, asked: Asked
) -> Figure:
    """A column per model: AUC, the groups' answer accuracy and popularity, calibration, Δlogit.

    Of the rows of `results/tables/<figure>.controls.csv`, `.csv` and `.density.csv`; panels of
    which these have nothing are left out. Raises AnchorscopeError: missing columns, or nothing
    measured at this read-out or grouping.
    """
    look = asked.look
    data.require(controls, CONTROLS)
    data.require(density, DENSITY)
    checked = data.at_readout(controls, asked.readout)
    groups, grouping = data.select(curve, asked.readout, asked.grouping)
    groups = groups[groups["condition"] == "knockout"]
    tables = (checked, groups, data.rows_at(density, asked.readout))
    columns = [_rows(tables, model, asked.datasets) for model in asked.panels]
    across = draw.columns_across(len(columns), look.columns)
    width = draw.width_of(across, look)
    curves = pd.DataFrame([row for rows in columns for row in (*rows["auc"], *rows["accuracy"])])
    series = draw.paper_series(asked.datasets, curves if len(curves) else None)
    shared = draw.encodings(series, look, width)
    drawn = [name for name in MEASURES if any(rows[name] for rows in columns)]
    shown = list(dict.fromkeys(["auc", *drawn, "density"]))
    views = []
    for i, (rows, (model, label)) in enumerate(zip(columns, asked.panels, strict=True)):
        layers = data.layer_count(checked[checked["model"] == model])
        column = []
        for name in shown:
            heading = draw.row_heading(MEASURES[name][0], look, shown=i % across == 0)
            heading = draw.panel_heading(label, look) if name == "auc" else heading
            panel = _panel(name, rows[name], layers, name == shown[-2], shared, look)
            column.append(panel.properties(title=heading))
        views.append(alt.VConcatChart(vconcat=column, spacing=12, resolve=draw.one_legend()))
    caption = _caption(checked, groups, grouping, asked)
    return draw.figure_of(views, across, width, asked.title, caption, look)


def _caption(
    controls: pd.DataFrame, groups: pd.DataFrame, grouping: str, asked: Asked
) -> list[str]:
    """Read-out, n and intervals; what is beside the AUC, thin, grey or missing."""
    cells, thin = (data.cells_of(rows, asked.panels, asked.datasets) for rows in (controls, groups))
    sizes = [int(cell["n"].max()) for cell in cells.values() if len(cell)]
    before = any(cell["prompt_end_auc"].notna().any() for cell in cells.values())
    return [
        f"Read-out {'/'.join(asked.readout)}; {GROUPINGS.get(grouping, grouping)}; "
        f"{data.size_note(sizes)} samples a cell; "
        f"bands: pointwise {100 * asked.level:g}\u00a0% {data.AUC_BANDS}.",
        KEY.format(before=BEFORE if before else ""),
        *data.thin_note(thin, "knockout"),
        *_added(cells),
        *data.unseen_note(cells),
        *data.missing_note([name for name, cell in cells.items() if cell.empty]),
        HUMPS,
    ]


def _added(cells: Mapping[str, pd.DataFrame]) -> list[str]:
    """What reading the answer adds to the AUC at the headline layer, cell by cell."""
    said = []
    for name, cell in cells.items():
        head = cell[data.true(cell["headline"])].dropna(subset=["added_auc"])
        for ends in head[["added_auc", "added_low", "added_high"]].to_numpy():
            value, low, high = (f"{end:.2f}".replace("-", "\u2212") for end in ends)
            said.append(f"{name} {value}\u00a0[{low},\u00a0{high}]")
    where = "AUC that reading the answer adds at the headline layer"
    return [f"{where}: {data.few(said, 8)}."] if said else []


def _rows(
    tables: Sequence[pd.DataFrame], model: Pair, datasets: Sequence[Pair]
) -> dict[str, list[Row]]:
    """Measure → the rows that one model's panel draws of the three tables."""
    found: dict[str, list[Row]] = {name: [] for name in MEASURES}
    for i, (key, name) in enumerate(datasets):
        cell, groups, humps = (data.cell_of(table, model[0], key) for table in tables)
        common: Row = {"model": model[1], "dataset": name, "marker": draw.marker_of(i)}
        for measure, condition, anchor, numbers, table in _lines(cell, groups, humps):
            beside, said = condition in BESIDE, BESIDE.get(condition, MEASURES[measure][0])
            shown = common | {"series": draw.series_name(anchor, name), "measure": said}
            shown |= {"condition": condition, "chance": beside or condition == "random"}
            if measure == "density":
                shown["layer"] = table["at"].iloc[0]
            count, offset = data.layer_count(table), i + 4 * draw.ANCHORS.index(anchor)
            for row in data.line_rows(table, numbers, shown, count, offset, probe=not beside):
                marked = row["mark"] and condition != "floor_auc"
                found[measure].append(row | {"mark": marked})
    return found


def _lines(cell: pd.DataFrame, groups: pd.DataFrame, humps: pd.DataFrame) -> Iterator[Line]:
    """The lines of a cell's panels; points of a density are numbered as layers are."""
    for measure, numbers in CELLS.items():
        yield measure, measure, "Q", numbers, cell
    for column in BESIDE:
        yield "auc", column, "Q", data.values_of(column), cell
    for measure, anchor in product(GROUPS, draw.ANCHORS):
        yield measure, measure, anchor, GROUPS[measure], groups[groups["anchor"] == anchor]
    signals = cell[["layer", "signal"]]
    for condition, hump in humps.merge(signals, how="left").sort_values("x").groupby("condition"):
        points = hump.assign(at=hump["layer"], layer=range(len(hump)))
        yield "density", str(condition), "Q", HUMP, points


def _panel(
    name: str, rows: Sequence[Row], layers: int, last: bool, shared: draw.Encodings, look: Style
) -> alt.LayerChart:
    """One measure of one model; the last by layer names its x axis."""
    _, title, form = MEASURES[name]
    seen = [row[k] for row in rows for k in ("value", "low", "high") if row.get(k) is not None]
    if name == "density":
        x, y = _axes_of_density(rows, title)
    else:
        x = figure_panel.layer_axis(layers, "Layer" if last else None)
        y = figure_panel.value_axis("value", title, *_axis(name, seen), look, number=form)
    height = (0.72 if name == "auc" else 0.45) * look.panel_height
    return figure_panel.line_panel(
        *(rows, x, y, shared, look, TIPS),
        height=round(height),
        chance=name in ("auc", "density"),
        crosses=name in GROUPS,
    )


def _axis(name: str, seen: Sequence[float]) -> Axis:
    """Range and ticks of a measure's axis; holds every value and band."""
    if name == "accuracy":
        return SHARES
    if name == "auc":
        return auc_axis(min([0.5, *seen]))
    high = max([0.1 if name == "ece" else 1, *seen])
    step = 10 ** math.floor(math.log10(high))
    step = step / 2 if high < 2 * step else 2 * step if high >= 5 * step else step
    return (0, 1.05 * high), [step * k for k in range(int(1.05 * high / step) + 1)]


def _axes_of_density(rows: Sequence[Row], title: str) -> tuple[alt.X, alt.Y]:
    """Square roots, so that a wide hump shows beside a narrow one."""
    at, high = [row["x"] for row in rows] or [0], [row["value"] for row in rows] or [1]
    scale = alt.Scale(domain=[min(at), max(at)], nice=False)
    x = alt.X("x:Q", title="Δlogit", scale=scale, axis=alt.Axis(grid=False, tickCount=8))
    axis = alt.Axis(title=title, tickCount=3, minExtent=0, grid=True)
    scale = alt.Scale(type="sqrt", domain=[0, 1.05 * max(high)])
    return x, alt.Y("value:Q", scale=scale, axis=axis)
