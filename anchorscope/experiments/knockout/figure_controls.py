"""The figure `controls`: what flips by itself, and what the probes still know, cell by cell."""

import math
from collections.abc import Iterable, Mapping
from itertools import product

import altair as alt
import pandas as pd

from anchorscope.experiments.knockout.curve import NO
from anchorscope.figures import figure_data as data, figure_panel, figure_style as draw
from anchorscope.figures.figure_data import Row
from anchorscope.figures.figure_fit import Asked, fitted
from anchorscope.figures.figure_page import Axis
from anchorscope.figures.figure_style import Figure, Style
from anchorscope.figures.figures import SHARES

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
    "model dataset site position layer n headline signal cell_signal probe_auc auc_low auc_high"
)
CONTRAST = (
    "model dataset site position contrast quantity layer n estimate ci_low ci_high effect signal"
)
TIPS = {"series": ("line", ""), "value": ("value", ".3~f"), "n": ("n", ",d")}
SIZE: dict[str, data.Source] = {"n": ("n", 1, 0)}


@fitted
def controls_chart(controls: pd.DataFrame, contrasts: pd.DataFrame, asked: Asked) -> Figure:
    """Small panels for each cell, models below one another, datasets side by side.

    Above: the share of samples that flip under the knockout, and under each control, of its own.
    Then, where it was measured, the share of right answers that follow a matched question, and a
    placebo. Below: AUC of the clean probe on clean and on knocked-out activations, of the refitted
    probe, at the prompt's end, of probes on shuffled labels and of the hardest floor. What was not
    measured has no line; layers without a signal are hollow and grey.

    Of the rows of `results/tables/<figure>.controls.csv` and `.contrasts.csv`; `grouping` tells
    nothing here. Raises AnchorscopeError: missing columns, or nothing measured at this read-out.
    """
    data.require(controls, f"{NEEDED} flip_share")
    data.require(contrasts, CONTRAST)
    rows = data.at_readout(controls, asked.readout)
    pairs = data.rows_at(contrasts, asked.readout)
    follow = pairs[(pairs["quantity"] == "share") & pairs["contrast"].isin(FOLLOWS)]
    side_by_side = len(asked.datasets) if len(asked.datasets) > 1 else len(asked.panels)
    across = draw.columns_across(side_by_side, 2 * asked.look.columns)
    sizes = {"panel_width": asked.look.panel_width // (2 if across > 2 else 1)}
    sizes |= {"panel_height": round(0.45 * asked.look.panel_height)}
    look = asked.look.model_copy(update=sizes)
    width = across * (look.panel_width + 0.7 * look.spacing) + 4 * look.label_size
    known = {name for name in rows if rows[name].notna().any()} | {*follow["contrast"]}
    shown = [series for name, series in (FLIPS | FOLLOWS | AUCS).items() if name in known]
    shared = draw.encodings(shown, look, width)
    aucs = auc_axis(min(0.4, rows[[name for name in AUCS if name in rows]].min().min()))
    views = []
    for place, (model, dataset) in enumerate(product(asked.panels, asked.datasets)):
        cell, mine = (data.cell_of(table, model[0], dataset[0]) for table in (rows, follow))
        panels = [
            ("Flips (%)", _lines(cell, FLIPS, 100), SHARES, "d"),
            ("Follow (%)", _lines(mine, FOLLOWS, 1), SHARES, "d"),
            ("AUC", _lines(cell, AUCS, 1), aucs, ".1f"),
        ]
        if follow.empty:
            del panels[1]
        named = {"model": model[1], "dataset": dataset[1]}
        views.append(_column(cell, named, panels, shared, look, labels=place % across == 0))
    return draw.figure_of(views, across, width, asked.title, _caption(rows, pairs, asked), look)


def auc_axis(least: float) -> Axis:
    """The axis of AUCs: from a tenth at or below the least, to 1."""
    low = math.floor(10 * least) / 10
    return (low, 1), [k / 10 for k in range(round(10 * low), 11) if k % 2 == 0]


def _lines(table: pd.DataFrame, lines: Mapping[str, draw.Series], factor: float) -> list[Row]:
    """The rows of a panel; a series without a marker has none."""
    found = []
    for i, (name, series) in enumerate(lines.items()):
        rows, columns = table, (name, "", "")
        if name == "probe_auc":
            columns = (name, "auc_low", "auc_high")
        elif name in FOLLOWS:
            rows, columns = table[table["contrast"] == name], ("estimate", "ci_low", "ci_high")
        numbers = data.values_of(*columns, factor) | SIZE
        shown = {"series": series.name, "marker": series.marker}
        layers, probe = data.layer_count(table), name not in APART
        for row in data.line_rows(rows, numbers, shown, layers, i, probe=probe):
            found.append(row | {"mark": row["mark"] and series.marker is not None})
    return found


def _column(
    cell: pd.DataFrame,
    named: Row,
    panels: Iterable[tuple[str, list[Row], Axis, str]],
    shared: draw.Encodings,
    look: Style,
    *,
    labels: bool,
) -> alt.VConcatChart:
    """One cell's panels (title, rows, axis, format); `labels` shows their y axes."""
    heads = [{"layer": int(layer)} for layer in cell["layer"][data.true(cell["headline"])]]
    rule = alt.Chart(alt.Data(values=heads)).mark_rule(color=draw.SOFT, strokeWidth=0.8)
    views = []
    for title, rows, axis, form in panels:
        last, said = title == "AUC", title if labels else None
        x = figure_panel.layer_axis(data.layer_count(cell), "Layer" if last else None, labels=last)
        y = figure_panel.value_axis("value", said, *axis, look, number=form, labels=labels)
        told, under = [named | row for row in rows], [rule.encode(x)] if heads else []
        views.append(figure_panel.line_panel(told, x, y, shared, look, TIPS, under=under))
    unseen = len(cell) > 0 and not data.true(cell["cell_signal"]).any()
    size, model = 0.88 * look.label_size, named["model"] + (", no signal" if unseen else "")
    lines = draw.wrapped(model, look.panel_width, 0.5 * size)
    soft = {"subtitle": lines, "subtitleFontSize": size, "subtitleColor": draw.SOFT}
    soft["color"] = draw.SOFT if unseen else draw.INK
    views[0] = views[0].properties(title=draw.panel_heading(named["dataset"], look, **soft))
    return alt.VConcatChart(vconcat=views, spacing=8, resolve=draw.one_legend())


def _caption(rows: pd.DataFrame, pairs: pd.DataFrame, asked: Asked) -> list[str]:
    """Read-out, n and interval; noise floor; whether random tokens have an effect; no signal."""
    cells, paired = (data.cells_of(one, asked.panels, asked.datasets) for one in (rows, pairs))
    rows, pairs = (
        pd.concat([found.assign(cell=name) for name, found in several.items()])
        for several in (cells, paired)
    )
    permuted = "null_share" in rows and rows["null_share"].notna().any()
    return [
        f"Read-out {'/'.join(asked.readout)}; "
        f"{data.size_note(rows.groupby('cell')['n'].max())} samples a cell; "
        f"upright line: headline layer; "
        f"bands: pointwise {100 * asked.level:g}\u00a0% {data.BANDS}, "
        "those of AUCs with the probes held fixed.",
        *([PERMUTED] if permuted else []),
        _floor(rows),
        _equivalence(pairs),
        *_following(pairs, rows),
        *data.unseen_note(cells),
        *data.missing_note([name for name, found in cells.items() if found.empty]),
    ]


def _floor(rows: pd.DataFrame) -> str:
    """The largest |ΔP| of passes in which nothing was cut."""
    floor = rows["noise_floor"].max() if "noise_floor" in rows else math.nan
    if math.isnan(floor):
        return "Noise floor: not measured."
    size = f"{floor:.2g}" if floor >= 1e-4 else "below 0.0001" if floor else "0"
    return f"Noise floor (largest |ΔP| with nothing cut): {size}\u00a0points."


def _equivalence(pairs: pd.DataFrame) -> str:
    """At which layers with a signal random tokens leave the mean ΔP alone, or may not."""
    rows = pairs[(pairs["contrast"] == "random") & (pairs["quantity"] == "delta_p")]
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


def _following(pairs: pd.DataFrame, cells: pd.DataFrame) -> list[str]:
    """In how many cells right answers surely follow a matched question more than a placebo."""
    rows = pairs[(pairs["contrast"] == "matched-placebo") & (pairs["quantity"] == "share")]
    rows = rows.merge(cells.loc[data.true(cells["headline"]), ["cell", "layer"]])
    rows = rows[data.true(rows["signal"]) & rows["estimate"].notna()]
    if rows.empty:
        return []
    return [
        "Follow: right answers whose verdict turns behind another question of the relation. At the "
        "headline layer a matched question, for which the answer is wrong, turns surely more than "
        f"a placebo in {(rows['ci_low'] > 0).sum()} of {len(rows)} cells with a signal."
    ]
