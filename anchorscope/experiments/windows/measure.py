"""The passes of windows, and which layers each window has."""

from dataclasses import dataclass, replace

import pandas as pd

from anchorscope.experiments.scored import Cell
from anchorscope.experiments.windows import CONTROLS, MOST, WINDOWS, Windows
from anchorscope.models import families

FACTS = ("condition", "first", "last", "centre")


@dataclass(frozen=True)
class Window:
    """Some consecutive layers of a model."""

    centre: int
    first: int
    last: int  # included


def measure(cell: Cell, settings: Windows) -> pd.DataFrame:
    """Score every sample of a cell with E_Q, or the control's tokens, cut in each window.

    Returns:
        `measured.COLUMNS`, and the `first` and the `last` layer cut and the window's `centre`,
        blank for `clean`.
    """
    places = windows(len(families.layers(cell.loaded)), settings.width)
    chosen, facts = [], []
    for number, window in enumerate(places):
        for one in (WINDOWS[number], CONTROLS[number]):
            chosen.append(replace(one, layers=(window.first, window.last + 1)))
            facts.append((one.name, window.first, window.last, window.centre))
    rows = cell.score([*cell.samples.values()], chosen)
    return rows.merge(pd.DataFrame(facts, columns=list(FACTS)), on="condition", how="left")


def windows(layers: int, width: int | None = None) -> list[Window]:
    """The windows of a model with this number of layers, first to last.

    Centred on up to 12 evenly spaced layers, first and last among them, and clipped at the ends.
    `width`: layers of a window; None: the odd number nearest a fifth of all, 1 to 9.
    """
    if width is None:
        width = min(2 * (layers // 10) + 1, 9)
    count = min(MOST, layers)
    centres = [round(number * (layers - 1) / max(count - 1, 1)) for number in range(count)]
    before = (width - 1) // 2
    return [
        Window(centre, max(centre - before, 0), min(centre - before + width, layers) - 1)
        for centre in centres
    ]
