"""The table of windows: flips and ΔP by window, group and layer read."""

import pandas as pd

from anchorscope.experiments import pairs
from anchorscope.experiments.analysis import Analysis
from anchorscope.experiments.measured import Measured
from anchorscope.experiments.pairs import Arm
from anchorscope.experiments.windows import COLUMNS, CONTROLS, WINDOWS

OF_WINDOW = ("window", "first", "last", "centre")
"""Columns that are the same in all rows of a window."""


def table(analysis: Analysis, measured: Measured) -> pd.DataFrame:
    """A row for each layer read, window, label and anchor."""
    by_window = arms(measured)
    columns = ["arm", *(name for name in COLUMNS if name not in OF_WINDOW)]
    rows = pairs.table(analysis, columns, lambda readout: by_window)
    layers = measured.rows.drop_duplicates("condition").set_index("condition")
    facts = {number: layers.loc[WINDOWS[int(number)].name] for number in by_window}
    of_window = {
        name: [int(facts[number][name]) for number in rows["arm"]] for name in OF_WINDOW[1:]
    }
    return rows.assign(window=rows["arm"].astype(int), **of_window)[list(COLUMNS)]


def per_sample(analysis: Analysis, measured: Measured) -> pd.DataFrame:
    """Whether each sample flips at the headline layer, under each window."""
    return pairs.per_sample(
        analysis, arms(measured), measure="flip", value="flips", control="random"
    )


def arms(measured: Measured) -> dict[str, Arm]:
    """Number of each window measured → what it does to the samples."""
    return {
        str(number): pairs.against_control(measured, one.name, control.name, delta_p=True)
        for number, (one, control) in enumerate(zip(WINDOWS, CONTROLS, strict=True))
        if one.name in measured.conditions
    }
