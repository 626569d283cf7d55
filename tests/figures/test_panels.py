"""Panels of every sort: what they draw of their rows, and that a page shows them without errors."""

from functools import partial
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import pytest
from browser import driven, needs_browser
from figure_tables import views

from anchorscope.experiments.knockout.figure_evidence import AUCS, flips
from anchorscope.figures import figure_data as data, figure_panel, figure_style as draw
from anchorscope.figures.figure_axis import LAYERS, Axis
from anchorscope.figures.figure_data import Request
from anchorscope.figures.figure_files import save
from anchorscope.figures.figure_notes import Caption
from anchorscope.figures.figure_picture import Column, Layout, Panel, Picture, figure as drawn
from anchorscope.figures.figure_style import Figure

SERIES = draw.paper_series([("a", "Alpha"), ("b", "Beta")])
LABELS: dict[str, Any] = {"model": "M", "dataset": "Alpha", "marker": "circle"}
TIPS = {"series": ("line", ""), "value": ("value", ".2f")}
Y = Axis("Value", ((-10, 100), [0, 50, 100]))


def along() -> Panel:
    """Two lines along a column on a logarithmic scale."""
    places = [10, 1000, 100000]
    line = pd.DataFrame({"x": places, "y": [50, 25, 10]}).assign(**LABELS, condition="knockout")
    parts = [
        line.assign(series=one.name, signal=True, offset=i) for i, one in enumerate(SERIES[:2])
    ]
    rows = data.in_lines(data.numbered(pd.concat(parts), "y"), ["condition"], x="x")
    return Panel(rows, Y, TIPS, Axis("x", ((10, 100000), places), field="x", kind="log"))


def bars() -> Panel:
    numbers = {"value": 40, "low": 30, "high": 50, "signal": True, "thin": False}
    names = ["Alpha", "Beta"]
    rows = [
        LABELS | numbers | {"dataset": dataset, "series": one.name}
        for dataset in names
        for one in SERIES[:2]
    ]
    x = Axis(None, names=names, field="dataset")
    return Panel(pd.DataFrame(rows), Y, TIPS, x, figure_panel.bars)


def heat() -> Panel:
    rows = [LABELS | {"trained": one, "tested": one, "value": 0.9} for one in ("Alpha", "Beta")]
    colour = alt.Color("value:Q", scale=alt.Scale(domain=[0.5, 1], scheme="blues"))
    x, y = (Axis(name, names=["Alpha", "Beta"], field=name) for name in ("tested", "trained"))
    filled = partial(figure_panel.heat, colour=colour)
    return Panel(pd.DataFrame(rows), y, {"value": ("AUC", ".2f")}, x, filled)


SHARES = pd.DataFrame({"method": ["b", "a"], "q": [0.2, 0.7], "a": [0.3, 0.25], "p": [0.5, 0.05]})


def shares() -> Panel:
    rows = data.stacked(SHARES.assign(**LABELS), {"q": "question", "a": "answer", "p": "pair"})
    return Panel(rows, Axis(None, names=["a", "b"], field="method"), TIPS, Y, figure_panel.shares)


def claims() -> Panel:
    looks = ("solid", "dashed", "dotted")
    rows = [
        LABELS
        | {"series": "pair", "quantity": look, "look": look, "banded": look != "dotted"}
        | {"layer": layer, "value": layer, "low": layer - 1, "high": layer + 1}
        | {"claimed": look == "solid" and layer > 1}
        for layer in range(3)
        for look in looks
    ]
    drawn_by = partial(figure_panel.claims, looks=looks)
    return Panel(pd.DataFrame(rows), Y, draw.LAYER | TIPS, LAYERS, drawn_by)


def figure(panel: Panel) -> Figure:
    layout = Layout([Column({}, "")], 1, draw.Style(), True)
    request = Request("T", [("m", "M")], [("a", "Alpha")])
    legend = [*SERIES, *draw.TERMS.values()] if "series" in panel.rows else []
    return drawn(Picture(layout, legend, [panel], Caption(["What."], ["More."])), request)


@needs_browser
@pytest.mark.parametrize("panel", [along, bars, heat, shares, claims])
def test_a_panel_of_any_sort_has_tooltips_and_a_page_without_errors(
    panel: Any, tmp_path: Path
) -> None:
    made = figure(panel())
    tips = [view for view in views(made.to_dict()) if "tooltip" in view["encoding"]]
    assert len(tips) == 1
    with driven(save({"": made}, tmp_path / "f")[1]) as opened:
        opened.page.evaluate("window.drawn.then(() => 0)")
        assert opened.page.locator("#details li").all_text_contents() == ["More."]
        assert opened.wrong == opened.asked == []


def test_shares_are_stacked_in_order_and_rows_with_blanks_left_out() -> None:
    columns = {"q": "question", "a": "answer", "p": "pair"}
    rows = data.stacked(SHARES, columns).sort_values(["method", "start"])
    assert list(rows["method"]) == ["a"] * 3 + ["b"] * 3
    assert list(rows["series"]) == ["question", "answer", "pair"] * 2
    assert list(rows["start"]) == [0, 70, 95, 0, 20, 50]
    assert list(rows["end"]) == [70, 95, 100, 20, 50, 100]
    assert set(data.stacked(SHARES.assign(a=[0.3, None]), columns)["method"]) == {"b"}


def test_claims_are_filled_and_bands_are_those_of_banded_lines() -> None:
    spec = figure(claims()).to_dict()
    (band,) = views(spec, "area")
    assert band["transform"] == [{"filter": "datum.banded"}]
    (fill,) = [view["encoding"]["fill"] for view in views(spec) if "fill" in view["encoding"]]
    assert fill["value"] == "white" and fill["condition"]["test"] == "datum.claimed"
    dashes = [tuple(line["mark"]["strokeDash"]) for line in views(spec, "line")]
    assert len({*dashes}) == 3 and dashes[0] == (1, 0)


@pytest.mark.parametrize("series", [flips(), AUCS], ids=["flips", "AUCs"])
def test_lines_of_the_evidence_are_told_apart_without_colour(series: Any) -> None:
    looks = [(*one.dash, one.marker) for one in series.values()]
    assert len({*looks}) == len(looks)
