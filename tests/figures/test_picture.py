"""What the driver decides for every picture: columns, labels, axes, and what all captions say."""

from typing import Any

import pandas as pd
import pytest
from figure_tables import points, views

from anchorscope.figures import figure_data as data, figure_notes as notes
from anchorscope.figures.figure_axis import axis_of, ends_of
from anchorscope.figures.figure_data import Request
from anchorscope.figures.figure_picture import Panel, Picture, as_chart, by_cell, by_model
from anchorscope.figures.figure_style import LAYER, paper_series

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
        share_high=0.4, n_paired=50, signal=~blind, thin=False,
    )  # fmt: skip


def chart(layout: Any, heading: str = "", **keywords: Any) -> dict[str, Any]:
    """Two panels of the same lines below one another."""

    @as_chart
    def page(rows: pd.DataFrame, request: Request) -> Picture:
        rows = data.shown(rows, request, ["share", "signal"])
        lines = data.in_lines(data.by_group(data.numbered(rows, "share", 100)))
        axis = axis_of(lines, "Share (%)")
        panels = [Panel(lines, axis, TIPS), Panel(lines, axis, TIPS, heading=heading)]
        caption = notes.caption(request, rows, "Shares", "n = 50", ["So it is."], ["How."])
        return Picture(layout(request), paper_series(request.datasets), panels, caption)

    named = {"title": "T", "panels": MODELS, "datasets": DATASETS} | keywords
    spec: dict[str, Any] = page(table(), **named).to_dict()
    return spec


def axis(panel: dict[str, Any], channel: str) -> dict[str, Any]:
    found = next(one["encoding"][channel] for one in views(panel, "line"))
    return dict(found["axis"])


@pytest.mark.parametrize(
    ("layout", "titled"), [(by_model, [True, True]), (by_cell, [True, False, True, False])]
)
def test_the_first_panel_of_a_row_alone_is_labelled_where_columns_share_an_axis(
    layout: Any, titled: list[bool]
) -> None:
    columns = chart(layout)["concat"]
    titles = [axis(column["vconcat"][0], "y").get("title") for column in columns]
    assert [title == "Share (%)" for title in titles] == titled


def test_layers_are_labelled_once_in_a_column_and_again_below_a_heading() -> None:
    for heading, labels in (("", [False, True]), ("Again", [True, True])):
        panels = chart(by_model, heading)["concat"][0]["vconcat"]
        assert [axis(panel, "x")["labels"] for panel in panels] == labels
        assert [axis(panel, "x").get("title") for panel in panels] == [None, "Layer"]


def test_a_column_draws_the_rows_of_its_cell_and_says_if_there_are_none() -> None:
    spec = chart(by_cell)
    for column, (model, dataset) in zip(spec["concat"][:3], [
        ("Model", "Alpha"), ("Model", "Beta"), ("Other", "Alpha"),
    ], strict=True):  # fmt: skip
        assert (column["vconcat"][0]["title"]["text"]) == dataset
        drawn = pd.DataFrame(points(spec, column["vconcat"][0]))
        assert set(drawn["model"]) == {model} and set(drawn["dataset"]) == {dataset}
    notes_ = [layer["mark"].get("text") for layer in spec["concat"][3]["vconcat"][0]["layer"]]
    assert "not measured" in notes_


def test_every_caption_says_n_intervals_what_is_grey_and_what_is_missing() -> None:
    spec = chart(by_cell, level=0.9)
    said = " ".join(spec["title"]["subtitle"]).replace("\u00a0", " ")
    assert said == ("Shares; n = 50; 90 % intervals. Thin grey: layers without a signal. So it is.")
    details = [one.replace("\u00a0", " ") for one in spec["usermeta"]["details"]]
    assert details[0] == "How." and details[-1] == "Not measured: Other on Beta."
    assert "Intervals: pointwise 90 % clustered bootstrap intervals, probes held fixed." in details
    assert details[2].startswith("At layers without a signal, the probe does not")


def test_an_axis_holds_0_and_all_values() -> None:
    for values in ([0.0004], [3.0, 98.0], [-0.4, -0.1], [-12.0, 40000.0], [0.07], []):
        low, high = ends_of(values)
        assert low <= min([0, *values]) and high >= max([0, *values]) and low < high
