"""The picture `evidence`: swap shares of gold and wrong answers, and flips, per cell and layer."""

from collections.abc import Sequence
from functools import partial
from itertools import cycle

import pandas as pd

from anchorscope.curve import controls
from anchorscope.figures import data, marks, notes, style
from anchorscope.figures.axis import axis_around, axis_of
from anchorscope.figures.lower import OF_CLAIMS
from anchorscope.figures.picture import Caption, Panel, Picture, Request, as_chart, by_cell
from anchorscope.figures.style import Series
from anchorscope.passes.partners import LEAST_PAIRS
from anchorscope.statements import say

SWAPS = {
    "share_gold": Series("Swaps: gold answers", style.INK, [1, 0], "circle"),
    "share_wrong": Series("Swaps: wrong answers", style.GREEN, [6, 4], "triangle-down"),
}
"""Quantity of `crossing` → its line."""
LOOKS: Sequence[tuple[str, Sequence[float], str]] = (
    (style.BLUE, [1, 0], "circle"),
    (style.ORANGE, style.DOTTED, "square"),
    (style.SKY, [6, 2, 2, 2], "cross"),
    (style.RED, [8, 3], "triangle-up"),
    (style.PURPLE, [6, 4], "diamond"),
    (style.GREEN, [10, 2], "triangle-right"),
)
"""Colour, dash and marker of the lines of flips, in the order of `controls.flipping`."""
KEYS = ["model", "dataset", "site", "position", "layer"]
OF_CURVE = ["n", "predicts"]
OF_CROSSING = [*KEYS, "quantity", "estimate", "ci_low", "ci_high", "n", "headline"]
SWAPS_HEADING = "Answers to wrongly answered questions that score higher after their own question"
FLIPS_HEADING = "Samples whose predicted class flips when the tokens in the legend are blocked"
TIPS = style.LAYER | {"series": ("line", ""), "value": ("%", ".1f"), **style.INTERVAL}


def flips() -> dict[str, Series]:
    """Return {column: its line in the picture} for all columns with a share of flips."""
    every = zip(controls.flipping().items(), cycle(LOOKS), strict=False)
    return {column: Series(f"Flips: {one.blocks}", *look) for (column, one), look in every}


@as_chart
def evidence_chart(
    table: pd.DataFrame,
    crossing: pd.DataFrame,
    curve: pd.DataFrame,
    claims: pd.DataFrame,
    request: Request,
) -> Picture:
    """Draw two small panels for each cell, models below one another, datasets side by side.

    The upper panel shows the swap shares of gold answers and of wrong answers, with nothing
    blocked. The lower panel shows the share of samples that flip under the knockout, after
    the partner's question, and with other tokens blocked. Columns without numbers have no line.
    Flips are thin grey lines where the probe does not predict.

    `table` is `<figure>.controls.csv`, `crossing` is `<figure>.crossing.csv`, `curve` is
    `<figure>.csv`, and `claims` is `<figure>.claims.csv`.

    Raises:
        AnchorscopeError: Columns are missing.
    """
    everyone = curve[(curve["condition"] == "knockout") & (curve["anchor"] == "all")]
    data.require(everyone, [*KEYS, *OF_CURVE])
    known = data.labelled(everyone[[*KEYS, *OF_CURVE]].drop_duplicates(KEYS), request)
    drawn = table.filter(["model", "dataset", *controls.columns()])
    rows = data.shown(drawn, request, [*controls.AUCS]).merge(known, how="left", on=KEYS)
    swaps = swap_lines(data.shown(crossing, request, OF_CROSSING))
    shares = _lines([(rows, name, series) for name, series in flips().items()])
    series = [
        one
        for one in (SWAPS | flips()).values()
        if one.name in {*swaps["series"], *shares["series"]}
    ]
    judged = data.shown(claims, request, OF_CLAIMS)
    panels = [
        Panel(
            swaps,
            axis_around(swaps, "Swap share (%)", 50, 10),
            TIPS,
            heading=SWAPS_HEADING,
            under=marks.headlines,
            note=partial(notes.unjudged, judged, "comparison_wrong"),
        ),
        Panel(
            shares,
            axis_of(shares, "Flips (%)", 20, 10),
            TIPS,
            heading=FLIPS_HEADING,
            under=marks.headlines,
        ),
    ]
    return Picture(by_cell(request), series, panels, _caption(rows, request))


def swap_lines(crossing: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of swap shares. Quantities with too few pairs have none."""
    enough = crossing[crossing["n"] >= LEAST_PAIRS]
    each = ((enough[enough["quantity"] == name], series) for name, series in SWAPS.items())
    return _lines([(rows, "estimate", series) for rows, series in each])


def _lines(parts: Sequence[tuple[pd.DataFrame, str, Series]]) -> pd.DataFrame:
    """Return the rows of a panel, from the rows, the column and the series of each line."""
    lines = []
    for number, (rows, column, series) in enumerate(parts):
        drawn = data.numbered(rows, column, 100, n="n", ends="ci", series=series.name)
        lines.append(drawn.assign(marker=series.marker, offset=number))
    return data.in_lines(pd.concat(lines), numbers=["headline"])


def _caption(rows: pd.DataFrame, request: Request) -> Caption:
    """Write the caption: the read-out, n, and the remark that no claim rests on the picture."""
    sizes = rows.groupby(["model", "dataset"])["n"].max()
    return notes.caption(
        request,
        rows,
        request.where,
        f"{say.size(sizes, 'samples per cell')}; vertical line: headline layer; band: "
        f"{say.level(request.level)} interval",
        ["Both rows are descriptive and support no claim.", say.gold_is_no_truth],
        intervals="",
    )
