"""The pictures of patching: flips as bars at the headline layer, and by layer."""

from __future__ import annotations

import altair as alt
import pandas as pd

from anchorscope.experiments.patching import ARMS, EXPERIMENT
from anchorscope.figures.figure_data import at_readout, require
from anchorscope.figures.figure_fit import Asked, fitted
from anchorscope.figures.figure_style import (
    Figure,
    Style,
    figure_of,
    panel_heading,
    row_heading,
)

EXACT, RANDOM = "exact question tokens", "random question tokens"
GROUPS = {"Q": "Q-Anchored", "A": "A-Anchored"}
TITLES = {
    "matched": "matched: the answer's truth turns",
    "published": "published: right answers, tokens of a wrong one",
    "placebo": "placebo: the answer's truth stays",
}
COLORS = {EXACT: "#0072b2", RANDOM: "#9a9a9a"}


@fitted
def chart(
    table: pd.DataFrame,
    view: str,
    asked: Asked,
) -> Figure:
    """One of `EXPERIMENT.views`: a panel for each arm and model.

    Args:
        table: rows of `results/tables/<figure>.patching.csv`.
        view: `bars` (each dataset's groups at its headline layer) or `layers`.
        asked: as of `anchorscope.figures.figures.chart`; `grouping` tells nothing here.

    Raises:
        AnchorscopeError: missing columns, or another read-out.
    """
    look, panels = asked.look, asked.panels
    require(table, " ".join(EXPERIMENT.columns))
    rows = _long(at_readout(table, asked.readout), dict(panels), dict(asked.datasets))
    draw = _bars if view == "bars" else _by_layer
    arms = [arm for arm in ARMS if (rows["arm"] == arm).any()] or list(ARMS)[:1]
    views = [
        draw(rows[(rows["arm"] == arm) & (rows["model"] == label)], look).properties(
            title=row_heading(TITLES[arm], look)
            if len(panels) == 1
            else panel_heading(f"{label}, {TITLES[arm]}", look)
        )
        for arm in arms
        for _, label in panels
    ]
    caption = _caption(rows, view, asked.level)
    width = len(panels) * look.panel_width
    return figure_of(views, len(panels), width, asked.title, caption, look)


def _long(table: pd.DataFrame, models: dict[str, str], datasets: dict[str, str]) -> pd.DataFrame:
    """A row for each bar or point: what was replaced, and the share of flips in percent.

    Right answers only: behind any other question a wrong answer's verdict falls back to the
    default, so that wrong ones prove little.
    """
    kept = table[(table["label"].astype(str) == "0") & table["anchor"].isin(GROUPS)]
    kept = kept[kept["n_paired"] > 0]
    frames = []
    for name, column in ((EXACT, "flips"), (RANDOM, "random")):
        part = kept[["model", "dataset", "arm", "anchor", "layer", "n_paired", "headline", "thin"]]
        numbers = {
            end: 100 * kept[f"{column}{tail}"]
            for end, tail in (("share", ""), ("low", "_low"), ("high", "_high"))
        }
        frames.append(part.assign(replaced=name, **numbers))
    rows = pd.concat(frames, ignore_index=True)
    return rows.assign(
        model=rows["model"].map(models),
        dataset=rows["dataset"].map(datasets),
        group=rows["anchor"].map(GROUPS),
        series=rows["anchor"].map(GROUPS) + ", " + rows["replaced"],
    )


def _tips(*more: str) -> list[alt.Tooltip]:
    return [
        *(alt.Tooltip(f"{name}:N") for name in ("model", "dataset", "group", "replaced")),
        *(alt.Tooltip(f"{name}:Q") for name in more),
        alt.Tooltip("share:Q", title="flips, %", format=".1f"),
        alt.Tooltip("low:Q", title="from", format=".1f"),
        alt.Tooltip("high:Q", title="to", format=".1f"),
        alt.Tooltip("n_paired:Q", title="n"),
    ]


def _y() -> alt.Y:
    return alt.Y("share:Q", title="Flips, %", scale=alt.Scale(domain=[0, 100]))


def _scale() -> alt.Scale:
    return alt.Scale(domain=list(COLORS), range=list(COLORS.values()))


def _color() -> alt.Color:
    legend = alt.Legend(title=None, orient="bottom", symbolType="square", symbolOpacity=1)
    return alt.Color("replaced:N", title=None, scale=_scale(), legend=legend)


def _bars(rows: pd.DataFrame, look: Style) -> alt.LayerChart:
    """Flips of each dataset's groups, by what was replaced; thin groups are pale."""
    rows = rows[rows["headline"]]
    rows = rows.assign(bar=rows["dataset"] + "\n" + rows["group"])
    order = list(dict.fromkeys(rows["bar"]))
    axis = alt.Axis(labelExpr="split(datum.label, '\\n')", labelAngle=0, grid=False)
    x = alt.X("bar:N", title=None, sort=order, axis=axis)
    offset = alt.XOffset("replaced:N", sort=list(COLORS))
    opacity = alt.condition("datum.thin", alt.value(0.35), alt.value(1))
    base = alt.Chart(rows).encode(x=x, xOffset=offset)
    bars = base.mark_bar().encode(y=_y(), color=_color(), opacity=opacity, tooltip=_tips("layer"))
    ends = base.mark_rule(color="#333333").encode(y=alt.Y("low:Q", title="Flips, %"), y2="high:Q")
    return (bars + ends).properties(width=2 * look.panel_width, height=0.7 * look.panel_height)


def _by_layer(rows: pd.DataFrame, look: Style) -> alt.LayerChart:
    """Flips by layer; solid for Q-Anchored, dashed for A-Anchored; thin groups are left out."""
    rows = rows[~rows["thin"]].assign(
        low=rows["low"].fillna(rows["share"]), high=rows["high"].fillna(rows["share"])
    )
    x = alt.X("layer:Q", title="Layer", axis=alt.Axis(tickMinStep=1, grid=False))
    dash = alt.StrokeDash(
        "group:N",
        title=None,
        scale=alt.Scale(domain=list(GROUPS.values()), range=[[1, 0], [4, 3]]),
        legend=None,
    )
    base = alt.Chart(rows).encode(x=x, detail=["dataset:N", "series:N"])
    band = base.mark_area(opacity=look.band_opacity).encode(
        y=alt.Y("low:Q", title="Flips, %", scale=alt.Scale(domain=[0, 100])),
        y2="high:Q",
        color=_color(),
    )
    line = base.mark_line(strokeWidth=look.line_width, point={"size": 0.4 * look.marker_size})
    curves = line.encode(y=_y(), color=_color(), strokeDash=dash, tooltip=_tips("layer"))
    return (band + curves).properties(width=2 * look.panel_width, height=0.7 * look.panel_height)


def _caption(rows: pd.DataFrame, view: str, level: float) -> list[str]:
    """What the reader must know beside the picture."""
    counts = rows[rows["headline"]].drop_duplicates(["model", "dataset", "arm", "anchor"])
    least, most = counts["n_paired"].min(), counts["n_paired"].max()
    where = "at the headline layer" if view == "bars" else "by layer"
    lines = "" if view == "bars" else " Solid: Q-Anchored; dashed: A-Anchored; a line per dataset."
    return [
        f"Right answers whose predicted class flips {where} when question tokens before the same "
        f"answer are replaced: the exact question tokens by a partner's, or as many others by "
        f"those of an unlike question.",
        "Groups by the knockout's flips. A pair counts if the probe classes the partner's own "
        "clean pass as it classes the sample's; in `published`, if it calls the sample right."
        + lines,
        f"{100 * level:g} % clustered bootstrap intervals, probes held fixed; n = {least:,} to "
        f"{most:,}." if len(counts) else "No sample has a partner.",
    ]  # fmt: skip
