"""The picture of the knowledge boundary: what is known of each group, by layer."""

import pandas as pd

from anchorscope.experiments.boundary import COLUMNS, KNOCKOUT, RANDOM
from anchorscope.figures import figure_data as data, figure_notes as notes, figure_style as draw
from anchorscope.figures.figure_axis import PERCENT, Axis, axis_of
from anchorscope.figures.figure_picture import Caption, Panel, Picture, Request, as_chart, by_model

MEASURES = {
    "right": ("Answers that are right", "Right (%)"),
    "unknown": ("Refused once the prompt allows it", "Refused (%)"),
    "logprob": ("Mean log-probability of the answer's tokens", "Nats"),
    "entropy": ("Mean entropy of the answer's tokens", "Nats"),
    "popularity": ("Mean popularity of the subject", "Popularity"),
}
"""Column → heading of its panels, and title of their axis."""
SHARES = ("right", "unknown")
TIPS = draw.LAYER | {
    "series": ("group", ""),
    "groups": ("groups by the flips of", ""),
    "value": ("value", ".3~f"),
}
TIPS |= draw.INTERVAL


@as_chart
def layers(table: pd.DataFrame, request: Request) -> Picture:
    """A row of panels for each measure, a column for each model; `grouping` tells nothing here."""
    rows = data.shown(table, request, COLUMNS)
    groups = rows["anchor"].isin(draw.ANCHORS) & rows["groups"].isin([KNOCKOUT.name, RANDOM.name])
    rows = rows[(rows["facts"] == "all") & groups]
    known = [one for one in MEASURES if one != "popularity" or rows[one].notna().any()]
    panels = [_panel(rows, one) for one in known]
    series = draw.paper_series(request.datasets)
    return Picture(by_model(request), series, panels, _caption(rows, request))


def _panel(rows: pd.DataFrame, column: str) -> Panel:
    """A line for each dataset, group and way to form it; those of the control are dotted."""
    heading, title = MEASURES[column]
    points = data.numbered(rows, column, 100 if column in SHARES else 1)
    points = points.assign(chance=points["groups"] == RANDOM.name)
    lines = data.in_runs(data.by_group(points), ["groups"])
    lines["condition"] = lines["groups"]
    axis = Axis(title, PERCENT) if column in SHARES else axis_of(lines, title)
    return Panel(column, lines, axis, TIPS, height=0.7, heading=heading)


def _caption(rows: pd.DataFrame, request: Request) -> Caption:
    """What is drawn and what it does not say."""
    counted = rows[(rows["groups"] == KNOCKOUT.name) & (rows["n_paired"] > 0)]
    headline = counted[counted["headline"]]
    return notes.caption(
        request,
        rows if len(headline) else headline,
        "What the model knows, by layer and knockout group; dotted: groups by random flips",
        f"{notes.size_note(headline['n_paired'])} samples per group at the headline layer",
    )
