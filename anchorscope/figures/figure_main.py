"""The main figure: ΔP by layer for each model; below it the pathway, and truth.

Panels, axes, colours, line styles and the order of the legend follow the figures of
arXiv 2601.07422. Two rows are added below, where answers were swapped between questions: what of
the comparison of answer and question passes through the exact question tokens; and whether right
answers that the model did not give score above the wrong ones that it gave.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Unpack

import altair as alt
import pandas as pd

from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_panel,
    figure_pathway,
    figure_style as draw,
)
from anchorscope.figures.figure_axis import Axis, Ticks
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_page import Choice, PanelChoice
from anchorscope.figures.figure_panel import Frame
from anchorscope.figures.figure_picture import Panel, Picture, as_chart, by_model
from anchorscope.figures.figure_request import Keywords, Pair, Request, request_of
from anchorscope.figures.figure_style import Style
from anchorscope.figures.figure_verdict import caption_of
from anchorscope.passes.interventions import REGISTRY

INTERVAL = {"low": ("interval from", ".1f"), "high": ("interval to", ".1f")}
DELTA_TIPS = draw.LAYER | {"anchor": ("anchor", ""), "value": ("ΔP", ".1f"), **INTERVAL}
DELTA_TIPS |= {"n": ("n", ",d"), "share": ("share (%)", ".1f"), "probe_auc": ("probe AUC", ".3f")}
DELTA_P: data.Numbers = {
    **data.values_of("delta_p", n="n", ends="ci"), "share": ("share", 100),
    "probe_auc": ("probe_auc", 1),
}  # fmt: skip


def title_of(condition: str) -> str:
    """The title of a figure of a condition's effect."""
    return f"ΔP when {REGISTRY[condition].when}"


@as_chart
def chart(table: pd.DataFrame, crossing: pd.DataFrame, request: Request) -> Picture:
    """The figure of one read-out: a column per model, ΔP above the pathway above truth.

    `table` holds rows of `results/tables/<figure>.csv`, `crossing` of `<figure>.crossing.csv`; the
    lower rows are left out where it has none. Points marked `thin` are crosses beside the line;
    layers without `signal` are hollow and grey. Callers give the keywords of `Keywords`.
    Raises AnchorscopeError: missing columns, or nothing measured at this read-out or grouping.
    """
    rows, grouping = data.select(table, request.readout, request.grouping)
    shown = _shown(data.labelled(rows, request), crossing, request, request.readout)
    shown = replace(shown, grouping=grouping)
    return Picture(
        by_model(request),
        draw.paper_series(request.datasets, shown.delta_p),
        shown.panels(request.look),
        shown.caption(request),
        shown.title(request),
    )


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
    made = []
    for site, position, grouping, condition in dict.fromkeys([first, *measured]):
        rows = data.labelled(data.select(table, (site, position), grouping)[0], request)
        shown = _shown(rows, crossing, request, (site, position), condition)
        made.append(replace(shown, grouping=grouping).choice(request))
    return made


@dataclass(frozen=True)
class Shown:
    """What is shown of a condition at a read-out, of rows of one grouping."""

    rows: pd.DataFrame  # of the table
    crossing: pd.DataFrame  # of the table of crossing
    delta_p: pd.DataFrame  # what the panels draw
    pairs: Mapping[str, pd.DataFrame]  # rows of panels of swapped answers, by their names
    readout: Pair
    condition: str
    grouping: str = ""

    def title(self, request: Request) -> str:
        """The title, which says if this is a preview."""
        title = request.title if self.condition == "knockout" else title_of(self.condition)
        preview = notes.is_preview(data.cells_of(self.rows, request), self.condition)
        return f"{title}{' (preview)' if preview else ''}"

    def panels(self, look: Style) -> list[Panel]:
        """The rows of panels."""
        below = figure_pathway.panels(self.pairs, look) if len(self.crossing) else []
        return [delta_panel(self.delta_p, _headlines(self.rows)), *below]

    def choice(self, request: Request) -> Choice:
        """The same for the figure's page."""
        panels: dict[str, PanelChoice] = {}
        for i, (_, model) in enumerate(request.panels):
            delta_p = self.delta_p[self.delta_p["model"] == model]
            panels[f"delta_p_{i}"] = PanelChoice(delta_p, axis=delta_ticks(delta_p))
            for name, rows in self.pairs.items():
                panels[f"{name}_{i}"] = PanelChoice(
                    rows[rows["model"] == model],
                    heading=figure_pathway.HEADINGS[name],
                    axis=figure_pathway.ticks_of_pairs(rows),
                )
        return Choice(
            readout="/".join(self.readout),
            condition=self.condition,
            grouping=self.grouping,
            title=self.title(request),
            caption=self.caption(request),
            panels=panels,
            colours=[one.colour for one in draw.paper_series(request.datasets, self.delta_p)],
        )

    def caption(self, request: Request) -> Caption:
        """The words on the curves, on the swapped pairs and on the whole figure."""
        cells = data.cells_of(self.rows, request)
        subject = f"Read-out {'/'.join(self.readout)}"
        curves = caption_of(cells, subject, self.grouping, request.level, self.condition)
        of_pairs: Sequence[str] = [figure_pathway.NOT_CROSSED]
        if len(self.crossing):
            untold = figure_pathway.untold_notes(self.crossing, request)
            crossed = data.cells_of(self.crossing, request)
            none = [name for name in crossed if len(cells[name]) and crossed[name].empty]
            of_pairs = [*figure_pathway.DETAILS, *untold, *figure_pathway.unswapped_notes(none)]
        basics, signal, *others = curves.sentences
        verdict = figure_pathway.verdict(self.crossing)
        return Caption(
            [basics, signal, verdict, request.no_answers, *others],
            [*of_pairs, *curves.details, *request.notes],
        )


def _shown(
    rows: pd.DataFrame,
    crossing: pd.DataFrame,
    request: Request,
    readout: Pair,
    condition: str = "knockout",
) -> Shown:
    """What is shown of rows of the read-out and grouping, and of crossing there."""
    data.require(crossing, figure_pathway.NEEDED)
    crossed = data.labelled(data.rows_at(crossing, readout), request)
    pairs = {"pathway": figure_pathway.pathway(crossed), "truth": figure_pathway.truth(crossed)}
    return Shown(rows, crossed, curves(rows, condition), pairs, readout, condition)


def curves(rows: pd.DataFrame, condition: str = "knockout") -> pd.DataFrame:
    """The lines of ΔP of both groups; `rows` are of `figure_data.select`, labelled."""
    groups = rows[(rows["condition"] == condition) & rows["anchor"].isin(draw.ANCHORS)]
    lines = data.by_group(data.numbered(groups, DELTA_P))
    labels = [name for name in ("readout", "anchor", "condition") if name in rows]
    named = lines.assign(anchor=lines["anchor"] + "-Anchored")
    return data.in_runs(named, labels, ["share", "probe_auc"], digits=3)


def delta_panel(delta_p: pd.DataFrame, headlines: pd.DataFrame | None = None) -> Panel:
    """ΔP, with an upright line at the headline layers of each model."""

    def under(rows: pd.DataFrame, frame: Frame) -> Sequence[alt.Chart]:
        layers = () if headlines is None else _of_models(headlines, rows)
        marks = figure_panel.upright([{"layer": layer} for layer in layers], frame.x)
        return [figure_panel.level(0, frame.y), *marks, *figure_panel.minor_ticks(frame)]

    strong = partial(figure_panel.lines, weight=1)
    return Panel("delta_p", delta_p, _delta_axis, DELTA_TIPS, draw=strong, under=under)


def _headlines(rows: pd.DataFrame) -> pd.DataFrame:
    """The headline layers of each model's cells."""
    return rows.loc[rows["headline"], ["model", "layer"]].drop_duplicates()


def _of_models(headlines: pd.DataFrame, rows: pd.DataFrame) -> list[int]:
    here = headlines[headlines["model"].isin(rows["model"].unique())]
    return sorted(map(int, here["layer"].unique()))


def _delta_axis(rows: pd.DataFrame) -> Axis:
    return Axis("ΔP (points)", delta_ticks(rows), number="d")


def delta_ticks(curves: pd.DataFrame) -> Ticks:
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
