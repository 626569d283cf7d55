"""`llama-3.2` on real rows: its two models as small random ones of 16 and 28 layers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from workflow import PROJECT, Workspace, workspace

from anchorscope.calibration import training
from anchorscope.storage.files import read_csv, read_json, read_parquet

REAL = PROJECT / "../shared/data"
SOURCES = {
    "popqa": "popqa/test.jsonl",
    "trivia-qa": "trivia_qa/validation.jsonl",
    "hotpot-qa": "hotpot_qa/validation.jsonl",
    "nq": "nq_open/validation.jsonl",
}
MODELS = {"llama-3.2-1b": 16, "llama-3.2-3b": 28}
SAMPLES = 80
ROWS = 300
Row = dict[str, Any]

pytestmark = pytest.mark.skipif(
    not all((REAL / path).is_file() for path in SOURCES.values()),
    reason="the real rows of the four datasets are absent (../shared/data)",
)


def gold(name: str, row: Row) -> str:
    """The first gold answer of a row in the hub's own columns."""
    if name == "popqa":
        return str(json.loads(row["possible_answers"])[0])
    if name == "trivia-qa":
        return str(row["answer"]["value"])
    return str(row["answer"] if name == "hotpot-qa" else row["answer"][0])


def answered(name: str, seed: int) -> Iterator[Row]:
    """Real rows with a response, and a label that the seed alone decides."""
    rng = Random(f"{name} {seed}")
    text = (REAL / SOURCES[name]).read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.split("\n")[:ROWS] if line]
    for row in rows:
        row.pop("context", None)
        yield {**row, "response": gold(name, rng.choice(rows)), "label": rng.randrange(2)}


def write_rows(folder: Path) -> dict[str, Path]:
    """The rows of each dataset as a local file with the hub's columns and two more."""
    folder.mkdir()
    files = {name: folder / f"{name}.jsonl" for name in SOURCES}
    for name, path in files.items():
        lines = [json.dumps(row, ensure_ascii=False) for row in answered(name, 0)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return files


def save_model(folder: Path, layers: int, texts: list[str]) -> None:
    """A Llama of small width with random weights and a tokenizer of its own."""
    tokenizer = training.train_tokenizer(texts, vocabulary=2000)
    shape = {"architecture": "llama", "layers": layers, "width": 32, "mlp": 64}
    model = training.new_model(shape | {"heads": 4, "kv_heads": 2}, tokenizer, seed=layers)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The finished figure, from a config that replaces models and datasets by local ones."""
    base = tmp_path_factory.mktemp("published")
    files = write_rows(base / "rows")
    texts = [line for path in files.values() for line in path.read_text().split("\n")[:200]]
    for name, layers in MODELS.items():
        save_model(base / name, layers, texts)
    added = {"response": "response", "label": "label"}
    outside = {"split": None, "file": None, "rows": "outside"}
    overlay = {
        "sample_size": SAMPLES,
        "generation": {"few_shot_examples": 2},
        "bootstrap": {"draws": 200},
        "models": {
            name: {"hub": None, "local": str(base / name), "gated": False} for name in MODELS
        },
        "datasets": {
            name: {"hub": None, "config": None, "split": None, "local": str(path), "fields": added}
            | ({} if name == "popqa" else {"few_shot": outside})
            for name, path in files.items()
        },
    }
    clone = workspace(base / "clone", overlay)
    clone.build("llama-3.2")
    return clone


def test_every_cell_and_layer_is_in_the_table_and_every_sample_counted(run: Workspace) -> None:
    table = read_csv(run.results / "tables/llama-3.2.csv")
    layers = table.groupby(["model", "dataset"], sort=False)["layer"].nunique().to_dict()
    assert layers == {(model, name): count for model, count in MODELS.items() for name in SOURCES}
    for model, name in layers:
        cell = f"answers/{model}/{name}.parquet.provenance.json"
        counts = read_json(run.results / cell)["counts"]
        assert counts["in"] == SAMPLES == counts["kept"] + sum(counts["dropped"].values())


def test_responses_and_labels_are_taken_as_they_are(run: Workspace) -> None:
    for name in SOURCES:
        given = {row["question"].strip(): row for row in answered(name, 0)}
        answers = read_parquet(run.results / f"answers/llama-3.2-1b/{name}.parquet")
        kept = answers[answers["dropped"].isna()]
        assert len(kept) >= 0.8 * SAMPLES and kept["from_user"].all()
        for row in kept.to_dict("records"):
            given_row = given[row["question"].strip()]
            assert row["label"] == given_row["label"]
            assert row["ea_text"].strip() in given_row["response"]


def test_the_figure_says_that_it_sees_no_signal(run: Workspace) -> None:
    spec = read_json(run.results / "figures/llama-3.2.vl.json")
    said = " ".join(spec["title"]["subtitle"])
    assert "No signal (hollow grey): every cell at every layer." in said


def test_a_built_figure_is_held_against_what_was_published(run: Workspace) -> None:
    run.build("reproduction")
    found = read_csv(run.results / "tables/reproduction.csv")
    judged = found[found["verdict"] != "not run"]
    assert set(judged["figure"]) == {"llama-3.2"} and set(judged["model"]) == set(MODELS)
    depth = judged[judged["id"] == "layers"]
    assert depth["measured"].str.startswith(("16 layers", "28 layers")).all()
    assert (depth["verdict"] == "within").all()
