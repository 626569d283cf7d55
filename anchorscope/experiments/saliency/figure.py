"""Pictures of saliency: its density in each group, and the AUC that separates groups, by layer."""

from dataclasses import replace

import pandas as pd

from anchorscope.experiments.flip_figure import EXACT, RANDOM, points_of
from anchorscope.experiments.saliency import COLUMNS
from anchorscope.figures import data, notes, style
from anchorscope.figures.axis import Axis, auc_axis, axis_of
from anchorscope.figures.picture import (
    Caption,
    Panel,
    Picture,
    Request,
    as_chart,
    by_cell,
    by_model,
)
from anchorscope.figures.style import Series
from anchorscope.statements import say, span

GROUPS = {
    "Q": Series("Q-Anchored", style.BLUE, [1, 0], None),
    "A": Series("A-Anchored", style.ORANGE, style.DASHES["A"], None),
}
"""Group → entry of the legend of `density`, whose panels show one cell each."""
UNITS = {"logit": "logits", "probe": "nats"}
"""Loss → unit of saliency."""
HEADINGS = {EXACT: "From the exact question tokens", RANDOM: "From random question tokens"}
"""Kind of tokens → heading of its row of panels. Overlaid, their lines could not be told apart."""
TIPS = {"series": ("group", ""), "tokens": ("from", ""), "value": ("value", ".3~g")}
DENSITY_TIPS = TIPS | {"x": ("saliency", ".3~g"), "n": ("n", ",d")}
LAYER_TIPS = style.LAYER | {"tokens": ("from", ""), "value": ("AUC", ".2f")} | style.INTERVAL
CIRCULAR = (
    "The separation of the groups by saliency is nearly circular: saliency approximates the "
    "knockout to first order, and the same probe's flips under the knockout form the groups."
)
CROSS_ENTROPY = (
    "The loss is the probe's cross-entropy. Its gradient has the factor 1 − (probability of the "
    "true label), so the saliency of any token, even a random one, is larger in samples where the "
    "probe is unsure or mistaken."
)


@as_chart
def density(table: pd.DataFrame, request: Request) -> Picture:
    """Draw the density of saliency in each group, in one panel per cell."""
    rows = _rows(table, request)
    drawn = rows[(rows["part"] == "density") & rows["anchor"].isin(GROUPS)]
    points = points_of(drawn, {EXACT: "density", RANDOM: "random_density"}, 1)
    points = points.assign(
        series=points["anchor"].map({anchor: one.name for anchor, one in GROUPS.items()}),
        x=[float(f"{x:.4g}") for x in points["x"]],
        thin=False,
    )
    lines = data.in_lines(points, ["tokens", "condition"], x="x").assign(mark=False)
    low, high = (lines["x"].min(), lines["x"].max()) if len(lines) else (0.1, 1)
    powers = [10.0**k for k in range(-12, 13) if low <= 10.0**k <= high]
    across = ((low, high), powers or None)
    below = Axis(f"Saliency ({_unit(rows)})", across, field="x", kind="log", number="~g")
    panel = Panel(lines, axis_of(lines[["value"]], "Density"), DENSITY_TIPS, below)
    what = "Saliency from question tokens to the exact answer tokens"
    caption = _caption(rows, what, request, intervals="")
    return Picture(by_cell(request), [*GROUPS.values()], _by_tokens(panel), caption)


@as_chart
def layers(table: pd.DataFrame, request: Request) -> Picture:
    """Draw by layer how well saliency separates the groups: the AUC, in one panel per model."""
    rows = _rows(table, request)
    everyone = rows[(rows["part"] == "layer") & (rows["anchor"] == "all")]
    points = points_of(everyone, {EXACT: "auc", RANDOM: "random_auc"}, 1)
    points = points.assign(series=points["dataset"])
    auc = data.in_lines(points, ["tokens", "condition"])
    panel = Panel(auc, auc_axis(auc, "AUC for Q", 0.5), LAYER_TIPS)
    what = (
        "AUC with which saliency from question tokens to the exact answer tokens separates Q- "
        "from A-Anchored"
    )
    series = style.dataset_series(request.datasets)
    return Picture(by_model(request), series, _by_tokens(panel), _caption(rows, what, request))


def _by_tokens(panel: Panel) -> list[Panel]:
    """Divide a panel into a row for exact and a row for random tokens, on the same axes."""
    rows = panel.rows.drop(columns="chance")
    return [
        replace(panel, rows=rows[rows["tokens"] == tokens], heading=heading)
        for tokens, heading in HEADINGS.items()
    ]


def _rows(table: pd.DataFrame, request: Request) -> pd.DataFrame:
    """Return the rows at the read-out, except rows that count no sample."""
    rows = data.shown(table, request, COLUMNS)
    return rows[rows["n_paired"] > 0]


def _unit(rows: pd.DataFrame) -> str:
    """Return the unit of saliency."""
    return UNITS.get(str(rows["loss"].iloc[0]) if len(rows) else "logit", "logits")


def _caption(
    rows: pd.DataFrame, what: str, request: Request, intervals: str = say.clustered
) -> Caption:
    """Write the caption: the drawn quantity, n, the AUCs, and caveats about them."""
    whole = rows[rows["anchor"] == "all"]
    sizes = whole.groupby(["model", "dataset"])[["n", "n_paired"]].max()
    loss = CROSS_ENTROPY if _unit(rows) == UNITS["probe"] else ""
    return notes.caption(
        request,
        rows,
        f"{what}; {'/'.join(request.readout)}",
        say.size(sizes["n_paired"], "samples per cell"),
        [_verdict(rows[(rows["part"] == "sum") & (rows["anchor"] == "all")]), CIRCULAR, loss],
        [notes.left_out(sizes, "cell")],
        intervals=intervals,
    )


def _verdict(sums: pd.DataFrame) -> str:
    """Write the sentence on the AUCs of exact and random tokens, over the cells drawn."""
    known = sums[sums["auc"].notna() & ~sums["thin"].astype(bool)]
    if known.empty:
        return "No AUC to rely on: a group has too few samples." if len(sums) else ""
    exact, random = (span(known[name], digits=2) for name in ("auc", "random_auc"))
    said = f"Summed over layers, saliency predicts the group with AUC {exact}"
    return f"{said} (random tokens: {random})."
