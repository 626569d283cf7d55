"""Table of patching: shares of predictions that flip, by arm, group and layer."""

import numpy as np
import pandas as pd

from anchorscope.experiments import by_arm
from anchorscope.experiments.by_arm import Arm
from anchorscope.experiments.measured import MeasuredRows
from anchorscope.experiments.patching import ARMS, COLUMNS, RANDOM
from anchorscope.statistics.analysis import Analysis, partner_places
from anchorscope.statistics.samples import Readout


def table(analysis: Analysis, measured: MeasuredRows) -> pd.DataFrame:
    """Return a row per layer, arm, label and anchor, with the share of predictions that flip."""
    source = next(iter(measured.rows["source"].dropna()), None)
    return by_arm.table(analysis, tuple(COLUMNS), arms(analysis.readout, measured), source)


def per_sample(analysis: Analysis, measured: MeasuredRows) -> pd.DataFrame:
    """Return whether each sample flips under each arm and under the control."""
    return by_arm.per_sample(analysis, arms(analysis.readout, measured))


def arms(readout: Readout, measured: MeasuredRows) -> dict[str, Arm]:
    """Return the measured arms by name.

    Their values are those of `by_arm.against_control`, and `changed`: the share of the control's
    new tokens that differ from the tokens they replace.
    """
    if RANDOM.name not in measured.conditions:
        return {}  # no prompt with replaced tokens was short enough for the model
    clean, called_wrong = measured.values("clean")[0], readout.clean > 0
    changed = measured.facts(RANDOM.name, "changed").to_numpy(dtype=np.float64)
    arms = {}
    for name, one in ARMS.items():
        if one.name not in measured.conditions:
            continue
        arm = by_arm.against_control(measured, one.name, RANDOM.name)
        partners = partner_places(measured.answers, measured.facts(one.name, "partner"))
        counted = arm.counted & (partners >= 0) & (changed > 0)
        if name == "published":  # right answers that the probe calls right
            counted &= ~(clean > 0)
        else:
            counted &= called_wrong == called_wrong[:, partners]
        values = {**arm.values, "changed": np.nan_to_num(changed)}
        arms[name] = Arm(counted, values)
    return arms
