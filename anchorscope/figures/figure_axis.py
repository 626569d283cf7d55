"""Axes of panels, and their channels in Vega-Lite."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import altair as alt
import pandas as pd

from anchorscope.figures.figure_style import Style

Ticks = tuple[tuple[float, float], Sequence[float]]
"""Ends of an axis, and the places of its labels."""
PERCENT: Ticks = ((0, 100), [0, 50, 100])
MOST_TICKS = 5


@dataclass(frozen=True)
class Axis:
    """An axis of numbers between two ends, or of names.

    Attributes:
        title: Title, or None.
        ticks: Ends and labels of numbers. None for names, and for layers until the model is known.
        names: Names in order, from the left or from above.
        labelled: Names that have a label; None for all.
        field: Column of the rows.
        number: Format of the labels; "" chooses one that suits their distance.
        kind: Scale of numbers.
        angle: Angle of the names below a panel, in degrees.
        grid: Whether names have lines across the panel.
    """

    title: str | None
    ticks: Ticks | None = None
    names: Sequence[str] | None = None
    labelled: Sequence[str] | None = None
    field: str = "value"
    number: str = ""
    kind: Literal["linear", "log"] = "linear"
    angle: float = 0
    grid: bool = False

    @property
    def scale(self) -> alt.Scale:
        """Scale of the names or numbers."""
        if self.names is not None:
            return alt.Scale(domain=list(self.names))
        return alt.Scale(type=self.kind, domain=list(self._numbers[0]), nice=False)

    @property
    def shown_names(self) -> list[str]:
        """Names that have a label."""
        return list((self.names or ()) if self.labelled is None else self.labelled)

    @property
    def _numbers(self) -> Ticks:
        return self.ticks or PERCENT

    @property
    def format(self) -> str:
        """Format of the labels of numbers."""
        places = self._numbers[1]
        step = min((b - a for a, b in pairwise(places)), default=1)
        return self.number or ("~s" if step >= 1000 else "d" if step >= 1 else "~f")


LAYERS = Axis("Layer", field="layer")
"""The layers of a model."""


def layers_of(axis: Axis, layers: int) -> Axis:
    """Return the axis of layers of a model.

    Up to 10 layers all are labelled, up to 30 every fifth, up to 50 every tenth, else every 20th.

    Args:
        axis: The axis without its ticks.
        layers: Number of layers.
    """
    step = next((step for most, step in ((10, 1), (30, 5), (50, 10)) if layers <= most), 20)
    ends = (0, max(layers - 1, 1))
    return replace(axis, ticks=(ends, list(range(0, max(layers, 1), step))))


def x_channel(axis: Axis, *, title: bool = True, labels: bool = True) -> alt.X:
    """Return the x channel of a panel, with or without its title and labels."""
    shown = axis.title if title else None
    if axis.names is not None:
        names = alt.Axis(
            title=shown,
            values=axis.shown_names,
            labels=labels,
            ticks=labels,
            grid=False,
            labelExpr=_lines_of(axis.shown_names) if labels else alt.Undefined,
            labelAngle=axis.angle,
            labelAlign="right" if axis.angle else alt.Undefined,
            labelLimit=0,
            labelOverlap=False,
        )
        return alt.X(f"{axis.field}:N", scale=axis.scale, axis=names)
    ticks = list(axis._numbers[1])
    numbers = alt.Axis(
        values=ticks,
        tickCount=len(ticks),
        tickMinStep=1 if axis.field == "layer" else alt.Undefined,
        title=shown,
        labels=labels,
        format=axis.format,
        grid=False,
    )
    return alt.X(f"{axis.field}:Q", scale=axis.scale, axis=numbers)


def _lines_of(names: Sequence[str]) -> str:
    """Return the Vega expression that labels names of two lines.

    Neighbours that share their first line show it once.
    """
    firsts = [name.partition("\n")[0] for name in names]
    again = [
        name
        for name, (before, first) in zip(names[1:], pairwise(firsts), strict=True)
        if "\n" in name and before == first
    ]
    lines = "split(datum.label, '\\n')"
    return f"indexof({json.dumps(again)}, datum.label) < 0 ? {lines} : ['', {lines}[1]]"


def y_channel(axis: Axis, look: Style, *, labels: bool = True) -> alt.Y:
    """Return the y channel of a panel. An axis of numbers without labels takes no room."""
    shown = axis.title if labels else None
    if axis.names is not None:
        names = alt.Axis(
            title=shown,
            values=axis.shown_names,
            labels=labels,
            ticks=labels,
            labelLimit=0,
            grid=axis.grid,
        )
        return alt.Y(f"{axis.field}:N", scale=axis.scale, axis=names)
    ticks = list(axis._numbers[1])
    # one fixed width for labels keeps panels above one another in line
    extent = 3 * look.label_size if labels else 0
    numbers = alt.Axis(
        values=ticks,
        tickCount=len(ticks),  # else Vega thins out the values it was given
        title=shown,
        format=axis.format,
        grid=True,
        # a blank is as high as a label: panels beside one another stay in line
        labelExpr="datum.label" if labels else "' '",
        ticks=labels,
        minExtent=extent,
        maxExtent=extent,
    )
    return alt.Y(f"{axis.field}:Q", scale=axis.scale, axis=numbers)


def numbers_of(rows: pd.DataFrame) -> list[float]:
    """Return all values and interval ends in the rows."""
    columns = [name for name in ("value", "low", "high") if name in rows]
    return [float(one) for one in rows[columns].to_numpy().ravel() if not pd.isna(one)]


def ticks_of(values: Iterable[float], least: float = 0, step: float = 0) -> Ticks:
    """Choose round ends and labels for an axis that contains 0 and all values.

    Args:
        values: Values that the axis must contain.
        least: Another value that it must contain.
        step: Smallest distance of two labels.
    """
    ends = [0.0, least, *values]
    low, high = min(ends), max(ends)
    if low == high:
        return (-1, 1), [-1, 0, 1]
    step = max(step, _round_step((high - low) / MOST_TICKS))
    room = max(0.08 * (high - low), 0.5 * step) if low < 0 < high else 0.05 * (high - low)
    low, high = _rounded(low - room if low < 0 else 0.0), _rounded(high + room if high > 0 else 0.0)
    places = range(math.ceil(low / step), math.floor(high / step) + 1)
    return (low, high), [_rounded(step * place) for place in places]


def _round_step(least: float) -> float:
    """Return the smallest 1, 2 or 5 times a power of ten that is at least this."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.999 * least)


def _rounded(value: float) -> float:
    """Round off the noise of floating point."""
    return round(value, 4) if abs(value) > 1e-2 else float(f"{value:.3g}")


def axis_of(rows: pd.DataFrame, title: str, least: float = 0, step: float = 0) -> Axis:
    """Return an axis that contains 0 and all numbers of the rows, see `ticks_of`."""
    return Axis(title, ticks_of(numbers_of(rows), least, step))


def auc_axis(rows: pd.DataFrame, title: str = "AUC", least: float = 0.4) -> Axis:
    """Return an axis of AUCs to 1, from a tenth at or below `least` and all numbers of the rows."""
    low = math.floor(10 * min([least, *numbers_of(rows)])) / 10
    return Axis(title, ((low, 1), [k / 10 for k in range(round(10 * low), 11) if k % 2 == 0]))
