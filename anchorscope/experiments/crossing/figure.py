"""The figure `crossing`: what the probes read off question, answer and pair, cell by cell."""

import pandas as pd

from anchorscope.experiments.crossing.table import TERMS
from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_panel,
    figure_pathway,
    figure_style as draw,
)
from anchorscope.figures.figure_axis import Axis
from anchorscope.figures.figure_picture import Caption, Panel, Picture, Request, as_chart, by_cell

MIDDLES = Axis("Layer", field="layer", margin=0.5)
"""Layers with room beside the first and the last."""
SHARE_TIPS = draw.LAYER | {"series": ("read off", ""), "value": ("share, %", ".1f")}


@as_chart
def crossing_chart(crossing: pd.DataFrame, claims: pd.DataFrame, request: Request) -> Picture:
    """Draw a panel for each cell, models below one another, datasets side by side.

    Shares of question, answer and pair in the mean squares of what swapping two right answers does
    to the score; what is missing to 100 % is noise of the probe.

    Of the rows of `results/tables/<figure>.crossing.csv` and `.claims.csv`.
    Raises AnchorscopeError: missing columns.
    """
    columns = {f"share_{term}": draw.TERMS[term].name for term in TERMS}
    rows = data.shown(crossing, request, figure_pathway.NEEDED)
    shares = data.stacked(_wide(rows, [*columns]), columns)
    shares = shares.filter([*SHARE_TIPS, "model", "dataset", "start", "end", "middle"])
    panel = Panel("shares", shares, Axis("Shares (%)"), SHARE_TIPS, MIDDLES, figure_panel.shares)
    series = [draw.TERMS[term] for term in TERMS]
    judged = data.shown(claims, request, figure_pathway.OF_CLAIMS)
    return Picture(by_cell(request), series, [panel], _caption(rows, judged, request))


def _wide(rows: pd.DataFrame, quantities: list[str]) -> pd.DataFrame:
    """Return a row per cell and layer, with a column for each quantity."""
    keys = ["model", "dataset", "layer", "marker", "offset"]
    wide = rows[rows["quantity"].isin(quantities)].pivot(
        index=keys, columns="quantity", values="estimate"
    )
    return wide.reindex(columns=quantities).reset_index()


def _caption(rows: pd.DataFrame, claims: pd.DataFrame, request: Request) -> Caption:
    """Say what is drawn, n, and which claims are made."""
    pairs = notes.size_note(rows["n"][rows["headline"] & (rows["quantity"] == "share_pair")])
    return notes.caption(
        request,
        rows.drop(columns="signal", errors="ignore"),
        f"{request.where}; the answers of two questions are swapped",
        f"{pairs} right pairs per cell",
        [
            "What is missing to 100\u00a0% is noise of the probe.",
            *figure_pathway.verdict(rows, claims),
        ],
        figure_pathway.untold_notes(rows, claims, request),
        intervals="",
    )
