"""The row of panels on crossing: what a probe reads by comparing answer and question."""

import math
from collections.abc import Mapping, Sequence
from itertools import product

import altair as alt
import pandas as pd

from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_panel,
    figure_style as draw,
)
from anchorscope.figures.figure_data import Pair, Row
from anchorscope.figures.figure_page import Axis
from anchorscope.figures.figure_style import Style

NEEDED = (
    "model dataset site position layer n_right n_wrong truth truth_low truth_high agreement "
    "agreement_low agreement_high headline reads"
)
HEADING = "Truth of the pair, by comparing answer and question (thin: agreement)"
AXIS_TITLE = "Pair (logits)"
DETAIL = (
    "Lower row: two answers of one relation are exchanged between their questions. Whatever adds "
    "something read off the question to something read off the answer lies at 0. Truth is half the "
    "difference between the pair terms of right and of wrong answers; agreement (thin) is half "
    "their sum, what both share: that the answer is the model's own."
)
NOT_CROSSED = (
    "There is no row of exchanged answers: the condition `crossed` was not measured, or no two "
    "answers could be exchanged."
)
TIPS = draw.LAYER | {
    "quantity": ("quantity", ""),
    "value": ("logits", ".2f"),
    "low": ("interval from", ".2f"),
    "high": ("interval to", ".2f"),
    "n_right": ("right pairs", ",d"),
    "n_wrong": ("wrong pairs", ",d"),
    "reads": ("reads", ""),
}
TOO_FEW = "too few"
"""What a layer `reads` where too few right answers could be exchanged: nothing is drawn of it."""
STEPS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
MOST_TICKS = 4


def lines(
    crossing: pd.DataFrame, series: Mapping[str, draw.Series], labels: Row, claim: str = "truth"
) -> list[Row]:
    """What `figure_panel.claim_panel` draws of a cell.

    Args:
        crossing: rows of the cell's table of crossing at one read-out.
        series: quantity (`truth` or `agreement`) → how it is drawn.
        labels: what all rows share: model and dataset.
        claim: the quantity that stands in front; its markers are filled where `reads` is `truth`.
    """
    rows: list[Row] = []
    for quantity, look in series.items():
        for layer in crossing.sort_values("layer").to_dict("records"):
            if pd.isna(layer[quantity]) or layer["reads"] == TOO_FEW:
                continue
            ends = {"value": quantity, "low": f"{quantity}_low", "high": f"{quantity}_high"}
            row: Row = {name: _rounded(layer[column]) for name, column in ends.items()}
            row |= {name: int(layer[name]) for name in ("layer", "n_right", "n_wrong")}
            row |= {"quantity": quantity, "series": look.name, "marker": look.marker}
            row |= {"behind": quantity != claim, "reads": layer["reads"]}
            rows.append(row | labels | {"claimed": layer["reads"] == "truth"})
    return rows


def _rounded(value: float) -> float | None:
    return None if pd.isna(value) else round(float(value), 4)


def panel_rows(crossing: pd.DataFrame, model: Pair, datasets: Sequence[Pair]) -> pd.DataFrame:
    """The lines of a model's panel in the main figure, each dataset in its own colour."""
    rows: list[Row] = []
    for i, (dataset, label) in enumerate(datasets):
        name = draw.series_name(draw.ANCHORS[0], label)
        look = draw.Series(name, "", draw.DASHES[draw.ANCHORS[0]], draw.marker_of(i))
        cell = data.cell_of(crossing, model[0], dataset)
        labels: Row = {"model": model[1], "dataset": label}
        rows += lines(cell, dict.fromkeys(("truth", "agreement"), look), labels)
    return pd.DataFrame(rows)


def axis_of(rows: pd.DataFrame) -> Axis:
    """Range and ticks of panels: they hold 0, every band in front and every line."""
    if rows.empty:
        return (-1, 1), [-1, 0, 1]
    front = rows[~rows["behind"].astype(bool)]
    ends = pd.concat([rows["value"], front["low"], front["high"]]).astype(float).dropna()
    least, most = min(0.0, ends.min()), max(0.0, ends.max())
    step = next((s for s in STEPS if (most - least) / s <= MOST_TICKS), STEPS[-1])
    room = max(0.08 * (most - least), 0.5 * step)
    low, high = round(float(least - room), 4), round(float(most + room), 4)
    ticks = [round(step * k, 4) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return (low, high), ticks


def panel(
    rows: pd.DataFrame,
    x: alt.X,
    axis: Axis,
    shared: draw.Encodings,
    look: Style,
    *,
    name: str,
    labels: bool = True,
) -> alt.LayerChart:
    """A panel of such lines; `labels`: whether the value axis is labelled."""
    title = AXIS_TITLE if labels else None
    y = figure_panel.value_axis("value", title, *axis, look, number="~g", labels=labels)
    height = look.share_height
    return figure_panel.claim_panel(rows, x, y, shared, look, TIPS, name=name, height=height)


def too_few_note(
    crossing: pd.DataFrame, models: Sequence[Pair], datasets: Sequence[Pair]
) -> list[str]:
    """Details of the cells that are not drawn; rows of one read-out."""
    heads = crossing[data.true(crossing["headline"]) & (crossing["reads"] == TOO_FEW)]
    cells = [
        f"{label} on {name}, {int(n)}"
        for (model, label), (dataset, name) in product(models, datasets)
        for n in data.cell_of(heads, model, dataset)["n_right"]
    ]
    return (
        [f"Too few pairs of right answers for the lower row: {'; '.join(cells)}."] if cells else []
    )


def verdict(crossing: pd.DataFrame) -> str:
    """In how many cells truth is read by comparing, at the headline layer; rows of one read-out."""
    heads = crossing[data.true(crossing["headline"])]
    if heads.empty:
        return ""
    shown = int((heads["reads"] == "truth").sum())
    pairs = notes.size_note([*heads["n_right"], *heads["n_wrong"]])
    return (
        f"Lower row: the probe is shown to read truth by comparing answer and question (filled) "
        f"in {shown} of {len(heads)} cells ({pairs} pairs)."
    )
