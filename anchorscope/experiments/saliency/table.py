"""The table of saliency: how much flows from E_Q in each group, and whether it tells them apart."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pandas as pd

from anchorscope.experiments.analysis import (
    Analysis,
    Columns,
    Group,
    Quantity,
    anchored,
    count,
    stacked,
)
from anchorscope.experiments.density import density
from anchorscope.experiments.experiment import PER_SAMPLE
from anchorscope.experiments.measured import Measured
from anchorscope.experiments.pairs import LABELS
from anchorscope.experiments.saliency import COLUMNS, RANDOM, SALIENCY, TARGETS
from anchorscope.probes import intervals
from anchorscope.probes.bands import Means, Spread

POINTS = 101
"""Points of a density."""
BLANK: Columns = dict.fromkeys(COLUMNS, np.nan)
"""Columns that a row may leave blank."""


@dataclass(frozen=True)
class Flow:
    """What flows in each sample, in the units of the loss."""

    exact: np.ndarray  # from E_Q, [layers, n]; NaN where not measured
    random: np.ndarray  # from random tokens, mean of the draws, [layers, n]
    counted: np.ndarray  # whether the sample counts, bool [n]

    @property
    def summed(self) -> "Flow":
        """All layers added up, [1, n]."""
        return replace(self, exact=self.exact.sum(0)[None], random=self.random.sum(0)[None])


@dataclass(frozen=True)
class Grouped:
    """A read-out, and the groups of its samples at the layer whose probe was differentiated."""

    analysis: Analysis
    layer: int

    @property
    def flips(self) -> np.ndarray:
        """Whether a sample is Q-Anchored, bool [n]."""
        return np.asarray(self.analysis.readout.effects["knockout"].flip[0, self.layer])

    def labelled(self, label: str) -> np.ndarray:
        """Whether a sample has the label, bool [n]."""
        return (label == "all") | (self.analysis.z.astype(str) == label)


def table(analysis: Analysis, measured: Measured) -> pd.DataFrame:
    """The rows of one read-out, see `COLUMNS`."""
    grouped = Grouped(analysis, _depth(measured) - 1)
    frames = []
    for arm, flow in _flows(measured):
        summed = _rows(grouped, {"part": "sum", "arm": arm}, flow.summed, LABELS)
        frames.append(summed.assign(layer=grouped.layer))
        frames.append(_rows(grouped, {"part": "layer", "arm": arm}, flow, LABELS[:1]))
        frames += _densities(grouped, arm, flow.summed)
    for head, flow in _flows_by_head(measured):
        key = {"part": "head", "arm": "answer", "head": head}
        frames.append(_rows(grouped, key, flow, LABELS[:1], with_ends=False))
    rows = stacked(frames, tuple(COLUMNS))
    rows["signal"] = bool(len(rows)) and bool(analysis.strength["signal"][grouped.layer])
    rows["loss"] = next(iter(measured.rows["loss"].dropna()), None)
    return rows.assign(headline=rows["layer"] == grouped.layer)


def per_sample(analysis: Analysis, measured: Measured) -> pd.DataFrame:
    """The flow of each sample, all layers up to the headline added up."""
    frames = []
    for arm, flow in _flows(measured):
        frame = pd.DataFrame({"id": analysis.answers["id"], "arm": arm, "measure": "flow"})
        for column, values in (("value", flow.summed.exact), ("control", flow.summed.random)):
            frame[column] = np.where(flow.counted, values[0], np.nan)
        frames.append(frame)
    return stacked(frames, PER_SAMPLE)


def _depth(measured: Measured) -> int:
    """How many layers were measured."""
    layers = measured.rows["layer"][measured.rows["condition"] == SALIENCY.name]
    return int(layers.max()) + 1 if len(layers) else 0


def _flows(measured: Measured) -> Iterator[tuple[str, Flow]]:
    """Each arm with its flow, if some sample has a pair of tokens for it."""
    for arm in TARGETS if _depth(measured) else ():
        flow = _flow(measured, arm)
        if not np.isnan(flow.exact).all():
            yield arm, flow


def _flows_by_head(measured: Measured) -> Iterator[tuple[int, Flow]]:
    """The number of each head, and its flow to the answer."""
    heads = sum(str(name).startswith("head_") for name in measured.rows)
    if "answer" in dict(_flows(measured)):
        for head in range(heads):
            yield head, _flow(measured, f"head_{head}")


def _flow(measured: Measured, column: str) -> Flow:
    """The flow in a column of the rows."""
    depth = _depth(measured)
    exact = measured.values(SALIENCY.name, column)[0, :depth]
    random = measured.values(RANDOM.name, column)[:, :depth].mean(0)
    counted = ~np.isnan(exact + random).any(0) & measured.control_is_complete(RANDOM.name)
    return Flow(exact, random, counted)


def _rows(
    grouped: Grouped, key: Columns, flow: Flow, labels: Sequence[str], *, with_ends: bool = True
) -> pd.DataFrame:
    """A row for each layer of a flow, label and anchor; AUCs have intervals if `with_ends`."""
    analysis, groups = grouped.analysis, []
    shape = flow.exact.shape
    for label, (anchor, members) in product(labels, anchored(grouped.flips).items()):
        named = BLANK | analysis.readout.key | key | {"label": label, "anchor": anchor}
        everyone = members & grouped.labelled(label)
        counted = everyone & flow.counted
        if anchor == "all":
            named |= _aucs(analysis, flow, counted, grouped.flips, with_ends)
            if key["part"] == "sum" and label == "all":
                named |= _crossed_auc(grouped, flow)
        groups.append(
            _group(
                named,
                flow,
                np.broadcast_to(everyone, (1, *shape)),
                np.broadcast_to(counted, (1, *shape)),
            )
        )
    readout = replace(analysis.readout, clean=analysis.readout.clean[: shape[0]])
    return replace(analysis, readout=readout).table(
        tuple(COLUMNS), lambda _: groups, describe=lambda _, of: _ratio(of, analysis.level)
    )


def _group(named: Columns, flow: Flow, members: np.ndarray, counted: np.ndarray) -> Group:
    """Some samples, both bool [1, layers, n]."""
    values = {"flow": flow.exact, "random": flow.random, "contrast": flow.exact - flow.random}
    quantities = {
        name: Quantity(Means(np.nan_to_num(of_samples)[None], counted), name)
        for name, of_samples in values.items()
    }
    return Group(named | {"n_paired": count(counted)}, members, counted, quantities)


def _ratio(spreads: Mapping[str, Spread], level: float) -> Columns:
    """The ratio of two means, and its interval from the same draws."""
    flow, random = spreads["flow"], spreads["random"]
    replicates = intervals.ratio(flow.replicates, random.replicates)
    ratio = intervals.ratio(flow.estimate, random.estimate)
    return {"ratio": ratio, **intervals.ends("ratio", replicates, level)}


def _aucs(
    analysis: Analysis, flow: Flow, counted: np.ndarray, positive: np.ndarray, with_ends: bool
) -> Columns:
    """How well flow and control tell the `positive` ones from the others, both bool [n]."""
    drawn = (
        analysis.drawn if with_ends else replace(analysis.drawn, weights=analysis.drawn.weights[:0])
    )
    exact, random = (
        drawn.aucs(np.where(counted, of, np.nan), positive.astype(np.int64))
        for of in (flow.exact, flow.random)
    )
    named = {"auc": exact, "random_auc": random, "auc_contrast": exact - random}
    if not with_ends:
        return {name: of_draws[0] for name, of_draws in named.items()}
    columns: Columns = {}
    for name, of_draws in named.items():
        columns |= intervals.estimate(name, of_draws, analysis.level)
    return columns


def _crossed_auc(grouped: Grouped, flow: Flow) -> Columns:
    """How well a flow tells which right answers flip behind another question.

    Groups that no gradient is part of: the main run exchanged the answers of two right samples, and
    each is wrong where it stands then.
    """
    crossed = grouped.analysis.readout.effects.get("crossed")
    if crossed is None:
        return {}
    counted = flow.counted & crossed.measured & (grouped.analysis.z == 0)
    columns = _aucs(grouped.analysis, flow, counted, crossed.flip[0, grouped.layer], True)
    ends = ("", "_low", "_high")
    return {f"crossed_auc{end}": columns[f"auc{end}"] for end in ends}


def _densities(grouped: Grouped, arm: str, flow: Flow) -> Iterator[pd.DataFrame]:
    """The densities of a flow and of its control, for each label and group, over log10."""
    values = np.stack([flow.exact[0], flow.random[0]])
    positive = values[:, flow.counted][values[:, flow.counted] > 0]
    if not len(positive):
        return
    logs = np.log10(np.maximum(np.nan_to_num(values), positive.min()))
    low, high = np.quantile(np.log10(positive), [0.005, 0.995])
    margin = 0.15 * (high - low) or 1.0
    x = np.linspace(low - margin, high + margin, POINTS)
    for label, (anchor, members) in product(LABELS, anchored(grouped.flips).items()):
        everyone = members & grouped.labelled(label)
        counted = everyone & flow.counted
        if counted.sum() < 2:
            continue
        clusters = grouped.analysis.drawn.clusters_in(counted)
        thin = intervals.thin(counted.sum(), clusters, grouped.analysis)
        columns = BLANK | grouped.analysis.readout.key
        columns |= {"part": "density", "arm": arm, "label": label, "anchor": anchor}
        columns |= {"layer": grouped.layer, "n": everyone.sum(), "n_paired": counted.sum()}
        columns |= {"x": 10**x, "thin": thin}
        for name, of in zip(("density", "random_density"), logs, strict=True):
            columns[name] = density(of[counted], x)
        yield pd.DataFrame(columns)[list(COLUMNS)]
