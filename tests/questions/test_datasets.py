"""Datasets: which rows and which commit a catalogue entry stands for."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from anchorscope.questions import datasets, questions, reading, revisions
from anchorscope.storage.errors import AnchorscopeError

FIELDS = {"id": "id", "question": "question", "answers": ["answer"]}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def write(folder: Path, n: int) -> Path:
    rows = [{"id": i, "question": f"who is number {i}", "answer": f"gold {i}"} for i in range(n)]
    path = folder / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_rows_held_back_for_examples_are_counted_apart(tmp_path: Path) -> None:
    entry = {"local": str(write(tmp_path, 205)), "fields": FIELDS, "few_shot": {"rows": "outside"}}
    held = datasets.prepare(entry, sample_size=200, seed=0, hold_back=True)
    assert len(held.sampled) == 185 and len(held.few_shot) == 20
    assert held.counts.dropped == {"outside the sample": 5, "held back for few-shot examples": 15}
    plain = datasets.prepare(entry, sample_size=200, seed=0)
    assert plain.counts.dropped == {"outside the sample": 5}
    assert plain.sampled["id"].tolist()[:185] == held.sampled["id"].tolist()


def test_nothing_is_held_back_where_examples_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "examples.yaml"
    file.write_text("[{question: who was the first, answer: one}]")
    entry = {"local": str(write(tmp_path, 30)), "fields": FIELDS, "few_shot": {"file": str(file)}}
    prepared = datasets.prepare(entry, sample_size=30, seed=0, hold_back=True)
    assert len(prepared.sampled) == 30 and prepared.few_shot["answers"].tolist() == [["one"]]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, list]:
    """A hub whose tag `v1` is `COMMIT`; holds what was asked of it."""
    asked: dict[str, list] = {"resolved": [], "read": []}

    def dataset_info(self: object, hub: str, revision: str | None = None) -> SimpleNamespace:
        asked["resolved"].append(revision)
        if revision != "v1":
            raise ConnectionError
        return SimpleNamespace(sha=COMMIT)

    def load_rows(*, revision: str | None, **_: object) -> list[dict]:
        asked["read"].append(revision)
        return [{"id": i, "question": f"q {i}", "answer": "gold"} for i in range(5)]

    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", dataset_info)
    monkeypatch.setattr(questions, "load_rows", load_rows)
    monkeypatch.chdir(tmp_path)
    return asked


@pytest.mark.parametrize("asked", ["v1", COMMIT])
def test_what_is_read_kept_and_recorded_is_the_commit(hub: dict[str, list], asked: str) -> None:
    entry = {"hub": "a/b", "fields": FIELDS, "revision": asked, "few_shot": {"split": "train"}}
    assert datasets.prepare(entry, sample_size=3, seed=0).revision == COMMIT
    assert hub["read"] == [COMMIT, COMMIT] and hub["resolved"] == (["v1"] if asked == "v1" else [])
    assert revisions.wanted("datasets", "a/b", asked) == COMMIT


def test_a_branch_that_moves_is_read_where_it_was_found_first(
    hub: dict[str, list], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"hub": "a/b", "fields": FIELDS, "revision": "v1"}
    datasets.prepare(entry, sample_size=3, seed=0)
    moved = SimpleNamespace(sha="f" * 40)
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", lambda *_, **__: moved)
    assert datasets.prepare(entry, sample_size=3, seed=0).revision == COMMIT
    newest = datasets.prepare({**entry, "revision": None}, sample_size=3, seed=0)
    assert newest.revision == moved.sha
    assert datasets.prepare(entry, sample_size=3, seed=0).revision == COMMIT
    assert hub["read"] == [COMMIT, COMMIT, moved.sha, COMMIT]


@pytest.mark.parametrize("asked", ["v2", None])
def test_rows_of_no_known_commit_are_refused(hub: dict[str, list], asked: str | None) -> None:
    entry = {"hub": "a/b", "fields": FIELDS, "revision": asked}
    with pytest.raises(AnchorscopeError, match="which commit") as caught:
        datasets.prepare(entry, sample_size=3, seed=0)
    assert "revisions.lock.yaml" in str(caught.value.do) and hub["read"] == []
    assert not Path("revisions.lock.yaml").exists()


@pytest.mark.parametrize(("asked", "ref"), [("v2", "v2"), (None, "main")])
def test_without_the_hub_the_cache_knows_what_a_branch_stood_for(
    hub: dict[str, list], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, ref: str
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    refs = tmp_path / "cache" / "datasets--a--b" / "refs"
    refs.mkdir(parents=True)
    (refs / ref).write_text(COMMIT, encoding="utf-8")
    entry = {"hub": "a/b", "fields": FIELDS, "revision": asked}
    assert datasets.prepare(entry, sample_size=3, seed=0).revision == COMMIT
    assert hub["read"] == [COMMIT]


def test_rows_that_the_cache_holds_of_another_commit_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def prepared(folder: str) -> SimpleNamespace:
        file = tmp_path / "a___b" / "default" / "0.0.0" / folder / "b-train.arrow"
        return SimpleNamespace(cache_files=[{"filename": str(file)}])

    for folder, well in ((COMMIT, True), ("f" * 40, False), ("made-here", True)):
        monkeypatch.setattr("datasets.load_dataset", lambda *_, at=folder, **__: prepared(at))
        if well:
            reading.hub_split("a/b", None, "train", COMMIT)
            continue
        with pytest.raises(AnchorscopeError, match=f"rows of commit {folder}"):
            reading.hub_split("a/b", None, "train", COMMIT)
