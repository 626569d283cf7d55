"""How well each method detects: AUC of every method, cell by cell."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from anchorscope.detectors.pictures import figure_words as words, panels
from anchorscope.figures import figure_data as data, figure_panel, figure_style as draw
from anchorscope.figures.figure_data import Row
from anchorscope.figures.figure_fit import Request, fitted
from anchorscope.figures.figure_style import Encodings, Figure, Series, Style

AUC_TIPS = {
    "label": ("method", ""), "value": ("AUC", ".3f"), "low": ("from", ".3f"), "high": ("to", ".3f"),
    "n": ("n", ",d"),
}  # fmt: skip


@fitted
def forest(table: pd.DataFrame, request: Request) -> Figure:
    """AUC of every method: a panel for each dataset, a colour for each model."""
    data.require(
        table, "model dataset detector metric estimate ci_low ci_high n thin site position"
    )
    rows = data.rows_at(table, request.readout)
    rows = rows[rows["metric"] == "auroc"]
    names = words.in_order(rows["detector"])
    across = draw.columns_across(len(request.datasets), 2 * request.look.columns)
    look = panels.sized(request.look, across, len(names))
    width = panels.width_of(across, look) + 10 * look.label_size
    series = _series([label for _, label in request.panels])
    shared = draw.encodings(series, look, width)
    lowest = min(0.4, float(rows["ci_low"].min()) - 0.02 if len(rows) else 0.4)
    x = figure_panel.number_axis("value", "AUC", (lowest, 1.01), [0.5, 0.75, 1], number=".2~f")
    views = []
    for place, (dataset, label) in enumerate(request.datasets):
        points: list[Row] = [
            panels.with_ends(row, "estimate", "ci_low", "ci_high", 1)
            | {"series": model_label, "marker": draw.marker_of(number), "model": model_label,
               "dataset": label, "n": int(row["n"])}
            for number, (model, model_label) in enumerate(request.panels)
            for row in data.cell_of(rows, model, dataset).to_dict("records")
        ]  # fmt: skip
        y = panels.method_axis(names, labels=place % across == 0)
        panel = _forest_panel(points, x, y, shared, look, f"forest_{place}")
        views.append(panel.properties(title=draw.panel_heading(label, look)))
    caption = words.forest_caption(table, request)
    return draw.figure_of(views, across, width, request.title, caption, look)


def _forest_panel(
    rows: Sequence[Row], x: alt.X, y: alt.Y, shared: Encodings, look: Style, name: str
) -> alt.LayerChart:
    """A point with a whisker for each method and series."""
    table = pd.DataFrame(rows)
    chance = alt.Chart(alt.Data(values=[{"value": 0.5}])).mark_rule(
        color=draw.SOFT, strokeWidth=0.8
    )
    aside = alt.YOffset("series:N", sort=None)
    base = alt.Chart(table).encode(y, yOffset=aside, color=shared.legend)
    ends = base.mark_rule(strokeWidth=0.6 * look.line_width).encode(
        alt.X("low:Q", scale=x["scale"], title=x["axis"]["title"]), x2="high:Q"
    )
    points = base.mark_point(filled=True, size=0.6 * look.marker_size, opacity=1).encode(
        x, shape=alt.Shape("marker:N", scale=None)
    )
    views = [chance.encode(x), ends, points, panels.reach(base.encode(x), shared, look, AUC_TIPS)]
    return panels.layered(views, table, look, name)


def _series(names: Sequence[str]) -> list[Series]:
    """Bare markers, a colour each."""
    return [
        Series(
            name,
            panels.COLOURS[number % len(panels.COLOURS)],
            [1, 0],
            draw.marker_of(number),
            line=False,
        )
        for number, name in enumerate(names)
    ]
