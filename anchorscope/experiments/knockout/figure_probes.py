"""The figure `probes`: how good the probes are, and whom the groups hold, layer by layer."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import altair as alt
import pandas as pd

from anchorscope.figures import figure_data as data
from anchorscope.figures import figure_style as draw
from anchorscope.figures.figure_data import Pair, Row
from anchorscope.figures.figure_fit import Asked, fitted
from anchorscope.figures.figure_style import Figure, Style
from anchorscope.figures.figures import GROUPINGS

CONTROLS = (
    "model dataset site position layer n headline signal cell_signal probe_auc auc_low auc_high "
    "floor_auc prompt_end_auc added_auc added_low added_high ece"
)
DENSITY = "model dataset site position condition layer x density"
TIPS = {"series": ("line", ""), "measure": ("of", ""), "value": ("value", ".3~f")}
# beside the read-out's own AUC: column, what it is, dash pattern
ALSO = (
    ("prompt_end_auc", "AUC at the prompt's end", draw.DASHES["A"]),
    ("floor_auc", "AUC of the hardest floor", draw.DOTTED),
)
KEY = "AUC: solid this read-out,{before} dotted the hardest floor (what the text alone tells)."
BEFORE = " dashed the same site at the prompt's end (before the answer is read),"
HUMPS = (
    "AUC, calibration error and density in the colour of the Q-Anchored line. "
    "Two humps in a density do not show two mechanisms."
)
# measures of a cell as a whole
CELLS = {"auc": data.values_of("probe_auc", "auc_low", "auc_high"), "ece": data.values_of("ece")}
# what a row of panels shows, title and number format of its y axis
MEASURES = {
    "auc": ("", "Probe AUC", ".1f"),
    "accuracy": ("Answer accuracy of the groups", "Right (%)", "d"),
    "popularity": ("Mean popularity of the groups", "Popularity", "~s"),
    "ece": ("Calibration error of the probes", "Error", ".2f"),
}


@dataclass(frozen=True)
class Column:
    """What one model's panels draw: rows with value, low and high by measure, and densities."""

    label: str
    layers: int
    measures: dict[str, list[Row]]
    density: list[Row]
    also: list[Row]


@fitted
def probes_chart(
    controls: pd.DataFrame,
    curve: pd.DataFrame,
    density: pd.DataFrame,
    asked: Asked,
) -> Figure:
    """A column per model: AUC, the groups' answer accuracy and popularity, calibration, Δlogit.

    Args:
        controls: rows of `results/tables/<figure>.controls.csv`.
        curve: rows of `results/tables/<figure>.csv`; the panels of popularity are left out where
            it has none.
        density: rows of `results/tables/<figure>.density.csv`, at the layer of best clean AUC.
        asked: as of `anchorscope.figures.figures.chart`.

    Raises:
        AnchorscopeError: missing columns, or nothing measured at this read-out or grouping.
    """
    look, panels, datasets = asked.look, asked.panels, asked.datasets
    data.require(controls, CONTROLS)
    data.require(density, DENSITY)
    checked = data.at_readout(controls, asked.readout)
    rows, grouping = data.select(curve, asked.readout, asked.grouping)
    humps = data.rows_at(density, asked.readout)
    columns = [_column(checked, rows, humps, model, datasets) for model in panels]
    across = draw.columns_across(len(columns), look.columns)
    width = draw.width_of(across, look)
    shared = draw.encodings(draw.paper_series(datasets), look, width)
    small = replace(look, panel_height=round(0.45 * look.panel_height))
    shown = [name for name in MEASURES if any(one.measures[name] for one in columns)] or ["auc"]
    views = [_views(one, shown, shared, small, i % across == 0) for i, one in enumerate(columns)]
    cells = data.cells_of(checked, panels, datasets)
    sizes = [int(cell["n"].max()) for cell in cells.values() if len(cell)]
    before = BEFORE if any(not row["dotted"] for one in columns for row in one.also) else ""
    caption = [
        f"Read-out {'/'.join(asked.readout)}; {GROUPINGS.get(grouping, grouping)}; "
        f"{data.size_note(sizes)} samples a cell; "
        f"bands: pointwise {100 * asked.level:g}\u00a0% {data.AUC_BANDS}.",
        KEY.format(before=before),
        *_added(cells),
        *data.unseen_note(cells),
        *data.missing_note([name for name, cell in cells.items() if cell.empty]),
        HUMPS,
    ]
    return draw.figure_of(views, across, width, asked.title, caption, look)


def _column(
    controls: pd.DataFrame,
    curve: pd.DataFrame,
    density: pd.DataFrame,
    model: Pair,
    datasets: Sequence[Pair],
) -> Column:
    """One model's rows of the three tables."""
    key, label = model
    mine, groups, humps = (table[table["model"] == key] for table in (controls, curve, density))
    layers = data.layer_count(mine)
    column = Column(label, layers, {name: [] for name in MEASURES}, [], [])
    for i, (dataset, name) in enumerate(datasets):
        cell = mine[mine["dataset"] == dataset]
        common: Row = {"model": label, "dataset": name, "marker": draw.marker_of(i)}
        shown = common | {"series": draw.series_name("Q", name)}
        for measure, numbers in CELLS.items():
            told = shown | {"measure": _named(measure)}
            column.measures[measure].extend(data.line_rows(cell, numbers, told, layers, i))
        for source, said, dash in ALSO:
            told = shown | {"measure": said, "dotted": dash == draw.DOTTED}
            column.also.extend(
                data.line_rows(cell, data.values_of(source), told, layers, i, probe=False)
            )
        _add_groups(column, groups[groups["dataset"] == dataset], common, i)
        seen = set(cell["layer"][data.true(cell["signal"])])
        column.density.extend(_density_rows(humps[humps["dataset"] == dataset], shown, i, seen))
    return column


def _add_groups(column: Column, cell: pd.DataFrame, common: Row, i: int) -> None:
    """Answer accuracy, in percent, and popularity of one cell's groups; thin ones left blank."""
    sources = (("accuracy", "answer_accuracy", 100), ("popularity", "popularity", 1))
    for j, anchor in enumerate(draw.ANCHORS):
        group = cell[(cell["condition"] == "knockout") & (cell["anchor"] == anchor)]
        shown = common | {"series": draw.series_name(anchor, common["dataset"])}
        for measure, name, factor in sources:
            if name in group:
                kept = group.assign(**{name: group[name].mask(data.true(group["thin"]))})
                told = shown | {"measure": _named(measure)}
                numbers = data.values_of(name, factor=factor)
                rows = data.line_rows(kept, numbers, told, column.layers, i + 4 * j)
                column.measures[measure].extend(rows)


def _named(measure: str) -> str:
    """A measure in the numbers that a reader copies."""
    said, title, _ = MEASURES[measure]
    return said or title


def _density_rows(cell: pd.DataFrame, shown: Row, offset: int, seen: set[int]) -> list[Row]:
    """The points of a cell's densities; a marker at about six of each, staggered by series.

    `seen` are the layers with a signal.
    """
    rows: list[Row] = []
    for condition, hump in cell.dropna(subset=["density"]).groupby("condition"):
        step = max(1, len(hump) // 6)
        rows += [
            shown
            | {"measure": "density of Δlogit", "condition": condition, "layer": int(row["layer"])}
            | {"x": data.number(row["x"], 4), "density": data.number(row["density"], 5)}
            | {"mark": k % step == offset * step // 4 % step, "signal": row["layer"] in seen}
            for k, row in enumerate(hump.sort_values("x").to_dict("records"))
        ]
    return rows


def _views(
    column: Column, shown: Sequence[str], shared: draw.Encodings, look: Style, first: bool
) -> alt.VConcatChart:
    """The panels of one model below one another; the first column's say what they show."""
    views = []
    for k, name in enumerate(shown):
        said, title, form = MEASURES[name]
        rows = column.measures[name]
        domain, ticks = _domain(name, rows + column.also if name == "auc" else rows)
        y = draw.value_axis("value", title, domain, ticks, look, number=form)
        x = draw.layer_axis(column.layers, "Layer" if k == len(shown) - 1 else None)
        size = replace(look, panel_height=round(1.6 * look.panel_height)) if name == "auc" else look
        also = column.also if name == "auc" else []
        under = _also_layers(also, x, y, shared, look) if also else []
        view = draw.line_panel(rows, x, y, shared, size, TIPS, also=also, under=under)
        heading = (
            draw.row_heading(said, look, shown=first)
            if k
            else draw.panel_heading(column.label, look)
        )
        views.append(view.properties(title=heading))
    said = "Density of Δlogit, layer of best AUC (solid: knockout, dotted: random tokens)"
    density = _density(column.density, shared, look)
    views.append(density.properties(title=draw.row_heading(said, look, shown=first)))
    return alt.VConcatChart(vconcat=views, spacing=12, resolve=draw.one_legend())


def _domain(name: str, rows: Sequence[Row]) -> tuple[tuple[float, float], list[float]]:
    """Range and ticks of a measure's axis; holds every value and band."""
    seen = [row[k] for row in rows for k in ("value", "low", "high") if row[k] is not None]
    if name == "accuracy":
        return (0, 100), [0, 50, 100]
    if name == "auc":
        low = math.floor(10 * min([0.5, *seen])) / 10
        return (low, 1), [k / 10 for k in range(round(10 * low), 11) if k % 2 == 0]
    high = max([0.1 if name == "ece" else 1, *seen])
    step = 10 ** math.floor(math.log10(high))
    step = step / 2 if high < 2 * step else 2 * step if high >= 5 * step else step
    return (0, 1.05 * high), [step * k for k in range(int(1.05 * high / step) + 1)]


def _also_layers(
    rows: Sequence[Row], x: alt.X, y: alt.Y, shared: draw.Encodings, look: Style
) -> list[alt.Chart]:
    """Dashed and dotted lines with hollow markers."""
    base = alt.Chart(pd.DataFrame(list(rows))).encode(detail=["series:N", "measure:N"])
    views = []
    for test, (_, _, dash) in zip(("!datum.dotted", "datum.dotted"), ALSO, strict=True):
        line = base.transform_filter(test).mark_line(
            strokeWidth=0.6 * look.line_width, strokeDash=dash, opacity=0.8
        )
        views.append(line.encode(x, y, color=shared.colour))
    return [*views, draw.marker_layer(base, x, y, shared, 0.45 * look.marker_size, hollow=True)]


def _density(rows: Sequence[Row], shared: draw.Encodings, look: Style) -> alt.LayerChart:
    """Densities of one model; square roots, so that a wide hump shows beside a narrow one."""
    width, height = look.panel_width, look.panel_height
    if not rows:
        note = draw.empty_note("not measured", width, height, look)
        return alt.LayerChart(layer=[note], width=width, height=height)
    base = alt.Chart(pd.DataFrame(list(rows))).encode(detail=["series:N", "condition:N"])
    ends = [min(row["x"] for row in rows), max(row["x"] for row in rows)]
    x = alt.X("x:Q", title="Δlogit", scale=alt.Scale(domain=ends, nice=False))
    x["axis"] = alt.Axis(grid=False, tickCount=8)
    top = max(row["density"] for row in rows)
    axis = alt.Axis(title="Density (√)", tickCount=3, minExtent=0, grid=True)
    y = alt.Y("density:Q", scale=alt.Scale(type="sqrt", domain=[0, 1.05 * top]), axis=axis)
    stroke = 0.75 * look.line_width
    layers: list[alt.Chart] = []
    for condition, dash, opacity in (("random", draw.DOTTED, 0.65), ("knockout", [1, 0], 1)):
        here = base.transform_filter(f"datum.condition === '{condition}'")
        line = here.mark_line(strokeWidth=stroke, strokeDash=dash, opacity=opacity)
        hollow = condition == "random"
        size = 0.5 * look.marker_size
        layers.append(line.encode(x, y, color=shared.colour))
        layers.append(draw.marker_layer(here, x, y, shared, size, hollow=hollow))
    return alt.LayerChart(layer=layers, width=width, height=height)


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
