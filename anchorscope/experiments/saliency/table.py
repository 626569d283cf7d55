"""Table of saliency: the flow from E_Q in each group, and how well the flow tells groups apart."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from anchorscope.experiments.experiment import PER_SAMPLE
from anchorscope.experiments.measured import MeasuredRows
from anchorscope.experiments.saliency import COLUMNS, RANDOM, SALIENCY
from anchorscope.statistics import intervals
from anchorscope.statistics.analysis import Analysis, Columns, Group, anchored, count, stacked
from anchorscope.statistics.bands import Means
from anchorscope.statistics.intervals import Estimate

POINTS = 101
"""Points of a density."""
BLANK: Columns = dict.fromkeys(COLUMNS, np.nan)
"""A row whose columns are all blank."""


@dataclass(frozen=True)
class Flow:
    """Saliency of each sample, in the units of the loss."""

    exact: np.ndarray  # from E_Q, float64 [layers, n]; NaN where not measured
    random: np.ndarray  # from random tokens, mean of the draws, [layers, n]
    counted: np.ndarray  # whether the sample counts, bool [n]

    @property
    def summed(self) -> "Flow":
        """The flow summed over layers, with `exact` and `random` of shape [1, n]."""
        return replace(self, exact=self.exact.sum(0)[None], random=self.random.sum(0)[None])


@dataclass(frozen=True)
class Grouped:
    """A read-out, and the groups of its samples at the layer whose probe was differentiated."""

    analysis: Analysis
    layer: int
    flips: np.ndarray  # whether a sample is Q-Anchored, bool [n]


def table(analysis: Analysis, measured: MeasuredRows) -> pd.DataFrame:
    """Return the rows of one read-out, with the columns `COLUMNS`."""
    flow = _flow(measured)
    if flow is None:
        return pd.DataFrame(columns=list(COLUMNS))
    layer = len(flow.exact) - 1
    grouped = Grouped(analysis, layer, analysis.readout.effects["knockout"].flip[0, layer])
    frames = [
        _rows(grouped, "sum", flow.summed).assign(layer=grouped.layer),
        _rows(grouped, "layer", flow),
        *_densities(grouped, flow.summed),
    ]
    rows = stacked(frames, tuple(COLUMNS))
    rows["predicts"] = bool(analysis.strength["predicts"][grouped.layer])
    of_both = (rows["anchor"] == "all") & rows["auc"].notna()
    rows.loc[of_both, "thin"] |= intervals.thin_class(
        grouped.flips.astype(np.int64), flow.counted, analysis.resamples, analysis
    )
    rows["loss"] = next(iter(measured.rows["loss"].dropna()), None)
    return rows.assign(headline=rows["layer"] == grouped.layer)


def per_sample(analysis: Analysis, measured: MeasuredRows) -> pd.DataFrame:
    """Return the flow of each sample, summed over all layers up to the headline layer."""
    flow = _flow(measured)
    if flow is None:
        return pd.DataFrame(columns=list(PER_SAMPLE))
    frame = pd.DataFrame({"id": analysis.answers["id"], "arm": "answer", "measure": "flow"})
    for column, values in (("value", flow.summed.exact), ("control", flow.summed.random)):
        frame[column] = np.where(flow.counted, values[0], np.nan)
    return frame


def _flow(measured: MeasuredRows) -> Flow | None:
    """Return the flow of every sample, or None if no flow was measured."""
    layers = measured.rows["layer"][measured.rows["condition"] == SALIENCY.name]
    if layers.empty:
        return None
    depth = int(layers.max()) + 1
    exact = measured.values(SALIENCY.name, "flow")[0, :depth]
    if np.isnan(exact).all():
        return None
    random = measured.values(RANDOM.name, "flow")[:, :depth].mean(0)
    counted = ~np.isnan(exact + random).any(0) & measured.control_is_complete(RANDOM.name)
    return Flow(exact, random, counted)


def _rows(grouped: Grouped, part: str, flow: Flow) -> pd.DataFrame:
    """Return a row for each layer of the flow and each anchor."""
    analysis, groups, shape = grouped.analysis, [], (1, *flow.exact.shape)
    for anchor, members in anchored(grouped.flips).items():
        named = BLANK | analysis.readout.key | {"part": part, "anchor": anchor}
        counted = members & flow.counted
        if anchor == "all":
            named |= _aucs(analysis, flow, counted, grouped.flips)
            if part == "sum":
                named |= _crossed_auc(grouped, flow)
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


def _aucs(analysis: Analysis, flow: Flow, counted: np.ndarray, positive: np.ndarray) -> Columns:
    """Compute the AUCs of the flows `exact` and `random` for predicting `positive`, bool [n]."""
    exact, random = (
        analysis.resamples.aucs(np.where(counted, of, np.nan), positive.astype(np.int64))
        for of in (flow.exact, flow.random)
    )
    return {
        **Estimate.of_resamples(exact, analysis.level).columns("auc"),
        **Estimate.of_resamples(random, analysis.level).columns("random_auc"),
        **Estimate.of_resamples(exact - random, analysis.level).columns("auc_contrast"),
    }


def _crossed_auc(grouped: Grouped, flow: Flow) -> Columns:
    """Compute the AUC of the flow for predicting which right answers flip after another question.

    These flips do not come from blocked attention. In the main run, the right answers of two
    samples were put after each other's questions, where they are wrong.
    """
    crossed = grouped.analysis.readout.effects.get("crossed")
    if crossed is None:
        return {}
    counted = flow.counted & crossed.measured & (grouped.analysis.z == 0)
    columns = _aucs(grouped.analysis, flow, counted, crossed.flip[0, grouped.layer])
    ends = ("", "_low", "_high")
    return {f"crossed_auc{end}": columns[f"auc{end}"] for end in ends}


def _densities(grouped: Grouped, flow: Flow) -> Iterator[pd.DataFrame]:
    """Yield, for each group, densities of log10 of the flow: from E_Q and from random tokens."""
    values = np.stack([flow.exact[0], flow.random[0]])
    positive = values[:, flow.counted][values[:, flow.counted] > 0]
    if not len(positive):
        return
    logs = np.log10(np.maximum(np.nan_to_num(values), positive.min()))
    low, high = np.quantile(np.log10(positive), [0.005, 0.995])
    margin = 0.15 * (high - low) or 1.0
    x = np.linspace(low - margin, high + margin, POINTS)
    for anchor, members in anchored(grouped.flips).items():
        counted = members & flow.counted
        if counted.sum() < 2:
            continue
        clusters = grouped.analysis.resamples.clusters_in(counted)
        thin = intervals.thin(counted.sum(), clusters, grouped.analysis)
        columns = BLANK | grouped.analysis.readout.key | {"part": "density", "anchor": anchor}
        columns |= {"layer": grouped.layer, "n": members.sum(), "n_paired": counted.sum()}
        columns |= {"x": 10**x, "thin": thin}
        for name, of in zip(("density", "random_density"), logs, strict=True):
            columns[name] = density(of[counted], x)
        yield pd.DataFrame(columns)[list(COLUMNS)]


def density(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Estimate the density of values [n] at evenly spaced points x, per unit of x."""
    width = _kernel_width(values, x)
    kernels = np.exp(-(((x[:, None] - values) / width) ** 2) / 2)
    return np.asarray(kernels.mean(1) / (width * np.sqrt(2 * np.pi)))


def _kernel_width(values: np.ndarray, x: np.ndarray) -> float:
    """Return Silverman's kernel width, but at least the step of x, to avoid spikes."""
    quartiles = np.quantile(values, [0.25, 0.75])
    spread = min(values.std(), np.ptp(quartiles) / 1.34) or values.std()
    return float(max(0.9 * spread * len(values) ** -0.2, x[1] - x[0]))
