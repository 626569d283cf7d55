"""A figure's page: what it can switch to, and what a reader does with it in a browser."""

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from browser import driven, needs_browser
from figure_tables import DATASETS, MODELS, READOUTS, claims_of, controls_of, crossing_of, curve_of

from anchorscope.experiments.knockout.figure_evidence import evidence_chart
from anchorscope.figures.figure_files import narrowed, save
from anchorscope.figures.figure_main import chart, choices, readouts_chart, title_of
from anchorscope.figures.figure_page import interactive

TWO, LAYERS = DATASETS[:2], 4
NAMED: Any = {"title": "T", "panels": MODELS, "datasets": TWO}
LOOKS: Any = NAMED | {"readout": READOUTS[3]}


@lru_cache
def table() -> pd.DataFrame:
    """Two read-outs, four conditions."""
    return curve_of(MODELS, TWO, LAYERS, [READOUTS[0], READOUTS[3]], blind=1)


@lru_cache
def crossing() -> pd.DataFrame:
    """Of the same cells and read-outs."""
    return crossing_of(MODELS, TWO, LAYERS, [READOUTS[0], READOUTS[3]])


@lru_cache
def drawn() -> tuple[pd.DataFrame, ...]:
    """The tables of the figure."""
    claims = claims_of(MODELS, TWO, LAYERS, [READOUTS[0], READOUTS[3]])
    return table(), crossing(), claims


@lru_cache
def live() -> dict[str, Any]:
    return interactive(chart(*drawn(), **LOOKS).to_dict(), choices(*drawn(), **LOOKS), 800)


def rows_of(panel: int, view: int) -> pd.DataFrame:
    """What a panel draws of a view, flattened as Vega-Lite does."""
    _, flatten = live()["concat"][panel // 3]["vconcat"][panel % 3]["transform"]
    name = f"{('delta_p', 'pathway', 'truth')[panel % 3]}_{panel // 3}"
    lines = pd.DataFrame(live()["datasets"][name])
    return lines[lines["view"] == view].explode(flatten["flatten"])


def test_every_view_holds_its_own_numbers_of_the_table() -> None:
    found = choices(*drawn(), **LOOKS)
    keys = ["site", "position", "condition"]
    wanted = table()[keys].drop_duplicates().itertuples(index=False, name=None)
    named = [(*one.readout.split("/"), one.condition) for one in found]
    assert sorted(named) == sorted(wanted)
    assert named[0] == ("mlp", "final", "knockout")
    texts = next(one["value"] for one in live()["params"] if one["name"] == "texts")
    for view, (one, text) in enumerate(zip(named, texts, strict=True)):
        here = table()[(table()[keys] == list(one)).all(axis=1)]
        for k, (model, label) in enumerate(MODELS):
            cell = here[here["model"] == model]
            rows = rows_of(3 * k, view)
            own = rows[~rows["edge"].astype(bool)]
            curves = cell[cell["anchor"] != "all"]["delta_p"]
            assert sorted(own["value"]) == pytest.approx(sorted(curves), abs=0.006)
            (low, high), ticks = text["axes"][f"delta_p_{k}"]
            assert low <= min(rows["low"]) and max(rows["high"]) <= high
            assert all(low <= tick <= high and tick % 20 == 0 for tick in ticks)
            swapped = crossing()[lambda rows, model=model: rows["model"] == model]
            swapped = swapped[(swapped["site"] == one[0]) & (swapped["position"] == one[1])]
            pairs = rows_of(3 * k + 1, view)
            truth = rows_of(3 * k + 2, view)
            for lines, answers, quantity in (
                (pairs, "right answers, exact question tokens blocked", "through_right_knockout"),
                (pairs, "right answers, every other question token blocked", "through_right_rest"),
                (truth, "gold answers", "pair_gold"),
            ):
                got = lines[lines["quantity"] == answers]["value"]
                known = swapped[swapped["quantity"] == quantity]["estimate"]
                assert len(known) and sorted(got) == pytest.approx(sorted(known), abs=1e-3)
            heads = pd.DataFrame(live()["datasets"][f"delta_p_{k}_upright"])
            heads = heads[(heads["view"] == view) & (heads["model"] == label)]
            assert set(heads["layer"]) == set(cell["layer"][cell["headline"]])
        assert "/".join(one[:2]) in text["caption"][0]


def test_an_empty_panel_says_how_many_pairs_there_are_in_every_view() -> None:
    curve, few, claims = drawn()
    few = few.assign(n=3)
    spec = chart(curve, few, claims, **LOOKS).to_dict()
    page = interactive(spec, choices(curve, few, claims, **LOOKS), 800)
    views = page["concat"][0]["vconcat"][1]["layer"]
    (note,) = [view for view in views if view.get("name", "").startswith("pathway_0_absent")]
    assert note["mark"]["text"] == {"expr": "shown.notes.pathway_0"}
    texts = next(one["value"] for one in page["params"] if one["name"] == "texts")
    assert {text["notes"]["pathway_0"] for text in texts} == {"at most 3 of 10 pairs"}
    assert {text["notes"]["delta_p_0"] for text in texts} == {""}


STRENGTHS = """() => Object.fromEntries([...document.querySelectorAll("#figure .mark-line path")]
  .map((e) => [e.__data__?.mark?.items?.[0]?.datum, Number(e.getAttribute("opacity") ?? 1)])
  .filter(([datum]) => datum?.probe_auc !== undefined).map(([d, one]) => [d.series, one]))"""


@needs_browser
def test_a_reader_switches_points_singles_out_and_zooms(tmp_path: Path) -> None:
    paths = save(chart(*drawn(), **LOOKS), tmp_path / "f", choices(*drawn(), **LOOKS))
    with driven(paths[1]) as opened:
        page = opened.page
        page.set_default_timeout(20_000)
        page.evaluate("window.drawn.then(() => 0)")
        words = page.locator("#figure text")
        assert words.filter(has_text="Pair term (logits)").count() == 2 * len(MODELS)
        assert words.filter(has_text="Read-out mlp/final").count() == 1
        page.select_option("[name=condition]", "random")
        words.filter(has_text=title_of("random")).wait_for()
        page.select_option("[name=readout]", "attn/final")
        words.filter(has_text="Read-out attn/final").wait_for()
        for name, value in {"readout": "mlp/final", "condition": "knockout"}.items():
            page.select_option(f"[name={name}]", value)
        words.filter(has_text=re.compile("^T$")).wait_for()

        label = words.filter(has_text="A-Anchored (Beta)")
        label.scroll_into_view_if_needed()  # the picture is as wide as the page, and higher
        entry = label.bounding_box()
        assert entry
        page.mouse.click(entry["x"] + 9, entry["y"] + 5)
        page.wait_for_function(f"() => Object.values(({STRENGTHS})()).some((one) => one < 1)")
        found = page.evaluate(STRENGTHS)
        assert {name for name, one in found.items() if one == 1} == {"A-Anchored (Beta)"}
        page.mouse.dblclick(entry["x"] + 9, entry["y"] - 20)
        page.wait_for_function(f"() => Object.values(({STRENGTHS})()).every((one) => one === 1)")

        panel = page.locator("#figure path.background").nth(1)
        panel.scroll_into_view_if_needed()
        box = panel.bounding_box()
        assert box
        page.mouse.move(box["x"] + 100, box["y"] + 50)
        page.mouse.move(box["x"] + 110, box["y"] + 52)
        tip = page.locator("#vg-tooltip-element.visible")
        tip.wait_for()
        cells = tip.locator("td").all_text_contents()
        values = dict(zip(cells[::2], cells[1::2], strict=True))
        assert {"model": "Model One", "layer": "1"}.items() <= values.items()
        assert {"ΔP", "from", "to", "n", "share (%)", "probe AUC"} < set(values)
        assert opened.wrong == opened.asked == []


HEADINGS = """([labels, columns]) => {
  const texts = [...document.querySelectorAll("#figure text")];
  const found = labels.map((label) => texts.find((text) => text.textContent === label));
  const places = found.filter(Boolean).map((one) => Math.round(one.getBoundingClientRect().x / 20));
  return places.length === labels.length && new Set(places).size === columns;
}"""


@needs_browser
def test_a_narrow_window_stacks_panels_and_switches_them_too(tmp_path: Path) -> None:
    both, asked = drawn(), LOOKS | {"style": {}}
    narrow = chart(*both, **narrowed(asked))
    path = save(chart(*both, **asked), tmp_path / "f", choices(*both, **asked), narrow)[1]

    def stand_in(page: Any, columns: int) -> None:
        """Wait until the headings of the models do: a page is drawn anew after it was resized."""
        page.wait_for_function(HEADINGS, arg=[[label for _, label in MODELS], columns])

    with driven(path, 1400) as opened:
        assert len(MODELS) > 1
        stand_in(opened.page, len(MODELS))
        opened.page.set_viewport_size({"width": 500, "height": 900})
        stand_in(opened.page, 1)
        opened.page.select_option("[name=condition]", "random")
        opened.page.locator("#figure text", has_text=title_of("random")[:20]).first.wait_for()
        assert opened.wrong == opened.asked == []


@needs_browser
def test_figures_of_other_sorts_are_drawn_too(tmp_path: Path) -> None:
    controls = controls_of(MODELS, TWO, LAYERS)
    figures = {
        "evidence": evidence_chart(controls, table(), **LOOKS),
        "readouts": readouts_chart(table(), **NAMED),
    }
    for name, figure in figures.items():
        with driven(save(figure, tmp_path / name)[1]) as opened:
            opened.page.evaluate("window.drawn.then(() => 0)")
            assert opened.page.locator("#figure path.background").count() > 6
            assert opened.page.locator("#switches select").count() == 0
            assert opened.wrong == opened.asked == [], name


@needs_browser
def test_an_error_or_a_request_of_a_page_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<img src='http://127.0.0.1:9/planted'><script>console.error('said');"
        "setTimeout(() => { document.title = 'done'; throw new Error('thrown'); });</script>",
        encoding="utf-8",
    )
    with driven(page) as opened:
        opened.page.wait_for_function("document.title === 'done'")
        assert opened.asked == ["http://127.0.0.1:9/planted"]
        assert any("said" in one for one in opened.wrong)
        assert any("thrown" in one for one in opened.wrong)
