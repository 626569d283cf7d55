"""A published model the whole way: from the package index to a figure of real questions.

So few of its own answers are right that no probe can be fitted to a few, so the figure is of
responses that are given: every other one is a gold answer, the rest are the gold answers of other
questions. The model answers the last rows itself.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from workflow import PROJECT, Workspace, merged, workspace

from anchorscope.cli import convert
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_csv, read_json, read_parquet
from tools import first_model

pytestmark = pytest.mark.long

ROWS = PROJECT / ".." / "shared" / "data" / "popqa" / "test.jsonl"
N, OWN = 24, 4
"""Rows whose responses are given, and rows that the model answers."""
LAYERS = 30
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
    "readouts": ["mlp/final"],
    "probe": {"folds": 2, "inner_folds": 2, "grid": [0.01], "refits": 0},
    "bootstrap": {"draws": 50, "min_n": 5, "min_clusters": 3},
    "conditions": {"noop": None, "question": None, "crossed": None, "random": {"draws": 1}},
}  # fmt: skip


def overlay(name: str) -> Any:
    """The content of a file in resources/."""
    return yaml.safe_load((PROJECT / "resources" / name).read_text("utf-8"))


def built(folder: Path) -> Workspace:
    """A clone in which the figure was built, of the first rows of PopQA."""
    if not ROWS.is_file():
        pytest.skip("../shared/data/popqa/test.jsonl is absent")
    rows = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()[: N + OWN]]
    change = merged(merged(overlay("first-model.yaml"), overlay("local-rows.yaml")), SMALL)
    clone = workspace(folder, change)
    try:
        folder = clone.root / change["models"][MODEL]["local"]
        first_model.fetch(file := folder.with_name(f"{folder.name}.gguf"))
    except AnchorscopeError as error:
        pytest.skip(f"the model cannot be fetched: {error.what}")
    convert.convert(file, folder)
    gold = [json.loads(row["possible_answers"])[0] for row in rows]
    given = [
        row | {"label": n % 2, "response": gold[n - 1] if n % 2 else gold[n]}
        for n, row in enumerate(rows[:N])
    ]
    own = [row | {"label": None, "response": None} for row in rows[N : N + OWN]]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in given + own)
    (clone.root / "given.jsonl").write_text(lines, encoding="utf-8")
    clone.build("given")
    return clone


def test_responses_and_own_answers_go_the_whole_way_to_the_figure(tmp_path: Path) -> None:
    results = built(tmp_path / "clone").results / "first-model"
    located = read_json(results / "models" / f"{MODEL}.json")
    assert located["dequantised_from"] == "Q4_1" and Path(located["path"], "config.json").is_file()
    table = read_csv(results / "tables" / "given.csv")
    everything = table[(table["anchor"] == "all") & (table["condition"] == "knockout")]
    assert set(everything["layer"]) == set(range(LAYERS))
    (n,) = set(everything["n"])
    assert 0.8 * N <= n <= N + OWN
    path = results / "answers" / MODEL / "given.parquet"
    answers = read_parquet(path)
    kept = answers[answers["dropped"].isna()]
    counts = read_json(f"{path}.provenance.json")["counts"]
    assert len(answers) == N + OWN
    assert counts["kept"] == len(kept) == N + OWN - sum(counts["dropped"].values())
    own = kept[~kept["from_user"].astype(bool)]
    assert 1 <= len(own) <= OWN and own["ea_text"].str.len().min() > 0
