"""The figure `controls`: what flips by itself, and what the probes still know, cell by cell."""

from collections.abc import Mapping
from itertools import product

import altair as alt
import pandas as pd

from anchorscope.experiments.knockout.curve import NO
from anchorscope.figures import figure_data as data
from anchorscope.figures import figure_panel
from anchorscope.figures import figure_style as draw
from anchorscope.figures.figure_data import Row
from anchorscope.figures.figure_fit import Asked, fitted
from anchorscope.figures.figure_style import Figure, Style

# Okabe and Ito's colours, told apart by colour-blind readers; one colour, one kind of pass
BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072b2 #e69f00 #009e73 #cc79a7 #56b4e9".split()
RED = "#d55e00"
FLIPS = {
    "flip_share": draw.Series("Flips: knockout", BLUE, [1, 0], "circle"),
    "random_flip_share": draw.Series("Flips: random", ORANGE, [1.5, 2.5], "square"),
    "question_flip_share": draw.Series("Flips: question", GREEN, [8, 3], "triangle-up"),
    "replicate_flip_share": draw.Series("Flips: replicate", PURPLE, [8, 2, 2, 2], "diamond"),
    "offset_flip_share": draw.Series("Flips: offset refitted", SKY, [4, 2], "triangle-down"),
    "null_share": draw.Series("Flips: Δlogit permuted", draw.SOFT, [1.5, 2.5], "cross"),
}
AUCS = {
    "probe_auc": draw.Series("AUC: clean", draw.INK, [1, 0], "circle"),
    "auc_knockout": draw.Series("AUC: knocked out", BLUE, [8, 3], "triangle-right"),
    "auc_refit": draw.Series("AUC: refitted", SKY, [4, 2], "triangle-down"),
    "prompt_end_auc": draw.Series("AUC: prompt's end", GREEN, [1.5, 2.5], "diamond"),
    "auc_shuffled": draw.Series("AUC: shuffled labels", draw.SOFT, [1.5, 2.5], "cross"),
    "floor_auc": draw.Series("AUC: hardest floor", RED, [10, 3, 2, 3], None),
}
# contrasts of right answers put behind another question
FOLLOWS = {
    "matched": draw.Series("Follow: matched", PURPLE, [1, 0], "circle"),
    "placebo": draw.Series("Follow: placebo", ORANGE, [1.5, 2.5], "square"),
}
# of these the read-out's probe tells nothing: they stay in colour where it has no signal
APART = ("prompt_end_auc", "auc_shuffled", "floor_auc")
PERMUTED = (
    "Δlogit permuted: flips if every sample were moved by the knockout's change of another sample, "
    "drawn at random."
)
NEEDED = (
    "model dataset site position layer n headline signal cell_signal probe_auc auc_low auc_high "
    "flip_share"
)
CONTRAST = (
    "model dataset site position contrast quantity layer n estimate ci_low ci_high effect signal"
)
TIPS = {"series": ("line", ""), "value": ("value", ".3~f"), "n": ("n", ",d")}
SIZE: dict[str, data.Source] = {"n": ("n", 1, 0)}
Cells = Mapping[str, pd.DataFrame]


@fitted
def controls_chart(controls: pd.DataFrame, contrasts: pd.DataFrame, asked: Asked) -> Figure:
    """Small panels for each cell, models below one another, datasets side by side.

    Above: the share of samples that flip under the knockout, and under each control, of its own.
    Then, where it was measured, the share of right answers that follow a matched question, and a
    placebo. Below: AUC of the clean probe on clean and on knocked-out activations, of the refitted
    probe, at the prompt's end, of probes on shuffled labels and of the hardest floor. What was not
    measured has no line; layers without a signal are hollow and grey.

    Args:
        controls: rows of `results/tables/<figure>.controls.csv`; shares and AUCs are fractions.
        contrasts: rows of `results/tables/<figure>.contrasts.csv`, percentage points.
        asked: as of `anchorscope.figures.figures.chart`; `grouping` tells nothing here.

    Raises:
        AnchorscopeError: missing columns, or nothing measured at this read-out.
    """
    panels, datasets = asked.panels, asked.datasets
    data.require(controls, NEEDED)
    data.require(contrasts, CONTRAST)
    rows = data.at_readout(controls, asked.readout)
    pairs = data.rows_at(contrasts, asked.readout)
    follow = pairs[(pairs["quantity"] == "share") & pairs["contrast"].isin(FOLLOWS)]
    side_by_side = len(datasets) if len(datasets) > 1 else len(panels)
    across = draw.columns_across(side_by_side, 2 * asked.look.columns)
    panel_width = asked.look.panel_width // (2 if across > 2 else 1)
    panel_height = round(0.45 * asked.look.panel_height)
    sizes = {"panel_width": panel_width, "panel_height": panel_height}
    look = asked.look.model_copy(update=sizes)
    width = across * (look.panel_width + 0.7 * look.spacing) + 4 * look.label_size
    known = {name for name in rows if rows[name].notna().any()} | set(follow["contrast"])
    shown = [series for name, series in (FLIPS | FOLLOWS | AUCS).items() if name in known]
    shared, lowest = draw.encodings(shown, look, width), _lowest(rows)
    views = []
    for place, ((model, label), (dataset, name)) in enumerate(product(panels, datasets)):
        cell = data.cell_of(rows, model, dataset)
        told = {"model": label, "dataset": name}
        found = {"Flips (%)": _lines(cell, FLIPS, told, 100)}
        if len(follow):
            found["Follow (%)"] = _follow_lines(data.cell_of(follow, model, dataset), told)
        found["AUC"] = _lines(cell, AUCS, told, 1)
        column = _column(cell, found, lowest, shared, look, labels=place % across == 0)
        column[0] = column[0].properties(title=_heading(cell, label, name, look))
        views.append(alt.VConcatChart(vconcat=column, spacing=8, resolve=draw.one_legend()))
    cells, paired = (data.cells_of(found, panels, datasets) for found in (rows, pairs))
    caption = _caption(cells, paired, asked)
    return draw.figure_of(views, across, width, asked.title, caption, look)


def _lowest(rows: pd.DataFrame) -> float:
    """Where the AUC axis begins: a tenth at or below every line, 0.4 at most."""
    seen = rows[[name for name in AUCS if name in rows]].min().min()
    return 0.4 if pd.isna(seen) else min(0.4, int(10 * seen) / 10)


def _column(
    cell: pd.DataFrame,
    found: Mapping[str, list[Row]],
    lowest: float,
    shared: draw.Encodings,
    look: Style,
    *,
    labels: bool,
) -> list[alt.LayerChart]:
    """The panels of one cell, by the title of their y axis, which `labels` shows."""
    heads = [{"layer": int(layer)} for layer in cell["layer"][data.true(cell["headline"])]]
    rule = alt.Chart(alt.Data(values=heads)).mark_rule(color=draw.SOFT, strokeWidth=0.8)
    tenths = [k / 10 for k in range(round(10 * lowest), 11) if k % 2 == 0]
    views = []
    for title, rows in found.items():
        last = title == "AUC"
        ends, ticks, form = ((lowest, 1), tenths, ".1f") if last else ((0, 100), [0, 50, 100], "d")
        x = figure_panel.layer_axis(data.layer_count(cell), "Layer" if last else None, labels=last)
        name = title if labels else None
        y = figure_panel.value_axis("value", name, ends, ticks, look, number=form, labels=labels)
        under = [rule.encode(x)] if heads else []
        views.append(figure_panel.line_panel(rows, x, y, shared, look, TIPS, under=under))
    return views


def _heading(cell: pd.DataFrame, model: str, dataset: str, look: Style) -> alt.TitleParams:
    """The dataset above the model, which says so where it has no signal."""
    unseen = len(cell) > 0 and not data.true(cell["cell_signal"]).any()
    size = 0.88 * look.label_size
    said = f"{model}, no signal" if unseen else model
    return draw.panel_heading(
        dataset,
        look,
        color=draw.SOFT if unseen else draw.INK,
        subtitle=draw.wrapped(said, look.panel_width, 0.5 * size),
        subtitleFontSize=size,
        subtitleColor=draw.SOFT,
    )


def _lines(
    cell: pd.DataFrame, lines: Mapping[str, draw.Series], told: Row, factor: float
) -> list[Row]:
    """The rows of a panel; a series without a marker has none."""
    found = []
    for i, (column, series) in enumerate(lines.items()):
        ends = ("auc_low", "auc_high") if column == "probe_auc" else ("", "")
        numbers = data.values_of(column, *ends, factor=factor) | SIZE
        shown = told | {"series": series.name, "marker": series.marker}
        rows = data.line_rows(cell, numbers, shown, len(cell), i, probe=column not in APART)
        found += [row | {"mark": row["mark"] and series.marker is not None} for row in rows]
    return found


def _follow_lines(follow: pd.DataFrame, told: Row) -> list[Row]:
    """The rows of the panel of right answers behind another question, in percent."""
    found: list[Row] = []
    numbers = data.values_of("estimate", "ci_low", "ci_high") | SIZE
    for i, (contrast, series) in enumerate(FOLLOWS.items()):
        rows = follow[follow["contrast"] == contrast]
        shown = told | {"series": series.name, "marker": series.marker}
        found += data.line_rows(rows, numbers, shown, data.layer_count(follow), 4 * i)
    return found


def _caption(cells: Cells, contrasts: Cells, asked: Asked) -> list[str]:
    """Read-out, n and interval; noise floor; whether random tokens have an effect; no signal."""
    counts = [int(found["n"].max()) for found in cells.values() if len(found)]
    rows = pd.concat(list(cells.values()))
    permuted = "null_share" in rows and rows["null_share"].notna().any()
    return [
        f"Read-out {'/'.join(asked.readout)}; {data.size_note(counts)} samples a cell; "
        f"upright line: headline layer; "
        f"bands: pointwise {100 * asked.level:g}\u00a0% {data.BANDS}, "
        "those of AUCs with the probes held fixed.",
        *([PERMUTED] if permuted else []),
        _floor(rows),
        _equivalence(contrasts),
        *_following(contrasts, cells),
        *data.unseen_note(cells),
        *data.missing_note([name for name, found in cells.items() if found.empty]),
    ]


def _floor(rows: pd.DataFrame) -> str:
    """The largest |ΔP| of passes in which nothing was cut."""
    if "noise_floor" not in rows or rows["noise_floor"].isna().all():
        return "Noise floor: not measured."
    floor = rows["noise_floor"].max()
    size = f"{floor:.2g}" if floor >= 1e-4 else "below 0.0001" if floor else "0"
    return f"Noise floor (largest |ΔP| with nothing cut): {size}\u00a0points."


def _equivalence(contrasts: Cells) -> str:
    """At which layers random tokens leave the mean ΔP alone, and where that is not shown.

    Layers without a signal are left out: there nothing can be said.
    """
    rows = pd.concat([found.assign(cell=name) for name, found in contrasts.items()])
    rows = rows[(rows["contrast"] == "random") & (rows["quantity"] == "delta_p")]
    if rows.empty:
        return "Effect of random tokens: not measured."
    rows = rows[data.true(rows["signal"])]
    if rows.empty:
        return "Effect of random tokens: not interpretable, no layer has a signal."
    open_at = rows[rows["effect"] != NO].groupby("cell", sort=False)["layer"].agg(list)
    shown = [f"{name} at {data.layer_list(at)}" for name, at in open_at.items()]
    cells = rows["cell"].nunique()
    text = (
        "Random tokens have no effect on the mean ΔP (90\u00a0% interval within ±5\u00a0points) "
        f"at every layer with a signal in {cells - len(shown)} of {cells} cells, over the "
        f"{data.span(rows['n'])} samples in which as many random tokens could be cut"
    )
    return f"{text}; not shown for {data.few(shown)}." if shown else f"{text}."


def _following(contrasts: Cells, cells: Cells) -> list[str]:
    """In how many cells right answers surely follow a matched question more than a placebo."""
    heads = pd.concat(list(cells.values()))
    heads = heads.loc[data.true(heads["headline"]), ["model", "dataset", "layer"]]
    rows = pd.concat(list(contrasts.values())).merge(heads)
    rows = rows[(rows["contrast"] == "matched-placebo") & (rows["quantity"] == "share")]
    rows = rows[data.true(rows["signal"]) & rows["estimate"].notna()]
    if rows.empty:
        return []
    return [
        "Follow: right answers whose verdict turns behind another question of the relation. At the "
        "headline layer a matched question, for which the answer is wrong, turns surely more than "
        f"a placebo in {(rows['ci_low'] > 0).sum()} of {len(rows)} cells with a signal."
    ]
