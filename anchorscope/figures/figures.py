"""The figure: ΔP by layer for each model, below it flips, and what follows another question.

Panels, axes, colours, line styles and the order of the legend follow the figures of
arXiv 2601.07422. Two rows are added: flips of the paired samples beside those under a random
knockout, so that no curve is shown without what flips by itself; and, where it was measured, the
share of Q-Anchored right answers that follow a matched question.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from anchorscope.figures import figure_data as data, figure_panel, figure_style as draw
from anchorscope.figures.figure_data import Pair, Row
from anchorscope.figures.figure_fit import Asked, as_pdf, as_svg, asked_of, fitted, printed_width
from anchorscope.figures.figure_page import Axis, Choice, page
from anchorscope.figures.figure_style import Figure, Style
from anchorscope.passes.interventions import REGISTRY, arms
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic

GROUPINGS = {
    "per_layer": "groups formed at each layer by its own flips",
    "reference_layer": "groups formed at one reference layer",
    "replicate": "groups formed by a second prompt for the same answer",
}
BY_ARM = "groups formed by the knockout's flips, of samples with a counted pair"
INTERVAL = {"low": ("interval from", ".1f"), "high": ("interval to", ".1f")}
DELTA_TIPS = {"anchor": ("anchor", ""), "value": ("ΔP", ".1f"), **INTERVAL, "n": ("n", ",d")}
DELTA_TIPS |= {"share": ("share (%)", ".1f"), "probe_auc": ("probe AUC", ".3f")}
FLIP_TIPS = {"condition": ("condition", ""), "value": ("flips (%)", ".1f"), **INTERVAL}
FLIP_TIPS |= {"n": ("paired samples", ",d")}
FOLLOW_TIPS = FLIP_TIPS | {"value": ("follow (%)", ".1f"), "n": ("pairs", ",d")}
FOLLOW_TIPS |= {"of": ("Q-Anchored right answers", ",d")}
FOLLOWS = "Q-Anchored right answers that follow a matched question"
FOLLOWED = (
    "Lower row: the same answer behind a matched question, for which it is wrong "
    "(dotted: behind a placebo, for which it stays right)"
)
# range and ticks of the panels of flips, in percent
SHARES: Axis = ((0, 100), [0, 50, 100])
# by panel of a model: title of the value axis, groups, numbers of a row and what a tooltip tells
PARTS = (
    ("ΔP (points)", draw.ANCHORS, data.CURVE, DELTA_TIPS),
    ("Flips (%)", ("all",), data.SHARES, FLIP_TIPS),
    ("Follow (%)", ("Q",), data.SHARES, FOLLOW_TIPS),
)


def title_of(condition: str) -> str:
    """The title of a figure of a condition's effect."""
    return f"ΔP when {REGISTRY[condition].when}"


@fitted
def chart(table: pd.DataFrame, asked: Asked) -> Figure:
    """The figure of one read-out: a column per model, ΔP above flips and what follows.

    `table` holds rows of `results/tables/<figure>.csv`. Points marked `thin` are crosses beside the
    line; layers without `signal` are hollow and grey; both are named in the caption. `asked` is
    given as the keywords of `Asked`, see `fitted`.
    Raises AnchorscopeError: missing columns, or nothing measured at this read-out or grouping.
    """
    look = asked.look
    rows, grouping = data.select(table, asked.readout, asked.grouping)
    view = _view(rows, asked, asked.readout, "knockout", grouping)
    across = draw.columns_across(len(asked.panels), look.columns)
    width = draw.width_of(across, look)
    curves = pd.concat([curves for curves, *_ in view.rows])
    shared = draw.encodings(draw.paper_series(asked.datasets, curves), look, width)
    notes = [view.note, FOLLOWS] if any(len(rows) for *_, rows in view.rows) else [view.note]
    views = []
    for i, ((model, label), parts) in enumerate(zip(asked.panels, view.rows, strict=True)):
        layers = data.layer_count(rows[rows["model"] == model])
        xs = [figure_panel.layer_axis(layers, title) for title in ("Layer", None, None)]
        headings = [draw.row_heading(note, look, shown=i % across == 0) for note in notes]
        headings = [draw.panel_heading(label, look), *headings]
        views.append(column(parts, view.axes[i], xs, headings, shared, look))
    return draw.figure_of(views, across, width, view.title, view.caption, look)


def column(
    parts: Sequence[pd.DataFrame],
    axis: Axis,
    xs: Sequence[alt.X],
    headings: Sequence[alt.TitleParams | None],
    shared: draw.Encodings,
    look: Style,
    *,
    labels: bool = True,
) -> alt.VConcatChart:
    """ΔP above flips above what follows, as many of them as there are headings.

    `parts`, `xs` (layer axes) and `headings` are by panel, `axis` is range and ticks of ΔP;
    `labels`: whether value axes are labelled.
    """
    views: list[alt.LayerChart] = []
    zero = alt.Chart(alt.Data(values=[{"value": 0}])).mark_rule(color=draw.SOFT, strokeWidth=0.8)
    for (title, *_, tips), rows, x, heading in zip(PARTS, parts, xs, headings, strict=False):
        first, said = not views, title if labels else None
        domain, ticks = axis if first else SHARES
        y = figure_panel.value_axis("value", said, domain, ticks, look, labels=labels)
        own: Row = {"height": look.share_height, "chance": True}
        if first:
            under = [zero.encode(y), *figure_panel.minor_ticks(x, look.panel_height)]
            own = {"height": look.panel_height, "weight": 1, "under": under}
        view = figure_panel.line_panel(rows, x, y, shared, look, tips, crosses=True, **own)
        views.append(view.properties(title=heading) if heading else view)
    return alt.VConcatChart(vconcat=views, spacing=10, resolve=draw.one_legend())


def keywords(params: Any) -> Row:
    """What a chart function is given, from the parameters of a rule that draws one."""
    labels = params.label
    return {
        "style": params.chart,
        "level": params.level,
        "panels": [(key, labels["models"][key]) for key in params.models],
        "datasets": [(key, labels["datasets"][key]) for key in params.datasets],
        "readout": tuple(params.get("readout", "mlp/final").split("/")),
        "grouping": params.get("grouping"),
    }


def choices(table: pd.DataFrame, **keywords: Any) -> list[Choice]:
    """All that the figure's page can switch to: every read-out, control and grouping measured.

    The figure itself comes first, conditions follow in the order of the registry. Arguments and
    errors are those of `chart`, whose figure this goes with.
    """
    asked = asked_of(**keywords)
    table = table.filter(f"{data.KEYS} {data.NUMBERS} inflation".split())
    first = (*asked.readout, data.select(table, asked.readout, asked.grouping)[1], "knockout")
    held = table[["site", "position", "grouping", "condition"]].drop_duplicates()
    found = [one for one in held.itertuples(index=False, name=None) if one[-1] in REGISTRY]
    found.sort(key=lambda one: list(REGISTRY).index(one[-1]))
    selected = {at: data.select(table, at[:2], at[2])[0] for at in {one[:3] for one in found}}
    return [
        _view(selected[site, position, grouping], asked, (site, position), condition, grouping)
        for site, position, grouping, condition in dict.fromkeys([first, *found])
    ]


def _view(rows: pd.DataFrame, asked: Asked, readout: Pair, condition: str, grouping: str) -> Choice:
    """What is drawn of a condition; `rows` are those of the read-out and grouping."""
    parts = [panel_parts(rows, model, asked.datasets, condition) for model in asked.panels]
    curves = [curves for curves, *_ in parts]
    cells = data.cells_of(rows, asked.panels, asked.datasets)
    title = asked.title if condition == "knockout" else title_of(condition)
    preview = " (preview)" if data.is_preview(cells, condition) else ""
    at = "/".join(readout)
    basics, *notes = told(cells, f"Read-out {at}", grouping, asked.level, condition)
    return Choice(
        readout=at,
        condition=condition,
        grouping=grouping,
        title=f"{title}{preview}",
        caption=[basics, *_followed(pd.concat(list(cells.values()))), *notes, *asked.notes],
        note=flip_note(rows, condition),
        rows=parts,
        axes=[delta_axis(each) for each in curves],
        colours=[one.colour for one in draw.paper_series(asked.datasets, pd.concat(curves))],
    )


def panel_parts(
    rows: pd.DataFrame, model: Pair, datasets: Sequence[Pair], condition: str = "knockout"
) -> list[pd.DataFrame]:
    """Rows of a model's panels: ΔP of the groups, flips of all samples, and what follows."""
    beside = list(dict.fromkeys((condition, REGISTRY[condition].companion or condition)))
    drawn = zip(PARTS, ([condition], beside, arms()), strict=True)
    return [
        data.panel_rows(rows, model, datasets, anchors, conditions, numbers)
        for (_, anchors, numbers, _), conditions in drawn
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


def flip_note(rows: pd.DataFrame, condition: str = "knockout") -> str:
    """What the lines of the flips' panels are, of the conditions in a table's rows."""
    names = {"random": "random tokens", "question": "whole question"}
    beside = REGISTRY[condition].companion
    if beside is None or beside not in set(rows["condition"]):
        return f"Flips among paired samples ({names.get(condition, condition)})"
    return f"Flips among paired samples (dotted: {names.get(beside, beside)})"


def told(
    cells: Mapping[str, pd.DataFrame],
    subject: str,
    grouping: str,
    level: float,
    condition: str = "knockout",
) -> list[str]:
    """The caption: `subject`, grouping, n and interval; what is grey, thin or missing.

    `cells` are rows as `data.select` returns them, by the cell's name; empty where not measured.
    """
    by_arm = f"{BY_ARM}; lower row: right answers"
    groups = by_arm if condition in arms() else GROUPINGS.get(grouping, grouping)
    sizes = [data.sample_size(cell, condition) for cell in cells.values() if len(cell)]
    whole = pd.concat(list(cells.values()))
    everyone = whole[(whole["condition"] == condition) & (whole["anchor"] == "all")]
    paired = everyone.groupby(["model", "dataset"])["n_paired"].max().dropna()
    lower = f", flips: {data.size_note(paired)} paired samples" if len(paired) else ""
    refitted = "inflation" not in whole or (whole["inflation"] > 1).any()
    bands = data.BANDS if refitted else data.AUC_BANDS
    missing = []
    for name, cell in cells.items():
        held = set(cell["anchor"][cell["condition"] == condition])
        absent = [f"{name}, {anchor}-Anchored" for anchor in draw.ANCHORS if anchor not in held]
        missing += [name] if len(absent) == len(draw.ANCHORS) else absent
    return [
        f"{subject}; {groups}; {data.size_note(sizes)} samples a cell{lower}; "
        f"bands: pointwise {100 * level:g}\u00a0% {bands}.",
        *data.unseen_note(cells),
        *data.thin_note(cells, condition),
        *data.missing_note(missing),
    ]


def _followed(rows: pd.DataFrame) -> list[str]:
    """What the row of following answers shows, and of how many; nothing where not measured."""
    rows = rows[(rows["condition"] == "matched") & (rows["anchor"] == "Q")]
    if rows["flip_share"].isna().all():
        return []
    head = rows[data.true(rows["headline"])].dropna(subset=["n_paired", "of"])
    if head.empty:
        return [f"{FOLLOWED}."]
    covered = data.span((head["n_paired"] / head["of"]).dropna(), 100)
    said = f"headline layer: {data.size_note(head['n_paired'])} pairs, {covered}\u00a0%"
    return [f"{FOLLOWED}; {said} of the Q-Anchored right answers."]


def save(figure: alt.TopLevelMixin, stem: str | Path, views: Sequence[Choice] = ()) -> list[Path]:
    """Write the figure beside `stem` as .vl.json, .html, .svg, .pdf and .png; return the paths.

    `views` is what a reader of the HTML can switch to, see `choices`. The HTML holds its own copy
    of the Vega runtime and asks nothing of a network; the PNG has two pixels a CSS pixel, for print
    300 to an inch. Each file appears whole or not at all. The same table and settings give the same
    bytes of the specification. Raises AnchorscopeError: the chart cannot be drawn.
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
    made = {
        ".vl.json": text.encode(),
        ".html": page(spec, svg, Path(stem).name, views).encode(),
        ".svg": svg.encode(),
        ".pdf": as_pdf(svg, printed),
        ".png": vl_convert.svg_to_png(svg, scale=300 / 96 if printed else 2),
    }
    for ending, content in made.items():
        with atomic(f"{stem}{ending}") as draft:
            draft.write_bytes(content)
    return [Path(f"{stem}{ending}") for ending in made]
