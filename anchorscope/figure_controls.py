"""The figure `controls`: what flips by itself, and what the probes still know, cell by cell."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import pandas as pd

from anchorscope.figure_data import (
    at_readout,
    distinct,
    layer_list,
    line_rows,
    require,
    true,
)
from anchorscope.figure_fit import fitted
from anchorscope.figure_style import (
    INK,
    SOFT,
    UNSEEN,
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
    "auc_shuffled": Series("AUC: shuffled labels", SOFT, [1.5, 2.5], "cross"),
    "text_auc": Series("AUC: text baseline", RED, [10, 3, 2, 3], None),
}
NEEDED = "model dataset site position layer n headline signal probe_auc auc_low auc_high flip_share"
CONTRAST = "model dataset site position contrast quantity layer no_effect"
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
    """Two small panels for each cell, models below one another, datasets side by side.

    Above: the share of samples that flip under the knockout, and under each control, of its own.
    Below: AUC of the clean probe on clean and on knocked-out activations, of the refitted probe,
    of probes on shuffled labels and of the text baseline. What was not measured has no line.

    Args:
        controls: rows of `results/tables/<figure>.controls.csv`; shares and AUCs are fractions.
        contrasts: rows of `results/tables/<figure>.contrasts.csv`, for the caption.
        title, panels, datasets, readout, style, level: see `anchorscope.figures.chart`.

    Raises:
        AnchorscopeError: missing columns, or nothing measured at this read-out.
    """
    look = style_of(style)
    panels, datasets = distinct(panels), distinct(datasets)
    require(controls, NEEDED)
    require(contrasts, CONTRAST)
    rows = at_readout(controls, readout)
    across = columns_across(len(datasets) if len(datasets) > 1 else len(panels), 2 * look.columns)
    small = replace(
        look,
        panel_width=look.panel_width // (2 if across > 2 else 1),
        panel_height=round(0.45 * look.panel_height),
    )
    width = across * (small.panel_width + 0.7 * look.spacing) + 4 * look.label_size
    shown = [s for c, s in (FLIPS | AUCS).items() if c in rows and rows[c].notna().any()]
    shared = encodings(shown, look, width)
    lowest = _lowest(rows)
    cells = [(model, dataset) for model in panels for dataset in datasets]
    views = [
        _cell(_rows(rows, *cell), cell, shared, small, lowest, i % across == 0)
        for i, cell in enumerate(cells)
    ]
    caption = _caption(rows, contrasts, readout, cells, level)
    return figure_of(views, across, title=title, caption=caption, look=look, width=width)


def _rows(rows: pd.DataFrame, model: Pair, dataset: Pair) -> pd.DataFrame:
    return rows[(rows["model"] == model[0]) & (rows["dataset"] == dataset[0])]


def _lowest(rows: pd.DataFrame) -> float:
    """Where the AUC axis begins: a tenth at or below every line, 0.4 at most."""
    seen = rows[[name for name in AUCS if name in rows]].min().min()
    return 0.4 if pd.isna(seen) else min(0.4, int(10 * seen) / 10)


def _cell(
    cell: pd.DataFrame,
    names: tuple[Pair, Pair],
    shared: Encodings,
    look: Style,
    lowest: float,
    first: bool,
) -> alt.VConcatChart:
    """Flips above AUC of one cell; only the first of a row carries the labels of the y axes."""
    (_, model), (_, dataset) = names
    layers = int(cell["layer"].max()) + 1 if len(cell) else 1
    ticks = [k / 10 for k in range(round(10 * lowest), 11) if k % 2 == 0]
    shares = value_axis(
        "value", "Flips (%)" if first else None, (0, 100), (0, 50, 100), look, labels=first
    )
    aucs = value_axis(
        "value", "AUC" if first else None, (lowest, 1), ticks, look, number=".1f", labels=first
    )
    common = {"model": model, "dataset": dataset, "signal": True}
    above = _view(cell, _lines(cell, FLIPS, common), shares, layers, shared, look, None)
    below = _view(cell, _lines(cell, AUCS, common), aucs, layers, shared, look, "Layer")
    unseen = len(cell) > 0 and not true(cell["signal"]).any()
    size = 0.88 * look.label_size
    heading = panel_heading(
        dataset,
        look,
        color=SOFT if unseen else INK,
        subtitle=wrapped(f"{model}, no signal" if unseen else model, look.panel_width, 0.5 * size),
        subtitleFontSize=size,
        subtitleColor=SOFT,
    )
    views = [above.properties(title=heading), below]
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
        rows = line_rows(cell, column, shown, len(cell), i, factor=factor, band=band)
        bare = series.marker is None
        found += [
            row | {"n": int(sizes[row["layer"]]), "mark": row["mark"] and not bare} for row in rows
        ]
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
    contrasts: pd.DataFrame,
    readout: Pair,
    cells: Sequence[tuple[Pair, Pair]],
    level: float,
) -> list[str]:
    """Read-out, n and interval; noise floor; whether random tokens have an effect; no signal."""
    measured = {cell: _rows(rows, *cell) for cell in cells}
    kept = {cell: found for cell, found in measured.items() if len(found)}
    unseen = [_name(cell) for cell, found in kept.items() if not true(found["signal"]).any()]
    missing = [_name(cell) for cell in cells if cell not in kept]
    counts = [int(found["n"].max()) for found in kept.values()]
    told = [
        f"Read-out {'/'.join(readout)}; n\u00a0=\u00a0{sample_count(counts)} samples a cell; "
        f"upright line: headline layer; "
        f"band: pointwise {100 * level:g}\u00a0% bootstrap interval, probes held fixed.",
        _floor(pd.concat(list(kept.values())) if kept else rows.iloc[:0]),
        _equivalence(contrasts, readout, cells),
    ]
    told += [f"{UNSEEN}: {few(unseen)}."] if unseen else []
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


def _equivalence(contrasts: pd.DataFrame, readout: Pair, cells: Sequence[tuple[Pair, Pair]]) -> str:
    """At which layers the mean ΔP under random tokens lies within ±5 points, and where not."""
    here = contrasts[
        (contrasts["site"] == readout[0])
        & (contrasts["position"] == readout[1])
        & (contrasts["contrast"] == "random")
        & (contrasts["quantity"] == "delta_p")
    ]
    known = {cell: found for cell in cells if len(found := _rows(here, *cell))}
    if not known:
        return "Effect of random tokens: not measured."
    open_at = {
        cell: [int(layer) for layer in found["layer"][~true(found["no_effect"])]]
        for cell, found in known.items()
    }
    shown = [f"{_name(cell)} at {layer_list(layers)}" for cell, layers in open_at.items() if layers]
    text = (
        "Random tokens have no effect on the mean ΔP (90\u00a0% interval within ±5\u00a0points) "
        f"at every layer in {len(known) - len(shown)} of {len(known)} cells"
    )
    return f"{text}; not shown for {few(shown)}." if shown else f"{text}."
