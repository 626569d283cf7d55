"""`anchorscope detect`: from labelled rows of a file to scores of others, in a clone of its own."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chats import simple_chat
from own_rows import rows

from anchorscope import styles
from anchorscope.cli import cli_detect
from anchorscope.detectors.saved import detector as saved
from anchorscope.models import loading
from anchorscope.storage.errors import AnchorscopeError


def write(path: Path, given: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in given), encoding="utf-8")
    return path


@pytest.fixture
def fitted(run: Any, clone: Path) -> Path:
    """The folder of a detector of the clone's checkpoint."""
    write(clone / "train.jsonl", rows())
    found = run(
        "detect", "fit", "--model", "checkpoint", "--rows", "train.jsonl", "--out", "detector",
        "--style", "plain",
    )  # fmt: skip
    assert found.code == 0 and found.out == ""
    for part in ("60 answers, 30 wrong", "AUROC out of fold", "mlp/final", "written to"):
        assert part in found.err
    assert "better than every model of the text" in found.err or "the text alone" in found.err
    return clone / "detector"


def test_rows_of_a_file_are_scored_by_a_detector_fitted_to_others(run, clone, fitted):
    config = json.loads((fitted / "config.json").read_text())
    assert config["model"]["name"] == "checkpoint" and (fitted / "README.md").is_file()
    test = write(clone / "test.jsonl", rows(12, first=52))
    found = run("detect", "eval", "detector", "--rows", test.name)
    assert found.code == 0, found.err
    assert "4 answers" in found.out and "8 of a question or subject" in found.out
    for name in ("AUROC", "AUPRC", "Brier score", "accuracy at 80% coverage"):
        assert name in found.out
    as_json = run("detect", "eval", "detector", "--rows", test.name, "--json").json
    assert as_json["n"] == 4 and set(as_json["measures"]["auroc"]) == {"value", "low", "high"}
    plain = [{name: row[name] for name in ("question", "response")} for row in rows(5, first=100)]
    new = write(clone / "new.jsonl", [*plain, {"question": None}])
    words = ["detect", "score", "detector", "--rows", new.name]
    found = run(*words)
    lines = [json.loads(line) for line in found.out.splitlines()]
    assert len(lines) == 6 and set(lines[0]) == set(saved.COLUMNS)
    assert 0 < lines[0]["p_wrong"] < 1 and lines[5]["p_wrong"] is None
    assert "5 of 6 rows scored" in found.err and "1 no question" in found.err
    assert run(*words, "--out", "scores.jsonl").out == ""
    assert (clone / "scores.jsonl").read_text() == found.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "--model", "checkpoint", "--rows", "none.jsonl", "--out", "d"], "no such file"),
        (["fit", "--model", "checkpoint", "--rows", "few.jsonl", "--out", "d"], "too few"),
        (["fit", "--model", "checkpoint", "--rows", "few.jsonl", "--out", "."], "not the folder"),
        (["fit", "--model", "checkpoint", "--rows", "empty.jsonl", "--out", "d"], "row 2"),
        (["fit", "--model", "far/away", "--rows", "few.jsonl", "--out", "d"], "far/away"),
        (["eval", "checkpoint", "--rows", "few.jsonl"], "model.safetensors|not that of"),
        (["score", "nowhere", "--rows", "few.jsonl"], "config.json"),
    ],
)
def test_a_mistake_gets_one_message_and_nothing_is_written(run, clone, words, said, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    write(clone / "few.jsonl", rows(8))
    write(clone / "empty.jsonl", [*rows(1), {**rows(1)[0], "question": "Who?", "response": ""}])
    more = ["--style", "plain"] if words[0] == "fit" else []
    before = sorted(path.name for path in clone.iterdir())
    found = run("detect", *words, *more)
    assert found.code == 1 and found.out == "" and "Traceback" not in found.err
    assert "error: " in found.err and "see:" in found.err
    assert re.search(said, found.err), found.err
    assert sorted(path.name for path in clone.iterdir()) == before


def test_the_style_is_guessed_from_the_tokenizer(load):
    tokenizer = load("llama").tokenizer
    assert styles.natural(tokenizer).name == "few_shot"
    assert styles.natural(simple_chat(tokenizer)).name == "chat"


def test_a_detector_without_the_place_of_its_model_asks_for_it(clone, fitted, monkeypatch):
    detector = saved.load(fitted)
    replace(detector, source={"name": None, "revision": None}).save(fitted)
    monkeypatch.setattr(loading, "load", lambda *given, **more: pytest.fail("loaded"))
    with pytest.raises(AnchorscopeError, match="does not say where its model is"):
        cli_detect.opened(fitted, clone / "train.jsonl", None)
