"""The report's page: what it says, what it leaves out, and that texts stay texts."""

import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from browser import driven, needs_browser
from figure_tables import judged
from handmade import scores_of
from verdicts import TABLES, mixed, said_of

from anchorscope.cell import tables
from anchorscope.claims import CLAIMS, keys
from anchorscope.config.settings import Config
from anchorscope.report import cell_summary, report, report_samples, run_facts
from anchorscope.statistics.scores import PER_SAMPLE, Scores
from anchorscope.storage import provenance
from anchorscope.storage.counts import UNSURE, Counts
from anchorscope.storage.files import read_csv, write_csv, write_json, write_parquet

LAYERS, SAMPLES = 5, 72
HOSTILE = (
    "<script>document.title='owned'</script>",
    "</script><img src=x onerror=\"document.title='owned'\">",
    "\"'><b>bold</b>&amp; 👩\u200d🔬 and שלום",
    "\u202eright to left\u202c",
    "<!-- \u2028line\u2029paragraph",
    "$title ${style} {{ 7 * 7 }} {% raw %} %s",
)
Change = Callable[[pd.DataFrame], pd.DataFrame]
CELLS = [(model, dataset) for model in ("first", "second") for dataset in ("easy", "hard")]
ENTRIES = """
models:
  first: {local: first, label: First <b>model</b>}
  second: {hub: owner/second, revision: abc123}
datasets:
  easy: {local: rows.jsonl, fields: {question: q, answers: [a]}, label: Easy}
  hard: {hub: owner/hard, split: test, fields: {question: q, answers: [a]}}
figures: {pair: {models: [first, second], datasets: [easy, hard]}}
bootstrap: {draws: 20, min_n: 3, min_clusters: 2}
targets: [pair]
"""


class Page(HTMLParser):
    """The elements of a page, and the text outside scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.text = " ".join(self.text.replace("\u00a0", " ").split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] not in ("script", "style"):
            self.text += data


def finished(root: Path, told: Change = lambda claims: claims) -> Config:
    """Write every product that a report reads; the cell `second` on `hard` has no signal.

    `told` changes the figure's table of claims.
    """
    for model, dataset in CELLS:
        _cell(root, model, dataset, signal=(model, dataset) != ("second", "hard"))
    for end in TABLES:
        frames = [pd.read_csv(root / "delta_p" / m / f"{d}{end}.csv") for m, d in CELLS]
        table = tables.join(CELLS, frames)
        write_csv(told(table) if end == ".claims" else table, root / "tables" / f"pair{end}.csv")
    provenance.record(root / "tables" / "pair.csv", identity="t", settings={})
    (root / "figures").mkdir()
    svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 40" width="900"/>'
    for stem in ("pair", "pair.evidence"):
        (root / "figures" / f"{stem}.svg").write_text(svg, encoding="utf-8")
    return Config.model_validate(yaml.safe_load(ENTRIES) | {"results": str(root)})


def question(i: int) -> tuple[str, int, int]:
    """A prompt, and where its question starts and ends; an emoji stands before E_Q."""
    text = f"🦊 What does {HOSTILE[i % len(HOSTILE)]} do?"
    return f"Q: {text} A:", 3, 3 + len(text)


def _cell(root: Path, model: str, dataset: str, *, signal: bool) -> None:
    rng = np.random.default_rng(len(model) + len(dataset) + 10 * signal)
    z = rng.integers(0, 2, SAMPLES)
    (root / "scores" / model).mkdir(parents=True, exist_ok=True)
    _scores(z, rng, signal).write(root / "scores" / model / f"{dataset}.safetensors")
    for stage, table in {"answers": _answers(z), "prompts": _prompts()}.items():
        write_parquet(table, root / stage / model / f"{dataset}.parquet")
    for end, made in TABLES.items():
        table = made([(model, "")], [(dataset, "")], LAYERS).drop(columns=["model", "dataset"])
        table[[c for c in ("predicts", "cell_signal") if c in table and not signal]] = False
        if end == ".claims" and not signal:
            table = judged(table, "no", "signal")
        write_csv(table, root / "delta_p" / model / f"{dataset}{end}.csv")
    _records(root, model, dataset)


def _answers(z: np.ndarray) -> pd.DataFrame:
    evil, rows = [HOSTILE[(i + 3) % len(HOSTILE)] for i in range(SAMPLES)], []
    for i, label in enumerate(z):
        row = {"id": f"row-{i:03}", "question": question(i)[0][3:-3], "label": int(label)}
        row |= {"answer": f"It is word{i % 7} {evil[i]}", "ea_text": f"word{i % 7}"}
        row |= {"golds": [evil[i], *(f"alias {k}" for k in range(i % 20))]}
        row |= {"subject": f"subject {i // 2}", "kind": "plain" if i % 3 else "odd <i>kind</i>"}
        rows.append(row)
    fixed = {"popularity": float("nan"), "from_user": False, "repeats_subject": False}
    fixed["outcome"] = "right"
    return pd.DataFrame(rows).assign(relation="does", n_blocked=2, dropped=None, **fixed)


def _prompts() -> pd.DataFrame:
    rows = []
    for i in range(SAMPLES):
        (prompt, start, end), evil = question(i), HOSTILE[i % len(HOSTILE)]
        row = {"id": f"row-{i:03}", "prompt": prompt, "question_start": start, "question_end": end}
        at = prompt.index(evil)
        rows.append(row | {"eq_start": [at], "eq_end": [at + len(evil)], "dropped": None})
    return pd.DataFrame(rows)


def _scores(z: np.ndarray, rng: np.random.Generator, signal: bool) -> Scores:
    i, by_layer = np.arange(SAMPLES), []
    for layer in range(LAYERS):
        strength = 1.2 * layer if signal else 0.0
        clean = strength * np.where(z == 1, 1.0, -1.0) + rng.normal(0, 1, SAMPLES)
        near = clean + rng.normal(0, 0.05, SAMPLES)
        by_layer.append((clean, np.where(i % 3 == 0, -clean, near), near))
    found = dict(zip(("clean", "knockout", "random"), np.swapaxes(by_layer, 0, 1), strict=True))
    return scores_of(found, [f"row-{k:03}" for k in i], fold=i % 3, inner_auc=0.8)


WARNINGS = {"first": ["an incorrect <b>regex</b>"], "second": []}


def _records(root: Path, model: str, dataset: str) -> None:
    """Counts of every stage: 100 rows, two folded, 98 questions, four lost, then the rest."""
    lost = {"no question anchor": 4}
    notes = {
        "dataset": {"empty golds left out": 3, "rows mended": 0},
        "answers": {"E_A not sure": 2},
    }
    dropped = {"dataset": {"equal question folded": 2}, "prompts": lost}
    inputs, before = {}, []
    for stage in ("dataset", "prompts", "answers", "activations", "scores"):
        here = dropped.get(stage, lost | {"no answer anchor": 94 - SAMPLES})
        total = 100 if stage == "dataset" else 98
        counts = Counts(total, total - sum(here.values()), here, notes.get(stage, {})).as_dict()
        of = {"model": {"warnings": WARNINGS[model]}} if stage == "answers" else {}
        inputs[f"{root}/{stage}/x"] = {"rule": stage, "counts": counts, "made_from": before} | of
        before = [f"{root}/{stage}/x"]
    product = root / "delta_p" / model / f"{dataset}.csv"
    provenance.record(product, identity="d", settings={}, inputs=inputs, rule="delta_p")
    write_json({"revision": "abc123", "content": "0123456789abcdef"}, root / f"models/{model}.json")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return finished(tmp_path_factory.mktemp("run") / "results")


@pytest.fixture(scope="module")
def page(run: Config) -> Page:
    return Page(report.build(run))


def test_page_holds_every_section_and_asks_for_nothing(page: Page) -> None:
    assert sum(tag == "section" for tag, _ in page.tags) == 6
    names = [about["id"] for _, about in page.tags if about.get("id")]
    assert sorted(names) == sorted(set(names))
    for _, about in page.tags:
        address = about.get("src") or about.get("href") or "#"
        assert address.startswith(("data:", "#", "../figures/pair", "../tables/pair")), address


def test_hostile_texts_are_text_and_come_back_whole(run: Config, page: Page) -> None:
    assert not {tag for tag, _ in page.tags} & {"b", "i", "iframe", "object", "form", "base"}
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert "First <b>model</b>" in page.text
    shown = {about.get("data-value") for tag, about in page.tags if tag == "td"}
    assert {question(i)[0][3:-3] for i in range(SAMPLES)} <= shown
    marked = re.findall(r'<mark class="eq">(.*?)</mark>', report.build(run))
    assert {unescape(one) for one in marked} >= set(HOSTILE)


def test_samples_carry_their_scores_at_the_headline_layer(run: Config) -> None:
    cell = cell_summary.summary(run, "first", "easy", figure="pair")
    rows = report_samples.of_cell(run, cell, cap=SAMPLES)
    scores = Scores.read(f"{run.root}/scores/first/easy.safetensors")
    s = {name: scores.probes[f"mlp/final/{name}/0"][0, -1] for name in ("clean", "knockout")}
    for row in rows:
        i = int(row["id"].removeprefix("row-"))
        assert "".join(row["question"]) == question(i)[0][3:-3]
        assert (row["question"][1], row["answer"][1]) == (HOSTILE[i % len(HOSTILE)], f"word{i % 7}")
        assert row["p"] == pytest.approx(1 / (1 + np.exp(-s["clean"][i])))
        assert row["p_knockout"] == pytest.approx(1 / (1 + np.exp(-s["knockout"][i])))
        sign = 100 if row["p"] > 0.5 else -100
        assert row["delta_p"] == pytest.approx(sign * (row["p_knockout"] - row["p"]))
        assert row["group"] == ("A" if (row["p"] > 0.5) == (row["p_knockout"] > 0.5) else "Q")
    depths = [row["delta_p"] for row in rows]
    assert len(rows) == SAMPLES and depths == sorted(depths)


def test_an_answer_without_scores_is_not_shown(tmp_path: Path) -> None:
    run = finished(tmp_path / "results")
    path = Path(run.root, "scores/first/easy.safetensors")
    scores, others = Scores.read(path), np.arange(SAMPLES) != 1
    per_sample = {name: getattr(scores, name)[..., others] for name in ("ids", *PER_SAMPLE)}
    probes = {key: s[..., others] for key, s in scores.probes.items()}
    replace(scores, **per_sample, probes=probes).write(path)
    cell = cell_summary.summary(run, "first", "easy", figure="pair")
    shown = {row["id"] for row in report_samples.of_cell(run, cell, cap=SAMPLES)}
    assert len(shown) == SAMPLES - 1 and "row-001" not in shown


@pytest.mark.parametrize(("cap", "taken"), [(1, [1, 0, 0]), (7, [3, 2, 2]), (99, [9, 5, 2])])
def test_a_cap_is_spread_evenly_and_small_groups_stay_whole(cap: int, taken: list[int]) -> None:
    groups = ["A0"] * 9 + ["A1"] * 5 + ["Q1"] * 2
    chosen = [groups[i] for i in report_samples.evenly(groups, cap, seed=0)]
    assert [chosen.count(name) for name in ("A0", "A1", "Q1")] == taken


def test_cells_without_a_signal_are_named_and_not_interpreted(run: Config, page: Page) -> None:
    assert f"In 3 of 4 cells that can be judged, {CLAIMS['signal'].says}." in page.text
    missing = page.text.partition("What is missing")[2].partition("Cell by cell")[0]
    begins = f"In 1 of 4 cells, the test did not show that {CLAIMS['signal'].says}"
    assert f"{begins}: second on hard (" in missing
    for row in rows_of(report.build(run).replace("\u00a0", " "), "glance"):
        weak = (row["model"], row["dataset"]) == ("second", "hard")
        assert row["signal"] == ("no" if weak else "yes")
        assert (row["ΔP of Q"] == row["ΔP of A"] == "not predicted") == weak


def test_a_number_at_a_glance_stands_beside_the_n_of_its_row(tmp_path: Path) -> None:
    config = finished(tmp_path / "results")
    path = tmp_path / "results/tables/pair.csv"
    table = read_csv(path)
    table["n"] = 2001 + table.index
    write_csv(table, path)
    head = table["layer"] == LAYERS - 3
    rows = table[head].set_index(["model", "dataset", "condition", "anchor"])
    html = report.build(config).replace("\u00a0", " ")
    columns = {
        "samples": ("knockout", "all"),
        "flips, partner's question": ("crossed-knockout", "all"),
    }
    columns |= {f"ΔP of {group}": ("knockout", group) for group in "QA"}
    for cell, shown in zip(CELLS[:3], rows_of(html, "glance"), strict=False):
        for column, of in columns.items():
            n = f"{rows.loc[(*cell, *of), 'n']:,}"
            assert shown[column].endswith(n if column == "samples" else f", n = {n}")


def test_a_p_too_small_for_its_digits_is_not_written_as_zero(tmp_path: Path) -> None:
    config = finished(tmp_path / "results", lambda table: table.assign(p=1e-6))
    text = Page(report.build(config)).text
    assert "< 0.001" in text and "0.000 " not in text


def test_the_glossary_explains_only_what_was_run(run: Config, tmp_path: Path) -> None:
    whole = report.build(run)
    config = finished(tmp_path / "results")
    tables = tmp_path / "results/tables"
    write_csv(read_csv(tables / "pair.crossing.csv")[:0], tables / "pair.crossing.csv")
    controls = read_csv(tables / "pair.controls.csv")
    controls["crossed-knockout_flip_share"] = np.nan
    write_csv(controls, tables / "pair.controls.csv")
    bare = report.build(config)
    for term in ("Swap share", "Gold answers", "Partner's question"):
        assert f"<dt>{term}</dt>" in whole and f"<dt>{term}</dt>" not in bare


BEGINS = {
    "no": "In {} of 4 cells, the test did not show that",
    "too few": "In {} of 4 cells, data are too few to judge whether",
}
"""Verdict → the beginning of the sentence on what is missing."""


def rows_of(html: str, table: str) -> list[dict[str, str]]:
    """What a table of a page shows, by column."""
    part = html.partition(f'id="{table}"')[2].partition("</table>")[0]
    head = re.findall(r"<th [^>]*>(.*?)</th>", part)
    bodies = [re.findall(r"<bdi>(.*?)</bdi>", row) for row in part.split("<tr>")[2:]]
    return [dict(zip(map(unescape, head), map(unescape, body), strict=True)) for body in bodies]


def test_every_word_of_a_page_about_a_claim_is_the_verdict_of_the_table(tmp_path: Path) -> None:
    config = finished(tmp_path / "results", mixed)
    claims = read_csv(tmp_path / "results/tables/pair.claims.csv").fillna({"reason": ""})
    html = report.build(config).replace("\u00a0", " ")
    text = Page(html).text
    models, datasets = (
        {key: entry.label for key, entry in entries.items()}
        for entries in (config.models, config.datasets)
    )
    made, _, missing = text.partition("What may be claimed")[2].partition("What is missing")
    missing = missing.partition("Cell by cell")[0]
    for key, claim in CLAIMS.items():
        words, verdicts = claim.says, claims["verdict"][keys(claims) == key].tolist()
        judged = [one for one in verdicts if one in ("yes", "no")]
        shown = f"In {judged.count('yes')} of {len(judged)} cell"
        assert (words in made) == ("yes" in verdicts) and (shown in made or words not in made)
        for verdict, begins in BEGINS.items():
            sentence = re.escape(f"{begins} {words}").replace(r"\{\}", r"(\d+)")
            found = re.search(sentence, missing)
            assert (int(found[1]) if found else 0) == verdicts.count(verdict)
    places = [f"{models[m]} on {datasets[d]}: " for m, d in CELLS]
    sentences = text.partition("Cell by cell")[2]
    starts = [sentences.index(place) for place in places] + [
        sentences.index("For the claims, each sample")
    ]
    shown = {(row["model"], row["dataset"]): row for row in rows_of(html, "glance")}
    for key, row in zip(keys(claims), claims.to_dict("records"), strict=True):
        number = CELLS.index((row["model"], row["dataset"]))
        begins, unsaid = said_of(key, row)
        said = sentences[starts[number] : starts[number + 1]]
        assert begins in said and not any(words in said for words in unsaid)
        glance = shown[models[row["model"]], datasets[row["dataset"]]]
        assert glance[CLAIMS[key].called] == row["verdict"]
    assert not re.search(r"\b(nan|None)\b", text)


def test_samples_lost_and_sources_are_those_of_the_run(run: Config, page: Page) -> None:
    found = run_facts.funnel(run.root, "first", "easy")
    assert list(found["kept"].values()) == [98, 94, SAMPLES, SAMPLES, SAMPLES]
    assert found["rows"] - sum(count for *_, count in found["dropped"]) == SAMPLES
    assert found["dropped"][0] == ("questions", "equal question folded", 2)
    unsure = run_facts.NOTED[UNSURE]
    noted = {"empty golds left out": 3, unsure: 2}
    assert found["noted"] == noted and "noted: 3 empty golds" in page.text
    assert f"noted: 2 {unsure}" in page.text
    assert "First <b>model</b>, transformers warned: an incorrect <b>regex</b>" in page.text
    assert page.text.count("transformers warned") == 1
    facts = run_facts.model_facts(run.model_copy(update={"limit": 5}), "second")
    assert (facts["source"], facts["revision"]) == ("hub: owner/second", "abc123")
    assert Config.model_validate(run_facts.resolved(run)).figures == run.figures


@needs_browser
def test_a_reader_can_search_and_nothing_planted_runs(run: Config, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(report.build(run), encoding="utf-8")
    with driven(path, width=600) as opened:
        page = opened.page
        marked = page.locator("#all-samples mark.eq").all_text_contents()
        assert set(marked) == set(HOSTILE) and len(marked) == SAMPLES * len(CELLS)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.fill("#all-samples input", "hard wrong")
        page.wait_for_timeout(300)
        left = page.locator("#all-samples tbody tr:not([hidden])").all_text_contents()
        assert left and all("hard" in row and "wrong" in row for row in left)
        assert page.title() == "Anchorscope: pair"
        assert opened.wrong == opened.asked == []
