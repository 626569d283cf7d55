"""What a reader does in a real browser, by mouse and keys: the events are the browser's own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from browser import UNDRIVEN, Opened, browser, driven
from figure_tables import READOUTS, curve_of
from report_run import RESOURCES, SAMPLES, finished

from anchorscope.figures.figures import chart, choices, save
from anchorscope.report import report
from anchorscope.storage.files import read_csv, write_csv

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

MODELS = [("one", "Model One"), ("two", "Model Two")]
DATASETS = [("a", "Alpha"), ("b", "Beta"), ("c", "Gamma"), ("d", "Delta")]
SERIES = [f"{anchor}-Anchored ({label})" for _, label in DATASETS for anchor in "QA"]
LAYERS = 6
READOUT = READOUTS[3]

pytestmark = pytest.mark.skipif(UNDRIVEN is not None, reason=str(UNDRIVEN))

# where the unseen points are that carry the tooltips, by what is on top there
POINTS = """() => [...document.querySelectorAll("#figure path")].flatMap((e) => {
  const datum = e.__data__?.datum;
  if (!datum || !("delta_p" in datum) || e.getAttribute("opacity") !== "0") return [];
  const box = e.getBoundingClientRect();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  if (document.elementFromPoint(x, y) !== e) return [];
  return [{ x, y, model: datum.model, series: datum.series, layer: datum.layer }];
})"""
# series -> strength of its line, of all panels the greatest
STRENGTHS = """() => {
  const found = {};
  for (const e of document.querySelectorAll("#figure .mark-line path")) {
    const series = e.__data__?.mark?.items?.[0]?.datum?.series;
    if (!series) continue;
    found[series] = Math.max(found[series] ?? 0, Number(e.getAttribute("opacity") ?? 1));
  }
  return found;
}"""
FULL = dict.fromkeys(SERIES, 1)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as launched:
        yield launched


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table and the figure drawn from it."""
    folder = tmp_path_factory.mktemp("reader")
    write_csv(curve_of(MODELS, DATASETS, LAYERS, [READOUT, READOUTS[0]]), folder / "table.csv")
    table = read_csv(folder / "table.csv")
    looks: Any = {"title": "ΔP", "panels": MODELS, "datasets": DATASETS, "readout": READOUT}
    save(chart(table, **looks), folder / "figure", choices(table, **looks))
    return folder


@pytest.fixture
def figure(chromium: Browser, made: Path) -> Iterator[Opened]:
    """The figure's page, drawn; at the end it has neither said nor asked anything."""
    with driven(chromium, made / "figure.html") as opened:
        opened.page.evaluate("window.drawn")
        yield opened
        assert opened.wrong == [] and opened.asked == []


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a finished run."""
    folder = tmp_path_factory.mktemp("explored")
    page = folder / "index.html"
    html = report.build(finished(folder / "results"), resources=RESOURCES).html
    page.write_text(html, encoding="utf-8")
    return page


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def entry(opened: Opened, series: str) -> Locator:
    return opened.page.get_by_role("button", name=series, exact=True)


def strengths_are(opened: Opened, chosen: list[str]) -> None:
    """Wait until the chosen series alone are in full colour, and hold all of them against it."""
    full = f"{json.dumps(sorted(chosen))}.join() === full.sort().join()"
    names = f"Object.entries(({STRENGTHS})()).filter(([, one]) => one === 1).map(([name]) => name)"
    opened.page.wait_for_function(f"() => {{ const full = {names}; return {full}; }}")
    found = opened.page.evaluate(STRENGTHS)
    assert set(found) == set(SERIES)
    assert {series for series, value in found.items() if value == 1} == set(chosen)
    assert all(value < 0.2 for series, value in found.items() if series not in chosen)
    pressed = opened.page.locator("#legend button[aria-pressed=true]").all_text_contents()
    assert pressed == ([] if chosen == SERIES else chosen)


def row_of(table: pd.DataFrame, point: dict[str, Any]) -> pd.Series:
    """The CSV's row of a point."""
    models, datasets = ({label: key for key, label in pairs} for pairs in (MODELS, DATASETS))
    site, position = READOUT
    wanted = {
        "model": models[point["model"]],
        "dataset": datasets[point["series"].split("(")[1][:-1]],
        "anchor": point["series"][0],
        "layer": point["layer"],
        "site": site,
        "position": position,
        "condition": "knockout",
    }
    found = table[(table[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    assert len(found) == 1
    return found.iloc[0]


def tooltip(opened: Opened, point: dict[str, Any]) -> dict[str, str]:
    """What is said where the pointer is moved to, once it is about that point."""
    opened.page.mouse.move(point["x"] - 40, point["y"] - 40)
    opened.page.mouse.move(point["x"], point["y"], steps=4)
    tip = opened.page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    cells = tip.locator("td").all_text_contents()
    return {name.rstrip(":"): value for name, value in zip(cells[::2], cells[1::2], strict=True)}


def test_pointing_at_a_curve_says_the_numbers_of_the_csv(figure: Opened, made: Path) -> None:
    table, points = read_csv(made / "table.csv"), figure.page.evaluate(POINTS)
    assert len(points) > 20
    shown = {"ΔP": "delta_p", "interval from": "ci_low", "interval to": "ci_high", "n": "n"}
    for point in [*points[:: len(points) // 6], points[-1]]:
        row, tip = row_of(table, point), tooltip(figure, point)
        assert (tip["model"], tip["layer"]) == (point["model"], str(point["layer"]))
        assert f"{tip['anchor']} ({tip['dataset']})" == point["series"]
        for title, name in shown.items():
            assert number(tip[title]) == pytest.approx(row[name], abs=0.06), (point, title)
        assert number(tip["share (%)"]) == pytest.approx(100 * row["share"], abs=0.06)
        assert number(tip["probe AUC"]) == pytest.approx(row["probe_auc"], abs=6e-4)
        assert figure.page.locator("#here").text_content() == tip["layer"]


def test_clicking_a_legend_entry_dims_the_others_and_clicking_again_does_not(
    figure: Opened,
) -> None:
    assert figure.page.locator("#legend button").all_text_contents() == SERIES
    strengths_are(figure, SERIES)
    entry(figure, SERIES[3]).click()
    strengths_are(figure, [SERIES[3]])
    entry(figure, SERIES[6]).click(modifiers=["Shift"])
    strengths_are(figure, [SERIES[3], SERIES[6]])
    entry(figure, SERIES[6]).click()
    strengths_are(figure, [SERIES[6]])
    entry(figure, SERIES[6]).click()
    strengths_are(figure, SERIES)
    entry(figure, SERIES[0]).click()
    strengths_are(figure, [SERIES[0]])
    figure.page.locator("#figure").dblclick(position={"x": 4, "y": 4})
    strengths_are(figure, SERIES)


def tabbed(opened: Opened, most: int = 60) -> Iterator[str]:
    """Press Tab again and again; what has the focus each time, by id or text."""
    for _ in range(most):
        opened.page.keyboard.press("Tab")
        yield opened.page.evaluate(
            "document.activeElement.id || document.activeElement.textContent"
        )


def test_by_keys_alone_series_are_singled_out_and_layers_read(figure: Opened, made: Path) -> None:
    keys = figure.page.keyboard
    assert SERIES[2] in tabbed(figure)
    keys.press("Enter")
    strengths_are(figure, [SERIES[2]])
    keys.press("Tab")
    keys.press("Space")
    strengths_are(figure, [SERIES[3]])
    keys.press("Space")
    strengths_are(figure, SERIES)
    assert "layer" in tabbed(figure)
    for _ in range(3):
        keys.press("ArrowRight")
    keys.press("ArrowLeft")
    assert figure.page.locator("#here").text_content() == "2"
    table = read_csv(made / "table.csv")
    for series in SERIES:
        line = figure.page.locator("#values tr", has_text=series)
        for (_, model), said in zip(MODELS, line.locator("td").all_text_contents(), strict=True):
            row = row_of(table, {"model": model, "series": series, "layer": 2})
            assert number(said.split()[0]) == pytest.approx(row["delta_p"], abs=0.06)
    keys.press("Escape")
    assert figure.page.locator("#here").text_content() == "none"


def test_the_copy_button_puts_the_rows_on_the_clipboard(figure: Opened) -> None:
    assert "copy" in tabbed(figure)
    figure.page.keyboard.press("Enter")
    figure.page.wait_for_function("document.getElementById('status').textContent !== ''")
    text = figure.page.evaluate("navigator.clipboard.readText()")
    lines = text.strip().split("\n")
    assert lines[0].startswith("model,dataset,site,position,condition,")
    assert figure.page.locator("#status").text_content() == f"Copied {len(lines) - 1} rows."


def test_typing_into_the_explorer_filters_it(chromium: Browser, explored: Path) -> None:
    def count() -> int:
        said = str(opened.page.locator("#where").text_content())
        return int(re.findall(r"([\d,]+) samples", said)[0])

    with driven(chromium, explored) as opened:
        words, cards = opened.page.locator("#filter-text"), opened.page.locator(".sample")
        whole = count()
        assert whole == SAMPLES
        words.click()
        opened.page.keyboard.type("row-007")
        assert cards.locator(".meta").all_text_contents() == ["row-007"]
        opened.page.keyboard.type(" no such words")
        assert "No sample here fits these filters." in str(
            opened.page.locator("#sheet").text_content()
        )
        opened.page.keyboard.press("Control+A")
        opened.page.keyboard.press("Delete")
        assert count() == whole
        opened.page.locator("#filter-group").select_option("Q")
        some = count()
        assert 0 < some < whole and cards.locator(".chip.Q").count() == cards.count() > 0
        assert opened.wrong == [] and opened.asked == []


def test_an_error_or_a_request_of_a_page_would_be_seen(chromium: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<img src='http://127.0.0.1:9/planted'><script>console.error('said');"
        "setTimeout(() => { document.title = 'done'; throw new Error('thrown'); });</script>",
        encoding="utf-8",
    )
    with driven(chromium, page) as opened:
        opened.page.wait_for_function("document.title === 'done'")
        assert opened.asked == ["http://127.0.0.1:9/planted"]
        assert any("said" in one for one in opened.wrong)
        assert any("thrown" in one for one in opened.wrong)
