"""The figure's table: order of rows and columns."""

import pandas as pd
import pytest

from anchorscope.cell import tables
from anchorscope.curve import curve
from anchorscope.storage.errors import AnchorscopeError

CELLS = [("z-model", "popqa"), ("z-model", "nq"), ("a-model", "popqa")]


def test_cells_come_in_the_figures_order_rows_in_the_cells_and_a_cell_may_have_none() -> None:
    frame = pd.DataFrame([dict.fromkeys(curve.CURVE, 0) | {"layer": layer} for layer in (1, 0)])
    table = tables.join(CELLS, [frame, frame[:0], frame])
    assert [*zip(table["model"], table["dataset"], strict=True)] == [*CELLS[:1] * 2, *CELLS[2:] * 2]
    assert tuple(table) == ("model", "dataset", *curve.CURVE)
    assert table["layer"].tolist() == [1, 0] * 2
    with pytest.raises(AnchorscopeError, match="different columns: share"):
        tables.join(CELLS[:2], [frame, frame.drop(columns="share")])
