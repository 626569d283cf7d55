"""A figure's page in a real browser: what a reader sees, points at, switches and copies."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from browser import ABSENT, CHROMIUM, looked
from figure_tables import READOUTS, calibration_of, contrasts_of, controls_of, curve_of

from anchorscope.calibration.figure_calibration import MEAN, calibration_chart
from anchorscope.experiments.figure_controls import controls_chart
from anchorscope.figures.figure_readouts import readouts_chart
from anchorscope.figures.figures import chart, choices, save

MODELS = [("one", "Model One"), ("two", "=Model <b>Two</b>")]
DATASETS = [("a", "Alpha"), ("b", "Beta"), ("c", "Gamma"), ("d", "Delta")]
SERIES = [f"{anchor}-Anchored ({label})" for _, label in DATASETS for anchor in "QA"]
LAYERS = 6
FIRST, OTHER = READOUTS[3], READOUTS[0]
Seen = dict[str, Any]
Look = Callable[..., Seen]

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=ABSENT)

# a point's SVG element, by series, layer and model; what is drawn of a series; pointing
HELP = """
  await window.drawn;
  const point = (series, layer, model) => all("#figure path").find((e) => {
    const datum = e.__data__?.datum;
    return datum && "delta_p" in datum && datum.series === series && datum.layer === layer
      && datum.model === model && e.getAttribute("opacity") === "0";
  });
  const strength = (series) => [...new Set(all("#figure .mark-line path")
    .filter((e) => e.__data__?.mark?.items?.[0]?.datum?.series === series)
    .map((e) => Number(e.getAttribute("opacity") ?? 1)))];
  const at = (element, kind, more = {}) => {
    const box = element.getBoundingClientRect();
    const place = { clientX: box.x + box.width / 2, clientY: box.y + box.height / 2 };
    const known = { wheel: WheelEvent, click: MouseEvent };
    const Kind = known[kind] ?? PointerEvent;
    element.dispatchEvent(new Kind(kind, { bubbles: true, cancelable: true, ...place, ...more }));
  };
  const drawnAt = (series, layer) => point(series, layer, "Model One").__data__.datum.delta_p;
  const button = (name) => all("#legend button").find((b) => b.textContent === name);
  const numbers = (name) => all(`#figure .${name}_group .role-axis-label text`)
    .map((t) => t.textContent).filter((text) => text.trim()).sort().join();
  const titles = (name) => all(`#figure .${name}_group .role-axis-title text`)
    .map((t) => t.textContent).sort();
  const layers = () => all("#figure .panel0_group .role-axis-label text").map((t) => t.textContent);
"""


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Two models, four datasets, two read-outs, three controls."""
    curve = curve_of(MODELS, DATASETS, LAYERS, [FIRST, OTHER])
    more = curve[curve["condition"] == "random"].assign(condition="question")
    return pd.concat([curve, more.assign(delta_p=more["delta_p"] - 7)], ignore_index=True)


@pytest.fixture(scope="module")
def made(table: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of that table's figure."""
    looks: Any = {"title": "ΔP", "panels": MODELS, "datasets": DATASETS, "readout": FIRST}
    folder = tmp_path_factory.mktemp("figure")
    paths = save(chart(table, **looks), folder / "f", choices(table, **looks))
    return paths[1].read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def look(made: str, tmp_path_factory: pytest.TempPathFactory) -> Look:
    """`look(script, width=1400)`: what the script left in `seen`."""
    folder = tmp_path_factory.mktemp("browser")
    return lambda script, width=1400: looked(made, HELP + script, folder, width)


def row_of(table: pd.DataFrame, series: str, layer: int, **wanted: str) -> pd.Series:
    """A row of the table by a legend entry of the first model."""
    names = {label: key for key, label in DATASETS}
    site, position = FIRST
    keys = {"model": "one", "site": site, "position": position, "condition": "knockout"}
    keys |= {"anchor": series[0], "dataset": names[series.split("(")[1][:-1]]} | wanted
    found = table[table["layer"] == layer]
    for name, value in keys.items():
        found = found[found[name] == value]
    return found.squeeze()


def test_page_opens_small_with_eight_entries_and_neither_error_nor_request(
    look: Look, made: str
) -> None:
    seen = look("""
      seen.legend = all("#legend button").map((b) => b.textContent);
      seen.inside = all("#figure .role-legend").length;
      seen.panels = all("#figure .role-title-text text").map((t) => t.textContent);
      seen.heading = $("h1").textContent;
      seen.caption = $("#caption").textContent;
      seen.images = all("b, img").length;
    """)
    assert seen["errors"] == seen["blocked"] == seen["console"] == seen["requests"] == []
    assert seen["legend"] == SERIES and seen["inside"] == 0
    assert {label for _, label in MODELS} <= set(seen["panels"])
    assert seen["heading"] == "ΔP" and "Read-out mlp/final" in seen["caption"]
    assert seen["images"] == 0
    assert len(made.encode()) < 3_000_000


def test_switching_readout_and_control_changes_the_drawn_numbers(
    look: Look, table: pd.DataFrame
) -> None:
    seen = look(
        f"""
      const series = "Q-Anchored (Gamma)";
      seen.options = all("#choices select").map((s) => [...s.options].map((o) => o.value));
      seen.first = drawnAt(series, 4);
      await set($("#readout"), "{"/".join(OTHER)}"); await wait(800);
      seen.other = drawnAt(series, 4);
      seen.caption = $("#caption").textContent;
      await set($("#condition"), "question"); await wait(800);
      seen.question = drawnAt(series, 4);
      seen.heading = $("h1").textContent;
      seen.note = all("#figure .role-title-text text").map((t) => t.textContent).join(" ");
      const Whole = Blob;
      window.Blob = function (parts, about) {{
        seen.saved = parts.join(""); return new Whole(parts, about);
      }};
      URL.createObjectURL = () => "data:,";
      HTMLAnchorElement.prototype.click = () => {{}};
      $("#save").click(); await wait(1500);
    """
    )
    series, (site, position) = "Q-Anchored (Gamma)", OTHER
    there = {"site": site, "position": position}
    assert seen["errors"] == []
    assert seen["options"][:2] == [
        ["/".join(FIRST), "/".join(OTHER)], ["knockout", "random", "question", "matched", "placebo"]
    ]  # fmt: skip
    wanted = [
        row_of(table, series, 4, **more)["delta_p"]
        for more in ({}, there, there | {"condition": "question"})
    ]
    drawn = [seen[name] for name in ("first", "other", "question")]
    assert drawn == pytest.approx(wanted, abs=0.006)
    assert "Read-out attn/final" in seen["caption"]
    assert "every question token" in seen["heading"] and "paired samples (dotted" in seen["note"]
    saved = seen["saved"]
    assert saved.startswith("<svg") and seen["heading"] in saved and "attn/final" in saved
    assert all(f">{name}<" in saved for name in SERIES), "the saved picture has its legend"


def test_the_copy_button_gives_the_numbers_of_the_view(look: Look, table: pd.DataFrame) -> None:
    seen = look("""
      Object.defineProperty(navigator, "clipboard",
        { value: { writeText: async (text) => { seen.text = text; } } });
      $("#copy").click(); await wait();
      seen.whole = seen.text; seen.status = $("#status").textContent;
      at(button("Q-Anchored (Alpha)"), "click");
      $("#zoom-in").click(); await wait();
      seen.labels = layers();
      $("#copy").click(); await wait();
    """)
    rows = list(csv.DictReader(io.StringIO(seen["whole"])))
    curves = [row for row in rows if row["delta_p"]]
    assert seen["status"] == f"Copied {len(rows)} rows."
    assert len(curves) == len(MODELS) * len(SERIES) * LAYERS
    assert {row["model"] for row in rows} == {"Model One", "'=Model <b>Two</b>"}
    for row in [row for row in curves if row["model"] == "Model One"]:
        series = f"{row['anchor']}-Anchored ({row['dataset']})"
        wanted = row_of(table, series, int(row["layer"]))
        for name, off in {"delta_p": 6e-3, "ci_low": 6e-3, "share": 6e-4, "n": 0}.items():
            assert float(row[name]) == pytest.approx(wanted[name], abs=off), (series, name)
    for row in [row for row in rows if row["model"] == "Model One" and row["flip_share"]]:
        key = {label: key for key, label in DATASETS}[row["dataset"]]
        asked = {"condition": row["condition"], "anchor": row["anchor"], "dataset": key}
        wanted = row_of(table, "Q-Anchored (Alpha)", int(row["layer"]), **asked)
        for name in ("flip_share", "flip_low", "n_paired"):
            assert float(row[name]) == pytest.approx(wanted[name], abs=6e-4)
    beside = [row for row in rows if row["condition"] == "random"]
    assert len(beside) == len(MODELS) * len(DATASETS) * LAYERS and len(rows) > len(curves)
    part = list(csv.DictReader(io.StringIO(seen["text"])))
    assert {(row["dataset"], row["anchor"]) for row in part} == {("Alpha", "Q"), ("Alpha", "all")}
    assert 0 < len({row["layer"] for row in part}) < LAYERS


def test_a_wheel_zooms_the_column_and_all_is_shown_again(look: Look) -> None:
    seen = look("""
      const area = $("#figure .panel0_group path.background");
      const labels = (name) => all(`#figure .${name}_group .role-axis-label text`)
        .map((t) => t.textContent).sort().join();
      const span = () => [labels("panel0"), labels("panel1")];
      const other = () => labels("panel3");
      seen.before = [span(), other()];
      for (let i = 0; i < 5; i += 1) at(area, "wheel", { deltaY: -300 });
      await wait(); seen.near = [span(), other()];
      at(area, "pointerdown", { button: 0 });
      dispatchEvent(new PointerEvent("pointermove", { clientX: 0, clientY: 0 }));
      dispatchEvent(new PointerEvent("pointerup"));
      await wait(); seen.moved = span();
      addEventListener("wheel", (event) => { seen.kept = event.defaultPrevented; });
      at(area, "wheel", { deltaY: -300 }); seen.taken = seen.kept;
      dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" })); await wait();
      seen.after = [span(), other()];
      at(area, "wheel", { deltaY: 300 });
    """)
    assert seen["errors"] == []
    (before, other), (near, beside) = seen["before"], seen["near"]
    assert near != before and beside == other
    assert seen["moved"] != near and seen["after"] == seen["before"]
    assert seen["taken"] and not seen["kept"], "the page must scroll where nothing can be zoomed"


def test_a_zoom_stays_when_another_readout_is_chosen_or_the_window_gets_narrow(look: Look) -> None:
    seen = look(
        f"""
      seen.before = layers();
      $("#zoom-in").click(); await wait(); seen.near = layers();
      await set($("#readout"), "{"/".join(OTHER)}"); await wait(800);
      seen.other = layers(); seen.drawn = drawnAt("Q-Anchored (Gamma)", 3);
      $("main").style.width = "500px";
      dispatchEvent(new Event("resize")); await wait(800); seen.narrow = layers();
      $("#reset").click(); await wait(); seen.after = layers();
    """
    )
    assert seen["errors"] == [] and seen["near"] != seen["before"] == seen["after"]
    assert seen["near"] == seen["other"] == seen["narrow"]


def test_values_are_zoomed_and_moved_by_buttons_alone(look: Look) -> None:
    seen = look("""
      seen.steps = [numbers("panel0")];
      for (const id of ["taller", "lower", "higher", "flatter"]) {
        $(`#${id}`).click(); await wait(); seen.steps.push(numbers("panel0"));
      }
      seen.layers = layers();
      $("#reset").click(); await wait(); seen.after = numbers("panel0");
    """)
    whole, near, lower, higher, _ = seen["steps"]
    assert seen["errors"] == [] and len({whole, near, lower}) == 3
    assert higher != lower and seen["after"] == whole


def test_all_can_be_reached_and_done_by_keyboard(look: Look, table: pd.DataFrame) -> None:
    seen = look("""
      const inputs = all("button, select, input").filter((e) => !e.hidden && e.offsetParent);
      seen.unreached = inputs.filter((e) => e.tabIndex < 0 || e.disabled).length;
      seen.unnamed = inputs.filter((e) => !(e.labels?.length || e.textContent
        || e.getAttribute("aria-label"))).length;
      seen.order = inputs.map((e) => e.id || e.textContent);
      button("A-Anchored (Beta)").focus();
      seen.ring = getComputedStyle(document.activeElement).outlineStyle;
      seen.kind = document.activeElement.tagName;
      await set($("#layer"), "2");
      seen.spoken = $("#layer").getAttribute("aria-valuetext");
      seen.values = Object.fromEntries(all("#values tbody tr, #values tr").slice(1).map((r) =>
        [r.cells[0].textContent, r.cells[1].textContent.replace("−", "-")]));
      seen.cursor = all("#figure .mark-rule line").filter((l) =>
        l.getAttribute("stroke") === "#0b57d0" && Number(l.getAttribute("opacity")) > 0).length;
      seen.named = $("#figure").getAttribute("aria-labelledby");
    """)
    assert (seen["unreached"], seen["unnamed"]) == (0, 0) and seen["errors"] == []
    assert seen["order"].index("readout") < seen["order"].index(SERIES[0])
    assert seen["order"].index(SERIES[-1]) < seen["order"].index("copy")
    assert seen["kind"] == "BUTTON" and seen["ring"] == "solid"
    assert seen["spoken"] == "layer 2" and seen["cursor"] == 6, "one cursor over all panels"
    assert list(seen["values"]) == SERIES
    for series, text in seen["values"].items():
        row = row_of(table, series, 2)
        assert float(text.split(" ")[0]) == pytest.approx(row["delta_p"], abs=0.06)
        assert f"n {row['n']:.0f} ({100 * row['share']:.1f} %)" in text
    assert seen["named"] == "title"


def test_the_first_layer_can_be_chosen_where_the_slider_rests(look: Look) -> None:
    seen = look("""
      const press = (key) => $("#layer").dispatchEvent(new KeyboardEvent("keyup", { key }));
      press("Tab"); seen.before = $("#here").textContent;
      press("ArrowLeft"); seen.after = $("#here").textContent;
    """)
    assert (seen["before"], seen["after"]) == ("none", "0") and seen["errors"] == []


@pytest.mark.parametrize("width", [600, 1400])
def test_nothing_sticks_out_and_narrow_windows_stack_the_panels(look: Look, width: int) -> None:
    seen = look(
        """
      seen.wide = [document.documentElement.scrollWidth, innerWidth];
      seen.out = all("main *").filter((e) => e.getBoundingClientRect().right > innerWidth + 1
        && e.getClientRects().length).map((e) => e.outerHTML.slice(0, 80));
      seen.headings = all("#figure .role-title-text text").map((t) => t.textContent)
        .filter((text) => text.startsWith("Flips among")).length;
      seen.tops = ["panel0", "panel3"].map((name) =>
        Math.round($(`#figure .${name}_group path.background`).getBoundingClientRect().top));
      seen.text = Math.min(...all("#figure text").filter((t) => t.textContent.trim())
        .map((t) => t.getBoundingClientRect().height));
    """,
        width,
    )
    assert seen["errors"] == [] and seen["out"] == [] and seen["wide"][0] <= seen["wide"][1]
    assert (seen["tops"][0] == seen["tops"][1]) == (width == 1400)
    assert seen["headings"] == (1 if width == 1400 else len(MODELS))
    assert seen["text"] >= 9


@pytest.fixture(scope="module")
def controls(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a figure whose cells stand two in a row."""
    figure = controls_chart(
        controls_of(MODELS, DATASETS[:2], LAYERS),
        contrasts_of(MODELS, DATASETS[:2], LAYERS),
        title="Controls",
        panels=MODELS,
        datasets=DATASETS[:2],
        readout=FIRST,
    )
    return save(figure, tmp_path_factory.mktemp("c") / "c")[1].read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [600, 1400])
def test_every_panel_that_begins_a_row_has_its_labels(
    controls: str, tmp_path: Path, width: int
) -> None:
    script = """
      const panels = [...Array(12).keys()].map((p) => `panel${p}`);
      seen.numbers = panels.map(numbers); seen.titles = panels.map(titles);
      seen.left = panels.map((name) =>
        Math.round($(`#figure .${name}_group path.background`).getBoundingClientRect().left));
    """
    seen = looked(controls, HELP + script, tmp_path, width)
    assert seen["errors"] == [] and len(seen["left"]) == 12
    begin = [left == min(seen["left"]) for left in seen["left"]]
    assert begin == ([True] * 12 if width == 600 else ([True] * 3 + [False] * 3) * 2)
    for panel, first in enumerate(begin):
        value = "0.4" if panel % 3 == 2 else "100"
        assert (value in seen["numbers"][panel].split(",")) == first
        own = [title for title in seen["titles"][panel] if title != "Layer"]
        title = ("Flips (%)", "Follow (%)", "AUC")[panel % 3]
        assert own == ([title] if first else [])


@pytest.fixture(scope="module")
def overview(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a grid within a figure: two sites below one another, three positions a row."""
    figure = readouts_chart(
        curve_of(MODELS[:1], DATASETS[:1], LAYERS, READOUTS[:6]),
        title="Every read-out",
        panels=MODELS[:1],
        datasets=DATASETS[:1],
    )
    return save(figure, tmp_path_factory.mktemp("o") / "o")[1].read_text(encoding="utf-8")


@pytest.mark.parametrize(("width", "across"), [(400, 1), (1400, 3)])
def test_a_grid_within_the_figure_takes_fewer_panels_a_row_where_it_is_narrow(
    overview: str, tmp_path: Path, width: int, across: int
) -> None:
    script = """
      const panels = [0, 2, 4, 6, 8, 10].map((p) => `panel${p}`);
      seen.left = panels.map((name) =>
        Math.round($(`#figure .${name}_group path.background`).getBoundingClientRect().left));
      seen.named = panels.map((name) => titles(name).includes("ΔP"));
      seen.numbers = panels.map((name) => numbers(name).split(",").includes("0"));
      seen.text = Math.min(...all("#figure text").filter((t) => t.textContent.trim())
        .map((t) => t.getBoundingClientRect().height));
    """
    seen = looked(overview, HELP + script, tmp_path, width)
    assert seen["errors"] == [] and seen["text"] >= 9
    begin = [left == min(seen["left"]) for left in seen["left"]]
    assert begin == ([True] + [False] * (across - 1)) * (6 // across)
    assert seen["named"] == seen["numbers"] == begin


@pytest.mark.parametrize("width", [600, 1400])
def test_the_calibrations_page_has_its_legend_and_no_tools_for_layers(
    tmp_path: Path, width: int
) -> None:
    figure = calibration_chart(
        calibration_of(MODELS, DATASETS), title="Calibration", panels=MODELS, datasets=DATASETS
    )
    page = save(figure, tmp_path / "c")[1].read_text(encoding="utf-8")
    script = """
      Object.defineProperty(navigator, "clipboard",
        { value: { writeText: async (text) => { seen.text = text; } } });
      seen.legend = all("#legend button").map((b) => b.textContent);
      seen.symbols = all("#legend path").map((p) => p.getAttribute("d").length).filter(Boolean);
      seen.shown = ["layers", "cursor", "heights"].map((id) => $(`#${id}`).offsetParent !== null);
      seen.help = $(".help").textContent;
      seen.before = numbers("panel0");
      button("Beta").click(); $("#taller").click(); await wait();
      seen.near = numbers("panel0");
      $("#copy").click(); await wait();
    """
    seen = looked(page, HELP + script, tmp_path, width)
    assert seen["errors"] == seen["console"] == seen["blocked"] == []
    assert seen["legend"] == [label for _, label in DATASETS] + [MEAN]
    assert len(seen["symbols"]) == len(seen["legend"])
    assert seen["shown"] == [False, False, True] and "layers" not in seen["help"]
    assert seen["near"] != seen["before"]
    rows = list(csv.DictReader(io.StringIO(seen["text"])))
    assert {row["series"] for row in rows} == {"Beta"}
    assert {row["measure"] for row in rows} == {"Pathway AUC", "Sensitivity", "Specificity"}


def test_other_figures_single_out_zoom_and_copy_too(controls: str, tmp_path: Path) -> None:
    script = """
      Object.defineProperty(navigator, "clipboard",
        { value: { writeText: async (text) => { seen.text = text; } } });
      seen.entries = all("#legend button").length;
      button("Flips: knockout").click(); await wait();
      seen.strength = [strength("Flips: knockout"), strength("AUC: clean")];
      $("#zoom-in").click(); await wait();
      $("#copy").click(); await wait();
      seen.choices = $("#choices").offsetParent === null;
    """
    seen = looked(controls, HELP + script, tmp_path)
    assert seen["errors"] == seen["console"] == [] and seen["choices"]
    assert seen["entries"] == 14 and seen["strength"][0] == [1] and seen["strength"][1][0] < 0.2
    rows = list(csv.DictReader(io.StringIO(seen["text"])))
    assert {row["series"] for row in rows} == {"Flips: knockout"}
    assert 0 < len({row["layer"] for row in rows}) < LAYERS
