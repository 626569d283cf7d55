"""Panels of every sort, named where they are built, and what a figure's page makes of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import pytest
from browser import driven, needs_browser
from figure_tables import views

from anchorscope.figures import figure_data as data, figure_panel, figure_style as draw
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_files import save
from anchorscope.figures.figure_page import interactive
from anchorscope.figures.figure_style import Figure, Style

LOOK = Style()
SERIES = draw.paper_series([("a", "Alpha"), ("b", "Beta")])
SHARED = draw.encodings(SERIES, LOOK, 800)
TERMS = draw.encodings(list(draw.TERMS.values()), LOOK, 800)
LABELS: data.Row = {"model": "M", "dataset": "Alpha", "marker": "circle"}
TIPS = {"series": ("line", ""), "value": ("value", ".2f")}
Y = figure_panel.value_axis("value", "Value", (-10, 100), [0, 50, 100], LOOK)


def lines(field: str, places: list[float]) -> list[data.Row]:
    """Two lines along a column, as an experiment's table would give them."""
    rows = []
    for i, series in enumerate(SERIES[:2]):
        table = pd.DataFrame({field: places, "signal": [True] * len(places)})
        table = table.assign(y=[50 / (k + 1 + i) for k in range(len(places))])
        labels = LABELS | {"series": series.name, "condition": "knockout"}
        rows += data.line_rows(table, data.values_of("y"), labels, len(places), i, x=field)
    return rows


def along(field: str, places: list[float], log: bool = False) -> alt.LayerChart:
    x = figure_panel.number_axis(field, field, (places[0], places[-1]), places, log=log)
    tips = {field: (field, "~g"), **TIPS}
    rows = lines(field, places)
    return figure_panel.line_panel(rows, x, Y, SHARED, LOOK, tips, name=field)


def bars() -> alt.LayerChart:
    x = figure_panel.name_axis("dataset", None, ["Alpha", "Beta"])
    numbers: data.Row = {"value": 40, "low": 30, "high": 50, "signal": True}
    rows = [
        LABELS | numbers | {"dataset": dataset, "series": one.name}
        for dataset in ("Alpha", "Beta")
        for one in SERIES[:2]
    ]
    return figure_panel.bar_panel(rows, x, Y, SHARED, LOOK, TIPS, name="bars")


def heat() -> alt.LayerChart:
    x = figure_panel.name_axis("tested", "Tested on", ["Alpha", "Beta"])
    y = alt.Y("trained:N", title="Trained on")
    rows: list[data.Row] = [
        LABELS | {"trained": one, "tested": other, "value": 0.9 if one == other else 0.6}
        for one in ("Alpha", "Beta")
        for other in ("Alpha", "Beta")
    ]
    colour = alt.Color("value:Q", scale=alt.Scale(domain=[0.5, 1], scheme="blues"))
    tips = {"value": ("AUC", ".2f")}
    return figure_panel.heat_panel(rows, x, y, colour, LOOK, tips, name="transfer")


SHARES = pd.DataFrame({"layer": [1, 0], "q": [0.2, 0.7], "a": [0.3, 0.25], "p": [0.5, 0.05]})


def shares() -> alt.LayerChart:
    rows = data.stacked_rows(SHARES, {"q": "question", "a": "answer", "p": "pair"}, LABELS)
    x = figure_panel.layer_axis(2, "Layer", margin=0.5)
    tips = draw.LAYER | TIPS
    return figure_panel.share_panel(rows, x, Y, TERMS, LOOK, tips, name="shares")


def claims() -> alt.LayerChart:
    rows: list[data.Row] = []
    for layer in range(3):
        mean: data.Row = {"layer": layer, "value": layer, "low": layer - 1, "high": layer + 1}
        front: data.Row = {"series": "pair", "behind": False, "claimed": layer > 1}
        back: data.Row = {"series": "answer", "behind": True, "claimed": False}
        rows += [LABELS | mean | front, LABELS | mean | back]
    x = figure_panel.layer_axis(3, "Layer")
    tips = draw.LAYER | TIPS
    return figure_panel.claim_panel(rows, x, Y, TERMS, LOOK, tips, name="truth")


SORTS: dict[str, Callable[[], alt.LayerChart]] = {
    "dose": lambda: along("w", [0, 0.25, 0.5, 2, 4]),
    "popularity": lambda: along("popularity", [10, 1000, 100000], log=True),
    "bars": bars,
    "heat": heat,
    "shares": shares,
    "claims": claims,
}


def figure(sort: str) -> Figure:
    caption = Caption(["What is drawn."], ["What else there is to say."])
    return draw.figure_of([SORTS[sort]()], 1, 400, "T", caption, LOOK)


def names(live: dict[str, Any]) -> list[str]:
    return [param["name"] for param in live["params"]]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("dose", ["singled", "at_w", "zoom_w"]),
        ("popularity", ["singled", "at_popularity", "zoom_popularity"]),
        ("bars", ["singled"]),
        ("heat", []),
        ("shares", ["singled", "at_layer", "zoom_layer"]),
        ("claims", ["singled", "at_layer", "zoom_layer"]),
    ],
)
def test_a_page_points_zooms_and_singles_out_by_the_axis_that_a_panel_has(
    sort: str, expected: list[str]
) -> None:
    live = interactive(figure(sort).to_dict(), [], 400)
    assert names(live) == expected
    tips = [view for view in views(live) if "tooltip" in view["encoding"]]
    assert len(tips) == 1


def test_panels_of_two_axes_are_pointed_at_apart() -> None:
    panels = [along("w", [0, 1, 2]), shares()]
    both = draw.figure_of(panels, 2, 800, "T", Caption(["What is drawn."]), LOOK)
    live = interactive(both.to_dict(), [], 800)
    assert names(live) == ["singled", "at_w", "zoom_w", "at_layer", "zoom_layer"]
    reached = {param["name"]: param["views"] for param in live["params"]}
    drawn = {view.get("name") for view in views(live)}
    for name, targets in reached.items():
        assert len(targets) == 1 and set(targets) <= drawn, name


@needs_browser
@pytest.mark.parametrize("sort", list(SORTS))
def test_a_picture_of_any_axis_has_a_page_without_errors(sort: str, tmp_path: Path) -> None:
    with driven(save(figure(sort), tmp_path / sort)[1]) as opened:
        opened.page.evaluate("window.drawn.then(() => 0)")
        assert opened.page.locator("#details li").all_text_contents() == [
            "What else there is to say."
        ]
        box = opened.page.locator("#figure path.background").first.bounding_box()
        assert box
        opened.page.mouse.move(box["x"] + box["width"] / 4, box["y"] + box["height"] / 2)
        opened.page.mouse.wheel(0, 1)
        assert opened.wrong == opened.asked == []


@needs_browser
@pytest.mark.parametrize("width", [600, 1000, 1400])
def test_the_picture_is_as_wide_as_the_page_and_no_wider(width: int, tmp_path: Path) -> None:
    wide = draw.figure_of([shares(), claims()], 2, 800, "T", Caption(["A caption."]), LOOK)
    with driven(save(wide, tmp_path / "f")[1], width) as opened:
        opened.page.evaluate("window.drawn.then(() => 0)")
        box = opened.page.locator("#figure svg.marks").bounding_box()
        assert box and box["width"] == pytest.approx(width - 32, abs=20)
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


def test_shares_are_stacked_in_order_and_layers_with_blanks_left_out() -> None:
    columns = {"q": "question", "a": "answer", "p": "pair"}
    rows = pd.DataFrame(data.stacked_rows(SHARES, columns, LABELS))
    assert list(rows["layer"]) == [0, 0, 0, 1, 1, 1]
    assert list(rows["series"]) == ["question", "answer", "pair"] * 2
    assert list(rows["low"]) == [0, 70, 95, 0, 20, 50]
    assert list(rows["high"]) == [70, 95, 100, 20, 50, 100]
    blank = SHARES.assign(a=[0.3, None])
    assert {row["layer"] for row in data.stacked_rows(blank, columns, LABELS)} == {1}


def test_claims_are_filled_and_what_stands_behind_has_no_band() -> None:
    (panel,) = figure("claims").to_dict()["concat"]
    layers = {layer.get("name", ""): layer for layer in panel["layer"]}
    band, markers = (layers[f"truth_{role}"] for role in ("band", "markers"))
    assert band["transform"] == markers["transform"] == [{"filter": "!datum.behind"}]
    fill = markers["encoding"]["fill"]
    assert fill["value"] == "white" and fill["condition"]["test"] == "datum.claimed"
    behind = layers["truth_behind"]
    assert behind["mark"]["strokeWidth"] < layers["truth_line"]["mark"]["strokeWidth"]
