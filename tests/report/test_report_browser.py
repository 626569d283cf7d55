"""The report in a real browser, see `browser`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser import ABSENT, CHROMIUM, looked
from report_run import HOSTILE, RESOURCES, SAMPLES, finished

from anchorscope.report import report

Look = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=ABSENT)


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> Look:
    """`look(script, width=1400)`: what the script, run in the finished page, left in `seen`."""
    folder = tmp_path_factory.mktemp("browser")
    made = report.build(finished(folder / "results"), resources=RESOURCES).html
    return lambda script, width=1400: looked(made, script, folder, width)


def test_page_opens_without_error_or_request_and_nothing_planted_runs(look: Look) -> None:
    seen = look("seen.images = all('img').map((i) => [i.src.slice(0, 14), i.naturalWidth]);")
    assert seen["errors"] == seen["blocked"] == seen["console"] == seen["requests"] == []
    assert seen["title"] == "Anchorscope: pair"
    assert seen["images"] == [["data:image/svg", 900]] * 3


def test_an_error_or_a_request_would_be_seen(look: Look) -> None:
    seen = look("""
      console.error("planted");
      document.body.append(Object.assign(new Image(), { src: "http://127.0.0.1:9/planted" }));
      setTimeout(() => { throw new Error("planted"); });
      await new Promise((done) => setTimeout(done, 500));
    """)
    assert any("planted" in line for line in seen["console"])
    assert any("planted" in error for error in seen["errors"])
    assert any("planted" in address for address in seen["blocked"])


def test_the_explorer_shows_texts_as_they_are_written(look: Look) -> None:
    seen = look("""
      seen.marked = []; seen.inside = 0;
      while (true) {
        for (const mark of all(".sample mark.eq")) {
          seen.marked.push(mark.textContent); seen.inside += mark.children.length;
        }
        if ($("#next").disabled) break;
        $("#next").click();
      }
    """)
    assert set(seen["marked"]) == set(HOSTILE)
    assert len(seen["marked"]) == SAMPLES and seen["inside"] == 0
    assert seen["title"] == "Anchorscope: pair" and seen["errors"] == []


def test_filters_show_what_they_name_and_no_more(look: Look) -> None:
    seen = look("""
      const whole = JSON.parse($("#samples-0").textContent).samples;
      const count = () => Number(/([\\d,]+) samples/.exec($("#where").textContent)[1]);
      seen.all = [count(), whole.length];
      set($("#filter-group"), "Q");
      seen.q = [count(), whole.filter((s) => s.a === "Q").length];
      seen.chips = all(".sample .chip.Q").length === all(".sample").length;
      set($("#filter-label"), "1");
      seen.wrong = [count(), whole.filter((s) => s.a === "Q" && s.z === 1).length];
      set($("#filter-group"), ""); set($("#filter-label"), "");
      set($("#filter-kind"), "odd <i>kind</i>");
      seen.kind = [count(), whole.filter((s) => s.k.startsWith("odd")).length];
      set($("#filter-kind"), ""); set($("#filter-text"), "row-007");
      seen.found = all(".sample").map((card) => card.querySelector(".meta").textContent);
      set($("#filter-text"), "no such words");
      seen.none = $("#sheet").textContent;
    """)
    assert seen["errors"] == [] and seen["chips"]
    for name in ("all", "q", "wrong", "kind"):
        assert seen[name][0] == seen[name][1] > 0, name
    assert seen["found"] == ["row-007"]
    assert seen["none"] == "No sample here fits these filters."


def test_the_traces_numbers_are_those_of_the_data(look: Look) -> None:
    seen = look("""
      const whole = JSON.parse($("#samples-0").textContent);
      seen.data = whole.samples[0]; seen.layer = whole.layer;
      seen.tips = all(".sample:first-child svg.trace title").map((t) => t.textContent);
      seen.label = $(".sample svg.trace").getAttribute("aria-label");
    """)
    data, tips = seen["data"], seen["tips"]
    assert len(tips) == len(data["c"])
    for layer, tip in enumerate(tips):
        clean, cut = data["c"][layer], data["x"][layer]
        moved = (cut - clean) / 10 * (1 if clean > 500 else -1)
        assert f"layer {layer}: p clean {clean / 1000:.3f}, knockout {cut / 1000:.3f}" in tip
        assert float(tip.rsplit("ΔP ", 1)[1].replace("−", "-")) == pytest.approx(moved, abs=0.051)
    assert f"at layer {seen['layer']}" in seen["label"]


def test_another_cell_can_be_chosen(look: Look) -> None:
    seen = look("""
      seen.options = all("#cell option").map((o) => o.textContent);
      set($("#cell"), "3");
      seen.ids = all(".sample .meta").map((m) => m.textContent);
      seen.wanted = JSON.parse($("#samples-3").textContent).samples.slice(0, 8).map((s) => s.id);
    """)
    assert seen["options"][0] == "First <b>model</b> on Easy"
    assert len(seen["options"]) == 4
    assert seen["ids"] == seen["wanted"]


def test_tables_sort_as_numbers_with_blanks_last_and_filter(look: Look) -> None:
    seen = look("""
      const sheet = $("#curve-pair"), table = sheet.querySelector("table");
      const column = [...table.tHead.rows[0].cells].findIndex((c) => c.textContent === "ΔP");
      const values = () => [...table.tBodies[0].rows].map((row) => {
        const said = row.cells[column].dataset.value;
        return said === undefined ? null : Number(said);
      });
      const button = table.tHead.rows[0].cells[column].querySelector("button");
      button.click(); seen.up = values();
      button.click(); seen.down = values();
      seen.state = table.tHead.rows[0].cells[column].getAttribute("aria-sort");
      set(sheet.querySelector("input"), "hard q-anch");
      seen.left = [...table.tBodies[0].rows].filter((r) => !r.hidden).map((r) => r.textContent);
    """)
    up, down = ([v for v in seen[name] if v is not None] for name in ("up", "down"))
    assert up == sorted(up) and down == sorted(down, reverse=True) and len(up) > 4
    assert all(v is None for v in seen["up"][len(up) :] + seen["down"][len(down) :])
    assert seen["state"] == "descending"
    assert seen["left"] and all("hard" in row and "Q-Anchored" in row for row in seen["left"])


def test_small_tables_filter_too_and_none_of_a_figure_needs_scrolling_sideways(look: Look) -> None:
    seen = look("""
      seen.rows = all("#glance tbody tr").length;
      set($("#glance input"), "no signal");
      seen.left = all("#glance tbody tr").filter((r) => !r.hidden).map((r) => r.textContent);
      seen.wide = all("#tables .scroll").filter((e) => e.scrollWidth > e.clientWidth)
        .map((e) => e.parentElement.id);
    """)
    assert seen["rows"] == 4 and len(seen["left"]) == 1 and "hard" in seen["left"][0]
    assert seen["wide"] == []


def test_the_explorer_warns_of_a_weak_probe(look: Look) -> None:
    seen = look("""
      seen.options = all("#cell option").map((o) => o.textContent.includes("no signal"));
      seen.warned = [];
      for (const i of [0, 3]) {
        await set($("#cell"), String(i));
        seen.warned.push($("#weak").offsetParent !== null);
      }
    """)
    assert seen["options"] == [False, False, False, True] and seen["warned"] == [False, True]


@pytest.mark.parametrize("width", [600, 1400])
def test_pictures_stay_large_enough_to_be_read(look: Look, width: int) -> None:
    seen = look(
        """
      seen.shown = all(".plate img").map((i) => i.getBoundingClientRect().width / i.naturalWidth);
      seen.scrolls = all(".plate").map((p) => [p.scrollWidth > p.clientWidth, p.tabIndex]);
    """,
        width,
    )
    assert len(seen["shown"]) == 3 and min(seen["shown"]) >= 0.79
    assert seen["scrolls"] == [[width == 600, 0]] * 3


@pytest.mark.parametrize("width", [600, 1400])
def test_nothing_sticks_out_of_the_window(look: Look, width: int) -> None:
    seen = look(
        """
      seen.wide = [document.documentElement.scrollWidth, innerWidth];
      seen.out = all("main *").filter((e) => !e.closest(".scroll, .plate, pre")
        && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 80));
    """,
        width,
    )
    assert seen["wide"][0] <= seen["wide"][1]
    assert seen["out"] == []


def test_all_can_be_reached_by_keyboard(look: Look) -> None:
    seen = look("""
      seen.unreached = all("th button, select, input, .pager button, summary, .scroll, pre")
        .filter((e) => !e.disabled && e.tabIndex < 0).length;
      seen.unnamed = all("input, select").filter((e) => !e.labels.length
        && !e.getAttribute("aria-label")).map((e) => e.id);
      seen.pictures = all("main img").filter((e) => !e.alt).length
        + all("svg.trace").filter((e) => !e.getAttribute("aria-label")).length;
    """)
    assert (seen["unreached"], seen["unnamed"], seen["pictures"]) == (0, [], 0)
