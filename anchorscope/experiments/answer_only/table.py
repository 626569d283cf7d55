"""Table of answers without their questions: flips and ΔP by group and layer."""

import pandas as pd

from anchorscope.experiments import by_arm
from anchorscope.experiments.answer_only import ANSWER_ONLY, COLUMNS, QUESTION
from anchorscope.experiments.by_arm import Arm
from anchorscope.experiments.measured import MeasuredRows
from anchorscope.statistics.analysis import Analysis


def table(analysis: Analysis, measured: MeasuredRows) -> pd.DataFrame:
    """Return a row for each layer, label and anchor, with flips and ΔP."""
    # In tables of arms, columns of the control begin with `random`.
    named = {name.replace("question", "random"): name for name in COLUMNS}
    return by_arm.table(analysis, list(named), arms(measured)).rename(columns=named)


def per_sample(analysis: Analysis, measured: MeasuredRows) -> pd.DataFrame:
    """Return whether each sample flips at the headline layer."""
    return by_arm.per_sample(analysis, arms(measured))


def arms(measured: MeasuredRows) -> dict[str, Arm]:
    """Return {name: arm} of the experiment's only arm; an empty dict if no sample was passed."""
    if ANSWER_ONLY.name not in measured.conditions:
        return {}
    arm = by_arm.against_control(measured, ANSWER_ONLY.name, QUESTION.name)
    return {ANSWER_ONLY.name: arm}
