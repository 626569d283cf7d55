"""Picture of the knowledge boundary: share of refused questions in each group, by layer."""

import pandas as pd

from anchorscope.experiments.boundary import COLUMNS, KNOCKOUT, RANDOM
from anchorscope.figures import data, notes, style
from anchorscope.figures.axis import PERCENT, Axis
from anchorscope.figures.picture import Caption, Panel, Picture, Request, as_chart, by_model
from anchorscope.statements import say

REFUSED = Axis("Refused (%)", PERCENT)
TIPS = style.LAYER | {
    "series": ("group", ""),
    "groups": ("groups by flips under", ""),
    "value": ("value, %", ".1f"),
}
TIPS |= style.INTERVAL


@as_chart
def layers(table: pd.DataFrame, request: Request) -> Picture:
    """Draw a panel per model, with a line for each dataset, group-forming condition and group."""
    rows = data.shown(table, request, COLUMNS)
    rows = rows[rows["anchor"].isin(style.ANCHORS)]
    points = data.numbered(rows, "unknown", 100)
    points = points.assign(chance=points["groups"] == RANDOM.name, condition=points["groups"])
    lines = data.in_lines(data.by_group(points), ["groups", "condition"])
    series = style.paper_series(request.datasets)
    panel = Panel(lines, REFUSED, TIPS)
    return Picture(by_model(request), series, [panel], _caption(rows, request))


def _caption(rows: pd.DataFrame, request: Request) -> Caption:
    """Write the caption: the drawn share, how groups are formed, and n."""
    counted = rows[(rows["groups"] == KNOCKOUT.name) & (rows["n_paired"] > 0)]
    headline = counted[counted["headline"]]
    return notes.caption(
        request,
        rows if len(headline) else headline,
        "Share of questions that the model refuses once the prompt allows refusing; groups are "
        "formed by the flips under the knockout (dotted: with random question tokens blocked)",
        say.size(headline["n_paired"], "samples per group at the headline layer"),
        ["No question was refused."] if len(headline) and not rows["unknown"].any() else [],
    )
