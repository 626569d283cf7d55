"""Passes of windows, and the layers of each window."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from anchorscope.experiments.measured import Measurements
from anchorscope.experiments.scored import Cell
from anchorscope.experiments.windows import CONTROLS, MOST, WINDOWS, Windows
from anchorscope.models import families


class Window(NamedTuple):
    """Consecutive layers of a model."""

    first: int
    last: int  # inclusive
    centre: int


def measure(cell: Cell, settings: Windows) -> Measurements:
    """Score every sample of a cell under the knockout in each window, and under its control.

    The fact `windows` holds each window's `first` and `last` layer and its `centre`.
    """
    places = windows(len(families.layers(cell.loaded)), settings.width)
    chosen = []
    for window, *both in zip(places, WINDOWS, CONTROLS, strict=False):
        chosen += [replace(one, layers=(window.first, window.last + 1)) for one in both]
    measured = replace(cell, draws=1).score([*cell.samples.values()], chosen)
    measured.arrays["windows"] = np.array(places)
    return measured


def windows(layers: int, width: int | None = None) -> list[Window]:
    """Return the windows of a model, first to last.

    The centres are up to 12 evenly spaced layers, from the first to the last. Windows are clipped
    at the model's ends. The default width is odd, about a fifth of all layers, and at most 9.
    """
    if width is None:
        width = min(2 * (layers // 10) + 1, 9)
    count = min(MOST, layers)
    centres = [round(number * (layers - 1) / max(count - 1, 1)) for number in range(count)]
    before = (width - 1) // 2
    return [
        Window(max(centre - before, 0), min(centre - before + width, layers) - 1, centre)
        for centre in centres
    ]
