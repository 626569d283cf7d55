"""The picture `evidence`: AUC of probes and text models, and flips, per cell and layer."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import pandas as pd

from anchorscope.experiments.knockout import controls
from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_panel,
    figure_style as draw,
)
from anchorscope.figures.figure_axis import auc_axis, axis_of
from anchorscope.figures.figure_picture import Caption, Panel, Picture, Request, as_chart, by_cell
from anchorscope.figures.figure_style import Series
from anchorscope.statements import say

AUCS = {
    "probe_auc": Series("AUC: probe", draw.INK, [1, 0], "circle"),
    "prompt_end_auc": Series("AUC: before the answer", draw.GREEN, draw.DOTTED, "diamond"),
    "floor_auc": Series("AUC: hardest text model", draw.INK, [9, 3, 2, 3], None),
    "auc_knockout": Series("AUC: under the knockout", draw.BLUE, [6, 4], "triangle-down"),
}
"""Column → its line."""
NOT_OF_THE_PROBE = ("prompt_end_auc", "floor_auc")
"""Lines that keep their colour where the read-out's probe does not predict."""
LOOKS: Sequence[tuple[str, Sequence[float], str]] = (
    (draw.BLUE, [1, 0], "circle"),
    (draw.ORANGE, draw.DOTTED, "square"),
    (draw.SKY, [6, 2, 2, 2], "cross"),
    (draw.RED, [8, 3], "triangle-up"),
    (draw.PURPLE, [6, 4], "diamond"),
    (draw.GREEN, [10, 2], "triangle-right"),
)
"""Colour, dash and marker of the lines of flips, in the order of `controls.flipping`."""
KEYS = ["model", "dataset", "site", "position", "layer"]
OF_CURVE = ["n", "predicts"]
AUC_HEADING = "How well right and wrong answers are told apart"
FLIPS_HEADING = "Samples whose predicted class flips when the tokens in the legend are blocked"
TIPS = draw.LAYER | {"series": ("line", ""), "value": ("value", ".3~f"), "n": ("n", ",d")}


def flips() -> dict[str, Series]:
    """Return {column: its line in the picture} for all columns with a share of flips."""
    every = zip(controls.flipping().items(), cycle(LOOKS), strict=False)
    return {column: Series(f"Flips: {one.blocks}", *look) for (column, one), look in every}


@as_chart
def evidence_chart(table: pd.DataFrame, curve: pd.DataFrame, request: Request) -> Picture:
    """Draw two small panels for each cell, models below one another, datasets side by side.

    The upper panel shows the AUCs of the probe (clean, and under the knockout), of the probe at
    `prompt_end`, and of the hardest text model. The lower panel shows the share of samples that
    flip under the knockout, after the partner's question, and with other tokens blocked. Columns
    without numbers have no line. Where it does not predict, lines outside `NOT_OF_THE_PROBE` are thin grey.

    `table` is `<figure>.controls.csv`, and `curve` is `<figure>.csv`.

    Raises:
        AnchorscopeError: Columns are missing.
    """
    everyone = curve[(curve["condition"] == "knockout") & (curve["anchor"] == "all")]
    data.require(everyone, [*KEYS, *OF_CURVE])
    known = data.labelled(everyone[[*KEYS, *OF_CURVE]].drop_duplicates(KEYS), request)
    drawn = table.filter(["model", "dataset", *controls.columns()])
    rows = data.shown(drawn, request, [*controls.AUCS]).merge(known, how="left", on=KEYS)
    shown = AUCS | flips()
    series = [one for name, one in shown.items() if name in rows and rows[name].notna().any()]
    aucs, shares = _lines(rows, AUCS, 1), _lines(rows, flips(), 100)
    panels = [
        Panel(lines, axis, TIPS, heading=heading, under=figure_panel.headlines)
        for lines, axis, heading in (
            (aucs, auc_axis(aucs, least=0.5), AUC_HEADING),
            (shares, axis_of(shares, "Flips (%)", 20, 10), FLIPS_HEADING),
        )
    ]
    return Picture(by_cell(request), series, panels, _caption(rows, request))


def _lines(rows: pd.DataFrame, lines: Mapping[str, Series], factor: float) -> pd.DataFrame:
    """Return the rows of a panel. Points of a line are marked only if the line has a marker."""
    parts = []
    for number, (name, series) in enumerate(lines.items()):
        ends = "auc" if name == "probe_auc" else "no band"
        look = {"series": series.name, "marker": series.marker, "offset": number}
        part = data.numbered(rows, name, factor, n="n", ends=ends, **look)
        parts.append(part.assign(predicts=part["predicts"] | (name in NOT_OF_THE_PROBE)))
    drawn = data.in_lines(pd.concat(parts), numbers=["headline"])
    return drawn.assign(mark=drawn["mark"] & drawn["marker"].notna())


def _caption(rows: pd.DataFrame, request: Request) -> Caption:
    """Write the caption: the read-out, n, and the remark that flips support no claim."""
    sizes = rows.groupby(["model", "dataset"])["n"].max()
    return notes.caption(
        request,
        rows,
        request.where,
        f"{say.size(sizes, 'samples per cell')}; vertical line: headline layer; band: "
        f"{say.level(request.level)} interval of the probe's AUC",
        ["Flips are descriptive and support no claim."],
        [say.intervals(request.level, say.fixed)],
        intervals="",
    )
