"""The figure `controls`: what flips by itself, and what the probes still know, cell by cell."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import altair as alt
import pandas as pd

from anchorscope.experiments.knockout.curve import NO
from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_panel,
    figure_style as draw,
)
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_data import Row
from anchorscope.figures.figure_fit import Request, fitted
from anchorscope.figures.figure_main import SHARES
from anchorscope.figures.figure_page import Axis
from anchorscope.figures.figure_style import Figure, Style

FLIPS = {
    "flip_share": draw.Series("Flips: knockout", draw.BLUE, [1, 0], "circle"),
    "random_flip_share": draw.Series("Flips: random", draw.ORANGE, [1.5, 2.5], "square"),
    "question_flip_share": draw.Series("Flips: question", draw.GREEN, [8, 3], "triangle-up"),
    "question_only": draw.Series("Flips: question alone", draw.RED, [2, 2], "triangle-left"),
    "offset_flip_share": draw.Series("Flips: offset refitted", draw.SKY, [4, 2], "triangle-down"),
    "null_share": draw.Series("Flips: Δlogit permuted", draw.SOFT, [1.5, 2.5], "cross"),
}
AUCS = {
    "probe_auc": draw.Series("AUC: clean", draw.INK, [1, 0], "circle"),
    "auc_knockout": draw.Series("AUC: knocked out", draw.BLUE, [8, 3], "triangle-right"),
    "auc_refit": draw.Series("AUC: refitted", draw.SKY, [4, 2], "triangle-down"),
    "prompt_end_auc": draw.Series("AUC: prompt's end", draw.GREEN, [1.5, 2.5], "diamond"),
    "auc_shuffled": draw.Series("AUC: shuffled labels", draw.SOFT, [1.5, 2.5], "cross"),
    "floor_auc": draw.Series("AUC: hardest floor", draw.RED, [10, 3, 2, 3], None),
}
# the read-out's probe has no part in these: they stay in colour where it has no signal
NOT_OF_THE_PROBE = ("prompt_end_auc", "auc_shuffled", "floor_auc")
BANDS = {
    "probe_auc": ("auc_low", "auc_high"),
    "question_only": ("question_only_low", "question_only_high"),
}
"""Column of a line → those of its band."""
PERMUTED = (
    "Δlogit permuted: flips if every sample were moved by the knockout's change of another sample, "
    "drawn at random."
)
NEEDED = (
    "model dataset site position layer n headline signal cell_signal probe_auc auc_low auc_high"
)
CONTRAST = (
    "model dataset site position contrast quantity layer n estimate ci_low ci_high effect signal"
)
TIPS = draw.LAYER | {"series": ("line", ""), "value": ("value", ".3~f"), "n": ("n", ",d")}
SIZE: dict[str, data.Source] = {"n": ("n", 1, 0)}


@dataclass(frozen=True)
class Panel:
    """One panel of a cell."""

    name: str
    title: str  # of its value axis
    rows: Sequence[Row]
    axis: Axis
    number: str  # format of the axis


@fitted
def controls_chart(controls: pd.DataFrame, contrasts: pd.DataFrame, request: Request) -> Figure:
    """Small panels for each cell, models below one another, datasets side by side.

    Above: the share of samples that flip under the knockout, and under each control, of its own.
    Below: AUC of the clean probe on clean and on knocked-out activations, of the refitted probe, at
    the prompt's end, of probes on shuffled labels and of the hardest floor. What was not measured
    has no line; layers without a signal are hollow and grey.

    Of the rows of `results/tables/<figure>.controls.csv` and `.contrasts.csv`; `grouping` tells
    nothing here. Raises AnchorscopeError: missing columns, or nothing measured at this read-out.
    """
    data.require(controls, f"{NEEDED} flip_share")
    data.require(contrasts, CONTRAST)
    rows = data.at_readout(controls, request.readout)
    pairs = data.rows_at(contrasts, request.readout)
    columns = draw.columns_of_cells(len(request.panels), len(request.datasets), request.look)
    across, look, width = columns.across, columns.look, columns.width
    measured = {name for name in rows if rows[name].notna().any()}
    series = [one for name, one in (FLIPS | AUCS).items() if name in measured]
    shared = draw.encodings(series, look, width)
    aucs = auc_axis(min(0.4, rows[[name for name in AUCS if name in rows]].min().min()))
    views = []
    for place, (model, dataset) in enumerate(product(request.panels, request.datasets)):
        cell = data.cell_of(rows, model[0], dataset[0])
        panels = [
            Panel(f"flips_{place}", "Flips (%)", _lines(cell, FLIPS, 100), SHARES, "d"),
            Panel(f"auc_{place}", "AUC", _lines(cell, AUCS, 1), aucs, ".1f"),
        ]
        labels: Row = {"model": model[1], "dataset": dataset[1]}
        views.append(_column(cell, labels, panels, shared, look, first=place % across == 0))
    caption = _caption(rows, pairs, request)
    return draw.figure_of(views, across, width, request.title, caption, look)


def auc_axis(least: float) -> Axis:
    """The axis of AUCs: from a tenth at or below the least, to 1."""
    low = math.floor(10 * least) / 10
    return (low, 1), [k / 10 for k in range(round(10 * low), 11) if k % 2 == 0]


def _lines(table: pd.DataFrame, lines: Mapping[str, draw.Series], factor: float) -> list[Row]:
    """The rows of a panel; a series without a marker has none."""
    drawn: list[Row] = []
    for i, (name, series) in enumerate(lines.items()):
        numbers = data.values_of(name, *BANDS.get(name, ("", "")), factor) | SIZE
        labels: Row = {"series": series.name, "marker": series.marker}
        layers, probe = data.layer_count(table), name not in NOT_OF_THE_PROBE
        for row in data.line_rows(table, numbers, labels, layers, i, probe=probe):
            drawn.append(row | {"mark": row["mark"] and series.marker is not None})
    return drawn


def _column(
    cell: pd.DataFrame,
    labels: Row,
    panels: Sequence[Panel],
    shared: draw.Encodings,
    look: Style,
    *,
    first: bool,
) -> alt.VConcatChart:
    """One cell's panels; the first of a row labels their y axes. `labels`: model and dataset."""
    heads = [{"layer": int(layer)} for layer in cell["layer"][data.true(cell["headline"])]]
    rule = alt.Chart(alt.Data(values=heads)).mark_rule(color=draw.SOFT, strokeWidth=0.8)
    views = []
    for panel in panels:
        last = panel is panels[-1]
        x = figure_panel.layer_axis(data.layer_count(cell), "Layer" if last else None, labels=last)
        title = panel.title if first else None
        y = figure_panel.value_axis(
            "value", title, *panel.axis, look, number=panel.number, labels=first
        )
        rows, under = [labels | row for row in panel.rows], [rule.encode(x)] if heads else []
        views.append(
            figure_panel.line_panel(rows, x, y, shared, look, TIPS, name=panel.name, under=under)
        )
    blind = len(cell) > 0 and not data.true(cell["cell_signal"]).any()
    model = f"{labels['model']}{', no signal' if blind else ''}"
    heading = draw.panel_heading(str(labels["dataset"]), look, below=model, faded=blind)
    views[0] = views[0].properties(title=heading)
    return alt.VConcatChart(vconcat=views, spacing=8, resolve=draw.one_legend())


def _caption(rows: pd.DataFrame, pairs: pd.DataFrame, request: Request) -> Caption:
    """Read-out, n and intervals; whether random tokens have an effect; what is grey.

    As details the noise floor, where effects are not ruled out, and cells without a signal.
    """
    cells, paired = (data.cells_of(one, request.panels, request.datasets) for one in (rows, pairs))
    rows, pairs = (
        pd.concat([table.assign(cell=name) for name, table in by_cell.items()])
        for by_cell in (cells, paired)
    )
    permuted = "null_share" in rows and rows["null_share"].notna().any()
    quiet, quiet_details = _equivalence(pairs)
    return Caption(
        [
            f"Read-out {'/'.join(request.readout)}; "
            f"{notes.size_note(rows.groupby('cell')['n'].max())} samples a cell; "
            f"upright line: headline layer; {100 * request.level:g}\u00a0% intervals.",
            quiet,
            notes.grey_note(cells),
        ],
        [
            f"Bands: pointwise {100 * request.level:g}\u00a0% {notes.BANDS}, those of AUCs with "
            "the probes held fixed.",
            *([PERMUTED] if permuted else []),
            *_rerouted(rows),
            _floor(rows),
            *quiet_details,
            *notes.no_signal_notes(cells),
            *notes.missing_note([name for name, table in cells.items() if table.empty]),
            *request.notes,
        ],
    )


def _rerouted(rows: pd.DataFrame) -> list[str]:
    """What flips only when every question token is cut, at the headline layers."""
    if "question_only" not in rows or rows["question_only"].isna().all():
        return []
    heads = rows[data.true(rows["headline"])]
    more = (heads["question_more_low"] > 0).sum()
    return [
        "Flips: question alone: flips when every question token is cut, and not under the knockout "
        f"({notes.span(heads['question_only'], 100)} % at the headline layer). Cutting every "
        "token flips more samples than the knockout, with an interval above 0, in "
        f"{more} of {len(heads)} cells, by {notes.span(heads['question_more'], 100)} points."
    ]


def _floor(rows: pd.DataFrame) -> str:
    """The largest |ΔP| of passes in which nothing was cut."""
    floor = rows["noise_floor"].max() if "noise_floor" in rows else math.nan
    if math.isnan(floor):
        return "Noise floor: not measured."
    size = f"{floor:.2g}" if floor >= 1e-4 else "below 0.0001" if floor else "0"
    return f"Noise floor (largest |ΔP| with nothing cut): {size}\u00a0points."


def _equivalence(pairs: pd.DataFrame) -> tuple[str, list[str]]:
    """In how many cells random tokens leave the mean ΔP alone; as details, where they may not."""
    rows = pairs[(pairs["contrast"] == "random") & (pairs["quantity"] == "delta_p")]
    if rows.empty:
        return "Effect of random tokens: not measured.", []
    rows = rows[data.true(rows["signal"])]
    if rows.empty:
        return "Effect of random tokens: not interpretable, no layer has a signal.", []
    open_at = rows[rows["effect"] != NO].groupby("cell", sort=False)["layer"].agg(list)
    places = [f"{name} at {notes.layer_list(layers)}" for name, layers in open_at.items()]
    cells = rows["cell"].nunique()
    verdict = (
        "Random tokens leave the mean ΔP within ±5\u00a0points in "
        f"{cells - len(places)} of {cells} cells with a signal."
    )
    return verdict, [
        "No effect of random tokens: the 90\u00a0% interval of the mean ΔP lies within "
        "±5\u00a0points at every layer with a signal, over the "
        f"{notes.span(rows['n'])} samples in which as many random tokens could be cut.",
        *([f"Not shown for {'; '.join(places)}."] if places else []),
    ]
