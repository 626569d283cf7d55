"""Results of saliency: the flow in each group, how well it tells groups apart, and pictures."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from anchorscope.experiments.flips import EXACT, RANDOM as CONTROL, enough_other_tokens, points_of
from anchorscope.experiments.measured import Arrays, PerSample
from anchorscope.experiments.saliency import COLUMNS, RANDOM, SALIENCY
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
from anchorscope.statistics import intervals
from anchorscope.statistics.analysis import Analysis, Columns, Group, anchored, count, stacked
from anchorscope.statistics.bands import Means
from anchorscope.statistics.intervals import Estimate

POINTS = 101
"""Points of a density."""
BLANK: Columns = dict.fromkeys(COLUMNS, np.nan)
"""A row whose columns are all blank."""
GROUPS = {
    "Q": Series("Q-Anchored", style.BLUE, [1, 0], None),
    "A": Series("A-Anchored", style.ORANGE, style.DASHES["A"], None),
}
"""Group → entry of the legend of `density`, whose panels show one cell each."""
UNITS = {"logit": "logits", "probe": "nats"}
"""Loss → unit of saliency."""
HEADINGS = {EXACT: "From the exact question tokens", CONTROL: "From random question tokens"}
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


@dataclass(frozen=True)
class Flow:
    """Saliency of each sample, in the units of the loss, and the groups of the samples."""

    analysis: Analysis
    layer: int  # the layer whose probe was differentiated
    flips: np.ndarray  # whether the sample is Q-Anchored at this layer, bool [n]
    exact: np.ndarray  # from E_Q, float64 [layers, n]; NaN where not measured
    random: np.ndarray  # from random tokens, mean of the draws, [layers, n]
    counted: np.ndarray  # whether the sample counts, bool [n]

    @classmethod
    def of(cls, analysis: Analysis, measured: Arrays) -> "Flow":
        """Return the flow at one read-out, in each layer up to the headline layer."""
        exact, random = measured[SALIENCY.name][0], measured[RANDOM.name].mean(0)
        counted = ~np.isnan(exact + random).any(0) & enough_other_tokens(analysis.answers)
        layer = len(exact) - 1
        flips = analysis.readout.effects["knockout"].flip[0, layer]
        return cls(analysis, layer, flips, exact, random, counted)

    @property
    def summed(self) -> "Flow":
        """The flow summed over layers, with `exact` and `random` of shape [1, n]."""
        return replace(self, exact=self.exact.sum(0)[None], random=self.random.sum(0)[None])


def table(analysis: Analysis, measured: Arrays) -> pd.DataFrame:
    """Return the rows of one read-out, with the columns `COLUMNS`."""
    flow = Flow.of(analysis, measured)
    frames = [
        _means(flow.summed, "sum").assign(layer=flow.layer),
        _means(flow, "layer"),
        *_densities(flow.summed),
    ]
    rows = stacked(frames)
    of_both = (rows["anchor"] == "all") & rows["auc"].notna()
    rows.loc[of_both, "thin"] |= intervals.thin_class(
        flow.flips.astype(np.int64), flow.counted, analysis.resamples, analysis
    )
    return rows.assign(
        predicts=bool(analysis.strength["predicts"][flow.layer]),
        loss="probe" if measured["cross_entropy"] else "logit",
        headline=rows["layer"] == flow.layer,
    )


def per_sample(analysis: Analysis, measured: Arrays) -> PerSample:
    """Return the flow of each sample, summed over all layers up to the headline layer."""
    flow = Flow.of(analysis, measured).summed
    exact, random = (np.where(flow.counted, of[0], np.nan) for of in (flow.exact, flow.random))
    return {("answer", "flow"): (exact, random)}


def _means(flow: Flow, part: str) -> pd.DataFrame:
    """Return a row for each layer of the flow and each anchor."""
    analysis, groups, shape = flow.analysis, [], (1, *flow.exact.shape)
    for anchor, members in anchored(flow.flips).items():
        named = BLANK | analysis.readout.key | {"part": part, "anchor": anchor}
        counted = members & flow.counted
        if anchor == "all":
            named |= _aucs(flow, counted, flow.flips)
            if part == "sum":
                named |= _crossed_auc(flow)
        groups.append(
            _group(named, flow, *(np.broadcast_to(some, shape) for some in (members, counted)))
        )
    readout = replace(analysis.readout, clean=analysis.readout.clean[: shape[1]])
    return replace(analysis, readout=readout).by_group(COLUMNS, lambda _: groups)


def _group(named: Columns, flow: Flow, members: np.ndarray, counted: np.ndarray) -> Group:
    """Average over the `counted` samples among `members`. Both are bool [1, layers, n]."""
    values = {"flow": flow.exact, "random": flow.random, "contrast": flow.exact - flow.random}
    quantities = {
        name: Means(np.nan_to_num(of_samples)[None], counted) for name, of_samples in values.items()
    }
    key, ratios = named | {"n_paired": count(counted)}, {"ratio": ("flow", "random")}
    return Group(key, members, counted, quantities, ratios=ratios)


def _aucs(flow: Flow, counted: np.ndarray, positive: np.ndarray) -> Columns:
    """Compute the AUCs of the flows `exact` and `random` for predicting `positive`, bool [n]."""
    resamples, level = flow.analysis.resamples, flow.analysis.level
    exact, random = (
        resamples.aucs(np.where(counted, of, np.nan), positive.astype(np.int64))
        for of in (flow.exact, flow.random)
    )
    aucs = {"auc": exact, "random_auc": random, "auc_contrast": exact - random}
    columns = Columns()
    for name, auc in aucs.items():
        columns |= Estimate.of_resamples(auc, level).columns(name)
    return columns


def _crossed_auc(flow: Flow) -> Columns:
    """Compute the AUC of the flow for predicting which right answers flip after another question.

    These flips do not come from blocked attention. In the main run, the right answers of two
    samples were put after each other's questions, where they are wrong.
    """
    crossed = flow.analysis.readout.effects.get("crossed")
    if crossed is None:
        return {}
    counted = flow.counted & crossed.measured & (flow.analysis.z == 0)
    columns = _aucs(flow, counted, crossed.flip[0, flow.layer])
    return {f"crossed_{name}": columns[name] for name in ("auc", "auc_low", "auc_high")}


def _densities(flow: Flow) -> Iterator[pd.DataFrame]:
    """Yield, for each group, densities of log10 of the flow: from E_Q and from random tokens."""
    analysis, values = flow.analysis, np.stack([flow.exact[0], flow.random[0]])
    positive = values[:, flow.counted][values[:, flow.counted] > 0]
    if not len(positive):
        return
    logs = np.log10(np.maximum(np.nan_to_num(values), positive.min()))
    low, high = np.quantile(np.log10(positive), [0.005, 0.995])
    margin = 0.15 * (high - low) or 1.0
    x = np.linspace(low - margin, high + margin, POINTS)
    for anchor, members in anchored(flow.flips).items():
        counted = members & flow.counted
        if counted.sum() < 2:
            continue
        clusters = analysis.resamples.clusters_in(counted)
        columns = BLANK | analysis.readout.key | {"part": "density", "anchor": anchor}
        columns |= {"layer": flow.layer, "n": members.sum(), "n_paired": counted.sum()}
        columns |= {"x": 10**x, "thin": intervals.thin(counted.sum(), clusters, analysis)}
        for name, of in zip(("density", "random_density"), logs, strict=True):
            columns[name] = kernel_density(of[counted], x)
        yield pd.DataFrame(columns)


def kernel_density(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Estimate the density of values [n] at evenly spaced points x, per unit of x.

    The kernel has Silverman's width, but at least the step of x, to avoid spikes.
    """
    quartiles = np.quantile(values, [0.25, 0.75])
    spread = min(values.std(), np.ptp(quartiles) / 1.34) or values.std()
    width = max(0.9 * spread * len(values) ** -0.2, x[1] - x[0])
    kernels = np.exp(-(((x[:, None] - values) / width) ** 2) / 2)
    return np.asarray(kernels.mean(1) / (width * np.sqrt(2 * np.pi)))


@as_chart
def density(table: pd.DataFrame, request: Request) -> Picture:
    """Draw the density of saliency in each group, in one panel per cell."""
    rows = _rows(table, request)
    drawn = rows[(rows["part"] == "density") & rows["anchor"].isin(GROUPS)]
    points = points_of(drawn, {EXACT: "density", CONTROL: "random_density"}, 1)
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
    points = points_of(everyone, {EXACT: "auc", CONTROL: "random_auc"}, 1)
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
    return UNITS[rows["loss"].iloc[0]] if len(rows) else "logits"


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
