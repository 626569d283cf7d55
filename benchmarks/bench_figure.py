"""The figure of the benchmark: each way's time as a multiple of the plain one-pass way."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from anchorscope.figures.figure_style import COLOURS, INK, SOFT, Style, config_of, title_of

OURS = "anchorscope"
WIDTH = 300


def chart(table: pd.DataFrame, notes: Mapping[str, Any], look: Style | None = None) -> alt.Chart:
    """One panel for each workload and stage, a bar a way, on a logarithmic axis."""
    look = look or Style()
    cells = list(dict.fromkeys(zip(table["workload"], table["stage"], strict=True)))
    low, high = table["ratio"].min() / 1.6, table["ratio"].max() * 2.2
    scale = alt.Scale(type="log", domain=[min(low, 0.5), max(high, 2)], nice=False)
    panels = [_panel(table, cell, scale, look) for cell in cells]
    caption = [
        "Time as a multiple of the plain one-pass way of the same workload and stage; "
        "shorter is faster, the line is 1.",
        f"{notes['machine']}; {notes['clock']}, medians of {notes['rounds']} rounds side by side.",
    ]
    columns = 2
    return alt.ConcatChart(
        concat=panels,
        columns=columns,
        title=title_of("How long each way takes", caption, look, columns * (WIDTH + 150)),
        config=config_of(look),
        background="white",
    )


def _panel(
    table: pd.DataFrame, cell: tuple[str, str], scale: alt.Scale, look: Style
) -> alt.LayerChart:
    rows = table[(table["workload"] == cell[0]) & (table["stage"] == cell[1])]
    rows = rows.assign(
        label=[f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}" for ratio in rows["ratio"]],
        foot=1.0,
    )
    data = alt.Chart(rows)
    y = alt.Y("way:N", sort=list(rows["way"]), title=None)
    x = alt.X("ratio:Q", scale=scale, title=None, axis=alt.Axis(grid=False, format="~g"))
    colour = alt.condition(f"datum.way == '{OURS}'", alt.value(COLOURS[0]), alt.value("#b9c4cf"))
    tips = [
        alt.Tooltip("way:N"),
        alt.Tooltip("ratio:Q", format=".3f"),
        alt.Tooltip("seconds:Q", format=".2f"),
        alt.Tooltip("max_difference:Q", title="largest difference", format=".1e"),
        alt.Tooltip("peak_mb:Q", title="peak memory, MB", format=",.0f"),
    ]
    bars = data.mark_bar(height={"band": 0.7}).encode(
        x, y, x2=alt.X2("foot:Q"), color=colour, tooltip=tips
    )
    words = data.mark_text(align="left", dx=5, color=INK, fontSize=0.9 * look.label_size).encode(
        alt.X("end:Q", scale=scale), y, text="label:N"
    )
    words = words.transform_calculate(end="max(datum.ratio, 1)")
    line = alt.Chart(alt.Data(values=[{"ratio": 1}])).mark_rule(color=SOFT).encode(x)
    title = alt.TitleParams(f"{cell[0]}, {cell[1]}", fontSize=look.panel_title_size, frame="group")
    return alt.LayerChart(
        layer=[bars, line, words], width=WIDTH, height=22 * len(rows), title=title
    )
