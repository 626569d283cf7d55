"""The report's page: what it says, what it leaves out, and that texts stay texts."""

from __future__ import annotations

import json
import re
import shlex
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from report_run import CELLS, HOSTILE, RESOURCES, SAMPLES, finished, question

from anchorscope.config.settings import Config
from anchorscope.figures import report_html
from anchorscope.report import (
    cell_words,
    report,
    report_data,
    report_samples,
    report_settings,
    report_summary,
    report_tables,
)
from anchorscope.storage import provenance
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import write_csv, write_json
from anchorscope.storage.provenance import record

# how the captions of tables begin
WORDS = {
    "curve": "ΔP by group.",
    "contrasts": "What carries",
    "controls": "What flips by itself. At",
    "aucs": "What the probes know. At",
    "floors": "What the text alone tells, and the probe beyond it. At",
}


class Page(HTMLParser):
    """The elements of a page, the text outside scripts and styles, and its JSON."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.json, self._inside = "", {}, ""
        self._script: dict[str, str | None] = {}
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside, self._script = tag, dict(attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.text += data
        elif self._script.get("type") == "application/json":
            self.json[str(self._script["id"])] = json.loads(data)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return finished(tmp_path_factory.mktemp("run") / "results")


@pytest.fixture(scope="module")
def page(run: Config) -> Page:
    return Page(report.build(run, resources=RESOURCES, options=" --config limit=50").html)


def test_page_holds_every_section_and_asks_for_nothing(page: Page) -> None:
    sections = [about["id"] for tag, about in page.tags if tag == "section"]
    assert sections == [
        "summary", "reading", "figures", "tables", "calibration", "samples", "run",
        "timings-section",
    ]  # fmt: skip
    for _, about in page.tags:
        for name in ("src", "href"):
            address = about.get(name) or "#"
            assert address.startswith(("data:", "#", "../figures/pair", "../tables/pair")), address


def test_no_two_elements_share_an_id(run: Config) -> None:
    figures = {"pair": run.figures["pair"], "again": run.figures["pair"]}
    root = Path(run.root)
    for path in [*root.glob("figures/pair*"), *root.glob("tables/pair*")]:
        twin = path.with_name(path.name.replace("pair", "again"))
        twin.write_bytes(path.read_bytes())
    two = run.model_copy(update={"figures": figures, "targets": ["pair", "again"]})
    found = Page(report.build(two, resources=RESOURCES).html)
    names = [about["id"] for _, about in found.tags if about.get("id")]
    assert sorted(names) == sorted(set(names))
    assert {"curve-pair", "curve-again"} < set(names)
    assert len(found.json) == len(CELLS)


def test_how_much_wider_intervals_would_be_is_said_where_it_was_measured(tmp_path: Path) -> None:
    config = finished(tmp_path / "results")
    controls = pd.read_csv(tmp_path / "results/tables/pair.controls.csv")
    chosen = controls[controls["headline"]][["model", "dataset", "site", "position", "layer"]]
    shares = chosen.assign(quantity="share", inflation=[1.0, 1.1, 1.2, float("nan")])
    depths = chosen.assign(quantity="delta_p_q", inflation=[2.0, 2.5, 3.0, 4.0])
    known = pd.concat([shares, depths])
    elsewhere = known.assign(layer=-1, inflation=999.0)
    table = pd.concat([known, elsewhere])
    write_csv(table, tmp_path / "results/tables/pair.refits.csv")
    found = Page(report.build(config, resources=RESOURCES).html).text
    assert "ΔP of the Q group: 2.75; share of flips: 1.10." in found


def test_hostile_texts_are_text_and_come_back_whole(page: Page, run: Config) -> None:
    made = {tag for tag, _ in page.tags}
    assert not made & {"b", "i", "iframe", "object", "form", "base"}
    assert all("onerror" not in about for _, about in page.tags)
    assert sum(tag == "script" for tag, _ in page.tags) == len(CELLS) + len(report.SCRIPTS)
    shown = page.json["samples-0"]["samples"]
    texts = {sample["q"][1] for sample in shown}
    assert texts == set(HOSTILE)
    assert "First <b>model</b>" in page.text


def test_pieces_mark_exactly_the_spans(page: Page) -> None:
    for sample in page.json["samples-0"]["samples"]:
        i = int(sample["id"].removeprefix("row-"))
        prompt, start, end = question(i)
        assert "".join(sample["q"]) == prompt[start:end]
        assert sample["q"][1] == HOSTILE[i % len(HOSTILE)]
        assert sample["y"][1] == f"word{i % 7}"


def test_samples_carry_the_scores_and_their_classes(page: Page, run: Config) -> None:
    whole = page.json["samples-0"]
    scores = pd.read_parquet(Path(run.root) / "scores" / "first" / "easy.parquet")
    by = scores.set_index(["condition", "id", "layer"])["s"]
    for sample in whole["samples"]:
        for key, condition in (("c", "clean"), ("x", "knockout"), ("r", "random")):
            s = np.array([by[condition, sample["id"], k] for k in range(whole["layers"])])
            p = np.array(sample[key]) / 1000
            assert np.allclose(p, 1 / (1 + np.exp(-s)), atol=0.0011)
            assert ((p > 0.5) == (s > 0)).all()
        at = whole["layer"]
        flipped = (sample["c"][at] > 500) != (sample["x"][at] > 500)
        assert sample["a"] == ("Q" if flipped else "A")


def test_thousandths_never_cross_one_half() -> None:
    found = report_samples._thousandths(np.array([-1e-9, 0.0, 1e-9, 50.0, -50.0]))
    assert found.tolist() == [500, 500, 501, 1000, 0]


@pytest.mark.parametrize("cap", [1, 3, 7, 12, 100])
def test_a_cap_is_spread_evenly_and_small_groups_stay_whole(cap: int) -> None:
    groups = ["A0"] * 9 + ["Q1"] * 2 + ["A1"] * 5
    chosen = report_samples.evenly(groups, cap, seed=0)
    assert len(chosen) == len(set(chosen)) == min(cap, len(groups))
    taken = {name: sum(groups[i] == name for i in chosen) for name in set(groups)}
    unfilled = [taken[name] for name in taken if taken[name] < groups.count(name)]
    assert max(taken.values()) - min(unfilled, default=max(taken.values())) <= 1
    assert chosen == report_samples.evenly(groups, cap, seed=0)


def test_a_capped_page_states_how_many_samples_it_holds(run: Config) -> None:
    made = report.build(run, resources=RESOURCES, cap=10)
    assert set(made.facts["samples_shown"].values()) == {10}
    assert f"10 of {SAMPLES} samples a cell" in Page(made.html).text


def test_too_many_samples_make_the_cap_smaller(
    run: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "SAMPLES_MB", 0.02)
    made = report.build(run, resources=RESOURCES)
    shown = sum(len(json.dumps(v)) for v in Page(made.html).json.values())
    assert shown < 0.03e6
    assert max(made.facts["samples_shown"].values()) < SAMPLES


def test_pictures_beyond_the_room_are_linked(run: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "PICTURES_MB", 1e-5)
    found = Page(report.build(run, resources=RESOURCES).html)
    assert sum(tag == "img" for tag, _ in found.tags) == 0
    assert found.text.count("Not embedded") == 3


def test_a_picture_that_is_linked_takes_no_room_from_the_others(tmp_path: Path) -> None:
    config = finished(tmp_path / "results")
    first = tmp_path / "results/figures/pair.svg"
    first.write_text(first.read_text(encoding="utf-8") + " " * 5_000_000, encoding="utf-8")
    made = report.build(config, resources=RESOURCES).html
    assert sum(tag == "img" for tag, _ in Page(made).tags) == 2
    assert Page(made).text.count("Not embedded") == 1


def test_a_page_stays_below_its_size_and_says_so_where_it_cannot(
    run: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = report.build(run, resources=RESOURCES)
    samples = sum(len(json.dumps(v)) for v in Page(whole.html).json.values())
    monkeypatch.setattr(report, "MOST", whole.facts["bytes"] - samples // 2)
    smaller = report.build(run, resources=RESOURCES)
    assert len(smaller.html.encode()) == smaller.facts["bytes"] <= report.MOST
    assert 0 < max(smaller.facts["samples_shown"].values()) < SAMPLES
    monkeypatch.setattr(report, "MOST", 1000)
    with pytest.raises(AnchorscopeError, match="in tables alone\n.*pair\n.*fewer figures"):
        report.build(run, resources=RESOURCES)


def test_cells_without_a_signal_are_counted_and_named_first(page: Page, run: Config) -> None:
    said = page.text.index("1 of 4 cells has no signal.")
    assert said < page.text.index("How to read it", said)
    assert "second on hard" in page.text[said : said + 300]
    # and beside every number of that cell, and in the explorer
    for name in WORDS:
        rows = page.text[page.text.index(WORDS[name]) :].split(report_tables.AT_HEADLINE)[1]
        assert f"hard {report_tables.NO_SIGNAL}" in rows, name
        assert f"Easy {report_tables.NO_SIGNAL}" not in rows
    assert [page.json[f"samples-{i}"]["signal"] for i in range(4)] == [True, True, True, False]
    assert page.text.count("second on hard (no signal)") == 1
    assert report.build(run, resources=RESOURCES).facts["weak"] == ["second/hard"]


def test_contrasts_without_a_signal_are_not_interpretable(page: Page) -> None:
    rows = page.text[page.text.index("What carries the claim") :]
    told = rows[: rows.index("What the columns say")]
    assert told.count(cell_words.NOT_INTERPRETABLE) == 12  # six contrasts of two quantities
    assert told.count("shown") == 3 * 12
    glance = page.text[page.text.index("Intervals in brackets.") :]
    glance = glance[: glance.index("What the columns say")]
    assert glance.count(cell_words.NOT_INTERPRETABLE) == 2


def test_the_summary_says_what_follows_a_matched_question(page: Page) -> None:
    assert "In 3 of 3 cells with a signal surely more" in page.text
    said = (
        "for which they are wrong, 95\u00a0% of the Q-Anchored right answers turn, 3\u00a0% behind"
    )
    assert said in page.text and "(coverage 75\u00a0%)" in page.text
    assert "reading it adds" in page.text and "above the hardest floor" in page.text


def test_a_run_without_matched_questions_says_nothing_of_them(tmp_path: Path) -> None:
    config = finished(tmp_path / "results")
    for path in tmp_path.glob("results/*/**/*.interchange.csv"):
        write_csv(pd.read_csv(path).head(0), path)
    found = Page(report.build(config, resources=RESOURCES).html)
    assert "behind a placebo" not in found.text and "interchange-pair" not in found.text


def cell_found(**more: Any) -> dict[str, Any]:
    """A cell as far as its sentences go."""
    interval = {"value": 0.93, "low": 0.91, "high": 0.95}
    found: dict[str, Any] = {"signal": True, "layer_signal": True, "probe_auc": interval}
    found |= {"floor": {"name": "text", "auc": 0.85}, "layers": 4, "layers_without_signal": [0]}
    found |= {"gain": {"value": 0.08, "low": 0.04, "high": 0.12}}
    found |= {"prompt_end": {"value": 0.8, "low": 0.78, "high": 0.82}}
    found |= {"added": {"value": 0.13, "low": 0.1, "high": 0.16}}
    matched = {"value": 0.97, "low": 0.9, "high": 1.0, "pairs": 1200, "coverage": 0.6}
    arms = {"matched": matched | {"source": "relations"}, "placebo": matched | {"value": 0.03}}
    return found | {"follows": arms} | more


def test_sentences_of_a_cell_say_what_is_known_and_what_is_not() -> None:
    plain = {
        name: getattr(cell_words, name)(cell_found()) for name in ("signal", "added", "unseen")
    }
    plain = {name: said.replace("\u00a0", " ") for name, said in plain.items()}
    assert plain["signal"] == (
        "The probe knows more than the text: AUC .93 [.91, .95], .08 [.04, .12] above the hardest "
        "floor (question and response together)."
    )
    assert plain["added"] == (
        "Before the answer is read the probe already reaches .80 [.78, .82]; "
        "reading it adds .13 [.10, .16]."
    )
    assert plain["unseen"].startswith("No signal at 1 of 4 layers: contrasts there are not inter")
    follows = cell_words.follows(cell_found()).replace("\u00a0", " ")
    assert "97 % [90, 100] follow a matched question (1,200 pairs, coverage 60 %)" in follows
    assert follows.endswith("placebo 3 % [90, 100].")


@pytest.mark.parametrize(
    ("gain", "auc", "why"),
    [
        ((-0.06, -0.1, -0.02), 0.85, "but the question's text alone reaches .91. Nothing of"),
        ((0.03, -0.01, 0.07), 0.85, "not surely above what the question's text alone reaches, .91"),
        ((0.1, 0.05, 0.15), 0.62, "not surely above .60. Nothing of this cell's figure can be"),
        ((None, None, None), 0.62, "not surely above .60."),
    ],
)
def test_no_signal_is_said_with_its_reason(gain: Any, auc: float, why: str) -> None:
    floor = {"name": "question", "auc": 0.91}
    ends = {"value": auc, "low": auc - 0.04, "high": auc + 0.04}
    more = dict(zip(("value", "low", "high"), gain, strict=True))
    said = cell_words.signal(cell_found(signal=False, gain=more, floor=floor, probe_auc=ends))
    assert said.startswith("No signal: AUC ") and why in said


def test_a_layer_without_signal_leaves_what_follows_open() -> None:
    found = cell_found(layer_signal=False)
    assert cell_words.NOT_INTERPRETABLE in cell_words.follows(found)
    none = {"matched": None, "placebo": None}
    assert cell_words.follows(cell_found(follows=none)) == ""
    unknown = {"value": None, "low": None, "high": None}
    assert cell_words.added(cell_found(prompt_end=unknown, added=unknown)) == ""
    assert "not surely anything" in cell_words.added(
        cell_found(added={"value": 0.01, "low": -0.02, "high": 0.04})
    )


def test_a_null_control_is_no_cell_without_a_signal() -> None:
    row: dict[str, Any] = {"control": "untrained", "expectation": "nothing to read"}
    row |= {"model": "m", "dataset": "d"}
    row |= {"site": "mlp", "position": "final", "signal": False, "empty": True}
    row |= {"probe_auc": 0.5, "auc_low": 0.4, "auc_high": 0.6, "floor": "text", "floor_auc": 0.7}
    row |= {"gain": -0.2, "gain_low": -0.3, "gain_high": -0.1, "cell_signal": False}
    made = report_tables.nulls(pd.DataFrame([row]), {"m": "M"}, {"d": "D"})
    assert (
        report_tables.NO_SIGNAL not in made
        and "0.70 text" in made
        and "1 of 1 came out empty" in made
    )
    assert "<bdi>M</bdi>" in made and "<bdi>D</bdi>" in made


def summed_up(signal: bool = True, flips: float = 0.331, q: float = -80.6) -> dict[str, Any]:
    """A cell as far as the summary's words go."""
    return {
        "signal": signal,
        "layer_signal": signal,
        "flips": {"knockout": {"value": flips}},
        "delta_p": {"q_trough": {"value": q}, "a_mean_abs": 4.2},
    }


def test_the_summary_says_how_far_verdicts_with_a_signal_move() -> None:
    found = [summed_up(), summed_up(flips=0.252, q=-71.9), summed_up(signal=False, q=-99.0)]
    (said,) = report_summary._depths(found)
    assert "25 to 33\u00a0% of the verdicts flip" in said
    assert "reaches −72 to −81 points" in said and "move by 4 points" in said
    assert report_summary._depths([summed_up(signal=False)]) == []
    without = summed_up() | {"delta_p": {"q_trough": None, "a_mean_abs": 4.2}}
    assert report_summary._depths([summed_up(), without]) == []


def test_models_trained_here_are_said_to_be_tests_of_the_instrument(
    page: Page, run: Config
) -> None:
    said = " small, trained on invented facts"
    assert f"Those models that are trained here are{said}" in page.text
    assert f"The models are{said}" in report_summary._planted(run, [{"model": "first"}])
    assert report_summary._planted(run, [{"model": "second"}]) == ""


def test_what_a_column_holds_can_be_read_without_a_pointer() -> None:
    made = report_tables.controls("f", pd.DataFrame(), {}, {})
    for column in report_tables.FLIPS + report_tables.AUCS + report_tables.BESIDE:
        told = f"<dt>{escape(column.name)}</dt><dd>{escape(column.about)}</dd>"
        assert told in made and column.about


def test_a_run_without_random_cuts_says_what_it_cannot_tell(tmp_path: Path) -> None:
    config = finished(tmp_path / "results", random=False)
    found = Page(report.build(config, resources=RESOURCES).html)
    assert "No random control was measured" in found.text
    assert "r" not in found.json["samples-0"]["samples"][0]


def test_revisions_are_those_of_the_data_whatever_the_limit(run: Config) -> None:
    limited = run.model_copy(update={"limit": 5})
    assert limited.root != limited.results
    record(Path(run.results) / "data" / "hard.parquet", identity="", settings={}, revision="f00")
    assert report_data.dataset_facts(limited, "hard")["revision"] == "f00"
    facts = report_data.model_facts(limited, "second")
    assert (facts["source"], facts["revision"]) == ("hub: owner/second", "abc123")


def test_captions_state_readout_grouping_n_and_interval(page: Page) -> None:
    assert page.text.count("Read-out mlp/final; groups formed at each layer by its own flips") == 3
    assert page.text.count(f"n = {SAMPLES} samples a cell; bands: pointwise 95 % intervals") == 3


def test_commands_name_the_target_before_the_options(page: Page, run: Config) -> None:
    root = Path(run.root).as_posix()
    for product in ("figures/pair.svg", "figures/pair.probes.svg", "tables/pair.csv"):
        assert f"snakemake --cores all --force {root}/{product} --config limit=50" in page.text


def test_without_calibration_the_page_says_how_to_get_it(page: Page) -> None:
    assert "snakemake --cores all calibration --config limit=50" in page.text
    assert "snakemake --cores all null-controls" in page.text


def test_the_calibrations_verdict_is_in_words(tmp_path: Path) -> None:
    config = finished(tmp_path / "results")
    row = {"floor": "seal", "scope": "cell", "model": "first", "dataset": "easy"}
    rows = [
        row | {"required": "exactly 0", "measured": 0.0, "holds": True},
        row | {"floor": "probe AUC", "required": "at least 0.97", "measured": 0.5, "holds": False},
    ]
    write_csv(pd.DataFrame(rows), tmp_path / "results/tables/calibration-floors.csv")
    figure = {"title": {"text": "T", "subtitle": ["n = 12 samples;", "bars: 95 % intervals."]}}
    figures = tmp_path / "results/figures"
    (figures / "calibration.vl.json").write_text(json.dumps(figure), encoding="utf-8")
    (figures / "calibration.svg").write_text("<svg/>", encoding="utf-8")
    found = Page(report.build(config, resources=RESOURCES).html)
    assert "Not everywhere: the instrument falls short" in found.text
    assert "1 of 2 floors hold." in found.text
    missed = "Missed: probe AUC, First <b>model</b> on Easy: 0.500, required at least 0.97."
    assert missed in found.text
    assert "n = 12 samples; bars: 95 % intervals." in found.text
    assert any(about.get("href") == "../figures/calibration.html" for _, about in found.tags)
    assert f"--force {config.root}/figures/calibration.svg" in found.text
    assert "random_draws: 5" in found.text
    rows[1]["holds"] = True
    write_csv(pd.DataFrame(rows), tmp_path / "results/tables/calibration-floors.csv")
    assert "Yes, on these models" in report.build(config, resources=RESOURCES).html


def test_the_words_of_tables_and_verdict_are_explained(page: Page) -> None:
    html = (RESOURCES / "page.html").read_text(encoding="utf-8")
    explained = re.findall(r"<dt[^>]*>(.*?)</dt><dd>", html)
    terms = {
        "Probe AUC",
        "Hardest floor",
        "No signal",
        "Read-out",
        "Floor",
        "Sensitivity",
        "Truism, myth",
        "Prior",
    }
    assert terms <= set(explained) and len(explained) == len(set(explained))
    assert all(term in page.text for term in explained)


def test_a_pictures_labels_state_n_where_it_is_recorded(tmp_path: Path) -> None:
    found = tmp_path / "f.provenance.json"
    assert report_settings.labels("f", found) == {"picture": "f"}
    cells = {f"m/{d}": {"in": 900, "kept": kept} for d, kept in (("a", 812), ("b", 1000))}
    write_json({"counts_by_cell": cells}, found)
    told = {"picture": "f", "samples a cell": "812 to 1,000"}
    assert report_settings.labels("f", found) == told


def test_settings_of_a_calibration_are_told_where_it_is_shown(page: Page, run: Config) -> None:
    assert "random_draws: 5" not in page.text
    assert "calibration" not in report_settings.resolved(run, calibration=False)
    known = run.calibration.model_copy(update={"models": ["second"], "datasets": ["hard"]})
    alone = run.figures["pair"].model_copy(update={"models": ["first"], "datasets": ["easy"]})
    other = run.model_copy(update={"calibration": known, "figures": {"pair": alone}})
    assert set(report_settings.resolved(other)["models"]) == {"first", "second"}
    assert set(report_settings.resolved(other, calibration=False)["models"]) == {"first"}


def test_the_funnel_counts_each_lost_sample_once(run: Config) -> None:
    found = report_data.funnel(run.root, "first", "easy")
    assert found.rows == 100
    assert list(found.kept.values()) == [98, 94, SAMPLES, SAMPLES, SAMPLES]
    assert found.dropped == [
        ("data", "equal question folded", 2),
        ("prompts", "no question anchor", 4),
        ("answers", "no answer anchor", 94 - SAMPLES),
    ]
    assert found.rows - sum(count for *_, count in found.dropped) == SAMPLES


def test_what_a_limit_leaves_out_is_in_the_funnel(run: Config, tmp_path: Path) -> None:
    product = Path(run.root) / "delta_p" / "first" / "easy.csv"
    before = provenance.read(product)
    kept = {"in": 50, "kept": 50, "dropped": {}}
    inputs = {
        path: found if "/data/" in path else {**found, "counts": kept}
        for path, found in before["inputs"].items()
    }
    other = tmp_path / "delta_p" / "first" / "easy.csv"
    provenance.record(other, identity="d", settings={}, inputs=inputs)
    found = report_data.funnel(tmp_path, "first", "easy")
    assert ("prompts", report_data.BEYOND_LIMIT, 48) in found.dropped
    assert found.rows - sum(count for *_, count in found.dropped) == 50


def test_timings_add_up_by_stage(run: Config) -> None:
    (found,) = report_data.timings(run.root).to_dict("records")
    assert (found["stage"], found["jobs"], found["seconds"]) == ("scores", 2, 102.5)
    assert (found["longest_job"], found["memory_mb"]) == ("first / hard", 250.0)


def test_a_crashed_jobs_benchmark_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "report.tsv").write_text("", encoding="utf-8")
    assert report_data.timings(tmp_path).empty


def test_only_what_is_shown_of_the_catalogue_is_told(run: Config) -> None:
    told = report_settings.resolved(run)
    assert set(told["models"]) == {"first", "second"}
    assert Config.model_validate(told).figures == run.figures


@pytest.mark.parametrize(
    ("files", "given", "said"),
    [
        ([], {}, ""),
        (["a b.yaml"], {}, " --configfile 'a b.yaml'"),
        ([], {"limit": 50, "results": "out"}, " --config limit=50 results=out"),
        ([], {"keep_activations": False}, " --config keep_activations=False"),
        ([], {"limit": None, "targets": ["a", "b"]}, """ --config limit= 'targets=["a", "b"]'"""),
    ],
)
def test_options_can_be_pasted(files: list[str], given: dict[str, Any], said: str) -> None:
    from snakemake.cli import parse_config

    options = report_settings.options(files, given)
    assert options == said
    _, _, keys = options.partition(" --config ")
    assert parse_config(shlex.split(keys)) == given


def test_same_products_give_the_same_page(run: Config) -> None:
    first, second = (report.build(run, resources=RESOURCES).html for _ in range(2))
    assert first == second


def test_long_texts_are_cut_in_plain_sight() -> None:
    found = report_samples.clipped(["a" * 10, "b" * 10, "c" * 10], most=15)
    assert "".join(found) == "a" * 10 + "b" * 5 + " … (15 more characters)"
    assert found[1] == "b" * 5


@pytest.mark.parametrize(
    ("spans", "found"),
    [
        ([], ["abcdef"]),
        ([(0, 2)], ["", "ab", "cdef"]),
        ([(3, 5), (1, 3)], ["a", "bcde", "f"]),
        ([(4, 99), (2, 2)], ["abcd", "ef", ""]),
    ],
)
def test_spans_that_meet_are_one_piece(spans: list[tuple[int, int]], found: list[str]) -> None:
    assert report_samples.pieces("abcdef", spans) == found


@pytest.mark.parametrize(("value", "said"), [(-0.04, "0.0"), (-12.34, "−12.3"), (1234, "1,234.0")])
def test_numbers_have_a_real_minus_and_no_negative_zero(value: float, said: str) -> None:
    assert report_html.figures(value, 1) == said


def test_embedded_data_cannot_end_its_element() -> None:
    for text in HOSTILE:
        made = report_html.embedded("d", [text])
        inside = made[made.index(">") + 1 : made.rindex("<")]
        assert not re.search("[<>&\u2028\u2029]", inside)
        assert json.loads(inside) == [text]


def test_one_changed_script_would_not_run() -> None:
    assert report_html.script_source(["a"]) != report_html.script_source(["a "])
