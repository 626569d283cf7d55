"""The figure `controls`: what flips by itself, and what the probes still know, cell by cell."""

import math
from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_panel,
    figure_style as draw,
)
from anchorscope.figures.figure_axis import Axis, auc_axis
from anchorscope.figures.figure_panel import Frame
from anchorscope.figures.figure_picture import Caption, Panel, Picture, Request, as_chart, by_cell

FLIPS = {
    "flip_share": draw.Series("Flips: knockout", draw.BLUE, [1, 0], "circle"),
    "crossed-knockout_flip_share": draw.Series(
        "Flips: knockout, partner's question", draw.PURPLE, [6, 4], "diamond"
    ),
    "random_flip_share": draw.Series("Flips: random", draw.ORANGE, [1.5, 2.5], "square"),
    "rest_flip_share": draw.Series("Flips: rest of the question", draw.RED, [6, 2, 2, 2], "cross"),
    "question_flip_share": draw.Series("Flips: question", draw.GREEN, [8, 3], "triangle-up"),
    "question_only": draw.Series(
        "Flips: only with the whole question blocked", draw.RED, [2, 2], "triangle-left"
    ),
    "offset_flip_share": draw.Series("Flips: offset refitted", draw.SKY, [4, 2], "triangle-down"),
    "null_share": draw.Series("Flips: Δlogit permuted", draw.SOFT, [1.5, 2.5], "cross"),
}
AUCS = {
    "probe_auc": draw.Series("AUC: clean", draw.INK, [1, 0], "circle"),
    "auc_knockout": draw.Series("AUC: knocked out", draw.BLUE, [8, 3], "triangle-right"),
    "auc_refit": draw.Series("AUC: refitted", draw.SKY, [4, 2], "triangle-down"),
    "prompt_end_auc": draw.Series("AUC: prompt's end", draw.GREEN, [1.5, 2.5], "diamond"),
    "auc_shuffled": draw.Series("AUC: shuffled labels", draw.SOFT, [1.5, 2.5], "cross"),
    "floor_auc": draw.Series("AUC: hardest floor", draw.RED, [10, 3, 2, 3], None),
}
# the read-out's probe has no part in these: they stay in colour where it has no signal
NOT_OF_THE_PROBE = ("prompt_end_auc", "auc_shuffled", "floor_auc")
BANDS = {"probe_auc": "auc", "question_only": "question_only"}
"""Column of a line with a band → what the columns of its ends begin with."""
NEEDED = (
    "model dataset site position layer n headline signal cell_signal probe_auc auc_low auc_high"
)
TIPS = draw.LAYER | {"series": ("line", ""), "value": ("value", ".3~f"), "n": ("n", ",d")}


@as_chart
def controls_chart(controls: pd.DataFrame, request: Request) -> Picture:
    """Draw small panels for each cell, models below one another, datasets side by side.

    Above: the share of samples that flip under the knockout, and under each control, of its own.
    Below: AUC of the clean probe on clean and on knocked-out activations, of the refitted probe, at
    the prompt's end, of probes on shuffled labels and of the hardest floor. What was not measured
    has no line; layers without a signal are hollow and grey.

    Of the rows of `results/tables/<figure>.controls.csv`. Raises AnchorscopeError: missing columns.
    """
    rows = data.shown(controls, request, f"{NEEDED} flip_share".split())
    series = [
        one for name, one in (FLIPS | AUCS).items() if name in rows and rows[name].notna().any()
    ]
    flips, aucs = _lines(rows, FLIPS, 100), _lines(rows, AUCS, 1)
    panels = [
        Panel("flips", flips, Axis("Flips (%)"), TIPS, under=_headline),
        Panel("auc", aucs, auc_axis(aucs[["value"]]), TIPS, under=_headline),
    ]
    return Picture(by_cell(request), series, panels, _caption(rows, request))


def _lines(rows: pd.DataFrame, lines: Mapping[str, draw.Series], factor: float) -> pd.DataFrame:
    """The rows of a panel; a series without a marker has none."""
    parts = []
    for i, (name, series) in enumerate(lines.items()):
        part = data.numbered(rows, name, factor, n="n", ends=BANDS.get(name, "no band"))
        signal = part["signal"] | (name in NOT_OF_THE_PROBE)
        place = {"series": series.name, "marker": series.marker, "offset": i}
        parts.append(part.assign(**place, signal=signal))
    drawn = data.in_runs(pd.concat(parts), numbers=["headline"])
    return drawn.assign(mark=drawn["mark"] & drawn["marker"].notna())


def _headline(rows: pd.DataFrame, frame: Frame) -> Sequence[alt.Chart]:
    """An upright line at the headline layer."""
    layers = rows["layer"][rows["headline"] > 0].unique()
    return figure_panel.upright(pd.DataFrame({"layer": layers}), frame.x)


def _caption(rows: pd.DataFrame, request: Request) -> Caption:
    """Say the read-out and n; flips describe."""
    sizes = rows.groupby(["model", "dataset"])["n"].max()
    return notes.caption(
        request,
        rows,
        request.where,
        f"{notes.size_note(sizes)} samples per cell; upright line: headline layer",
        ["Flips describe. They carry no claim."],
        ["Intervals of AUCs: the probes held fixed.", _floor(rows)],
        intervals=notes.REFITTED,
    )


def _floor(rows: pd.DataFrame) -> str:
    """The largest |ΔP| of passes in which nothing was blocked."""
    floor = rows["noise_floor"].max() if "noise_floor" in rows else math.nan
    if math.isnan(floor):
        return "Noise floor: not measured."
    size = f"{floor:.2g}" if floor >= 1e-4 else "below 0.0001" if floor else "0"
    return f"Noise floor (largest |ΔP| with nothing blocked): {size}\u00a0points."
