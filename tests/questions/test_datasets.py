"""Datasets: which rows and which commit a catalogue entry stands for."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from datasets import Dataset

from anchorscope.questions import datasets, reading, revisions
from anchorscope.storage.errors import AnchorscopeError

FIELDS = {"id": "id", "question": "question", "answers": ["answer"]}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def write(folder: Path, n: int) -> str:
    rows = [{"id": i, "question": f"who is number {i}", "answer": f"gold {i}"} for i in range(n)]
    path = folder / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def test_rows_held_back_for_examples_are_counted_apart(tmp_path: Path) -> None:
    entry = {"local": write(tmp_path, 205), "fields": FIELDS, "few_shot": {"rows": "outside"}}
    held = datasets.prepare(entry, sample_size=200, seed=0, hold_back=True)
    assert len(held.sampled) == 185 and len(held.few_shot) == 20
    assert held.counts.dropped == {"outside the sample": 5, "held back for few-shot examples": 15}
    plain = datasets.prepare(entry, sample_size=200, seed=0)
    assert plain.counts.dropped == {"outside the sample": 5}


def test_rows_are_held_back_with_all_that_share_their_subject(tmp_path: Path) -> None:
    fields = FIELDS | {"subject": "subject"}
    entry = {"local": str(tmp_path / "rows.jsonl"), "fields": fields}
    rows = [
        {"id": i, "question": f"q {i}", "answer": f"a {i}", "subject": f"s {i // 2}"}
        for i in range(71)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for size in (1000, 64, 30):
        held = datasets.prepare(entry, sample_size=size, seed=0, hold_back=True)
        assert len(held.sampled) == min(size, 64) and len(held.few_shot) >= 7
        assert not {*held.sampled["subject"]} & {*held.few_shot["subject"]}
        assert held.counts.total == held.counts.kept + sum(held.counts.dropped.values())


@pytest.mark.parametrize(("alone", "together", "held"), [(10, 990, 10), (5, 100, 5), (0, 100, 0)])
def test_many_rows_of_one_subject_are_not_held_back(
    tmp_path: Path, alone: int, together: int, held: int
) -> None:
    subjects = [*range(1, alone + 1), *[0] * together]
    rows = [
        {"id": i, "question": f"q {i}", "answer": f"a {i}", "subject": f"s {name}"}
        for i, name in enumerate(subjects)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    entry = {"local": str(tmp_path / "rows.jsonl"), "fields": FIELDS | {"subject": "subject"}}
    found = datasets.prepare(entry, sample_size=None, seed=0, hold_back=True)
    assert (len(found.sampled), len(found.few_shot)) == (together, held)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, list]:
    """A hub whose tag `v1` is `COMMIT`; holds what was asked of it."""
    asked: dict[str, list] = {"resolved": [], "read": []}

    def dataset_info(_: object, hub: str, revision: str | None, timeout: float) -> SimpleNamespace:
        asked["resolved"].append(revision)
        if revision != "v1":
            raise ConnectionError
        return SimpleNamespace(sha=COMMIT)

    def hub_split(hub_id: str, config: str | None, split: str | None, revision: str) -> Dataset:
        asked["read"].append(revision)
        rows = [{"id": i, "question": f"q {i}", "answer": "gold"} for i in range(5)]
        return Dataset.from_list(rows)

    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", dataset_info)
    monkeypatch.setattr("anchorscope.questions.hub.PAUSE", 0.0)
    monkeypatch.setattr(reading, "hub_split", hub_split)
    monkeypatch.chdir(tmp_path)
    return asked


def prepare(asked: str | None, **more: object) -> str | None:
    entry = {"hub": "a/b", "fields": FIELDS, "revision": asked, **more}
    return datasets.prepare(entry, sample_size=3, seed=0).revision


@pytest.mark.parametrize("asked", ["v1", COMMIT])
def test_what_is_read_kept_and_recorded_is_the_commit(hub: dict[str, list], asked: str) -> None:
    assert prepare(asked, few_shot={"split": "train"}) == COMMIT
    assert hub["read"] == [COMMIT, COMMIT] and hub["resolved"] == (["v1"] if asked == "v1" else [])
    assert revisions.wanted("datasets", "a/b", asked) == COMMIT


def test_a_branch_that_moves_is_read_where_it_was_found_first(
    hub: dict[str, list], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare("v1")
    moved = SimpleNamespace(sha="f" * 40)
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", lambda *_, **__: moved)
    assert [prepare(asked) for asked in ("v1", None, "v1")] == [COMMIT, moved.sha, COMMIT]
    assert hub["read"] == [COMMIT, COMMIT, moved.sha, COMMIT]


@pytest.mark.parametrize("asked", ["v2", None])
def test_rows_of_no_known_commit_are_refused_unless_the_cache_knows_it(
    hub: dict[str, list], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str | None
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(AnchorscopeError, match="cannot be reached") as caught:
        prepare(asked)
    assert "revisions.lock.yaml" in str(caught.value.do) and hub["read"] == []
    assert not Path("revisions.lock.yaml").exists()
    ref = tmp_path / "cache" / "datasets--a--b" / "refs" / (asked or "main")
    ref.parent.mkdir(parents=True)
    ref.write_text(COMMIT, encoding="utf-8")
    assert prepare(asked) == COMMIT and hub["read"] == [COMMIT]


def test_a_pool_larger_than_the_dataset_takes_every_question_and_one_line_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry = {"local": write(tmp_path, 30), "fields": FIELDS, "few_shot": {"rows": "outside"}}
    with caplog.at_level("INFO"):
        prepared = datasets.prepare(entry, sample_size=10_000, seed=0)
        whole = datasets.prepare(entry, sample_size=None, seed=0)
    assert len(prepared.sampled) == len(whole.sampled) == 30
    assert prepared.counts.dropped == whole.counts.dropped == {}
    assert caplog.messages == ["10000 questions are wanted; all 30 are taken"]
