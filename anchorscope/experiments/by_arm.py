"""Tables of flips and ΔP under an experiment's arms, for groups by label and by anchor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from anchorscope.experiments.experiment import PER_SAMPLE
from anchorscope.experiments.measured import MeasuredRows
from anchorscope.statistics.analysis import SHARE, Analysis, Group, anchored, count, stacked
from anchorscope.statistics.bands import ANY, Means
from anchorscope.statistics.samples import effects_of

LABELS = ("all", "0", "1")
"""Labels of the groups: all samples, right answers, wrong answers."""


@dataclass(frozen=True)
class Arm:
    """Effects of one arm (a condition and its control) on each sample at each layer."""

    counted: np.ndarray  # whether the sample counts, bool [layers, n]
    # column → values that are averaged over the samples that count, [layers, n] or [n]: ΔP in
    # percentage points, flips (0 or 1), shares of draws or tokens, or differences
    values: Mapping[str, np.ndarray]


def against_control(measured: MeasuredRows, name: str, control: str) -> Arm:
    """Compare a condition with its control, sample by sample.

    A sample counts if both were measured, and the control acted on as many tokens as E_Q has.

    Returns:
        An arm with values [layers, n]. `flips`: whether the predicted class flips. `random`: the
        share of the control's draws in which it flips. `contrast`: `flips` - `random`. `delta_p`:
        ΔP. `random_delta_p`: mean ΔP of the control's draws. `delta_p_contrast`: the difference.
    """
    clean = measured.values("clean")[0]
    exact, draws = (effects_of(clean, measured.values(one)) for one in (name, control))
    counted = exact.measured & draws.measured & measured.control_is_complete(control)
    flips, random = (one.flip.mean(axis=0) for one in (exact, draws))
    points, chance = (one.delta_p.mean(axis=0) for one in (exact, draws))
    values = {"flips": flips, "random": random, "contrast": flips - random}
    values |= {"delta_p": points, "random_delta_p": chance, "delta_p_contrast": points - chance}
    return Arm(np.broadcast_to(counted, clean.shape), values)


def table(
    analysis: Analysis, columns: Sequence[str], arms: Mapping[str, Arm], source: str | None = None
) -> pd.DataFrame:
    """Return a table with a row for each layer, arm, label and anchor.

    `source` is `relations` or `wording`, see `passes.partners.Crossing`; None if not needed.
    """
    predicts = analysis.strength["predicts"] if "predicts" in columns else None
    z = analysis.answers["label"].astype(str).to_numpy()
    anchors = anchored(analysis.readout.effects["knockout"].flip[0])
    groups = []
    for (name, arm), label, anchor in product(arms.items(), LABELS, anchors):
        members = ((label == "all") | (z == label)) & anchors[anchor]
        key = {
            "arm": name,
            "label": label,
            "anchor": anchor,
            "source": source,
            "predicts": predicts,
        }
        groups.append(_group(key, arm, members[None]))
    return analysis.by_group(columns, lambda _: groups)


def _group(key: dict[str, object], arm: Arm, members: np.ndarray) -> Group:
    counted = members & arm.counted
    bounds = {"contrast": (-1.0, 1.0)}
    bounds |= dict.fromkeys(("delta_p", "random_delta_p", "delta_p_contrast"), ANY)
    quantities = {
        column: Means(values[None], counted, bounds=bounds.get(column, SHARE))
        for column, values in arm.values.items()
    }
    return Group(key | {"n_paired": count(counted)}, members, counted, quantities)


def per_sample(analysis: Analysis, arms: Mapping[str, Arm]) -> pd.DataFrame:
    """Make a row per sample and arm. It says whether the sample flips at the headline layer."""
    layer, frames = analysis.readout.headline, []
    for name, arm in arms.items():
        columns = {"id": analysis.answers["id"], "arm": name, "measure": "flip"}
        for column, key in (("value", "flips"), ("control", "random")):
            columns[column] = np.where(arm.counted[layer], arm.values[key][layer], np.nan)
        frames.append(pd.DataFrame(columns))
    return stacked(frames, PER_SAMPLE)
