"""The figure `probes`: how good the probes are, and whom the groups hold, layer by layer."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import altair as alt
import pandas as pd

from anchorscope.experiments.knockout.figure_controls import NEEDED, SIZE, auc_axis
from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_panel,
    figure_style as draw,
)
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_data import Pair, Row, Source
from anchorscope.figures.figure_fit import Request, fitted
from anchorscope.figures.figure_main import SHARES
from anchorscope.figures.figure_page import Axis
from anchorscope.figures.figure_style import Figure, Style
from anchorscope.figures.figure_verdict import GROUPINGS

CONTROLS = f"{NEEDED} floor_auc prompt_end_auc added_auc added_low added_high ece"
DENSITY = "model dataset site position condition layer x density"
TIPS = draw.LAYER | {"series": ("line", ""), "measure": ("of", ""), "value": ("value", ".3~f")}
# dotted beside the read-out's own AUC: column → what it is; the floor has no markers
BESIDE = {"prompt_end_auc": "AUC at the prompt's end", "floor_auc": "AUC of the hardest floor"}
DOTTED = "AUC dotted: the hardest text model{before}."
BEFORE = ", with hollow markers the prompt's end"
DOTTED_DETAIL = (
    "AUC: solid this read-out, dotted the hardest floor (what the text models tell){before}."
)
BEFORE_DETAIL = ", hollow markers the same site at the prompt's end (before the answer is read)"
COLOURS_DETAIL = "AUC, calibration error and density are in the colour of the Q-Anchored line."
HUMPS = "Two humps in a density do not show two mechanisms."


@dataclass(frozen=True)
class Measure:
    """What a row of panels shows."""

    heading: str
    axis_title: str
    number: str  # format of the value axis


MEASURES = {
    "auc": Measure("Probe AUC", "Probe AUC", ".1f"),
    "accuracy": Measure("Answer accuracy of the groups", "Right (%)", "d"),
    "popularity": Measure("Mean popularity of the groups", "Popularity", "~s"),
    "ece": Measure("Calibration error of the probes", "Error", ".2f"),
    "density": Measure(
        "Density of Δlogit, layer of best AUC (solid: knockout, dotted: random tokens)",
        "Density (√)",
        "",
    ),
}
OF_PROBES = {
    "auc": data.values_of("probe_auc", "auc_low", "auc_high"),
    "ece": data.values_of("ece"),
}
"""Measures of a cell's probes: the columns of the table."""
OF_GROUPS = {
    "accuracy": data.values_of("answer_accuracy", factor=100) | SIZE,
    "popularity": data.values_of("popularity") | SIZE,
}
"""Measures of the groups: the columns of the table."""
OF_DENSITY: dict[str, Source] = {"value": ("density", 1, 5)}


@dataclass(frozen=True)
class Tables:
    """The rows of one read-out."""

    controls: pd.DataFrame
    groups: pd.DataFrame  # the curve's, under the knockout
    density: pd.DataFrame

    def of_cell(self, model: str, dataset: str) -> "Tables":
        """The rows of one cell."""
        cells = (
            data.cell_of(table, model, dataset)
            for table in (self.controls, self.groups, self.density)
        )
        return Tables(*cells)


@dataclass(frozen=True)
class Line:
    """One line of a panel."""

    measure: str
    anchor: str  # the colour is that of the group's line in the main figure
    numbers: Mapping[str, Source]
    rows: pd.DataFrame
    about: str  # what it is, in a tooltip
    condition: str = ""
    dotted: bool = False
    markers: bool = True
    of_probe: bool = True  # whether it tells of the read-out's probe, and can be grey
    x: str = "layer"


@fitted
def probes_chart(
    controls: pd.DataFrame, curve: pd.DataFrame, density: pd.DataFrame, request: Request
) -> Figure:
    """A column per model: AUC, the groups' answer accuracy and popularity, calibration, Δlogit.

    Of the rows of `results/tables/<figure>.controls.csv`, `.csv` and `.density.csv`; panels of
    which these have nothing are left out. Raises AnchorscopeError: missing columns, or nothing
    measured at this read-out or grouping.
    """
    look = request.look
    data.require(controls, CONTROLS)
    data.require(density, DENSITY)
    checked = data.at_readout(controls, request.readout)
    groups, grouping = data.select(curve, request.readout, request.grouping)
    groups = groups[groups["condition"] == "knockout"]
    tables = Tables(checked, groups, data.rows_at(density, request.readout))
    columns = [_rows(tables, model, request.datasets) for model in request.panels]
    across = draw.columns_across(len(columns), look.columns)
    width = draw.width_of(across, look)
    curves = pd.DataFrame([row for rows in columns for row in rows["auc"] + rows["accuracy"]])
    series = draw.paper_series(request.datasets, curves if len(curves) else None)
    shared = draw.encodings(series, look, width)
    measured = {name for name in MEASURES if any(rows[name] for rows in columns)}
    names = [name for name in MEASURES if name in measured | {"auc", "density"}]
    views = []
    for i, (rows, (model, label)) in enumerate(zip(columns, request.panels, strict=True)):
        layers = data.layer_count(checked[checked["model"] == model])
        column = []
        for name in names:
            heading = draw.row_heading(MEASURES[name].heading, look, visible=i % across == 0)
            heading = draw.panel_heading(label, look) if name == "auc" else heading
            panel = _panel(name, rows[name], layers, shared, look, number=i, last=name == names[-2])
            column.append(panel.properties(title=heading))
        views.append(alt.VConcatChart(vconcat=column, spacing=12, resolve=draw.one_legend()))
    caption = _caption(tables, grouping, request)
    return draw.figure_of(views, across, width, request.title, caption, look)


def _caption(tables: Tables, grouping: str, request: Request) -> Caption:
    """Read-out, n and intervals, what is dotted, what the answer adds, what is grey."""
    cells, groups = (
        data.cells_of(rows, request.panels, request.datasets)
        for rows in (tables.controls, tables.groups)
    )
    sizes = [int(cell["n"].max()) for cell in cells.values() if len(cell)]
    before = any(cell["prompt_end_auc"].notna().any() for cell in cells.values())
    added, added_detail = _added(cells)
    return Caption(
        [
            f"Read-out {'/'.join(request.readout)}; {GROUPINGS.get(grouping, grouping)}; "
            f"{notes.size_note(sizes)} samples a cell; {100 * request.level:g}\u00a0% intervals.",
            notes.grey_note(cells),
            notes.cross_note(groups, "knockout"),
            DOTTED.format(before=BEFORE if before else ""),
            added,
        ],
        [
            HUMPS,
            f"Bands: pointwise {100 * request.level:g}\u00a0% {notes.AUC_BANDS}.",
            DOTTED_DETAIL.format(before=BEFORE_DETAIL if before else ""),
            COLOURS_DETAIL,
            *added_detail,
            *notes.thin_note(groups, "knockout"),
            *notes.no_signal_notes(cells),
            *notes.missing_note([name for name, cell in cells.items() if cell.empty]),
            *request.notes,
        ],
    )


def _added(cells: Mapping[str, pd.DataFrame]) -> tuple[str, list[str]]:
    """What reading the answer adds to the AUC at the headline layer, and that cell by cell."""
    values, texts = [], []
    for name, cell in cells.items():
        head = cell[data.true(cell["headline"])].dropna(subset=["added_auc"])
        for interval in head[["added_auc", "added_low", "added_high"]].to_numpy():
            value, low, high = (_signed(end) for end in interval)
            values.append(interval[0])
            texts.append(f"{name} {value}\u00a0[{low},\u00a0{high}]")
    if not values:
        return "", []
    ends = dict.fromkeys(_signed(value) for value in (min(values), max(values)))
    verdict = f"At the headline layer reading the answer adds {' to '.join(ends)} to the AUC."
    return verdict, [f"AUC that reading the answer adds at the headline layer: {'; '.join(texts)}."]


def _signed(value: float) -> str:
    """A number with two digits and a true minus."""
    return f"{value:.2f}".replace("-", "\u2212")


def _rows(tables: Tables, model: Pair, datasets: Sequence[Pair]) -> dict[str, list[Row]]:
    """Measure → the rows that one model's panel draws."""
    rows: dict[str, list[Row]] = {name: [] for name in MEASURES}
    for i, (key, name) in enumerate(datasets):
        for line in _lines(tables.of_cell(model[0], key)):
            labels: Row = {
                "model": model[1],
                "dataset": name,
                "marker": draw.marker_of(i),
                "series": draw.series_name(line.anchor, name),
                "measure": line.about,
                "condition": line.condition,
                "chance": line.dotted,
            }
            if line.x != "layer":
                labels["layer"] = int(line.rows["layer"].iloc[0])
            points = data.layer_count(line.rows) if line.x == "layer" else len(line.rows)
            offset = i + 4 * draw.ANCHORS.index(line.anchor)
            for row in data.line_rows(
                *(line.rows, line.numbers, labels, points, offset), x=line.x, probe=line.of_probe
            ):
                rows[line.measure].append(row | {"mark": row["mark"] and line.markers})
    return rows


def _lines(cell: Tables) -> Iterator[Line]:
    """The lines of a cell's panels."""
    for measure, numbers in OF_PROBES.items():
        yield Line(measure, "Q", numbers, cell.controls, MEASURES[measure].heading, measure)
    for column, about in BESIDE.items():
        yield Line(
            *("auc", "Q", data.values_of(column), cell.controls, about, column),
            dotted=True,
            markers=column != "floor_auc",
            of_probe=False,
        )
    for measure, anchor in product(OF_GROUPS, draw.ANCHORS):
        rows = cell.groups[cell.groups["anchor"] == anchor]
        yield Line(measure, anchor, OF_GROUPS[measure], rows, MEASURES[measure].heading, measure)
    signals = cell.controls[["layer", "signal"]]
    density = cell.density.merge(signals, how="left")
    density["x"] = density["x"].round(4)
    about = MEASURES["density"].heading
    for condition, rows in density.groupby("condition"):
        dotted = condition == "random"
        yield Line("density", "Q", OF_DENSITY, rows, about, str(condition), dotted=dotted, x="x")


def _panel(
    measure: str,
    rows: Sequence[Row],
    layers: int,
    shared: draw.Encodings,
    look: Style,
    *,
    number: int,
    last: bool,
) -> alt.LayerChart:
    """One measure of the model of that number; the last by layer names its x axis."""
    about = MEASURES[measure]
    if measure == "density":
        x, y = _axes_of_density(rows, about.axis_title)
    else:
        x = figure_panel.layer_axis(layers, "Layer" if last else None)
        axis = _axis(measure, _numbers(rows, "value", "low", "high"))
        y = figure_panel.value_axis("value", about.axis_title, *axis, look, number=about.number)
    return figure_panel.line_panel(
        *(rows, x, y, shared, look, TIPS),
        name=f"{measure}_{number}",
        height=round((0.9 if measure == "auc" else 0.65) * look.panel_height),
        chance=measure in ("auc", "density"),
        crosses=measure in OF_GROUPS,
    )


def _numbers(rows: Sequence[Row], *columns: str) -> list[float]:
    """What the rows hold in some columns; blanks are left out."""
    values = (row.get(column) for row in rows for column in columns)
    return [value for value in values if isinstance(value, (int, float))]


def _axis(measure: str, values: Sequence[float]) -> Axis:
    """Range and ticks of a measure's axis; holds every value and band."""
    if measure == "accuracy":
        return SHARES
    if measure == "auc":
        return auc_axis(min([0.5, *values]))
    high = max([0.1 if measure == "ece" else 1, *values])
    step = 10 ** math.floor(math.log10(high))
    step = step / 2 if high < 2 * step else 2 * step if high >= 5 * step else step
    return (0, 1.05 * high), [step * k for k in range(int(1.05 * high / step) + 1)]


def _axes_of_density(rows: Sequence[Row], title: str) -> tuple[alt.X, alt.Y]:
    """Square roots, so that a wide hump shows beside a narrow one."""
    places, heights = _numbers(rows, "x") or [0], _numbers(rows, "value") or [1]
    scale = alt.Scale(domain=[min(places), max(places)], nice=False)
    x = alt.X("x:Q", title="Δlogit", scale=scale, axis=alt.Axis(grid=False, tickCount=8))
    axis = alt.Axis(title=title, tickCount=3, minExtent=0, grid=True)
    scale = alt.Scale(type="sqrt", domain=[0, 1.05 * max(heights)])
    return x, alt.Y("value:Q", scale=scale, axis=axis)
