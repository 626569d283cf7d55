"""The main figure: ΔP by layer for each model, below it flips, and the truth of the pair.

Panels, axes, colours, line styles and the order of the legend follow the figures of
arXiv 2601.07422. Rows are added below: the flips of paired samples beside those under a random
knockout, so that no curve is shown without what flips by itself; and, where answers were exchanged
between questions, what the probe reads of truth by comparing the two.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Unpack

import altair as alt
import pandas as pd

from anchorscope.figures import (
    figure_data as data,
    figure_pairs,
    figure_panel,
    figure_style as draw,
)
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_data import Pair, Source
from anchorscope.figures.figure_fit import (
    Keywords,
    Request,
    as_pdf,
    as_svg,
    fitted,
    printed_width,
    request_of,
)
from anchorscope.figures.figure_page import Axis, Choice, PanelChoice, page
from anchorscope.figures.figure_panel import Tips
from anchorscope.figures.figure_style import Figure, Style
from anchorscope.passes.interventions import REGISTRY, arms
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic

GROUPINGS = {
    "per_layer": "groups formed at each layer by its own flips",
    "reference_layer": "groups formed at one reference layer",
    "replicate": "groups formed by a second prompt for the same answer",
}
BY_ARM = "groups formed by the knockout's flips"
BY_ARM_DETAIL = (
    "Samples whose answers are exchanged are grouped by whether they flip under the knockout."
)
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
    """Raises AnchorscopeError: columns are missing."""
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
    preview = " (preview)" if data.is_preview(cells, condition) else ""
    subject = f"Read-out {'/'.join(readout)}"
    caption = caption_of(cells, subject, grouping, request.level, condition)
    below = figure_pairs.DETAIL if len(pairs.rows) else figure_pairs.NOT_CROSSED
    too_few = figure_pairs.too_few_note(pairs.rows, request.panels, request.datasets)
    details = [below, *too_few, *caption.details, *request.notes]
    basics, shown, grey, *others = caption.sentences
    sentences = [basics, shown, grey, figure_pairs.verdict(pairs.rows), request.no_answers, *others]
    curves = pd.concat([part[0] for part in parts])
    return Choice(
        readout="/".join(readout),
        condition=condition,
        grouping=grouping,
        title=f"{title}{preview}",
        caption=Caption(sentences, details),
        panels=panels,
        colours=[one.colour for one in draw.paper_series(request.datasets, curves)],
    )


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


SHORT_NAMES = {"random": "random tokens", "question": "whole question"}
"""What some conditions are called in a few words."""


def flip_note(rows: pd.DataFrame, condition: str = "knockout") -> str:
    """What the lines of the flips' panels are, of the conditions in a table's rows."""
    beside = REGISTRY[condition].companion
    if beside is None or beside not in set(rows["condition"]):
        return f"Flips among paired samples ({SHORT_NAMES.get(condition, condition)})"
    return f"Flips among paired samples (dotted: {SHORT_NAMES.get(beside, beside)})"


def caption_of(
    cells: Mapping[str, pd.DataFrame],
    subject: str,
    grouping: str,
    level: float,
    condition: str = "knockout",
) -> Caption:
    """`subject`, grouping, n, intervals, what is grey, and the verdict; the rest as details.

    `cells` are rows as `data.select` returns them, by the cell's name; empty where not measured.
    """
    groups = BY_ARM if condition in arms() else GROUPINGS.get(grouping, grouping)
    sizes = [data.sample_size(cell, condition) for cell in cells.values() if len(cell)]
    whole = pd.concat(list(cells.values()))
    everyone = whole[(whole["condition"] == condition) & (whole["anchor"] == "all")]
    paired = everyone.groupby(["model", "dataset"])["n_paired"].max().dropna()
    refitted = "inflation" not in whole or (whole["inflation"] > 1).any()
    bands = data.BANDS if refitted else data.AUC_BANDS
    missing = []
    for name, cell in cells.items():
        measured = set(cell["anchor"][cell["condition"] == condition])
        absent = [f"{name}, {anchor}-Anchored" for anchor in draw.ANCHORS if anchor not in measured]
        missing += [name] if len(absent) == len(draw.ANCHORS) else absent
    return Caption(
        [
            f"{subject}; {groups}; {data.size_note(sizes)} samples a cell; "
            f"{100 * level:g}\u00a0% intervals.",
            verdict(whole, condition),
            data.grey_note(cells),
            data.cross_note(cells, condition),
            small_note(everyone),
            f"{len(missing)} curves or cells were not measured." if missing else "",
        ],
        [
            *([BY_ARM_DETAIL] if condition in arms() else []),
            *([f"Flips: {data.size_note(paired)} paired samples."] if len(paired) else []),
            f"Bands: pointwise {100 * level:g}\u00a0% {bands}.",
            *data.no_signal_notes(cells),
            *data.thin_note(cells, condition),
            *data.missing_note(missing),
        ],
    )


def small_note(everyone: pd.DataFrame) -> str:
    """The caption's words on cells too small to be called a signal; none where none is.

    Of the rows of all samples; cells that have a signal at some layer are large enough.
    """
    from anchorscope.probes.power import too_small  # loads scipy, which most pictures can spare

    small = []
    for _, cell in everyone.groupby(["model", "dataset"]):
        n, right = int(cell["n"].max()), float(cell["answer_accuracy"].max())
        both_classes = 0 < right < 1
        if both_classes and not data.true(cell["signal"]).any() and too_small(n, 1 - right):
            small.append(n)
    if not small:
        return ""
    cells = "1 cell is" if len(small) == 1 else f"{len(small)} cells are"
    return f"{cells} too small to be called a signal ({data.size_note(small)})."


def verdict(rows: pd.DataFrame, condition: str) -> str:
    """At the headline layers: in how many cells the probe beats the text, and what flips there.

    Of the samples of the flips' row; the control's share stands beside that of the condition.
    """
    place = ["model", "dataset", "site", "position"]
    everyone = rows[(rows["anchor"] == "all") & data.true(rows["headline"])]
    heads = everyone[everyone["condition"] == condition]
    cells = heads.groupby(place).ngroups
    if not cells:
        return ""
    heads = heads[data.true(heads["signal"])]
    known = heads.groupby(place).ngroups
    counted = f"At the headline layer {known} of {cells} cell{'s' if cells != 1 else ''}"
    if not known:
        return "At the headline layer no cell has a signal: ΔP and flips cannot be interpreted."
    told = f"{counted} ha{'ve' if known != 1 else 's'} a signal"
    shares = heads["flip_share"].dropna()
    if shares.empty:
        return f"{told}."
    text = f"{told}; there {data.span(shares, 100)}\u00a0% flip"
    companion = REGISTRY[condition].companion
    beside = everyone[everyone["condition"] == companion].merge(heads[place])["flip_share"].dropna()
    if companion is None or beside.empty:
        return f"{text}."
    name = SHORT_NAMES.get(companion, companion)
    return f"{text}, {data.span(beside, 100)}\u00a0% under {name}."


class Parameters(Protocol):
    """Parameters of a rule that draws a figure, as Snakemake hands them on."""

    models: Sequence[str]
    datasets: Sequence[str]
    label: Mapping[str, Mapping[str, str]]
    level: float
    chart: Mapping[str, object]

    def get(self, name: str, default: str | None = None) -> str | None:
        """A parameter that not every rule has."""


def keywords(params: Parameters, title: str, notes: Sequence[str] = ()) -> Keywords:
    """What a chart function is given, from the parameters of a rule that draws one.

    `title` is the figure's where the config names none.
    """
    site, position = (params.get("readout") or "mlp/final").split("/")
    return {
        "title": params.get("title") or title,
        "notes": notes,
        "style": params.chart,
        "level": params.level,
        "panels": [(key, params.label["models"][key]) for key in params.models],
        "datasets": [(key, params.label["datasets"][key]) for key in params.datasets],
        "readout": (site, position),
        "grouping": params.get("grouping"),
    }


def save(figure: alt.TopLevelMixin, stem: str | Path, choices: Sequence[Choice] = ()) -> list[Path]:
    """Write the figure beside `stem` as .vl.json, .html, .svg, .pdf and .png; return the paths.

    `choices` is what a reader of the HTML can switch to, see the function. The HTML holds its own
    copy of the Vega runtime and asks nothing of a network; the PNG has two pixels a CSS pixel, for
    print 300 to an inch. Each file appears whole or not at all. The same table and settings give
    the same bytes of the specification.
    Raises AnchorscopeError: the chart cannot be drawn.
    """
    import vl_convert

    spec = figure.to_dict()
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    try:
        svg = as_svg(spec)
    except ValueError as error:
        what = f"cannot draw the figure: {error}"
        raise AnchorscopeError(what, f"{stem}.vl.json", see="drawing") from error
    printed = printed_width(spec)
    contents = {
        ".vl.json": text.encode(),
        ".html": page(spec, svg, Path(stem).name, choices).encode(),
        ".svg": svg.encode(),
        ".pdf": as_pdf(svg, printed),
        ".png": vl_convert.svg_to_png(svg, scale=300 / 96 if printed else 2),
    }
    for ending, content in contents.items():
        with atomic(f"{stem}{ending}") as draft:
            draft.write_bytes(content)
    return [Path(f"{stem}{ending}") for ending in contents]
