"""The table of scaled attention: flips and ΔP by weight, group and layer."""

from dataclasses import replace

import numpy as np
import pandas as pd

from anchorscope.experiments import pairs
from anchorscope.experiments.analysis import Analysis, stacked
from anchorscope.experiments.dose import COLUMNS, CONTROLS, DOSES
from anchorscope.experiments.experiment import PER_SAMPLE
from anchorscope.experiments.measured import Measured
from anchorscope.experiments.pairs import Arm


def table(analysis: Analysis, measured: Measured) -> pd.DataFrame:
    """A row for each layer, weight, label and anchor."""
    arms = {f"{weight:g}": arm for weight, arm in by_weight(measured).items()}
    columns = ["arm" if name == "weight" else name for name in COLUMNS]
    rows = pairs.table(analysis, columns, lambda readout: arms)
    return rows.rename(columns={"arm": "weight"}).astype({"weight": float})


def per_sample(analysis: Analysis, measured: Measured) -> pd.DataFrame:
    """Whether each sample flips at the headline layer, at each weight.

    Beside the measure `flip` and its control there is `step`: the same, and as its control whether
    the sample flips at the next weight towards 1.
    """
    flips, steps = {}, {}
    for weight, arm in by_weight(measured).items():
        nearer = arm.values["flips"] - arm.values["step"]
        flips[f"{weight:g}"] = arm
        steps[f"{weight:g}"] = replace(arm, values={"flips": arm.values["flips"], "nearer": nearer})
    frames = [
        pairs.per_sample(analysis, flips, measure="flip", value="flips", control="random"),
        pairs.per_sample(analysis, steps, measure="step", value="flips", control="nearer"),
    ]
    return stacked(frames, PER_SAMPLE)


def by_weight(measured: Measured) -> dict[float, Arm]:
    """Each weight measured, in rising order, and what it does to the samples."""
    weights = sorted(weight for weight, one in DOSES.items() if one.name in measured.conditions)
    arms = {
        weight: pairs.against_control(
            measured, DOSES[weight].name, CONTROLS[weight].name, delta_p=True
        )
        for weight in weights
    }
    stepped = {}
    for weight, arm in arms.items():
        nearer = towards_one(weight, weights)
        flips = np.zeros_like(arm.values["flips"]) if nearer == 1 else arms[nearer].values["flips"]
        values = {**arm.values, "step": arm.values["flips"] - flips}
        stepped[weight] = Arm(arm.partner, arm.counted, values)
    return stepped


def towards_one(weight: float, weights: list[float]) -> float:
    """The next of the weights towards 1, or 1 itself, where attention is left alone."""
    between = [one for one in (*weights, 1.0) if min(weight, 1) <= one <= max(weight, 1)]
    others = [one for one in between if one != weight]
    return min(others, key=lambda one: abs(one - weight))
