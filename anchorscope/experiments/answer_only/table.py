"""Table of answers without their questions: flips and ΔP by group and layer."""

import pandas as pd

from anchorscope.experiments import pairs
from anchorscope.experiments.analysis import Analysis
from anchorscope.experiments.answer_only import ANSWER_ONLY, COLUMNS, QUESTION
from anchorscope.experiments.measured import MeasuredRows
from anchorscope.experiments.pairs import Arm

CONTROL = {
    f"random{of}{end}": f"question{of}{end}"
    for of in ("", "_delta_p")
    for end in ("", "_low", "_high")
}
"""Column of the control in tables of arms → column here, where the control is not random."""


def table(analysis: Analysis, measured: MeasuredRows) -> pd.DataFrame:
    """Return a row for each layer, label and anchor."""
    of_arms = {name: arms_name for arms_name, name in CONTROL.items()}
    columns = [of_arms.get(name, name) for name in COLUMNS]
    return pairs.table(analysis, columns, arms(measured)).rename(columns=CONTROL)


def per_sample(analysis: Analysis, measured: MeasuredRows) -> pd.DataFrame:
    """Return whether each sample flips at the headline layer."""
    return pairs.per_sample(analysis, arms(measured))


def arms(measured: MeasuredRows) -> dict[str, Arm]:
    """Return the single arm, or no arm if no sample was passed."""
    if ANSWER_ONLY.name not in measured.conditions:
        return {}
    arm = pairs.against_control(measured, ANSWER_ONLY.name, QUESTION.name, delta_p=True)
    return {ANSWER_ONLY.name: arm}
