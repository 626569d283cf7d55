"""`anchorscope detect score`: rows of a file scored by a saved detector, in a clone of its own."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from own_rows import rows

from anchorscope import Detector
from anchorscope.detectors.detector import COLUMNS


def write(path: Path, given: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in given), encoding="utf-8")
    return path


@pytest.fixture
def saved(detector: Detector, clone: Path) -> Detector:
    """The detector in the clone, beside its model."""
    mine = replace(detector, origin=replace(detector.origin, model="checkpoint"))
    mine.save(clone / "detector")
    return mine


def test_rows_of_a_file_are_scored(run: Any, clone: Path, saved: Detector) -> None:
    plain = [{name: row[name] for name in ("question", "response")} for row in rows(5, first=100)]
    new = write(clone / "new.jsonl", [*plain, {"question": None}])
    words = ["detect", "score", "detector", "--rows", new.name]
    found = run(*words)
    assert found.code == 0, found.err
    lines = [json.loads(line) for line in found.out.splitlines()]
    assert len(lines) == 6 and set(lines[0]) == set(COLUMNS)
    assert 0 < lines[0]["p_wrong"] < 1 and lines[5]["p_wrong"] is None
    assert "5 of 6 rows scored" in found.err and "1 no question" in found.err
    assert run(*words, "--out", "scores.jsonl", "--model", "checkpoint").out == ""
    assert (clone / "scores.jsonl").read_text() == found.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["detector", "--rows", "none.jsonl"], "no such file"),
        (["detector", "--rows", "empty.jsonl"], "row 2"),
        (["detector", "--rows", "few.jsonl", "--model", "far/away"], "far/away"),
        (["checkpoint", "--rows", "few.jsonl"], "not a detector: .*detector.json"),
        (["moved", "--rows", "few.jsonl"], "does not name its model"),
    ],
)
def test_a_mistake_gets_one_message_and_nothing_is_written(
    run: Any, clone: Path, saved: Detector, words: list[str], said: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    write(clone / "few.jsonl", rows(8))
    write(clone / "empty.jsonl", [*rows(1), {**rows(1)[0], "question": "Who?", "response": ""}])
    replace(saved, origin=replace(saved.origin, model=None)).save(clone / "moved")
    before = sorted(path.name for path in clone.iterdir())
    found = run("detect", "score", *words, "--out", "scores.jsonl")
    assert found.code == 1 and found.out == "" and "Traceback" not in found.err
    assert "error: " in found.err and "see:" in found.err
    assert re.search(said, found.err), found.err
    assert sorted(path.name for path in clone.iterdir()) == before
