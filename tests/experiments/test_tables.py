"""The figure's table: order of rows and columns."""

import pandas as pd
import pytest

from anchorscope.experiments import tables
from anchorscope.experiments.knockout import curve
from anchorscope.storage.errors import AnchorscopeError


def frame(share: float) -> pd.DataFrame:
    """Two rows of a curve."""
    row = dict.fromkeys(curve.CURVE, 0) | {"share": share}
    return pd.DataFrame([row | {"layer": 1}, row | {"layer": 0}])


CELLS = [("z-model", "popqa"), ("z-model", "nq"), ("a-model", "popqa")]


def test_cells_come_in_the_figures_order_rows_in_the_cells_and_a_cell_may_have_none() -> None:
    table = tables.join(CELLS, [frame(0.1), frame(0.2)[:0], frame(0.3)])
    assert list(zip(table["model"], table["dataset"], strict=True)) == [
        CELLS[0], CELLS[0], CELLS[2], CELLS[2]
    ]  # fmt: skip
    assert tuple(table) == ("model", "dataset", *curve.CURVE)
    assert (
        table["layer"].tolist() == [1, 0] * 2 and table["share"].tolist() == [0.1] * 2 + [0.3] * 2
    )
    assert tables.join(CELLS[:1], [frame(0.1)[:0]]).empty
    with pytest.raises(AnchorscopeError, match="different columns: share"):
        tables.join(CELLS[:2], [frame(0.1), frame(0.1).drop(columns="share")])
