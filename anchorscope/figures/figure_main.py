"""The main figure: ΔP by layer for each model, below it flips, and the truth of the pair.

Panels, axes, colours, line styles and the order of the legend follow the figures of
arXiv 2601.07422. Rows are added below: the flips of paired samples beside those under a random
knockout, so that no curve is shown without what flips by itself; and, where answers were exchanged
between questions, what the probe reads of truth by comparing the two.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

import altair as alt
import pandas as pd

from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_pairs,
    figure_panel,
    figure_style as draw,
)
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_data import Pair, Source
from anchorscope.figures.figure_fit import Keywords, Request, fitted, request_of
from anchorscope.figures.figure_page import Axis, Choice, PanelChoice
from anchorscope.figures.figure_panel import Tips
from anchorscope.figures.figure_style import Figure, Style
from anchorscope.figures.figure_verdict import caption_of, flip_note
from anchorscope.passes.interventions import REGISTRY

INTERVAL = {"low": ("interval from", ".1f"), "high": ("interval to", ".1f")}
DELTA_TIPS = draw.LAYER | {"anchor": ("anchor", ""), "value": ("ΔP", ".1f"), **INTERVAL}
DELTA_TIPS |= {"n": ("n", ",d"), "share": ("share (%)", ".1f"), "probe_auc": ("probe AUC", ".3f")}
FLIP_TIPS = draw.LAYER | {"condition": ("condition", ""), "value": ("flips (%)", ".1f"), **INTERVAL}
FLIP_TIPS |= {"n": ("paired samples", ",d")}
SHARES: Axis = ((0, 100), [0, 50, 100])
"""Range and ticks of the panels of flips, in percent."""


@dataclass(frozen=True)
class Row:
    """A row of panels, one for each model."""

    name: str  # of its panels, before the number of the model
    axis_title: str
    anchors: Sequence[str]  # the groups that it draws
    numbers: Mapping[str, Source]
    tips: Tips


ROWS = (
    Row("delta_p", "ΔP (points)", draw.ANCHORS, data.CURVE, DELTA_TIPS),
    Row("flips", "Flips (%)", ("all",), data.SHARES, FLIP_TIPS),
)
PAIRS = "pairs"
"""What the names of the panels on exchanged answers begin with."""


def title_of(condition: str) -> str:
    """The title of a figure of a condition's effect."""
    return f"ΔP when {REGISTRY[condition].when}"


@fitted
def chart(table: pd.DataFrame, crossing: pd.DataFrame, request: Request) -> Figure:
    """The figure of one read-out: a column per model, ΔP above flips above the truth of the pair.

    `table` holds rows of `results/tables/<figure>.csv`, `crossing` of `<figure>.crossing.csv`; the
    lower row is left out where it has none. Points marked `thin` are crosses beside the line;
    layers without `signal` are hollow and grey. Callers give the keywords of `Keywords`.
    Raises AnchorscopeError: missing columns, or nothing measured at this read-out or grouping.
    """
    look = request.look
    rows, grouping = data.select(table, request.readout, request.grouping)
    pairs = _pairs(crossing, request, request.readout)
    choice = _choice(rows, pairs, request, request.readout, "knockout", grouping)
    across = draw.columns_across(len(request.panels), look.columns)
    width = draw.width_of(across, look)
    curves = pd.concat([choice.panels[f"delta_p_{i}"].rows for i in range(len(request.panels))])
    shared = draw.encodings(draw.paper_series(request.datasets, curves), look, width)
    views = []
    for i, (model, label) in enumerate(request.panels):
        layers = data.layer_count(rows[rows["model"] == model])
        xs = [figure_panel.layer_axis(layers, title) for title in ("Layer", None)]
        names = [f"{row.name}_{i}" for row in ROWS]
        headings = [draw.panel_heading(label, look), _heading(choice, names[1], i, across, look)]
        parts = [choice.panels[name].rows for name in names]
        axis = choice.panels[names[0]].axis or delta_axis(parts[0])
        view = column(parts, axis, xs, headings, shared, look, name=str(i))
        if len(pairs.rows):
            name = f"{PAIRS}_{i}"
            below, x = choice.panels[name], figure_panel.layer_axis(layers, None)
            axis = below.axis or figure_pairs.axis_of(below.rows)
            lower = figure_pairs.panel(below.rows, x, axis, shared, look, name=name)
            view.vconcat.append(lower.properties(title=_heading(choice, name, i, across, look)))
        views.append(view)
    return draw.figure_of(views, across, width, choice.title, choice.caption, look)


def _heading(choice: Choice, name: str, i: int, across: int, look: Style) -> alt.TitleParams:
    """What stands above a row of panels; blank but for the first."""
    return draw.row_heading(choice.panels[name].heading, look, visible=i % across == 0)


@dataclass(frozen=True)
class _Pairs:
    """What the figure shows of crossing at a read-out, whatever the condition and grouping."""

    rows: pd.DataFrame  # of the table
    lines: list[pd.DataFrame]  # by model
    axis: Axis


def _pairs(crossing: pd.DataFrame, request: Request, readout: Pair) -> _Pairs:
    """Those of a table of crossing. Raises AnchorscopeError: columns are missing."""
    data.require(crossing, figure_pairs.NEEDED)
    rows = data.rows_at(crossing, readout)
    lines = [figure_pairs.panel_rows(rows, model, request.datasets) for model in request.panels]
    return _Pairs(rows, lines, figure_pairs.axis_of(pd.concat(lines)))


def column(
    parts: Sequence[pd.DataFrame],
    axis: Axis,
    xs: Sequence[alt.X],
    headings: Sequence[alt.TitleParams | None],
    shared: draw.Encodings,
    look: Style,
    *,
    name: str,
    labels: bool = True,
) -> alt.VConcatChart:
    """ΔP above flips.

    Args:
        parts, xs: rows and layer axes, by panel.
        axis: range and ticks of ΔP.
        headings: by panel; None for none.
        shared, look: channels of all panels, and sizes.
        name: what the names of the panels end with.
        labels: whether value axes are labelled.
    """
    views: list[alt.LayerChart] = []
    zero = alt.Chart(alt.Data(values=[{"value": 0}])).mark_rule(color=draw.SOFT, strokeWidth=0.8)
    for row, rows, x, heading in zip(ROWS, parts, xs, headings, strict=True):
        panel, first = f"{row.name}_{name}", row is ROWS[0]
        height = look.panel_height if first else look.share_height
        domain, ticks = axis if first else SHARES
        title = row.axis_title if labels else None
        y = figure_panel.value_axis("value", title, domain, ticks, look, labels=labels)
        ticks_below = figure_panel.minor_ticks(x, height, panel)
        view = figure_panel.line_panel(
            *(rows, x, y, shared, look, row.tips),
            name=panel,
            under=[zero.encode(y), *ticks_below] if first else [],
            height=height,
            weight=1 if first else 0.75,
            chance=not first,
            crosses=True,
        )
        views.append(view.properties(title=heading) if heading else view)
    return alt.VConcatChart(vconcat=views, spacing=10, resolve=draw.one_legend())


def choices(
    table: pd.DataFrame, crossing: pd.DataFrame, **keywords: Unpack[Keywords]
) -> list[Choice]:
    """All that the figure's page can switch to: every read-out, control and grouping measured.

    The figure itself comes first, conditions follow in the order of the registry. Arguments and
    errors are those of `chart`, whose figure this goes with.
    """
    request = request_of(keywords)
    table = table.filter(f"{data.KEYS} {data.NUMBERS} inflation".split())
    first = (*request.readout, data.select(table, request.readout, request.grouping)[1], "knockout")
    places = table[["site", "position", "grouping", "condition"]].drop_duplicates()
    measured = [one for one in places.itertuples(index=False, name=None) if one[-1] in REGISTRY]
    measured.sort(key=lambda one: list(REGISTRY).index(one[-1]))
    selected = {at: data.select(table, at[:2], at[2])[0] for at in {one[:3] for one in measured}}
    pairs = {at[:2]: _pairs(crossing, request, at[:2]) for at in selected}
    made = []
    for site, position, grouping, condition in dict.fromkeys([first, *measured]):
        rows, at = selected[site, position, grouping], (site, position)
        made.append(_choice(rows, pairs[at], request, at, condition, grouping))
    return made


def _choice(
    rows: pd.DataFrame,
    pairs: _Pairs,
    request: Request,
    readout: Pair,
    condition: str,
    grouping: str,
) -> Choice:
    """What is drawn of a condition, of rows of the read-out and grouping, and of crossing there."""
    cells = data.cells_of(rows, request.panels, request.datasets)
    parts = [panel_parts(rows, model, request.datasets, condition) for model in request.panels]
    headings = ["", flip_note(rows, condition)]
    panels = {
        f"{row.name}_{i}": PanelChoice(
            part[k], heading=headings[k], axis=delta_axis(part[0]) if row is ROWS[0] else None
        )
        for i, part in enumerate(parts)
        for k, row in enumerate(ROWS)
    }
    for i, lines in enumerate(pairs.lines):
        panels[f"{PAIRS}_{i}"] = PanelChoice(lines, heading=figure_pairs.HEADING, axis=pairs.axis)
    title = request.title if condition == "knockout" else title_of(condition)
    preview = " (preview)" if notes.is_preview(cells, condition) else ""
    subject = f"Read-out {'/'.join(readout)}"
    caption = caption_of(cells, subject, grouping, request.level, condition)
    curves = pd.concat([part[0] for part in parts])
    return Choice(
        readout="/".join(readout),
        condition=condition,
        grouping=grouping,
        title=f"{title}{preview}",
        caption=_with_pairs(caption, pairs.rows, request),
        panels=panels,
        colours=[one.colour for one in draw.paper_series(request.datasets, curves)],
    )


def _with_pairs(caption: Caption, crossing: pd.DataFrame, request: Request) -> Caption:
    """The caption of the curves with what is said of the crossed pairs and of the whole figure."""
    below = figure_pairs.DETAIL if len(crossing) else figure_pairs.NOT_CROSSED
    too_few = figure_pairs.too_few_note(crossing, request.panels, request.datasets)
    details = [below, *too_few, *caption.details, *request.notes]
    basics, shown, grey, *others = caption.sentences
    verdict = figure_pairs.verdict(crossing)
    return Caption([basics, shown, grey, verdict, request.no_answers, *others], details)


def panel_parts(
    rows: pd.DataFrame, model: Pair, datasets: Sequence[Pair], condition: str = "knockout"
) -> list[pd.DataFrame]:
    """Rows of a model's panels: ΔP of the groups, and flips of all samples."""
    companion = REGISTRY[condition].companion
    beside = [condition, companion] if companion else [condition]
    conditions: tuple[Sequence[str], ...] = ([condition], beside)
    return [
        data.panel_rows(rows, model, datasets, row.anchors, drawn, row.numbers)
        for row, drawn in zip(ROWS, conditions, strict=True)
    ]


def delta_axis(curves: pd.DataFrame) -> Axis:
    """Range of a panel's ΔP axis, and its ticks; it holds every line, band and cross, and 0.

    It does not end at a tick: a label that sticks out above would lift the panel's title out of
    line with its neighbours'.
    """
    ends = pd.concat([curves["value"], *(curves[end][~curves["thin"]] for end in ("low", "high"))])
    least, most = (0, 0) if ends.isna().all() else (ends.min(), ends.max())
    low = min(-20, 20 * math.floor(least / 20))
    high = 5 * math.ceil(max(most, 0) / 5)
    high = max(5, high + (5 if high % 20 == 0 else 0))
    return (low, high), list(range(low, high + 1, 20))
