"""Passes of windows, and the layers of each window."""

from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from anchorscope.experiments.scored import Cell
from anchorscope.experiments.windows import CONTROLS, MOST, WINDOWS, Windows
from anchorscope.models import families


class Window(NamedTuple):
    """Consecutive layers of a model."""

    first: int
    last: int  # inclusive
    centre: int


def measure(cell: Cell, settings: Windows) -> pd.DataFrame:
    """Score every sample of a cell under the knockout in each window, and under its control.

    The rows also have the window's `first` and `last` layer and its `centre`, blank for `clean`.
    """
    places = windows(len(families.layers(cell.loaded)), settings.width)
    chosen, facts = [], []
    for number, window in enumerate(places):
        for one in (WINDOWS[number], CONTROLS[number]):
            chosen.append(replace(one, layers=(window.first, window.last + 1)))
            facts.append({"condition": one.name, **window._asdict()})
    rows = cell.score([*cell.samples.values()], chosen)
    return rows.merge(pd.DataFrame(facts), on="condition", how="left")


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
