"""The figure `controls`: what flips by itself, and what the probes still know, cell by cell."""

import math
from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from anchorscope.experiments.knockout.contrasts import NO, OWN, YES
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
CONTRAST = "model dataset site position contrast quantity layer n estimate effect signal headline"
TIPS = draw.LAYER | {"series": ("line", ""), "value": ("value", ".3~f"), "n": ("n", ",d")}


@as_chart
def controls_chart(controls: pd.DataFrame, contrasts: pd.DataFrame, request: Request) -> Picture:
    """Small panels for each cell, models below one another, datasets side by side.

    Above: the share of samples that flip under the knockout, and under each control, of its own.
    Below: AUC of the clean probe on clean and on knocked-out activations, of the refitted probe, at
    the prompt's end, of probes on shuffled labels and of the hardest floor. What was not measured
    has no line; layers without a signal are hollow and grey.

    Of the rows of `results/tables/<figure>.controls.csv` and `.contrasts.csv`; `grouping` tells
    nothing here. Raises AnchorscopeError: missing columns.
    """
    rows = data.shown(controls, request, f"{NEEDED} flip_share".split())
    pairs = data.shown(contrasts, request, CONTRAST.split())
    series = [
        one for name, one in (FLIPS | AUCS).items() if name in rows and rows[name].notna().any()
    ]
    flips, aucs = _lines(rows, FLIPS, 100), _lines(rows, AUCS, 1)
    panels = [
        Panel("flips", flips, Axis("Flips (%)"), TIPS, under=_headline),
        Panel("auc", aucs, auc_axis(aucs[["value"]]), TIPS, under=_headline),
    ]
    return Picture(by_cell(request), series, panels, _caption(rows, pairs, request))


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


def _caption(rows: pd.DataFrame, pairs: pd.DataFrame, request: Request) -> Caption:
    """Read-out and n; what the knockout does beside itself behind the partner's question."""
    told, details = _own(pairs)
    sizes = rows.groupby(["model", "dataset"])["n"].max()
    return notes.caption(
        request,
        rows,
        request.where,
        f"{notes.size_note(sizes)} samples per cell; upright line: headline layer",
        [told],
        ["Intervals of AUCs: the probes held fixed.", _floor(rows), *details],
        intervals=notes.REFITTED,
    )


def _cell(rows: pd.DataFrame) -> pd.Series:
    """The name of each row's cell."""
    return rows["model"] + " on " + rows["dataset"]


def _floor(rows: pd.DataFrame) -> str:
    """The largest |ΔP| of passes in which nothing was blocked."""
    floor = rows["noise_floor"].max() if "noise_floor" in rows else math.nan
    if math.isnan(floor):
        return "Noise floor: not measured."
    size = f"{floor:.2g}" if floor >= 1e-4 else "below 0.0001" if floor else "0"
    return f"Noise floor (largest |ΔP| with nothing blocked): {size}\u00a0points."


def _own(pairs: pd.DataFrame) -> tuple[str, list[str]]:
    """Whether the knockout flips more behind the own question than behind the partner's.

    A sentence on the headline layers, and where there is no effect as details.
    """
    rows = pairs[(pairs["contrast"] == OWN) & (pairs["quantity"] == "share")]
    if rows.empty:
        return "The knockout behind the partner's question: not measured.", []
    rows = rows[rows["signal"]].assign(cell=_cell)
    if rows.empty:
        return "The knockout's effect is not interpretable: no layer has a signal.", []
    heads = rows[rows["headline"]]
    more = heads[(heads["effect"] == YES) & (heads["estimate"] > 0)]
    told = (
        "At the headline layer the knockout flips more answers behind their own question than "
        f"behind the partner's in {len(more)} of {len(heads)} cells with a signal"
    )
    if len(more):
        told += f", by {notes.span(more['estimate'])} points"
    none = rows[rows["effect"] == NO].groupby("cell", sort=False)["layer"].agg(list)
    places = [f"{name} at {notes.layer_list(layers)}" for name, layers in none.items()]
    return f"{told}.", [
        "No effect: the 90\u00a0% interval of the difference lies within a quarter of what "
        f"blocking every question token flips, over {notes.span(rows['n'])} samples with a "
        f"partner: {'; '.join(places) or 'nowhere'}."
    ]
