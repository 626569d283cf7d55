"""The tables of a figure: p of its claims is corrected for its cells, and what follows from it."""

import pandas as pd
import pytest
from figure_tables import DATASETS, MODELS
from verdicts import tables_of

from anchorscope.cell import tables
from anchorscope.pairs.crossing import CORRECTED

NAMES = {
    "curve": "",
    "controls": ".controls",
    "crossing": ".crossing",
    "claims": ".claims",
    "summary": ".summary",
}


@pytest.mark.parametrize(("cells", "verdict"), [(1, "yes"), (2, "no")])
def test_a_signal_that_is_lost_among_a_figures_cells_is_lost_in_all_its_tables(
    cells: int, verdict: str
) -> None:
    """p is 0.03 in each: enough for one cell, and not for two."""
    by_end = tables_of(MODELS[:1], DATASETS[:cells])
    made = {name: by_end[end] for name, end in NAMES.items()}
    made["claims"] = made["claims"].assign(p=0.03)
    found = tables.of_figure(made, 0.95)
    claims = found["claims"]
    assert set(claims["verdict"]) == {verdict}
    assert claims["p"].to_numpy() == pytest.approx(0.03 * cells)
    assert claims["reason"].str.startswith(CORRECTED).all() == (verdict == "no")
    assert (found["curve"]["cell_signal"] == (verdict == "yes")).all()
    assert (found["summary"][["signal", "answer_adds"]] == verdict).all(axis=None)
    others = made["curve"].drop(columns="cell_signal")
    pd.testing.assert_frame_equal(found["curve"][others.columns], others)
    for name in ("controls", "crossing"):
        pd.testing.assert_frame_equal(found[name], made[name])
