"""Panels of every sort, named where they are built, and what a figure's page makes of them."""

from collections.abc import Callable
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
from anchorscope.figures.figure_page import interactive
from anchorscope.figures.figure_picture import Column, Layout, Panel, Picture, figure as drawn
from anchorscope.figures.figure_style import Figure, Style

LOOK = Style()
SERIES = draw.paper_series([("a", "Alpha"), ("b", "Beta")])
TERMS = list(draw.TERMS.values())
LABELS: dict[str, Any] = {"model": "M", "dataset": "Alpha", "marker": "circle"}
FURTHER = "What else there is to say."
TIPS = {"series": ("line", ""), "value": ("value", ".2f")}
Y = Axis("Value", ((-10, 100), [0, 50, 100]))


def along(field: str, places: list[float], kind: Any = "linear") -> Panel:
    """Two lines along a column, as an experiment's table would give them."""
    parts = [
        pd.DataFrame({field: places, "y": [50 / (k + 1 + i) for k in range(len(places))]}).assign(
            **LABELS, series=series.name, signal=True, condition="knockout", offset=i
        )
        for i, series in enumerate(SERIES[:2])
    ]
    rows = data.numbered(pd.concat(parts), "y")
    x = Axis(field, ((places[0], places[-1]), places), field=field, kind=kind)
    return Panel(
        field, data.in_runs(rows, ["condition"], x=field), Y, {field: (field, "~g"), **TIPS}, x
    )


def bars() -> Panel:
    numbers = {"value": 40, "low": 30, "high": 50, "signal": True, "thin": False, "point": False}
    rows = [
        LABELS | numbers | {"dataset": dataset, "series": one.name}
        for dataset in ("Alpha", "Beta")
        for one in SERIES[:2]
    ]
    x = Axis(None, names=["Alpha", "Beta"], field="dataset")
    return Panel("bars", pd.DataFrame(rows), Y, TIPS, x, figure_panel.bars)


def heat() -> Panel:
    names = ["Alpha", "Beta"]
    rows = [
        LABELS | {"trained": one, "tested": other, "value": 0.9 if one == other else 0.6}
        for one in names
        for other in names
    ]
    colour = alt.Color("value:Q", scale=alt.Scale(domain=[0.5, 1], scheme="blues"))
    x, y = (Axis(f"{name} on", names=names, field=name) for name in ("tested", "trained"))
    filled = partial(figure_panel.heat, colour=colour)
    return Panel("transfer", pd.DataFrame(rows), y, {"value": ("AUC", ".2f")}, x, filled)


SHARES = pd.DataFrame({"method": ["b", "a"], "q": [0.2, 0.7], "a": [0.3, 0.25], "p": [0.5, 0.05]})


def shares() -> Panel:
    rows = data.stacked(SHARES.assign(**LABELS), {"q": "question", "a": "answer", "p": "pair"})
    names = Axis(None, names=["a", "b"], field="method")
    return Panel("shares", rows, names, TIPS, Y, figure_panel.shares)


def claims() -> Panel:
    rows = []
    for layer in range(3):
        mean = {"layer": layer, "value": layer, "low": layer - 1, "high": layer + 1}
        front = {"series": "pair", "quantity": "clean", "look": "solid", "banded": True}
        front |= {"claimed": layer > 1}
        rows.append(LABELS | mean | front)
        for look in ("dashed", "dotted"):
            back = {"series": "pair", "quantity": look, "look": look, "claimed": False}
            rows.append(LABELS | mean | back | {"banded": look != "dotted"})
    tips, looks = draw.LAYER | TIPS, ("solid", "dashed", "dotted")
    drawn_by = partial(figure_panel.claims, looks=looks)
    return Panel("truth", pd.DataFrame(rows), Y, tips, LAYERS, drawn_by)


SORTS: dict[str, Callable[[], Panel]] = {
    "popularity": lambda: along("popularity", [10, 1000, 100000], kind="log"),
    "bars": bars,
    "heat": heat,
    "shares": shares,
    "claims": claims,
}


def figure(*panels: Panel, details: str = "") -> Figure:
    """The panels side by side, each a picture's only one."""
    caption = Caption(["What is drawn."], [details] if details else [])
    request = Request("T", [("m", "M")], [("a", "Alpha")])
    column = Column({}, "")
    figures = [
        drawn(
            Picture(Layout([column], 1, LOOK, True), [*SERIES, *TERMS], [panel], caption), request
        )
        for panel in panels
    ]
    first = figures[0]
    first.concat = [view for one in figures for view in one.concat]
    first.columns = len(panels)
    return first


def names(live: dict[str, Any]) -> list[str]:
    return [param["name"] for param in live["params"]]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("popularity", ["singled", "at_popularity", "zoom_popularity"]),
        ("bars", ["singled"]),
        ("heat", []),
        ("shares", ["singled", "at_middle", "zoom_middle"]),
        ("claims", ["singled", "at_layer", "zoom_layer"]),
    ],
)
def test_a_page_points_zooms_and_singles_out_by_the_axis_that_a_panel_has(
    sort: str, expected: list[str]
) -> None:
    live = interactive(figure(SORTS[sort]()).to_dict(), [], 400)
    assert names(live) == expected
    tips = [view for view in views(live) if "tooltip" in view["encoding"]]
    assert len(tips) == 1


def test_panels_of_two_axes_are_pointed_at_apart() -> None:
    live = interactive(figure(along("w", [0, 1, 2]), claims()).to_dict(), [], 800)
    assert names(live) == ["singled", "at_w", "zoom_w", "at_layer", "zoom_layer"]
    reached = {param["name"]: param["views"] for param in live["params"]}
    drawn = {view.get("name") for view in views(live)}
    for name, targets in reached.items():
        assert len(targets) == 1 and set(targets) <= drawn, name


@needs_browser
@pytest.mark.parametrize("sort", list(SORTS))
def test_a_picture_of_any_axis_has_a_page_without_errors(sort: str, tmp_path: Path) -> None:
    with driven(save(figure(SORTS[sort](), details=FURTHER), tmp_path / sort)[1]) as opened:
        opened.page.evaluate("window.drawn.then(() => 0)")
        assert opened.page.locator("#details li").all_text_contents() == [FURTHER]
        box = opened.page.locator("#figure path.background").first.bounding_box()
        assert box
        opened.page.mouse.move(box["x"] + box["width"] / 4, box["y"] + box["height"] / 2)
        opened.page.mouse.wheel(0, 1)
        assert opened.wrong == opened.asked == []


@needs_browser
@pytest.mark.parametrize("width", [600, 1000, 1400])
def test_the_picture_is_as_wide_as_the_page_and_no_wider(width: int, tmp_path: Path) -> None:
    wide = figure(shares(), claims())
    with driven(save(wide, tmp_path / "f")[1], width) as opened:
        opened.page.evaluate("window.drawn.then(() => 0)")
        box = opened.page.locator("#figure svg.marks").bounding_box()
        assert box and box["width"] == pytest.approx(width - 32, abs=20)
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


def test_shares_are_stacked_in_order_and_rows_with_blanks_left_out() -> None:
    columns = {"q": "question", "a": "answer", "p": "pair"}
    rows = data.stacked(SHARES, columns).sort_values(["method", "start"])
    assert list(rows["method"]) == ["a"] * 3 + ["b"] * 3
    assert list(rows["series"]) == ["question", "answer", "pair"] * 2
    assert list(rows["start"]) == [0, 70, 95, 0, 20, 50]
    assert list(rows["end"]) == [70, 95, 100, 20, 50, 100]
    blank = SHARES.assign(a=[0.3, None])
    assert set(data.stacked(blank, columns)["method"]) == {"b"}


def test_claims_are_filled_cuts_are_thin_and_bands_are_those_of_banded_lines() -> None:
    (column,) = figure(claims()).to_dict()["concat"]
    (panel,) = column["vconcat"]
    layers = {layer.get("name", ""): layer for layer in panel["layer"]}
    band, markers, line, dashed, dotted = (
        layers[f"truth_0_{role}"] for role in ("band", "markers", "solid", "dashed", "dotted")
    )
    assert band["transform"] == [{"filter": "datum.banded"}]
    assert markers["transform"] == line["transform"] == [{"filter": "datum.look === 'solid'"}]
    fill = markers["encoding"]["fill"]
    assert fill["value"] == "white" and fill["condition"]["test"] == "datum.claimed"
    assert dashed["transform"] == [{"filter": "datum.look === 'dashed'"}]
    assert dotted["transform"] == [{"filter": "datum.look === 'dotted'"}]
    assert dotted["mark"]["strokeWidth"] < line["mark"]["strokeWidth"]
    looks = [one["mark"]["strokeDash"] for one in (line, dashed, dotted)]
    assert len({*map(tuple, looks)}) == 3 and looks[0] == [1, 0]


@pytest.mark.parametrize("series", [flips(), AUCS], ids=["flips", "AUCs"])
def test_lines_of_the_evidence_are_told_apart_without_colour(series: Any) -> None:
    looks = [(*one.dash, one.marker) for one in series.values()]
    assert len({*looks}) == len(looks)
    names = [one.name for one in (flips() | AUCS).values()]
    assert len({*names}) == len(names)
