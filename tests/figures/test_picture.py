"""Test the parts that all pictures share: columns, axes, and stacked shares."""

import pandas as pd
from figure_tables import points

from anchorscope.figures import data, notes
from anchorscope.figures.axis import axis_of, ends_of
from anchorscope.figures.data import Request
from anchorscope.figures.picture import Panel, Picture, as_chart, by_cell
from anchorscope.figures.style import LAYER, paper_series

MODELS, DATASETS = [("m", "Model"), ("o", "Other")], [("a", "Alpha"), ("b", "Beta")]
TIPS = LAYER | {"value": ("value", ".1f")}


def table() -> pd.DataFrame:
    """Three cells of four; the first layer of one has no signal."""
    cells = [("m", "a"), ("m", "b"), ("o", "a")]
    rows = pd.DataFrame([(*cell, layer) for cell in cells for layer in range(4)])
    rows.columns = pd.Index(["model", "dataset", "layer"])
    blind = (rows["model"] == "o") & (rows["layer"] == 0)
    return rows.assign(
        site="mlp", position="final", anchor="Q", share=0.1 * rows["layer"], share_low=0.0,
        share_high=0.4, n_paired=50, predicts=~blind, thin=False,
    )  # fmt: skip


@as_chart
def page(rows: pd.DataFrame, request: Request) -> Picture:
    rows = data.shown(rows, request, ["share", "predicts"])
    lines = data.in_lines(data.by_group(data.numbered(rows, "share", 100)))
    panel = Panel(lines, axis_of(lines, "Share (%)"), TIPS)
    caption = notes.caption(request, rows, "Shares", "n = 50", ["So it is."], ["How."])
    return Picture(by_cell(request), paper_series(request.datasets), [panel], caption)


def test_a_column_draws_the_rows_of_its_cell_and_says_if_there_are_none() -> None:
    spec = page(table(), title="T", panels=MODELS, datasets=DATASETS).to_dict()
    cells = [("Model", "Alpha"), ("Model", "Beta"), ("Other", "Alpha")]
    for column, (model, dataset) in zip(spec["concat"][:3], cells, strict=True):
        assert column["vconcat"][0]["title"]["text"] == dataset
        drawn = pd.DataFrame(points(spec, column["vconcat"][0]))
        assert set(drawn["model"]) == {model} and set(drawn["dataset"]) == {dataset}
    notes_ = [layer["mark"].get("text") for layer in spec["concat"][3]["vconcat"][0]["layer"]]
    assert ["not measured"] in notes_
    assert spec["usermeta"]["details"][-1] == "Not measured: Other on Beta."


def test_an_axis_holds_0_and_all_values() -> None:
    for values in ([0.0004], [3.0, 98.0], [-0.4, -0.1], [-12.0, 40000.0], [0.07], []):
        low, high = ends_of(values)
        assert low <= min([0, *values]) and high >= max([0, *values]) and low < high


def test_shares_are_stacked_in_order_and_rows_with_blanks_left_out() -> None:
    given = pd.DataFrame(
        {"method": ["b", "a"], "q": [0.2, 0.7], "a": [0.3, 0.25], "p": [0.5, 0.05]}
    )
    columns = {"q": "question", "a": "answer", "p": "pair"}
    rows = data.stacked(given, columns).sort_values(["method", "start"])
    assert list(rows["method"]) == ["a"] * 3 + ["b"] * 3
    assert list(rows["series"]) == ["question", "answer", "pair"] * 2
    assert list(rows["start"]) == [0, 70, 95, 0, 20, 50]
    assert list(rows["end"]) == [70, 95, 100, 20, 50, 100]
    assert set(data.stacked(given.assign(a=[0.3, None]), columns)["method"]) == {"b"}
