"""Paths of a run's products and of the files that it starts from."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from workflow import PROJECT, SHIPPED, merged

from anchorscope.config import shipped
from anchorscope.experiments.registry import RunConfig
from anchorscope.workflow.config import load
from anchorscope.workflow.paths import Paths


def config(**changes: Any) -> RunConfig:
    return load(merged(SHIPPED, changes))


def test_a_model_may_read_the_answers_of_another():
    reads = config(models={"mine": {"local": "folder", "answers_of": "qwen3-8b"}})
    paths = Paths(reads, PROJECT)
    there: Any = SimpleNamespace(model="mine", dataset="nq")
    assert paths.product("answers", ".parquet")(there) == "results/answers/qwen3-8b/nq.parquet"
    assert paths.product("scores")(there) == "results/scores/mine/nq"


def test_the_shipped_models_and_rows_are_found_from_any_folder(tmp_path, monkeypatch):
    folder, rows = "resources/models/calibration-llama", "resources/worlds/world-trivia.jsonl"
    for cwd, place in ((PROJECT, ""), (tmp_path, PROJECT)):
        monkeypatch.chdir(cwd)
        whole = shipped.complete({})
        assert whole["models"]["calibration-llama"]["local"] == str(Path(place, folder))
        assert whole["datasets"]["world-trivia"]["local"] == str(Path(place, rows))
    monkeypatch.chdir(PROJECT)
    moved = shipped.complete({"data_folder": "elsewhere"})["datasets"]["world-trivia"]
    assert moved["local"] == str(PROJECT / rows)


def test_what_a_link_inside_a_folder_of_rows_or_a_model_leads_to_counts(tmp_path):
    rows, model, elsewhere = (tmp_path / name for name in ("rows", "model", "elsewhere"))
    for folder in (rows, model, elsewhere):
        folder.mkdir()
    local = {"mine": {"local": str(rows), "fields": {"question": "q", "answers": ["a"]}}}
    paths = Paths(config(datasets=local, models={"mine": {"local": str(model)}}), PROJECT)
    one: Any = SimpleNamespace(dataset="mine", model="mine")
    for link, state in (
        (rows / "train.jsonl", paths.rows_on_disk),
        (model / "config.json", paths.model_on_disk),
    ):
        found = []
        for text in ("first", "other", "first"):
            (elsewhere / text).write_text(text, encoding="utf-8")
            link.unlink(missing_ok=True)
            link.symlink_to(elsewhere / text)
            found.append(state(one))
        (elsewhere / text).write_text("anew", encoding="utf-8")
        assert found[0] == found[2] and len({*found, state(one)}) == 3 and None not in found
