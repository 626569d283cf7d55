"""The figure `controls`: what flips by itself, and what the probes still know, cell by cell."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import pandas as pd

from anchorscope.figures.figure_data import (
    Row,
    at_readout,
    distinct,
    layer_list,
    line_rows,
    require,
    true,
    unseen_at,
    unseen_note,
)
from anchorscope.figures.figure_fit import fitted
from anchorscope.figures.figure_style import (
    BANDS,
    INK,
    SOFT,
    Encodings,
    Figure,
    Series,
    Style,
    columns_across,
    empty_note,
    encodings,
    few,
    figure_of,
    layer_axis,
    line_layers,
    one_legend,
    panel_heading,
    sample_count,
    style_of,
    tooltips,
    value_axis,
    wrapped,
)

# Okabe and Ito's colours, told apart by colour-blind readers; one colour, one kind of pass
BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072b2 #e69f00 #009e73 #cc79a7 #56b4e9".split()
RED = "#d55e00"
FLIPS = {
    "flip_share": Series("Flips: knockout", BLUE, [1, 0], "circle"),
    "random_flip_share": Series("Flips: random", ORANGE, [1.5, 2.5], "square"),
    "question_flip_share": Series("Flips: question", GREEN, [8, 3], "triangle-up"),
    "replicate_flip_share": Series("Flips: replicate", PURPLE, [8, 2, 2, 2], "diamond"),
    "offset_flip_share": Series("Flips: offset refitted", SKY, [4, 2], "triangle-down"),
    "null_share": Series("Flips: by chance", SOFT, [1.5, 2.5], "cross"),
}
AUCS = {
    "probe_auc": Series("AUC: clean", INK, [1, 0], "circle"),
    "auc_knockout": Series("AUC: knocked out", BLUE, [8, 3], "triangle-right"),
    "auc_refit": Series("AUC: refitted", SKY, [4, 2], "triangle-down"),
    "prompt_end_auc": Series("AUC: prompt's end", GREEN, [1.5, 2.5], "diamond"),
    "auc_shuffled": Series("AUC: shuffled labels", SOFT, [1.5, 2.5], "cross"),
    "floor_auc": Series("AUC: hardest floor", RED, [10, 3, 2, 3], None),
}
# contrasts of right answers put behind another question
FOLLOWS = {
    "matched": Series("Follow: matched", PURPLE, [1, 0], "circle"),
    "placebo": Series("Follow: placebo", ORANGE, [1.5, 2.5], "square"),
}
# of these the read-out's probe tells nothing: they stay in colour where it has no signal
APART = ("prompt_end_auc", "auc_shuffled", "floor_auc")
NEEDED = (
    "model dataset site position layer n headline signal cell_signal probe_auc auc_low auc_high "
    "flip_share"
)
CONTRAST = (
    "model dataset site position contrast quantity layer n estimate ci_low ci_high no_effect signal"
)
Pair = tuple[str, str]
TIPS = {"series": ("line", ""), "value": ("value", ".3~f"), "n": ("n", ",d")}


@fitted
def controls_chart(
    controls: pd.DataFrame,
    contrasts: pd.DataFrame,
    *,
    title: str,
    panels: Sequence[tuple[str, str]],
    datasets: Sequence[tuple[str, str]],
    readout: tuple[str, str],
    style: Any = None,
    level: float = 0.95,
) -> Figure:
    """Small panels for each cell, models below one another, datasets side by side.

    Above: the share of samples that flip under the knockout, and under each control, of its own.
    Then, where it was measured, the share of right answers that follow a matched question, and a
    placebo. Below: AUC of the clean probe on clean and on knocked-out activations, of the refitted
    probe, at the prompt's end, of probes on shuffled labels and of the hardest floor. What was not
    measured has no line; layers without a signal are hollow and grey.

    Args:
        controls: rows of `results/tables/<figure>.controls.csv`; shares and AUCs are fractions.
        contrasts: rows of `results/tables/<figure>.contrasts.csv`, percentage points.
        title, panels, datasets, readout, style, level: see `anchorscope.figures.figures.chart`.

    Raises:
        AnchorscopeError: missing columns, or nothing measured at this read-out.
    """
    look = style_of(style)
    panels, datasets = distinct(panels), distinct(datasets)
    require(controls, NEEDED)
    require(contrasts, CONTRAST)
    rows = at_readout(controls, readout)
    pairs = contrasts[(contrasts["site"] == readout[0]) & (contrasts["position"] == readout[1])]
    follow = pairs[(pairs["quantity"] == "share") & pairs["contrast"].isin(FOLLOWS)]
    across = columns_across(len(datasets) if len(datasets) > 1 else len(panels), 2 * look.columns)
    small = replace(
        look,
        panel_width=look.panel_width // (2 if across > 2 else 1),
        panel_height=round(0.45 * look.panel_height),
    )
    width = across * (small.panel_width + 0.7 * look.spacing) + 4 * look.label_size
    known = {name for name in rows if rows[name].notna().any()} | set(follow["contrast"])
    shown = [series for name, series in (FLIPS | FOLLOWS | AUCS).items() if name in known]
    shared = encodings(shown, look, width)
    lowest = _lowest(rows)
    cells = [(model, dataset) for model in panels for dataset in datasets]
    views = [
        _cell(
            _rows(rows, *cell),
            _rows(follow, *cell) if len(follow) else None,
            cell,
            shared,
            small,
            lowest,
            i % across == 0,
        )
        for i, cell in enumerate(cells)
    ]
    caption = _caption(rows, pairs, readout, cells, level)
    return figure_of(views, across, title=title, caption=caption, look=look, width=width)


def _rows(rows: pd.DataFrame, model: Pair, dataset: Pair) -> pd.DataFrame:
    return rows[(rows["model"] == model[0]) & (rows["dataset"] == dataset[0])]


def _lowest(rows: pd.DataFrame) -> float:
    """Where the AUC axis begins: a tenth at or below every line, 0.4 at most."""
    seen = rows[[name for name in AUCS if name in rows]].min().min()
    return 0.4 if pd.isna(seen) else min(0.4, int(10 * seen) / 10)


def _cell(
    cell: pd.DataFrame,
    follow: pd.DataFrame | None,
    names: tuple[Pair, Pair],
    shared: Encodings,
    look: Style,
    lowest: float,
    first: bool,
) -> alt.VConcatChart:
    """Flips, what follows if anywhere measured, and AUC of one cell.

    Only the first of a row carries the labels of the y axes.
    """
    (_, model), (_, dataset) = names
    layers = int(cell["layer"].max()) + 1 if len(cell) else 1
    ticks = [k / 10 for k in range(round(10 * lowest), 11) if k % 2 == 0]
    shares, follows = (
        value_axis("value", title if first else None, (0, 100), (0, 50, 100), look, labels=first)
        for title in ("Flips (%)", "Follow (%)")
    )
    aucs = value_axis(
        "value", "AUC" if first else None, (lowest, 1), ticks, look, number=".1f", labels=first
    )
    common = {"model": model, "dataset": dataset}
    above = _view(cell, _lines(cell, FLIPS, common), shares, layers, shared, look, None)
    below = [_view(cell, _lines(cell, AUCS, common), aucs, layers, shared, look, "Layer")]
    if follow is not None:
        rows = _follow_lines(follow, common, layers)
        below.insert(0, _view(cell, rows, follows, layers, shared, look, None))
    unseen = len(cell) > 0 and not true(cell["cell_signal"]).any()
    size = 0.88 * look.label_size
    heading = panel_heading(
        dataset,
        look,
        color=SOFT if unseen else INK,
        subtitle=wrapped(f"{model}, no signal" if unseen else model, look.panel_width, 0.5 * size),
        subtitleFontSize=size,
        subtitleColor=SOFT,
    )
    views = [above.properties(title=heading), *below]
    return alt.VConcatChart(vconcat=views, spacing=8, resolve=one_legend())


def _lines(
    cell: pd.DataFrame, lines: dict[str, Series], common: dict[str, Any]
) -> list[dict[str, Any]]:
    """The rows of a panel; shares become percent."""
    sizes = dict(zip(cell["layer"], cell["n"], strict=True))
    found = []
    for i, (column, series) in enumerate(lines.items()):
        shown = common | {"series": series.name, "marker": series.marker}
        band = ("auc_low", "auc_high") if column == "probe_auc" else None
        factor = 100 if lines is FLIPS else 1
        own = column not in APART
        rows = line_rows(cell, column, shown, len(cell), i, factor=factor, band=band, probe=own)
        bare = series.marker is None
        found += [
            row | {"n": int(sizes[row["layer"]]), "mark": row["mark"] and not bare} for row in rows
        ]
    return found


def _follow_lines(follow: pd.DataFrame, common: Row, layers: int) -> list[Row]:
    """The rows of the panel of right answers behind another question, in percent."""
    found: list[Row] = []
    for i, (contrast, series) in enumerate(FOLLOWS.items()):
        rows = follow[follow["contrast"] == contrast]
        sizes = dict(zip(rows["layer"], rows["n"], strict=True))
        shown = common | {"series": series.name, "marker": series.marker}
        lines = line_rows(rows, "estimate", shown, layers, 4 * i, band=("ci_low", "ci_high"))
        found += [row | {"n": int(sizes[row["layer"]])} for row in lines]
    return found


def _view(
    cell: pd.DataFrame,
    rows: Sequence[dict[str, Any]],
    y: alt.Y,
    layers: int,
    shared: Encodings,
    look: Style,
    title: str | None,
) -> alt.LayerChart:
    """One panel, with an upright line at the headline layer; `title` of the layer axis."""
    x = layer_axis(layers, title, labels=title is not None)
    width, height = look.panel_width, look.panel_height
    views: list[Any] = []
    for layer in cell["layer"][true(cell["headline"])]:
        here = alt.Chart(alt.Data(values=[{"layer": int(layer)}]))
        views.append(here.mark_rule(color=SOFT, strokeWidth=0.8, opacity=0.7).encode(x))
    if rows:
        views += line_layers(rows, x, y, shared, look, tooltips(**TIPS))
    else:
        views.append(empty_note("not measured", look, width, height))
    return alt.LayerChart(layer=views, width=width, height=height)


def _caption(
    rows: pd.DataFrame,
    pairs: pd.DataFrame,
    readout: Pair,
    cells: Sequence[tuple[Pair, Pair]],
    level: float,
) -> list[str]:
    """Read-out, n and interval; noise floor; whether random tokens have an effect; no signal."""
    measured = {cell: _rows(rows, *cell) for cell in cells}
    kept = {cell: found for cell, found in measured.items() if len(found)}
    weak = [(_name(cell), where) for cell, found in kept.items() for where in unseen_at(found)]
    blank = [_name(cell) for cell, found in kept.items() if not true(found["cell_signal"]).any()]
    missing = [_name(cell) for cell in cells if cell not in kept]
    counts = [int(found["n"].max()) for found in kept.values()]
    told = [
        f"Read-out {'/'.join(readout)}; n\u00a0=\u00a0{sample_count(counts)} samples a cell; "
        f"upright line: headline layer; "
        f"bands: pointwise {100 * level:g}\u00a0% {BANDS}, "
        "those of AUCs with the probes held fixed.",
        _floor(pd.concat(list(kept.values())) if kept else rows.iloc[:0]),
        _equivalence(pairs, cells),
        *_following(pairs, rows, cells),
        *unseen_note(weak, blank, len(kept)),
    ]
    return told + ([f"Not measured: {few(missing)}."] if missing else [])


def _name(cell: tuple[Pair, Pair]) -> str:
    return f"{cell[0][1]} on {cell[1][1]}"


def _floor(rows: pd.DataFrame) -> str:
    """The largest |ΔP| of passes in which nothing was cut."""
    if "noise_floor" not in rows or rows["noise_floor"].isna().all():
        return "Noise floor: not measured."
    floor = rows["noise_floor"].max()
    size = f"{floor:.2g}" if floor >= 1e-4 else "below 0.0001" if floor else "0"
    return f"Noise floor (largest |ΔP| with nothing cut): {size}\u00a0points."


def _equivalence(pairs: pd.DataFrame, cells: Sequence[tuple[Pair, Pair]]) -> str:
    """At which layers the mean ΔP under random tokens lies within ±5 points, and where not.

    Layers without a signal are left out: there nothing can be said.
    """
    here = pairs[(pairs["contrast"] == "random") & (pairs["quantity"] == "delta_p")]
    if here.empty:
        return "Effect of random tokens: not measured."
    here = here[true(here["signal"])]
    known = {cell: found for cell in cells if len(found := _rows(here, *cell))}
    if not known:
        return "Effect of random tokens: not interpretable, no layer has a signal."
    open_at = {
        cell: [int(layer) for layer in found["layer"][~true(found["no_effect"])]]
        for cell, found in known.items()
    }
    shown = [f"{_name(cell)} at {layer_list(layers)}" for cell, layers in open_at.items() if layers]
    text = (
        "Random tokens have no effect on the mean ΔP (90\u00a0% interval within ±5\u00a0points) "
        f"at every layer with a signal in {len(known) - len(shown)} of {len(known)} cells"
    )
    return f"{text}; not shown for {few(shown)}." if shown else f"{text}."


def _following(
    pairs: pd.DataFrame, controls: pd.DataFrame, cells: Sequence[tuple[Pair, Pair]]
) -> list[str]:
    """In how many cells right answers surely follow a matched question more than a placebo."""
    here = pairs[(pairs["contrast"] == "matched-placebo") & (pairs["quantity"] == "share")]
    heads = controls[true(controls["headline"])][["model", "dataset", "layer"]]
    here = here.merge(heads, on=["model", "dataset", "layer"]).dropna(subset=["estimate"])
    here = here[true(here["signal"])]
    surely = [found["ci_low"].gt(0).any() for c in cells if len(found := _rows(here, *c))]
    if not surely:
        return []
    return [
        "Follow: right answers whose verdict turns behind another question of the relation. At the "
        "headline layer a matched question, for which the answer is wrong, turns surely more than "
        f"a placebo in {sum(surely)} of {len(surely)} cells with a signal."
    ]
