"""What the pictures of detection share: colours, and methods as names beside a panel."""

from collections.abc import Iterable

import pandas as pd

from anchorscope.detectors.registry import in_order, label_of
from anchorscope.figures import figure_data as data, figure_style as draw
from anchorscope.figures.figure_axis import Axis
from anchorscope.figures.figure_picture import Layout
from anchorscope.figures.figure_request import Request

COLOURS = (
    *(draw.BLUE, draw.ORANGE, draw.GREEN, draw.PURPLE, draw.SKY, draw.RED),
    *("#8c564b", "#222222"),
)
ROW_HEIGHT = 1.5
"""Of a method's row, in label sizes."""


def rows_of(table: pd.DataFrame, request: Request, columns: str) -> pd.DataFrame:
    """The rows of a table of detection, with the methods' labels; none at another read-out.

    Raises AnchorscopeError: one of the `columns` (named in one string) is missing.
    """
    rows = data.shown(table, request, columns, must=False)
    return rows.assign(label=rows["detector"].map(label_of))


def methods_axis(detectors: Iterable[str]) -> Axis:
    """The axis of methods, first to last from above."""
    names = [label_of(name) for name in in_order(detectors)]
    return Axis(None, names=names, field="label", grid=True)


def height_of(rows: int, layout: Layout) -> float:
    """The height of a panel with so many rows of names, beside the look's own."""
    return ROW_HEIGHT * layout.look.label_size * max(1, rows) / layout.look.panel_height
