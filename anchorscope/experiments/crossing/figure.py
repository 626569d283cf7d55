"""The figure `crossing`: what the probes read off question, answer and pair, cell by cell."""

from itertools import product

import altair as alt
import pandas as pd

from anchorscope.experiments.crossing.table import PAIR, TERMS, TRUTH
from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_pairs,
    figure_panel,
    figure_style as draw,
)
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_data import Row
from anchorscope.figures.figure_fit import Request, fitted
from anchorscope.figures.figure_page import Axis
from anchorscope.figures.figure_style import Figure, Style

SHARES: Axis = ((0, 100), [0, 50, 100])
READS = {
    "truth": draw.Series("truth of the pair", draw.PURPLE, [1, 0], "circle"),
    "agreement": draw.Series("agreement", draw.GREEN, [4, 2], "triangle-up"),
}
SHARE_TIPS = draw.LAYER | {"series": ("read off", ""), "value": ("share, %", ".1f")}


@fitted
def crossing_chart(crossing: pd.DataFrame, request: Request) -> Figure:
    """Two panels for each cell, models below one another, datasets side by side.

    Above: shares of question, answer and pair in the mean squares of what exchanging two right
    answers does to the score; what is missing to 100 % is noise of the probe. Below: truth of the
    pair with its band, agreement thin behind it; filled where it is shown that truth is read.

    Of the rows of `results/tables/<figure>.crossing.csv`; `grouping` tells nothing here. Raises
    AnchorscopeError: missing columns.
    """
    shares = " ".join(f"share_{name}" for name in TERMS)
    data.require(crossing, f"{figure_pairs.NEEDED} {shares} pair_from truth_from")
    rows = data.rows_at(crossing, request.readout)
    columns = draw.columns_of_cells(len(request.panels), len(request.datasets), request.look)
    across, look, width = columns.across, columns.look, columns.width
    series = [*(draw.TERMS[name] for name in TERMS), *READS.values()]
    shared = draw.encodings(series, look, width)
    axis = figure_pairs.axis_of(pd.DataFrame(figure_pairs.lines(rows, READS, {})))
    views = []
    for place, (model, dataset) in enumerate(product(request.panels, request.datasets)):
        cell = data.cell_of(rows, model[0], dataset[0])
        labels: Row = {"model": model[1], "dataset": dataset[1]}
        first = place % across == 0
        views.append(_column(cell, labels, axis, shared, look, name=str(place), first=first))
    return draw.figure_of(views, across, width, request.title, _caption(rows, request), look)


def _column(
    cell: pd.DataFrame,
    labels: Row,
    axis: Axis,
    shared: draw.Encodings,
    look: Style,
    *,
    name: str,
    first: bool,
) -> alt.VConcatChart:
    """One cell's panels; the first of a row labels their value axes.

    `axis` is that of the lower panel, one for all cells, so that they can be compared by eye.
    """
    columns = {f"share_{term}": draw.TERMS[term].name for term in TERMS}
    layers = data.layer_count(cell)
    x = figure_panel.layer_axis(layers, None, labels=False, margin=0.5)
    title = "Shares (%)" if first else None
    y = figure_panel.value_axis("value", title, *SHARES, look, labels=first)
    above = figure_panel.share_panel(
        data.stacked_rows(cell, columns, labels),
        *(x, y, shared, look, SHARE_TIPS),
        name=f"shares_{name}",
    )
    heading = draw.panel_heading(str(labels["dataset"]), look, below=str(labels["model"]))
    rows = pd.DataFrame(figure_pairs.lines(cell, READS, labels))
    below = figure_pairs.panel(
        rows,
        figure_panel.layer_axis(layers, "Layer", margin=0.5),
        axis,
        shared,
        look.model_copy(update={"share_height": look.panel_height}),
        name=f"reads_{name}",
        labels=first,
    )
    views = [above.properties(title=heading), below]
    return alt.VConcatChart(vconcat=views, spacing=8, resolve=draw.one_legend())


def _caption(rows: pd.DataFrame, request: Request) -> Caption:
    """What is drawn, n, intervals, and what is shown; from which layer on, as details."""
    cells = data.cells_of(rows, request.panels, request.datasets)
    heads = rows[data.true(rows["headline"])]
    pairs = notes.size_note([*heads["n_right"], *heads["n_wrong"]])
    truth, pair = ((heads["reads"].isin(reads)).sum() for reads in ((TRUTH,), (TRUTH, PAIR)))
    return Caption(
        [
            f"Read-out {'/'.join(request.readout)}; two answers exchanged between their questions, "
            f"{pairs} pairs a cell; {100 * request.level:g}\u00a0% intervals.",
            f"At the headline layer the probe compares answer and question in {pair} of "
            f"{len(heads)} cells, and reads truth by that (filled) in {truth}."
            if len(heads)
            else "",
        ],
        [
            "Above: shares of the terms of question, answer and pair in the mean squares of right "
            "answers' scores; what is missing to 100\u00a0% is noise of the probe.",
            figure_pairs.DETAIL.replace("Lower row: two", "Below: two"),
            *_from_layers(cells),
            f"Bands: pointwise {100 * request.level:g}\u00a0% bootstrap intervals over pairs, with "
            "the probe's own variance.",
            *notes.missing_note([name for name, table in cells.items() if table.empty]),
            *request.notes,
        ],
    )


def _from_layers(cells: dict[str, pd.DataFrame]) -> list[str]:
    """From which layer on truth is read, by a band over all layers at once."""
    first_layers = {name: cell["truth_from"].iloc[0] for name, cell in cells.items() if len(cell)}
    sentences = [
        f"{name} from layer {int(layer)}" for name, layer in first_layers.items() if layer == layer
    ]
    return (
        [f"Truth is read from a layer on to the last: {'; '.join(sentences)}."] if sentences else []
    )
