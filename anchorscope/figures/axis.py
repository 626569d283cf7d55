"""Axes of panels, and their channels in Vega-Lite."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import altair as alt
import pandas as pd

from anchorscope.figures.style import Style, wrapped

Ticks = tuple[tuple[float, float], Sequence[float] | None]
"""Ends of an axis, and places of its labels. If the places are None, Vega chooses them."""
PERCENT: Ticks = ((0, 100), [0, 50, 100])
TICKS = 4
ROOM = 0.02
"""Room beside the first and the last layer, as a share of the axis. Else the frame hides lines."""
# in labels of two lines, group A shows only the second, as group Q beside it shows the first
TWO_LINES = r"slice(datum.label, -2) == '\nA' ? ['', 'A'] : split(datum.label, '\n')"


@dataclass(frozen=True)
class Axis:
    """An axis of numbers between two ends, or of names."""

    title: str | None
    ticks: Ticks | None = None  # None for names, and for layers until the model is known
    names: Sequence[str] | None = None  # in order, from the left or from above
    thinned: bool = False  # whether some names have no label if there is no room for all
    field: str = "value"  # column of the rows
    number: str = ""  # format of the labels; "" lets Vega choose it
    kind: Literal["linear", "log"] = "linear"
    angle: float = 0  # of the names below a panel, in degrees
    grid: bool = False  # whether names have lines across the panel
    step: float = 0  # smallest distance between two labels that Vega chooses

    @property
    def shorthand(self) -> str:
        """Column and type, as Altair writes them."""
        return f"{self.field}:{'Q' if self.names is None else 'N'}"

    @property
    def scale(self) -> alt.Scale:
        """Scale of the names or numbers."""
        if self.names is not None:
            return alt.Scale(domain=list(self.names))
        return alt.Scale(type=self.kind, domain=list((self.ticks or PERCENT)[0]), nice=False)

    def labels(self) -> dict[str, Any]:
        """Return the settings of the labels, for `alt.Axis`."""
        if self.names is not None:
            return {"labelLimit": 0, "labelOverlap": "parity" if self.thinned else False}
        places = (self.ticks or PERCENT)[1]
        number = {"format": self.number} if self.number else {}
        if places is None:
            return number | {"tickCount": TICKS, "tickMinStep": self.step}
        # without a count Vega thins out the values it was given
        return number | {"values": list(places), "tickCount": len(places)}


LAYERS = Axis("Layer", field="layer", number="d")
"""The layers of a model."""


def layers_of(axis: Axis, layers: int) -> Axis:
    """Return the axis with the ends and labels for a model that has `layers` layers.

    Label every layer up to 10 layers, every fifth up to 30, every tenth up to 50, else every 20th.
    """
    step = next((step for most, step in ((10, 1), (30, 5), (50, 10)) if layers <= most), 20)
    last = max(layers - 1, 1)
    ends = (-ROOM * last, (1 + ROOM) * last)
    return replace(axis, ticks=(ends, list(range(0, max(layers, 1), step))))


def x_channel(axis: Axis, *, title: bool = True, labels: bool = True) -> alt.X:
    """Return the x channel of a panel, with or without its title and labels."""
    look: dict[str, Any] = {"title": axis.title if title else None, "labels": labels, "grid": False}
    if axis.names is not None:
        look |= {"ticks": labels, "labelAngle": axis.angle}
        look |= {"labelExpr": TWO_LINES} if labels else {}
        look |= {"labelAlign": "right"} if axis.angle else {}
    return alt.X(axis.shorthand, scale=axis.scale, axis=alt.Axis(**axis.labels(), **look))


def y_channel(axis: Axis, look: Style, *, labels: bool = True) -> alt.Y:
    """Return the y channel of a panel. A number axis without labels takes no room."""
    title = wrapped(axis.title, look.panel_height, 0.5 * look.label_size) if axis.title else None
    shown: dict[str, Any] = {"title": title if labels else None, "ticks": labels}
    if axis.names is not None:
        shown |= {"labels": labels, "grid": axis.grid}
    else:
        # a fixed width for labels aligns the panels of a column
        shown |= dict.fromkeys(("minExtent", "maxExtent"), 3 * look.label_size if labels else 0)
        # a blank is as high as a label, so the panels of a row stay aligned
        shown |= {"grid": True, "labelExpr": "datum.label" if labels else "' '"}
    return alt.Y(axis.shorthand, scale=axis.scale, axis=alt.Axis(**axis.labels(), **shown))


def numbers_of(rows: pd.DataFrame) -> list[float]:
    """Return all values and interval ends in the rows."""
    columns = [name for name in ("value", "low", "high") if name in rows]
    return [float(one) for one in rows[columns].to_numpy().ravel() if not pd.isna(one)]


def ends_of(values: Iterable[float], least: float = 0) -> tuple[float, float]:
    """Return the ends of an axis that contains 0, `least` and all values, with room beyond them."""
    every = [0.0, least, *values]
    low, high = min(every), max(every)
    if low == high:
        return -1, 1
    room = (0.08 if low < 0 < high else 0.05) * (high - low)
    low, high = (low - room if low < 0 else 0.0), (high + room if high > 0 else 0.0)
    return float(f"{low:.3g}"), float(f"{high:.3g}")


def axis_of(rows: pd.DataFrame, title: str, least: float = 0, step: float = 0) -> Axis:
    """Return an axis that contains 0, `least` and all numbers of the rows.

    `step` is the smallest distance between two labels.
    """
    return Axis(title, (ends_of(numbers_of(rows), least), None), step=step)


def axis_around(rows: pd.DataFrame, title: str, middle: float, least: float) -> Axis:
    """Return an axis that contains all numbers of the rows, and `least` around the middle."""
    numbers = [middle - least, middle + least, *numbers_of(rows)]
    low, high = 10 * math.floor(min(numbers) / 10), 10 * math.ceil(max(numbers) / 10)
    return Axis(title, ((low, high), None), step=10)


def auc_axis(rows: pd.DataFrame, title: str = "AUC", least: float = 0.4) -> Axis:
    """Return an AUC axis up to 1. It starts at min(`least`, numbers), rounded down to a tenth."""
    low = math.floor(10 * min([least, *numbers_of(rows)])) / 10
    return Axis(title, ((low, 1), None))
