"""Table of windows: flips and ΔP by window, by group and by the layer that the probe reads."""

import pandas as pd

from anchorscope.experiments import by_arm
from anchorscope.experiments.by_arm import Arm
from anchorscope.experiments.measured import MeasuredRows
from anchorscope.experiments.windows import COLUMNS, CONTROLS, WINDOWS
from anchorscope.statistics.analysis import Analysis

LAYERS = ("first", "last", "centre")
"""Columns with the layers of a window."""


def table(analysis: Analysis, measured: MeasuredRows) -> pd.DataFrame:
    """Return a row for each window, layer, label and anchor, with flips and ΔP."""
    columns = ["arm", *(name for name in COLUMNS if name not in ("window", *LAYERS))]
    rows = by_arm.table(analysis, columns, arms(measured))
    rows = rows.rename(columns={"arm": "window"}).astype({"window": int})
    layers = measured.rows.drop_duplicates("condition").set_index("condition")
    numbers = {one.name: number for number, one in enumerate(WINDOWS)}
    layers = layers.loc[layers.index.isin(numbers), list(LAYERS)].astype(int)
    rows = rows.merge(layers.assign(window=layers.index.map(numbers)), on="window", how="left")
    return rows[list(COLUMNS)]


def per_sample(analysis: Analysis, measured: MeasuredRows) -> pd.DataFrame:
    """Return whether each sample flips at the headline layer, under each window."""
    return by_arm.per_sample(analysis, arms(measured))


def arms(measured: MeasuredRows) -> dict[str, Arm]:
    """Map the number of each measured window to its arm."""
    return {
        str(number): by_arm.against_control(measured, one.name, control.name)
        for number, (one, control) in enumerate(zip(WINDOWS, CONTROLS, strict=True))
        if one.name in measured.conditions
    }
