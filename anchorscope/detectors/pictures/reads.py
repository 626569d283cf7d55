"""What each method reads of question, answer and pair."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from anchorscope.detectors.pictures import figure_words as words, panels
from anchorscope.detectors.pictures.figure_words import Cell
from anchorscope.figures import figure_data as data, figure_panel, figure_style as draw
from anchorscope.figures.figure_data import Row
from anchorscope.figures.figure_fit import Request, fitted
from anchorscope.figures.figure_style import Encodings, Figure, Style

TERMS = ("pair", "answer", "question")
"""In the order of the stacked bars: the whisker of the first starts at 0."""
SHARE_TIPS = {
    "label": ("method", ""), "series": ("reads", ""), "value": ("share, %", ".1f"),
    "low": ("from", ".1f"), "high": ("to", ".1f"), "claim": ("shown to read", ""),
}  # fmt: skip


@fitted
def reads(table: pd.DataFrame, request: Request) -> Figure:
    """A bar for each method of what it reads of question, answer and pair, by cell."""
    shares = " ".join(f"share_{term}{end}" for term in TERMS for end in ("", "_low", "_high"))
    data.require(table, f"model dataset detector reads n_right n_wrong site position {shares}")
    rows = data.rows_at(table, request.readout)
    names = words.in_order(rows["detector"])
    series = [draw.TERMS[term] for term in TERMS]

    def panel(cell: Cell, shared: Encodings, look: Style) -> alt.LayerChart:
        bars: list[Row] = []
        for row in cell.of(rows).to_dict("records"):
            left = 0.0
            for term in TERMS:
                column = f"share_{term}"
                ends = panels.with_ends(row, column, f"{column}_low", f"{column}_high", 100)
                right = left + 100 * float(row[column])
                fixed: Row = {"series": draw.TERMS[term].name, "left": left, "right": right}
                bars.append(ends | fixed | cell.labels | {"claim": str(row["reads"])})
                left = right
        y = panels.method_axis(names, labels=cell.first)
        view = _share_panel(bars, y, shared, look, f"reads_{cell.place}")
        return view.properties(title=panels.heading(cell, look))

    caption = words.reads_caption(rows, request)
    return panels.by_cell(request, series, panel, caption, rows=len(names))


def _share_panel(
    rows: Sequence[Row], y: alt.Y, shared: Encodings, look: Style, name: str
) -> alt.LayerChart:
    """Stacked bars, the interval of the pair's share, and a dot where truth is shown to be read."""
    table = pd.DataFrame(rows)
    x = figure_panel.number_axis("left", "Share (%)", (0, 108), [0, 50, 100], number="d")
    data_ = alt.Chart(table).encode(y)
    bars = data_.mark_bar().encode(
        x, x2="right:Q", color=shared.legend, tooltip=draw.tooltips(SHARE_TIPS)
    )
    pair = data_.transform_filter(f"datum.series === '{draw.TERMS['pair'].name}'")
    low = alt.X("low:Q", scale=x["scale"], title="Share (%)")
    whiskers = pair.mark_rule(color=draw.INK).encode(low, x2="high:Q")
    truth = pair.transform_filter("datum.claim === 'truth'")
    dots = truth.mark_point(filled=True, color=draw.PURPLE, size=0.7 * look.marker_size, opacity=1)
    at = alt.XDatum(104)
    return panels.layered([bars, whiskers, dots.encode(x=at)], table, look, name)
