"""The main figure: ΔP by layer for each model, below it flips, and the truth of the pair.

Panels, axes, colours, line styles and the order of the legend follow the figures of
arXiv 2601.07422. Rows are added below: the flips of paired samples beside those under a random
knockout, so that no curve is shown without what flips by itself; and, where answers were exchanged
between questions, what the probe reads of truth by comparing the two.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from anchorscope.figures.figure_axis import LAYERS, PERCENT, Axis, Ticks
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_page import Choice, PanelChoice
from anchorscope.figures.figure_panel import Frame
from anchorscope.figures.figure_picture import Panel, Picture, as_chart, by_model
from anchorscope.figures.figure_request import Keywords, Pair, Request, request_of
from anchorscope.figures.figure_style import Style
from anchorscope.figures.figure_verdict import caption_of, flip_note
from anchorscope.passes.interventions import REGISTRY

INTERVAL = {"low": ("interval from", ".1f"), "high": ("interval to", ".1f")}
DELTA_TIPS = draw.LAYER | {"anchor": ("anchor", ""), "value": ("ΔP", ".1f"), **INTERVAL}
DELTA_TIPS |= {"n": ("n", ",d"), "share": ("share (%)", ".1f"), "probe_auc": ("probe AUC", ".3f")}
FLIP_TIPS = draw.LAYER | {"condition": ("condition", ""), "value": ("flips (%)", ".1f"), **INTERVAL}
FLIP_TIPS |= {"n": ("paired samples", ",d")}
DELTA_P: data.Numbers = {
    **data.values_of("delta_p", n="n", ends="ci"), "share": ("share", 100),
    "probe_auc": ("probe_auc", 1),
}  # fmt: skip
FLIPS = data.values_of("flip_share", 100, ends="flip")
UNNAMED = replace(LAYERS, title=None)


def title_of(condition: str) -> str:
    """The title of a figure of a condition's effect."""
    return f"ΔP when {REGISTRY[condition].when}"


@as_chart
def chart(table: pd.DataFrame, crossing: pd.DataFrame, request: Request) -> Picture:
    """The figure of one read-out: a column per model, ΔP above flips above the truth of the pair.

    `table` holds rows of `results/tables/<figure>.csv`, `crossing` of `<figure>.crossing.csv`; the
    lower row is left out where it has none. Points marked `thin` are crosses beside the line;
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
    flips: pd.DataFrame
    pairs: pd.DataFrame
    readout: Pair
    condition: str
    grouping: str = ""

    @property
    def _pair_ticks(self) -> Ticks:
        return figure_pairs.ticks_of_pairs(self.pairs)

    def title(self, request: Request) -> str:
        """The title, which says if this is a preview."""
        title = request.title if self.condition == "knockout" else title_of(self.condition)
        preview = notes.is_preview(data.cells_of(self.rows, request), self.condition)
        return f"{title}{' (preview)' if preview else ''}"

    def panels(self, look: Style) -> list[Panel]:
        """The rows of panels."""
        low = look.share_height / look.panel_height
        panels = curve_panels(self.delta_p, self.flips, look)
        panels[1] = replace(panels[1], heading=flip_note(self.rows, self.condition))
        axis = Axis(figure_pairs.AXIS_TITLE, self._pair_ticks)
        pairs = Panel(
            "pairs", self.pairs, axis, figure_pairs.TIPS, UNNAMED, figure_panel.claims, low,
            figure_pairs.HEADING,
        )  # fmt: skip
        return [*panels, pairs] if len(self.crossing) else panels

    def choice(self, request: Request) -> Choice:
        """The same for the figure's page."""
        panels: dict[str, PanelChoice] = {}
        flips = flip_note(self.rows, self.condition)
        for i, (_, model) in enumerate(request.panels):
            delta_p, share, pairs = (
                rows[rows["model"] == model] for rows in (self.delta_p, self.flips, self.pairs)
            )
            panels[f"delta_p_{i}"] = PanelChoice(delta_p, axis=delta_ticks(delta_p))
            panels[f"flips_{i}"] = PanelChoice(share, heading=flips)
            heading = figure_pairs.HEADING
            panels[f"pairs_{i}"] = PanelChoice(pairs, heading=heading, axis=self._pair_ticks)
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
        """The words on the curves, on the crossed pairs and on the whole figure."""
        cells = data.cells_of(self.rows, request)
        subject = f"Read-out {'/'.join(self.readout)}"
        curves = caption_of(cells, subject, self.grouping, request.level, self.condition)
        below = figure_pairs.DETAIL if len(self.crossing) else figure_pairs.NOT_CROSSED
        too_few = figure_pairs.too_few_note(self.crossing, request)
        basics, verdict, grey, *others = curves.sentences
        of_pairs = figure_pairs.verdict(self.crossing)
        return Caption(
            [basics, verdict, grey, of_pairs, request.no_answers, *others],
            [below, *too_few, *curves.details, *request.notes],
        )


def _shown(
    rows: pd.DataFrame,
    crossing: pd.DataFrame,
    request: Request,
    readout: Pair,
    condition: str = "knockout",
) -> Shown:
    """What is shown of rows of the read-out and grouping, and of crossing there."""
    data.require(crossing, figure_pairs.NEEDED)
    crossed = data.labelled(data.rows_at(crossing, readout), request)
    pairs = figure_pairs.lines(data.by_group(crossed, draw.ANCHORS[0]))
    return Shown(rows, crossed, *curves(rows, condition), pairs, readout, condition)


def curves(rows: pd.DataFrame, condition: str = "knockout") -> tuple[pd.DataFrame, pd.DataFrame]:
    """The lines of ΔP of the groups, and of the flips of all samples with their control's.

    `rows` are of `figure_data.select`, labelled.
    """
    groups = rows[(rows["condition"] == condition) & rows["anchor"].isin(draw.ANCHORS)]
    everyone = rows[
        rows["condition"].isin([condition, REGISTRY[condition].companion])
        & (rows["anchor"] == "all")
    ]
    lines = [
        data.by_group(data.numbered(one, numbers))
        for one, numbers in ((groups, DELTA_P), (everyone, FLIPS))
    ]
    flips = lines[1].assign(chance=lines[1]["condition"] != condition)
    labels = [name for name in ("readout", "anchor", "condition") if name in rows]
    more = ["share", "probe_auc"]
    named = lines[0].assign(anchor=lines[0]["anchor"] + "-Anchored")
    return data.in_runs(named, labels, more, digits=3), data.in_runs(flips, labels, digits=2)


def curve_panels(delta_p: pd.DataFrame, flips: pd.DataFrame, look: Style) -> list[Panel]:
    """ΔP above flips."""
    strong = partial(figure_panel.lines, weight=1)
    low = look.share_height / look.panel_height
    return [
        Panel("delta_p", delta_p, _delta_axis, DELTA_TIPS, draw=strong, under=_zero_and_ticks),
        Panel("flips", flips, Axis("Flips (%)", PERCENT), FLIP_TIPS, UNNAMED, height=low),
    ]


def _delta_axis(rows: pd.DataFrame) -> Axis:
    return Axis("ΔP (points)", delta_ticks(rows), number="d")


def _zero_and_ticks(rows: pd.DataFrame, frame: Frame) -> Sequence[alt.Chart]:
    return [figure_panel.level(0, frame.y), *figure_panel.minor_ticks(frame)]


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
