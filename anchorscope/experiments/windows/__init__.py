"""Windows: block E_Q in a few layers at a time, to see in which layers the question is read.

The control blocks an equal number of other question tokens in the same window.
"""

from pydantic import Field

from anchorscope.experiments.experiment import Experiment, SampledSettings
from anchorscope.passes.interventions import Intervention
from anchorscope.statistics.columns import (
    DELTA_COLUMNS,
    FLAG_COLUMNS,
    FLIP_COLUMNS,
    GROUP_COLUMNS,
    READOUT_COLUMNS,
    recurring,
)

MOST = 12
"""Largest number of windows in a model."""
CONTROLS = tuple(Intervention(f"window-random-{number}", tokens="random") for number in range(MOST))
WINDOWS = tuple(Intervention(f"window-{number}", tokens="exact") for number in range(MOST))
"""The windows, first to last. Their layers depend on the model, see `measure.windows`."""
COLUMNS = {
    **READOUT_COLUMNS,
    "window": "number of the window, from 0",
    **dict.fromkeys(("first", "last"), "first and last layer of the window"),
    "centre": "central layer of the window, before clipping at the ends",
    **GROUP_COLUMNS,
    **FLIP_COLUMNS,
    "flips": "share whose predicted class flips; 0 at layers before the window",
    **DELTA_COLUMNS,
    **recurring("predicts"),
    **FLAG_COLUMNS,
}


class Windows(SampledSettings):
    """The knockout in a window of layers."""

    width: int | None = Field(None, ge=1)
    """Number of layers in a window; null: the odd number nearest to a fifth of the model's layers,
    1 to 9."""


EXPERIMENT = Experiment(
    name="windows",
    about="Attention to the exact question tokens (E_Q) is blocked in a window of layers only; the "
    "control blocks as many other question tokens in the same window.",
    settings=Windows,
    columns=COLUMNS,
    views={"contrast": "Flips beyond random tokens when E_Q is blocked in a window of layers"},
)
