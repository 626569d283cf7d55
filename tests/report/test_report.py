"""The report's page: what it says, what it leaves out, and that texts stay texts."""

import json
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from browser import driven, needs_browser
from report_run import CELLS, HOSTILE, SAMPLES, finished, question

from anchorscope.config.settings import Config
from anchorscope.experiments.knockout import curve
from anchorscope.report import cell_summary, report, report_samples, run_facts
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import write_csv

ENDS = ("gain", "gain_low", "gain_high")
FLOOR = ("floor_auc", "probe_auc", "auc_low", "auc_high")


class Page(HTMLParser):
    """The elements of a page, the text outside scripts and styles, and its JSON."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.json = "", {}
        self.feed(html)
        self.text = " ".join(self.text.replace("\u00a0", " ").split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        tag, about = self.tags[-1] if self.tags else ("", {})
        if about.get("type") == "application/json" and data.strip():
            self.json[about["id"]] = json.loads(data)
        elif tag not in ("script", "style"):
            self.text += data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return finished(tmp_path_factory.mktemp("run") / "results")


@pytest.fixture(scope="module")
def page(run: Config) -> Page:
    return Page(report.build(run, options=" --config limit=50")[0])


def test_page_holds_every_section_and_asks_for_nothing(page: Page) -> None:
    assert sum(tag == "section" for tag, _ in page.tags) == 8
    names = [about["id"] for _, about in page.tags if about.get("id")]
    assert sorted(names) == sorted(set(names))
    for _, about in page.tags:
        address = about.get("src") or about.get("href") or "#"
        assert address.startswith(("data:", "#", "../figures/pair", "../tables/pair")), address


def test_hostile_texts_are_text_and_come_back_whole(page: Page) -> None:
    assert not {tag for tag, _ in page.tags} & {"b", "i", "iframe", "object", "form", "base"}
    assert sum(tag == "script" for tag, _ in page.tags) == len(CELLS) + len(report.SCRIPTS)
    assert "First <b>model</b>" in page.text
    for sample in page.json["samples-0"]["samples"]:
        i = int(sample["id"].removeprefix("row-"))
        prompt, start, end = question(i)
        assert "".join(sample["q"]) == prompt[start:end]
        assert sample["q"][1] == HOSTILE[i % len(HOSTILE)] and sample["y"][1] == f"word{i % 7}"


def test_samples_carry_the_scores_and_their_classes(page: Page, run: Config) -> None:
    whole = page.json["samples-0"]
    scores = pd.read_parquet(f"{run.root}/scores/first/easy.parquet")
    by = scores.set_index(["condition", "id", "layer"])["s"]
    for sample in whole["samples"]:
        for key, condition in (("c", "clean"), ("x", "knockout"), ("r", "random")):
            s = np.array([by[condition, sample["id"], k] for k in range(whole["layers"])])
            p = np.array(sample[key]) / 1000
            assert np.allclose(p, 1 / (1 + np.exp(-s)), atol=0.0011)
            assert ((p > 0.5) == (s > 0)).all()
        flipped = (sample["c"][whole["layer"]] > 500) != (sample["x"][whole["layer"]] > 500)
        assert sample["a"] == ("Q" if flipped else "A")
    edges = report_samples.thousandths(np.array([-1e-9, 0.0, 1e-9, 50.0, -50.0]))
    assert edges.tolist() == [500, 500, 501, 1000, 0]


@pytest.mark.parametrize(("cap", "taken"), [(1, [1, 0, 0]), (7, [3, 2, 2]), (99, [9, 5, 2])])
def test_a_cap_is_spread_evenly_and_small_groups_stay_whole(cap: int, taken: list[int]) -> None:
    groups = ["A0"] * 9 + ["A1"] * 5 + ["Q1"] * 2
    chosen = [groups[i] for i in report_samples.evenly(groups, cap, seed=0)]
    assert [chosen.count(name) for name in ("A0", "A1", "Q1")] == taken


def test_pieces_of_a_text_lose_and_repeat_nothing() -> None:
    assert report_samples.pieces("abcdef", [(3, 9), (1, 4)]) == ["a", "bcd", "", "ef", ""]
    assert report_samples.pieces("a" * 1300, [])[0].endswith("a … (100 more characters)")


def test_a_page_stays_below_its_size_or_says_that_it_cannot(
    run: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "PICTURES", 150)
    whole, facts = report.build(run)
    assert (whole.count("<img "), whole.count("Not embedded")) == (1, 2)
    monkeypatch.setattr(report, "MOST", facts["bytes"] - 20_000)
    smaller, facts = report.build(run)
    most = facts["most_samples"]
    assert len(smaller.encode()) < report.MOST and most < SAMPLES
    assert f"holds {most} of {SAMPLES} samples a cell" in Page(smaller).text
    monkeypatch.setattr(report, "MOST", 1000)
    with pytest.raises(AnchorscopeError, match="in tables alone\n.*pair\n.*fewer figures"):
        report.build(run)


def test_cells_without_a_signal_are_named_and_not_interpreted(page: Page) -> None:
    said = page.text.index("1 of 4 cells has no signal.")
    assert "second on hard" in page.text[said : said + 300]
    tables = page.text[page.text.index("The comparisons that") :].split("What the columns mean")
    for rows in tables[:5]:
        assert "hard ✗ no signal" in rows and "Easy ✗ no signal" not in rows
    assert tables[0].count(curve.NOT_INTERPRETABLE) == 12  # six contrasts, two quantities
    assert [page.json[f"samples-{i}"]["signal"] for i in range(4)] == [True, True, True, False]


def test_the_summary_says_what_flips_and_what_follows(page: Page) -> None:
    assert "In 3 of 3 cells with a signal, significantly more of the probe's" in page.text
    assert "95 % of the Q-Anchored right answers are judged wrong" in page.text
    assert (
        "behind a placebo, for which they stay right, 3 %" in page.text
        and "above the hardest floor" in page.text
    )
    assert "n = 1,000 samples a cell; bands: pointwise 95 % intervals" in page.text


@pytest.mark.parametrize(
    ("value", "low", "why"),
    [(-0.06, -0.1, "but"), (0.03, -0.01, "not significantly above what"), (0.1, 0.05, "0.60. No")],
)
def test_no_signal_is_said_with_its_reason(value: float, low: float, why: str) -> None:
    auc = {"value": 0.62, "low": 0.55, "high": 0.69}
    found = {"signal": False, "probe_auc": auc, "floor": {"name": "question", "auc": 0.91}}
    words = cell_summary.templates(autoescape=False).get_template("cell.txt").module
    said = words.signal(found | {"gain": {"value": value, "low": low, "high": 1}})
    assert said.startswith("No signal: AUC 0.62\u00a0[0.55,\u00a00.69], ") and why in said


def test_calibration_and_null_controls_are_shown_where_measured(page: Page, tmp_path: Path) -> None:
    for target in ("calibration", "null-controls", "--force "):
        assert f"snakemake --cores all {target}" in page.text
    config = finished(tmp_path / "results")
    row = {"floor": "seal", "scope": "cell", "model": "first", "dataset": "easy"}
    row |= {"required": "exactly 0", "measured": 0.5, "holds": False}
    write_csv(pd.DataFrame([row]), tmp_path / "results/tables/calibration-floors.csv")
    null: dict[str, Any] = dict.fromkeys((*ENDS, *FLOOR), 0.7)
    null |= {"control": "untrained", "expectation": "why", "model": "gone", "dataset": "hard"}
    null |= {"site": "mlp", "position": "final", "empty": True, "floor": "text"}
    null |= {"matched_follows": 0.04, "matched_n": 25}
    write_csv(pd.DataFrame([null]), tmp_path / "results/tables/null-controls.csv")
    found = Page(report.build(config)[0]).text
    assert "Not everywhere" in found and "Missed: seal, First <b>model</b> on Easy: 0.500" in found
    assert "1 of 1 read-outs came out empty" in found and "0.70 text" in found
    assert "4 % of 25" in found and "random_draws: 5" in found and "random_draws" not in page.text


def test_samples_lost_timings_and_sources_are_those_of_the_run(run: Config, page: Page) -> None:
    found = run_facts.funnel(run.root, "first", "easy")
    assert list(found["kept"].values()) == [98, 94, SAMPLES, SAMPLES, SAMPLES]
    assert found["rows"] - sum(count for *_, count in found["dropped"]) == SAMPLES
    assert found["dropped"][0] == ("questions", "equal question folded", 2)
    assert found["noted"] == {"empty golds left out": 3} and "noted: 3 empty golds" in page.text
    (Path(run.root) / "benchmarks" / "crashed.tsv").touch()
    (spent,) = run_facts.timings(run.root)
    assert (spent["jobs"], spent["seconds"], spent["longest_job"]) == (2, 102.5, "hard")
    facts = run_facts.model_facts(run.model_copy(update={"limit": 5}), "second")
    assert (facts["source"], facts["revision"]) == ("hub: owner/second", "abc123")
    assert Config.model_validate(run_facts.resolved(run)).figures == run.figures


@pytest.mark.parametrize(
    "given", [{}, {"limit": 50, "keep": False}, {"limit": None, "targets": ["a", "b"]}]
)
def test_options_can_be_pasted(given: dict[str, Any]) -> None:
    from snakemake.cli import parse_config

    files, _, keys = run_facts.options(["a b.yaml"], given).partition(" --config ")
    assert files == " --configfile 'a b.yaml'" and parse_config(shlex.split(keys)) == given


@needs_browser
def test_a_reader_can_page_sort_and_filter_and_nothing_planted_runs(
    run: Config, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(report.build(run)[0], encoding="utf-8")
    with driven(path, width=600) as opened:
        page = opened.page
        marks = page.locator(".sample mark.eq")
        marked = marks.all_text_contents()
        while page.locator("#next").is_enabled():
            page.click("#next")
            marked += marks.all_text_contents()
        assert set(marked) == set(HOSTILE) and len(marked) == SAMPLES
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.locator("#curve-pair th button").nth(7).click()
        cells = page.locator("#curve-pair tbody td:nth-child(8)")
        shown = cells.evaluate_all("all => all.map((one) => one.dataset.value ?? null)")
        known = [float(value) for value in shown if value is not None]
        assert known == sorted(known) and len(known) > 4
        page.fill("#curve-pair input", "hard q-anch")
        page.wait_for_timeout(300)
        left = page.locator("#curve-pair tbody tr:not([hidden])").all_text_contents()
        assert left and all("hard" in row and "Q-Anchored" in row for row in left)
        page.select_option("#cell", "3")
        page.locator("#weak").wait_for()
        assert page.title() == "Anchorscope: pair"
        assert opened.wrong == opened.asked == []
