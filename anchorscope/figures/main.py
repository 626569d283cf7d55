"""The main figure: ΔP, AUC and swap share by layer.

Panels, axes, colours, line styles and the order of the legend follow the figures of
arXiv 2601.07422. Two rows are added below: how well the probe predicts, beside a text model and a
probe at the prompt's end, and how often an answer scores higher after its own question than after
its partner's, if answers were swapped between questions.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import altair as alt
import pandas as pd

from anchorscope.figures import data, lower, marks, notes, style
from anchorscope.figures.axis import Axis
from anchorscope.figures.data import Request
from anchorscope.figures.marks import Frame
from anchorscope.figures.picture import Panel, Picture, as_chart, by_model
from anchorscope.figures.style import Chart
from anchorscope.passes.interventions import REGISTRY
from anchorscope.statements import say

DELTA_TIPS = style.LAYER | {"anchor": ("anchor", ""), "value": ("ΔP", ".1f"), **style.INTERVAL}
DELTA_TIPS |= {"share": ("share (%)", ".1f"), "probe_auc": ("probe AUC", ".3f")}


def title_of(condition: str) -> str:
    """Return the title of the figure that shows ΔP under a condition."""
    return f"ΔP when {REGISTRY[condition].when}"


@as_chart
def chart(
    table: pd.DataFrame,
    controls: pd.DataFrame,
    crossing: pd.DataFrame,
    claims: pd.DataFrame,
    request: Request,
) -> Picture:
    """Draw the figure of one read-out: a column per model, with rows for ΔP, AUC and swap share.

    Groups with too few samples (`thin`) are crosses. Lines of ΔP are narrow and grey at layers
    whose probe does not predict.

    The arguments are rows of the figure's tables. The first row shows ΔP under the request's
    `condition`. The rows below, and the claims, do not depend on it. So they are left out under
    other conditions than the knockout. The row of swap shares is left out without rows of
    `crossing`.

    Raises:
        AnchorscopeError: Columns are missing, or nothing was measured at this read-out.
    """
    needed = (lower.OF_CONTROLS, lower.OF_CROSSING, lower.OF_CLAIMS)
    rows = data.select(table, request.readout)
    rows = data.labelled(rows[rows["condition"] == request.condition], request)
    below, claimed = list[Panel](), list[str]()
    if knockout := request.condition == "knockout":
        aucs, swapped, judged = (
            data.shown(each, request, columns)
            for each, columns in zip((controls, crossing, claims), needed, strict=True)
        )
        claimed = lower.verdict(judged)
        below = lower.panels(aucs, swapped, judged, request.look)
    shown = lower.shown(below)
    return Picture(
        by_model(request),
        style.paper_series(request.datasets),
        [delta_panel(curves(rows), say.delta_p_heading), *below],
        notes.delta_p_caption(request, rows, request.where, claimed, shown),
        request.title if knockout else title_of(request.condition),
    )


def choices(table: pd.DataFrame, *others: pd.DataFrame, **keywords: Any) -> dict[str, Chart]:
    """Return a dict of condition label → figure, for each condition measured at the read-out.

    The knockout comes first, even if not measured. Arguments and errors are the same as in `chart`.
    """
    readout = data.request_of(**keywords).readout
    measured = set(data.at_readout(table, readout)["condition"])
    return {
        REGISTRY[name].label: chart(table, *others, condition=name, **keywords)
        for name in ("knockout", *REGISTRY)
        if name in measured or name == "knockout"
    }


def curves(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the ΔP lines of both groups, from rows of `data.select` for one condition."""
    groups = rows[rows["anchor"].isin(style.ANCHORS)]
    lines = data.by_group(data.numbered(groups, "delta_p", n="n", ends="ci"))
    labels = [name for name in ("readout", "anchor", "condition") if name in rows]
    named = lines.assign(anchor=lines["anchor"] + "-Anchored", share=100 * lines["share"])
    return data.in_lines(named, labels, ["share", "probe_auc", "headline"], digits=3)


def delta_panel(delta_p: pd.DataFrame, heading: str = "") -> Panel:
    """Return the panel of ΔP from the lines of `curves`."""

    def under(rows: pd.DataFrame, frame: Frame) -> Sequence[alt.Chart]:
        return [marks.level(0, frame.y), *marks.headlines(rows, frame)]

    strong = partial(marks.lines, weight=1)
    return Panel(delta_p, delta_axis, DELTA_TIPS, draw=strong, heading=heading, under=under)


def delta_axis(curves: pd.DataFrame) -> Axis:
    """Return an axis of ΔP that contains 0 and every line, band and cross.

    Its upper end is not a tick: a label there would lift the title above those of other panels.
    """
    ends = pd.concat([curves["value"], *(curves[end][~curves["thin"]] for end in ("low", "high"))])
    least, most = (0, 0) if ends.isna().all() else (ends.min(), ends.max())
    low = min(-20, 20 * math.floor(least / 20))
    high = 5 * math.ceil(max(most, 0) / 5)
    high = max(5, high + (5 if high % 20 == 0 else 0))
    return Axis("ΔP (points)", ((low, high), list(range(low, high + 1, 20))), number="d")
