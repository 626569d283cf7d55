"""The figure `probes`: how good the probes are, and whom the groups hold, layer by layer."""

import math
from collections.abc import Mapping, Sequence
from itertools import product

import altair as alt
import pandas as pd

from anchorscope.figures import figure_data as data
from anchorscope.figures import figure_panel
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
# dotted beside the read-out's own AUC: column → what it is; the floor has no markers
BESIDE = {
    "prompt_end_auc": "AUC at the prompt's end",
    "floor_auc": "AUC of the hardest floor",
}
KEY = "AUC: solid this read-out, dotted the hardest floor (what the text alone tells){before}."
BEFORE = ", hollow markers the same site at the prompt's end (before the answer is read)"
HUMPS = (
    "AUC, calibration error and density in the colour of the Q-Anchored line. "
    "Two humps in a density do not show two mechanisms."
)
# what a row of panels shows, title and number format of its y axis
MEASURES = {
    "auc": ("", "Probe AUC", ".1f"),
    "accuracy": ("Answer accuracy of the groups", "Right (%)", "d"),
    "popularity": ("Mean popularity of the groups", "Popularity", "~s"),
    "ece": ("Calibration error of the probes", "Error", ".2f"),
    "density": (
        "Density of Δlogit, layer of best AUC (solid: knockout, dotted: random tokens)",
        "Density (√)",
        "",
    ),
}
SIZE: dict[str, data.Source] = {"n": ("n", 1, 0)}
# measures of a cell as a whole, and of its groups
CELLS = {"auc": data.values_of("probe_auc", "auc_low", "auc_high"), "ece": data.values_of("ece")}
GROUPS = {
    "accuracy": data.values_of("answer_accuracy", factor=100) | SIZE,
    "popularity": data.values_of("popularity") | SIZE,
}
Rows = dict[str, list[Row]]
"""Measure → the rows that one model's panel draws."""


@fitted
def probes_chart(
    controls: pd.DataFrame, curve: pd.DataFrame, density: pd.DataFrame, asked: Asked
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
    groups, grouping = data.select(curve, asked.readout, asked.grouping)
    groups = groups[groups["condition"] == "knockout"]
    tables = (checked, groups, data.rows_at(density, asked.readout))
    columns = [_rows(*tables, model, datasets) for model in panels]
    across = draw.columns_across(len(columns), look.columns)
    width = draw.width_of(across, look)
    curves = pd.DataFrame([row for rows in columns for row in (*rows["auc"], *rows["accuracy"])])
    series = draw.paper_series(datasets, curves if len(curves) else None)
    shared = draw.encodings(series, look, width)
    small = look.model_copy(update={"panel_height": round(0.45 * look.panel_height)})
    drawn = [name for name in MEASURES if any(rows[name] for rows in columns)]
    shown = list(dict.fromkeys(["auc", *drawn, "density"]))
    views = []
    for i, (rows, (model, label)) in enumerate(zip(columns, panels, strict=True)):
        layers = data.layer_count(checked[checked["model"] == model])
        first = i % across == 0
        found = [_panel(name, rows, layers, name == shown[-2], shared, small) for name in shown]
        heads = [draw.row_heading(MEASURES[name][0], look, shown=first) for name in shown[1:]]
        heads.insert(0, draw.panel_heading(label, look))
        column = [one.properties(title=head) for one, head in zip(found, heads, strict=True)]
        views.append(alt.VConcatChart(vconcat=column, spacing=12, resolve=draw.one_legend()))
    cells = data.cells_of(checked, panels, datasets)
    sizes = [int(cell["n"].max()) for cell in cells.values() if len(cell)]
    before = any(row["condition"] == "prompt_end_auc" for rows in columns for row in rows["auc"])
    caption = [
        f"Read-out {'/'.join(asked.readout)}; {GROUPINGS.get(grouping, grouping)}; "
        f"{data.size_note(sizes)} samples a cell; "
        f"bands: pointwise {100 * asked.level:g}\u00a0% {data.AUC_BANDS}.",
        KEY.format(before=BEFORE if before else ""),
        *data.thin_note(data.cells_of(groups, panels, datasets), "knockout"),
        *_added(cells),
        *data.unseen_note(cells),
        *data.missing_note([name for name, cell in cells.items() if cell.empty]),
        HUMPS,
    ]
    return draw.figure_of(views, across, width, asked.title, caption, look)


def _rows(
    controls: pd.DataFrame,
    curve: pd.DataFrame,
    density: pd.DataFrame,
    model: Pair,
    datasets: Sequence[Pair],
) -> Rows:
    """One model's rows of the three tables."""
    found: Rows = {name: [] for name in MEASURES}
    layers = data.layer_count(controls[controls["model"] == model[0]])
    for i, (key, name) in enumerate(datasets):
        cell, groups, humps = (
            data.cell_of(table, model[0], key) for table in (controls, curve, density)
        )
        common: Row = {"model": model[1], "dataset": name, "marker": draw.marker_of(i)}
        shown = common | {"series": draw.series_name("Q", name)}
        for measure, numbers in CELLS.items():
            told = shown | {"measure": _named(measure), "condition": measure, "chance": False}
            found[measure] += data.line_rows(cell, numbers, told, layers, i)
        for source, said in BESIDE.items():
            told = shown | {"measure": said, "condition": source, "chance": True}
            rows = data.line_rows(cell, data.values_of(source), told, layers, i, probe=False)
            marked = source != "floor_auc"
            found["auc"] += [row | {"mark": row["mark"] and marked} for row in rows]
        for (j, anchor), measure in product(enumerate(draw.ANCHORS), GROUPS):
            group = groups[groups["anchor"] == anchor]
            told = common | {"series": draw.series_name(anchor, name), "measure": _named(measure)}
            found[measure] += data.line_rows(group, GROUPS[measure], told, layers, i + 4 * j)
        seen = set(cell["layer"][data.true(cell["signal"])])
        found["density"] += _density_rows(humps, shown, i, seen)
    return found


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


def _panel(
    name: str, found: Rows, layers: int, last: bool, shared: draw.Encodings, look: Style
) -> alt.LayerChart:
    """One measure of one model; the last by layer names its x axis."""
    rows, (_, title, form) = found[name], MEASURES[name]
    if name == "density":
        return _density(rows, title, shared, look)
    domain, ticks = _domain(name, rows)
    x = figure_panel.layer_axis(layers, "Layer" if last else None)
    y = figure_panel.value_axis("value", title, domain, ticks, look, number=form)
    height = round((1.6 if name == "auc" else 1) * look.panel_height)
    of_auc, of_groups = name == "auc", name in GROUPS
    return figure_panel.line_panel(
        rows, x, y, shared, look, TIPS, height=height, chance=of_auc, crosses=of_groups
    )


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


def _density(
    rows: Sequence[Row], title: str, shared: draw.Encodings, look: Style
) -> alt.LayerChart:
    """Densities of one model; square roots, so that a wide hump shows beside a narrow one."""
    width, height = look.panel_width, look.panel_height
    if not rows:
        note = figure_panel.empty_note("not measured", width, height, look)
        return alt.LayerChart(layer=[note], width=width, height=height)
    base = alt.Chart(pd.DataFrame(list(rows))).encode(detail=["series:N", "condition:N"])
    ends = [min(row["x"] for row in rows), max(row["x"] for row in rows)]
    x = alt.X("x:Q", title="Δlogit", scale=alt.Scale(domain=ends, nice=False))
    x["axis"] = alt.Axis(grid=False, tickCount=8)
    top = max(row["density"] for row in rows)
    axis = alt.Axis(title=title, tickCount=3, minExtent=0, grid=True)
    y = alt.Y("density:Q", scale=alt.Scale(type="sqrt", domain=[0, 1.05 * top]), axis=axis)
    layers: list[alt.Chart] = []
    for condition, dash, opacity in (("random", draw.DOTTED, 0.65), ("knockout", [1, 0], 1)):
        here = base.transform_filter(f"datum.condition === '{condition}'")
        stroke = 0.75 * look.line_width
        line = here.mark_line(strokeWidth=stroke, strokeDash=dash, opacity=opacity)
        layers.append(line.encode(x, y, color=shared.colour))
        hollow, size = condition == "random", 0.5 * look.marker_size
        layers.append(figure_panel.marker_layer(here, x, y, shared, size, hollow=hollow))
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
