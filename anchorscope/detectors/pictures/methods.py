"""What the pictures of detection share: colours, and methods as names beside a panel."""

from collections.abc import Iterable

import pandas as pd

from anchorscope.detectors.cell_tables import COLUMNS
from anchorscope.detectors.registry import in_order, label_of
from anchorscope.detectors.tables import transfer
from anchorscope.figures import figure_data as data, figure_style as draw
from anchorscope.figures.figure_axis import Axis
from anchorscope.figures.figure_picture import Layout
from anchorscope.figures.figure_request import Request

COLOURS = (
    *(draw.BLUE, draw.ORANGE, draw.GREEN, draw.PURPLE, draw.SKY, draw.RED),
    *("#8c564b", "#222222"),
)
TABLES = {**COLUMNS, "transfer": transfer.COLUMNS}
"""What stands behind a figure's name in that of a table → its columns."""
ROW_HEIGHT = 1.5
"""Of a method's row, in label sizes."""


def rows_of(table: pd.DataFrame, request: Request, name: str) -> pd.DataFrame:
    """The rows of one of `TABLES`, with the methods' labels; none at another read-out.

    Raises AnchorscopeError: one of its columns is missing.
    """
    rows = data.shown(table, request, TABLES[name])
    return rows.assign(label=rows["detector"].map(label_of))


def methods_axis(detectors: Iterable[str]) -> Axis:
    """The axis of methods, first to last from above."""
    names = [label_of(name) for name in in_order(detectors)]
    return Axis(None, names=names, field="label", grid=True)


def height_of(names: Axis, layout: Layout) -> float:
    """The height of a panel with a row for each name, beside the look's own."""
    look, rows = layout.look, max(1, len(names.names or ()))
    return ROW_HEIGHT * look.label_size * rows / look.panel_height
