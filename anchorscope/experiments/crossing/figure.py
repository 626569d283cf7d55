"""The figure `crossing`: what the probes read off question, answer and pair, cell by cell."""

import pandas as pd

from anchorscope.experiments.crossing.table import PAIR, TERMS, TRUTH
from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_pairs,
    figure_panel,
    figure_style as draw,
)
from anchorscope.figures.figure_axis import Axis
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_picture import Panel, Picture, as_chart, by_cell
from anchorscope.figures.figure_request import Request

READS = {
    "truth": draw.Series("truth of the pair", draw.PURPLE, [1, 0], "circle"),
    "agreement": draw.Series("agreement", draw.GREEN, [4, 2], "triangle-up"),
}
MIDDLES = Axis("Layer", field="layer", margin=0.5)
"""Layers with room beside the first and the last."""
SHARE_TIPS = draw.LAYER | {"series": ("read off", ""), "value": ("share, %", ".1f")}


@as_chart
def crossing_chart(crossing: pd.DataFrame, request: Request) -> Picture:
    """Two panels for each cell, models below one another, datasets side by side.

    Above: shares of question, answer and pair in the mean squares of what exchanging two right
    answers does to the score; what is missing to 100 % is noise of the probe. Below: truth of the
    pair with its band, agreement thin behind it; filled where it is shown that truth is read.

    Of the rows of `results/tables/<figure>.crossing.csv`; `grouping` tells nothing here. Raises
    AnchorscopeError: missing columns.
    """
    columns = {f"share_{term}": draw.TERMS[term].name for term in TERMS}
    needed = f"{figure_pairs.NEEDED} {' '.join(columns)} pair_from truth_from"
    rows = data.shown(crossing, request, needed, must=False)
    shares = data.stacked(rows, columns)
    shares = shares.filter([*SHARE_TIPS, "model", "dataset", "start", "end", "middle"])
    lines = figure_pairs.lines(rows)
    lines = lines.assign(
        series=lines["quantity"].map({name: one.name for name, one in READS.items()}),
        marker=lines["quantity"].map({name: one.marker for name, one in READS.items()}),
    )
    pairs = Axis(figure_pairs.AXIS_TITLE, figure_pairs.ticks_of_pairs(lines))
    panels = [
        Panel("shares", shares, Axis("Shares (%)"), SHARE_TIPS, MIDDLES, figure_panel.shares),
        Panel("reads", lines, pairs, figure_pairs.TIPS, MIDDLES, figure_panel.claims),
    ]
    series = [*(draw.TERMS[name] for name in TERMS), *READS.values()]
    return Picture(by_cell(request), series, panels, _caption(rows, request))


def _caption(rows: pd.DataFrame, request: Request) -> Caption:
    """What is drawn, n, and what is shown; from which layer on, as details."""
    heads = rows[rows["headline"]]
    truth, pair = (heads["reads"].isin(reads).sum() for reads in ((TRUTH,), (TRUTH, PAIR)))
    pairs = notes.size_note([*heads["n_right"], *heads["n_wrong"]])
    return notes.caption(
        request,
        rows.drop(columns="signal", errors="ignore"),
        f"Read-out {'/'.join(request.readout)}; two answers exchanged between their questions",
        f"{pairs} pairs a cell",
        [
            f"At the headline layer the probe compares answer and question in {pair} of "
            f"{len(heads)} cells, and reads truth by that (filled) in {truth}."
            if len(heads)
            else ""
        ],
        [
            "Above: shares of the terms of question, answer and pair in the mean squares of right "
            "answers' scores; what is missing to 100\u00a0% is noise of the probe.",
            figure_pairs.DETAIL.replace("Lower row: two", "Below: two"),
            *_from_layers(data.cells_of(rows, request)),
        ],
        intervals="bootstrap intervals over pairs, with the probe's own variance",
    )


def _from_layers(cells: dict[str, pd.DataFrame]) -> list[str]:
    """From which layer on truth is read, by a band over all layers at once."""
    first_layers = {name: cell["truth_from"].iloc[0] for name, cell in cells.items() if len(cell)}
    known = [f"{name} from layer {int(at)}" for name, at in first_layers.items() if at == at]
    return [f"Truth is read from a layer on to the last: {'; '.join(known)}."] if known else []
