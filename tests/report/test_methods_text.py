"""What a paper says of a figure: its numbers, its claims, what it leaves unsaid, and references."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from figure_tables import REASONS, judged
from verdicts import mixed, tables_of, write
from workflow import PROJECT, SHIPPED, Workspace, merged

from anchorscope import __version__
from anchorscope.claims import CLAIMS
from anchorscope.config.shipped import complete
from anchorscope.experiments.registry import RunConfig
from anchorscope.report import methods
from anchorscope.statements import detection
from anchorscope.storage.counts import BEYOND_LIMIT
from anchorscope.storage.files import read_csv, read_json, write_json
from anchorscope.workflow.config import load

LAYERS = 4


@pytest.fixture(scope="module")
def config(tiny_run: Workspace) -> RunConfig:
    found = tiny_run.catalogue() | {"results": str(tiny_run.results)}
    return RunConfig.model_validate(complete(found))


@pytest.fixture(scope="module")
def said(config: RunConfig) -> str:
    return methods.text(config, "tiny").replace("\u00a0", " ")


def test_every_number_is_one_of_the_tables_records_and_settings(
    said: str, config: RunConfig
) -> None:
    curve = read_csv(Path(config.root) / "tables/tiny.csv")
    everyone = curve[(curve["condition"] == "knockout") & (curve["anchor"] == "all")]
    head = everyone[everyone["headline"] & (everyone["position"] == "final")].to_dict("records")[0]
    answers = read_json(Path(config.root) / "answers/tiny-llama/tiny-world.parquet.provenance.json")
    right, wrong = (answers["counts"]["notes"][name] for name in ("n_right", "n_wrong"))
    counted = f"{right}; {wrong}"
    assert f"{right} right and {wrong} wrong" in said and f"| {counted} | {counted} |" in said
    numbers = {str(head["n"]), str(right), str(wrong), str(head["layer"]), str(LAYERS - 1)}
    claims = read_csv(Path(config.root) / "tables/tiny.claims.csv")
    for row in claims[claims["position"] == "final"].to_dict("records"):
        percent = row["claim"] in ("comparison", "through_eq")
        factor, digits = (100, 0) if percent else (1, 2)
        numbers |= {
            f"{factor * row[name]:.{digits}f}" for name in ("estimate", "ci_low", "ci_high")
        }
        numbers |= {f"{row['p']:.3f}", str(row["n"]), *re.findall(r"[\d.]+", str(row["reason"]))}
    told = read_csv(Path(config.root) / "tables/tiny.summary.csv").query("position == 'final'")
    shown = " ".join(detection(told.to_dict("records")[0]).values()).replace("\u2212", "-")
    numbers |= {*re.findall(r"-?\d[\d.]*", shown)}
    # Layer 0, least and largest p, level of claims, least AUC of a signal, margin of the layers,
    # level of intervals, refits and folds, swap share of a sum.
    numbers |= {"0", "0.001", "1", "0.05", "0.6", "0.01", "95", "20", "3", "50"}
    text = re.sub(r"@\w+|Anchorscope [\d.]+|revision \w+, float32", "", said).replace("\u2212", "-")
    text = text.replace("0\u2013", "0 of ")  # of a range
    found = re.findall(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?", text)
    assert len(found) > 20 and {one for one in found if one not in numbers} == set()


SWAPPED = [key for key, claim in CLAIMS.items() if claim.unit == "pairs"]
"""Keys of the claims about swapped answers."""
MODELS = {
    "tuned": {"local": "/home/someone/checkpoints/tuned-3b"},
    "quantised": {"local": "files/of/mine.gguf", "label": "Quantised model, 4 bits"},
}
DATASETS = ("popqa", "trivia-qa", "hotpot-qa", "nq")
GIVEN = {"question": "q", "answers": ["a"], "response": "r", "label": "z"}
LONGEST: dict[str, Any] = {
    "datasets": {
        name: {"hub": None, "config": None, "local": f"/data/{name}.jsonl", "fields": GIVEN}
        for name in DATASETS
    },
    "probe": {"disjoint": "subject+answer"},
    "readouts": ["mlp/final", "mlp/before_answer"],
    "figures": {"mine": {"readout": "mlp/before_answer"}},
}


def eight_cells(root: Path, longest: bool, swapped: bool = True) -> str:
    """The methods of two local models on four datasets, with every clause that there is.

    If no answers were `swapped`, the claims on pairs are not measured.
    """
    figure: dict[str, Any] = {"models": [*MODELS], "datasets": [*DATASETS]}
    entries = merged(SHIPPED, {"models": MODELS, "figures": {"mine": figure}, "results": str(root)})
    chosen = load(merged(entries, LONGEST if longest else {}))
    tables = tables_of(*([(key, "") for key in keys] for keys in (MODELS, DATASETS)))
    if longest:
        wording = tables[".crossing"]["quantity"] == "by_wording"
        tables[".crossing"].loc[wording, "estimate"] = 1.0
        tables = {end: table.assign(position="before_answer") for end, table in tables.items()}
    tables[".claims"] = mixed(tables[".claims"])
    if not swapped:
        tables[".crossing"] = tables[".crossing"].head(0)
        tables[".claims"] = judged(tables[".claims"], "not measured", *SWAPPED)
    write(tables, root, "mine")
    for model in MODELS:
        record = {"revision": "e" * 40, "content": "0123456789abcdef" * 4}
        write_json(record | {"path": MODELS[model]["local"]}, root / f"models/{model}.json")
    return methods.text(chosen, "mine").replace("\u00a0", " ")


def cells_of(text: str) -> list[str]:
    """The rows of the table of claims, which comes last."""
    rows = text.rpartition("\n\n| cell |")[2].splitlines()
    return [line for line in rows[2:] if line.startswith("| ")]


@pytest.mark.parametrize("longest", [False, True], ids=["shipped", "longest"])
def test_the_paragraph_of_eight_cells_is_short_cites_and_names_no_place(
    longest: bool, tmp_path: Path
) -> None:
    text = eight_cells(tmp_path, longest)
    words = text.partition("\n\n")[2].partition("\n\n|")[0]  # between the title and the table
    assert "questions of PopQA, TriviaQA, HotpotQA and NQ: 8,000 answers" in words
    assert ("were given, not the model's own" in words) == longest
    assert ("alike in wording" in words) == longest
    assert 150 < len(words.split()) <= 250
    for key in methods.ALWAYS:
        assert f"[@{key}]" in words
    assert f"Anchorscope {__version__} [@anchorscope]" in words
    assert "/" not in words and not re.search(r"/\w+/|\.gguf|\.jsonl", text)
    assert not re.search(r"[0-9a-f]{16}|e{16}", text)
    assert not re.search(r"\b(nan|None)\b", text)
    cells = cells_of(text)
    assert len(cells) == 8 and cells[0].startswith("| tuned on PopQA | 1 of 0\u20133 |")
    assert all(line.count(" | ") == 1 + len(CLAIMS) for line in cells)


def test_what_was_not_run_is_not_told_as_run(tmp_path: Path) -> None:
    whole, bare = (eight_cells(tmp_path / str(run), False, run) for run in (True, False))
    for words in (
        "We swapped answers within pairs of questions of one relation",
        "share an answer",
    ):
        assert words in whole and words not in bare
    cells = cells_of(bare)
    unmeasured = f" not measured: {REASONS['not measured']} |" * len(SWAPPED)
    assert len(cells) == 8 and all(line.endswith(unmeasured) for line in cells)


def test_questions_that_were_lost_are_counted_by_reason_and_those_left_out_by_choice_are_not(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped = [
        ("questions", "equal question folded", 39),
        ("prompts", BEYOND_LIMIT, 378),
        ("answers", "no answer: refusal", 1200),
        ("measured", "too long", 3),
    ]
    funnel = methods.run_facts.funnel
    monkeypatch.setattr(
        methods.run_facts, "funnel", lambda *cell: funnel(*cell) | {"dropped": dropped}
    )
    of_each = len([*config.cells("tiny")])
    found = methods.text(config, "tiny")
    assert "Prompts used the style plain." in found
    assert (
        f"{1203 * of_each:,} other questions or answers were dropped: {1200 * of_each:,} for "
        f"“refusal”, {3 * of_each} for “too long”."
    ) in found


def test_a_prompt_says_how_its_template_treats_thinking(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = methods.provenance.read
    off = {"thinking": "thinking is switched off"}
    monkeypatch.setattr(methods.provenance, "read", lambda path: read(path) | off)
    found = methods.text(config, "tiny")
    assert "Prompts used the style plain (thinking is switched off)." in found


def parsed(text: str) -> dict[str, dict[str, str]]:
    """Entries of BibTeX by key, each with its fields."""
    found = re.findall(r"^@\w+\{([\w-]+),\n((?:  \w+ = \{.*\},\n)+)\}", text, re.M)
    assert len(found) == text.count("@")
    return {key: dict(re.findall(r"^  (\w+) = \{(.*)\},$", body, re.M)) for key, body in found}


def test_the_references_are_those_of_what_a_figure_used(config: RunConfig) -> None:
    assert set(parsed(methods.references(config, "tiny"))) == set(methods.ALWAYS)
    used = {"mallen2023popqa", "joshi2017triviaqa", "yang2018hotpotqa", "lee2019nqopen"}
    used |= {"kwiatkowski2019nq", "yang2025qwen3", *methods.ALWAYS}
    assert set(parsed(methods.references(config, "qwen3"))) == used


def test_every_entry_can_be_chosen_and_the_software_is_cited_as_its_citation_file_says() -> None:
    entries = parsed(methods.REFERENCES.read_text(encoding="utf-8"))
    named = {*methods.ALWAYS, *methods.OF_MODEL.values(), *sum(methods.OF_DATASET.values(), ())}
    assert set(entries) == named
    assert all({"title", "author"} <= set(entry) for entry in entries.values())
    cited = yaml.safe_load((PROJECT / "CITATION.cff").read_text(encoding="utf-8"))
    software, paper = entries["anchorscope"], entries["luo2026pathways"]
    assert software["title"] == cited["title"]
    assert software["note"] == f"Version {cited['version']}"
    assert re.sub("[{}]", "", paper["title"]) == cited["preferred-citation"]["title"]
