"""`llama-3.2` on real rows of four datasets: one of its models, as a small random one."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from workflow import PROJECT, Workspace, workspace

from anchorscope.config.sections import TrainSettings
from anchorscope.storage.files import read_csv, read_json, read_parquet
from validation import training

REAL = PROJECT / "../shared/data"
SOURCES = {
    "popqa": "popqa/test.jsonl",
    "trivia-qa": "trivia_qa/validation.jsonl",
    "hotpot-qa": "hotpot_qa/validation.jsonl",
    "nq": "nq_open/validation.jsonl",
}
MODELS = {"llama-3.2-1b": 16}
SAMPLES = 80
ROWS = 300
Row = dict[str, Any]

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not all((REAL / path).is_file() for path in SOURCES.values()),
        reason="the real rows of the four datasets are absent (../shared/data)",
    ),
]

GOLD: dict[str, Callable[[Row], str]] = {
    "popqa": lambda row: json.loads(row["possible_answers"])[0],
    "trivia-qa": lambda row: row["answer"]["value"],
    "hotpot-qa": lambda row: row["answer"],
    "nq": lambda row: row["answer"][0],
}
"""The first gold answer of a row in the hub's own columns."""


def answered(name: str) -> list[Row]:
    """Real rows with a response, and a label that the dataset's name alone decides."""
    rng = Random(f"{name} 0")
    lines = (REAL / SOURCES[name]).read_text(encoding="utf-8").split("\n")[:ROWS]
    rows = [json.loads(line) for line in lines if line]
    for row in rows:
        row.pop("context", None)
    drawn = [(GOLD[name](rng.choice(rows)), rng.randrange(2)) for _ in rows]
    return [row | {"response": r, "label": z} for row, (r, z) in zip(rows, drawn, strict=True)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The finished figure, from a config that replaces models and datasets by local ones."""
    base = tmp_path_factory.mktemp("published")
    texts, models, datasets = [], {}, {}
    here = {"hub": None, "fields": {"response": "response", "label": "label"}}
    for name in SOURCES:
        lines, path = [json.dumps(row) for row in answered(name)], base / f"{name}.jsonl"
        path.write_text("\n".join(lines), encoding="utf-8")
        texts += lines[:200]
        datasets[name] = here | {"config": None, "split": None, "local": str(path)}
        if name != "popqa":
            datasets[name]["few_shot"] = {"split": None, "file": None, "rows": "outside"}
    tokenizer = training.train_tokenizer(texts, vocabulary=2000)
    for name, layers in MODELS.items():
        shape = TrainSettings(
            datasets=list(SOURCES), architecture="llama", layers=layers, width=32, mlp=64
        )
        model = training.new_model(shape, tokenizer, seed=layers)
        model.save_pretrained(base / name)
        tokenizer.save_pretrained(base / name)
        models[name] = {"hub": None, "local": str(base / name), "gated": False}
    overlay = {"sample_size": SAMPLES, "generation": {"few_shot_examples": 2}}
    overlay |= {"bootstrap": {"draws": 200}, "models": models, "datasets": datasets}
    overlay |= {"figures": {"llama-3.2": {"models": list(MODELS)}}}
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
        given = {row["question"].strip(): row for row in answered(name)}
        answers = read_parquet(run.results / f"answers/llama-3.2-1b/{name}.parquet")
        kept = answers[answers["dropped"].isna()]
        assert len(kept) >= 0.8 * SAMPLES and kept["from_user"].all()
        for row in kept.to_dict("records"):
            given_row = given[row["question"].strip()]
            assert row["label"] == given_row["label"]
            assert row["ea_text"].strip() in given_row["response"]


def test_a_built_figure_says_that_it_sees_no_signal_and_is_held_against_what_was_published(
    run: Workspace,
) -> None:
    spec = read_json(run.results / "figures/llama-3.2.vl.json")
    said = " ".join([*spec["title"]["subtitle"], *spec["usermeta"]["details"]])
    assert "Not shown: signal" in said
    assert "Thin grey: layers without a signal." in said
    run.build("reproduction")
    found = read_csv(run.results / "tables/reproduction.csv")
    judged = found[found["verdict"] != "not run"]
    assert set(judged["figure"]) == {"llama-3.2"} and set(judged["model"]) == set(MODELS)
    depth = judged[judged["id"] == "layers"]
    assert depth["measured"].str.contains("16").all()
    assert (depth["verdict"] == "within").all()
