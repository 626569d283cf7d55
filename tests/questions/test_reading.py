"""Rows of any source come back as they were written, or one error names place and cause."""

import csv
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset, DatasetDict
from datasets.exceptions import DatasetNotFoundError
from hostile import cases, short, text
from huggingface_hub import errors
from hypothesis import assume, given, strategies as st

from anchorscope.questions import hub, questions, reading
from anchorscope.storage.errors import AnchorscopeError

PLAIN = {"question": "question", "answers": ["answer"]}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def rows_of(path: Path, split: str | None = None, **fields: Any) -> list[dict]:
    return reading.load_rows({"local": path, "fields": PLAIN | fields}, split)[0]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.jsonl", '{"question": "q", "answer": "gold"}\n{"question": "q2", \n', "line 2"),
        ("x.jsonl", "", "no rows"),
        ("x.json", '{"question": "q"}', "list of rows"),
        ("x.csv", "question,answer\nq,a\nq2\n", "line 3"),
        ("x.csv", 'question,answer\nq,"a\n', "broken CSV"),
        ("x.csv", "question,answer,answer\nq,a,b\n", "two columns have the name `answer`"),
        ("x.csv", "question,anwser\nq,a\n", "did you mean `anwser`"),
        ("x.parquet", "no parquet", "broken parquet"),
        ("x.txt", "q", "files ending in"),
        ("x.csv", "question;answer\nq;a\n", "separated by ';'"),
        ("x.csv", "question\tanswer\nq, r\ta\n", "sep='\\t').to_csv('x.csv')"),
        ("x.jsonl", '{"question": "q \\ud83d", "answer": "a"}', "half of a surrogate pair"),
        ("x.csv", "question,answer\nq,a\nquestion,answer\nq2,b\n", "the header again"),
        ("x.csv", "question,answer\nWer wei\xdf?,x\n", "save it as UTF-8"),
    ],
)
def test_a_broken_file_stops_with_file_and_line(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(AnchorscopeError) as error:
        questions.normalise(rows_of(tmp_path / name), PLAIN, split=None, source=tmp_path / name)
    assert said in str(error.value) and name in str(error.value)


@cases
@given(st.lists(st.tuples(text, short), max_size=4))
def test_cells_come_back_to_the_last_character_from_every_kind_of_file(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    # a byte order mark at the beginning of a line is left out: files may have been joined
    assume("\n\ufeff" not in "".join(map("".join, rows)))
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    written = io.StringIO(newline="")
    csv.writer(written, quoting=csv.QUOTE_ALL).writerows([("question", "answer"), *rows])
    path.write_text(written.getvalue(), encoding="utf-8-sig", newline="")
    records = [dict(zip(("question", "answer"), row, strict=True)) for row in rows]
    assert reading.file_rows(path) == records
    path.with_suffix(".json").write_text(json.dumps(records), encoding="utf-8")
    pd.DataFrame(records).to_parquet(path.with_suffix(".parquet"))
    for ending in (".json", ".parquet"):
        assert reading.file_rows(path.with_suffix(ending)) == records
    for raw in (True, False):
        lines = [json.dumps(record, ensure_ascii=raw) for record in records]
        path.with_suffix(".jsonl").write_text("\n".join(lines), encoding="utf-8", newline="\n")
        assert reading.file_rows(path.with_suffix(".jsonl")) == records


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_byte_order_marks_of_joined_files_are_no_text(tmp_path: Path, ends: str) -> None:
    rows = [{"question": f"q\ufeff{n}", "answer": "a"} for n in range(3)]
    lines = [f"\ufeff{json.dumps(row, ensure_ascii=False)}{ends}" for row in rows]
    (tmp_path / "x.jsonl").write_bytes("".join(lines).encode())
    assert reading.file_rows(tmp_path / "x.jsonl") == rows
    table = ["\ufeff\ufeffquestion,answer", "q\ufeff0,a", "\ufeffq\ufeff1,a"]
    (tmp_path / "x.csv").write_bytes(ends.join(table).encode())
    assert reading.file_rows(tmp_path / "x.csv") == rows[:2]


@pytest.mark.parametrize("splits", [False, True])
def test_a_folder_of_save_to_disk_is_named_with_the_code_that_writes_a_file(
    tmp_path: Path, splits: bool
) -> None:
    data = Dataset.from_list([{"question": "q", "answer": "a"}])
    (DatasetDict({"test": data}) if splits else data).save_to_disk(tmp_path / "saved")
    with pytest.raises(AnchorscopeError, match="save_to_disk") as caught:
        rows_of(tmp_path / "saved", "test" if splits else None)
    code = str(caught.value.do).partition("writes: ")[2]
    exec(code.replace("'rows.parquet'", repr(str(tmp_path / "rows.parquet"))))
    assert rows_of(tmp_path / "rows.parquet") == [{"question": "q", "answer": "a"}]


SHORT = pa.table({
    "question": ["How much?", "How many?"],
    "answer": pa.array([[7.4, 0.1], None], pa.list_(pa.float32())),
    "in": pa.array([{"a": 7.4}, {"a": None}], pa.struct([("a", pa.float32())])),
    "half": pa.array(np.array([7.4, 8], dtype=np.float16)),
    "long": [7.400000095367432, 1.0],
})  # fmt: skip
WIDE = [
    {"question": "How much?", "answer": [7.4, 0.1], "in": {"a": 7.4}, "half": 7.4,
     "long": 7.400000095367432},
    {"question": "How many?", "answer": None, "in": {"a": None}, "half": 8.0, "long": 1.0},
]  # fmt: skip


def test_short_floats_of_a_file_or_the_hub_keep_their_shortest_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(SHORT, tmp_path / "rows.parquet")
    assert reading.file_rows(tmp_path / "rows.parquet") == WIDE
    monkeypatch.setattr(reading.revisions, "commit_of_dataset", lambda *_: COMMIT)
    monkeypatch.setattr(reading.revisions, "keep", lambda *_: None)
    monkeypatch.setattr(reading, "hub_split", lambda *_: Dataset(SHORT))
    fields = PLAIN | {"property": "half", "subject": "in.a", "kind": "long"}
    rows, _ = reading.load_rows({"hub": "a/b", "fields": fields}, "dev")
    assert rows == WIDE


def test_a_split_chooses_its_files_in_a_folder(tmp_path: Path) -> None:
    for name in ("train-0.jsonl", "train-1.jsonl", "training.jsonl", "test.jsonl"):
        (tmp_path / name).write_text(json.dumps({"question": name, "answer": "gold"}))
    (tmp_path / "dataset_info.json").write_text("{}")
    found = [r["question"] for r in rows_of(tmp_path, "train")]
    assert found == ["train-0.jsonl", "train-1.jsonl"]
    for path, split, said in ((tmp_path, "validation", "validation"),
                              (tmp_path / "absent", None, "data_folder")):  # fmt: skip
        with pytest.raises(AnchorscopeError, match=said):
            rows_of(path, split)


def put(rows: list[dict], cache: Path, config: str, commit: str) -> None:
    """Rows of the split `dev` of a/b, as the library leaves them in its cache."""
    import datasets
    from datasets.arrow_writer import ArrowWriter

    folder = cache / "a___b" / config / "0.0.0" / commit
    folder.mkdir(parents=True)
    data = datasets.Dataset.from_list(rows)
    with ArrowWriter(path=str(folder / "b-dev.arrow"), features=data.features) as writer:
        writer.write_table(data.data.table)
        n, n_bytes = writer.finalize()
    split = datasets.SplitInfo("dev", n_bytes, n, dataset_name="b")
    splits = datasets.splits.SplitDict({"dev": split}, dataset_name="b")
    known = {"builder_name": "parquet", "dataset_name": "b", "config_name": config}
    datasets.DatasetInfo(features=data.features, splits=splits, **known).write_to_directory(folder)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The library's empty cache of rows, where the hub is not asked."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "datasets")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    return tmp_path / "datasets"


def of_hub(config: str | None, revision: str) -> tuple[list[dict], str | None]:
    entry = {"hub": "a/b", "config": config, "revision": revision, "fields": PLAIN}
    return reading.load_rows(entry, "dev")


@pytest.mark.parametrize("config", ["rc", None])
def test_offline_the_rows_of_the_pinned_commit_are_read_whatever_else_is_cached(
    cache: Path, monkeypatch: pytest.MonkeyPatch, config: str | None
) -> None:
    monkeypatch.chdir(cache.parent)  # `revisions.lock.yaml` lies in the folder of the run
    rows = {commit: [{"question": commit, "answer": "gold"}] for commit in (COMMIT, "e" * 40)}
    for commit, written in rows.items():
        put(written, cache, "rc", commit)
    put([{"question": "of another configuration", "answer": "gold"}], cache, "web", "f" * 40)
    for commit, written in rows.items():
        assert of_hub(config, commit) == (written, commit)
    branch = cache.parent / "hub" / "datasets--a--b" / "refs" / "old"
    branch.parent.mkdir(parents=True)
    branch.write_text(COMMIT)
    assert of_hub(config, "old") == (rows[COMMIT], COMMIT), "as the hub's client knows the branch"
    with pytest.raises(AnchorscopeError, match="the cached rows are of another commit"):
        of_hub(config, "d" * 40)


def test_offline_no_configuration_is_guessed(cache: Path) -> None:
    for config in ("rc", "web"):
        put([{"question": config, "answer": "gold"}], cache, config, COMMIT)
    with pytest.raises(AnchorscopeError, match="configurations in the cache: rc, web"):
        of_hub(None, COMMIT)
    assert of_hub("rc", COMMIT)[0][0]["question"] == "rc"


TOKEN = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"


def refusal(status: int, kind: type[errors.HfHubHTTPError] = errors.HfHubHTTPError) -> Exception:
    headers = {"authorization": f"Bearer {TOKEN}"}
    answer = SimpleNamespace(status_code=status, headers=headers, request=None)
    return kind(TOKEN, response=answer)  # type: ignore[arg-type]


GATED = refusal(403, errors.GatedRepoError)
UNREACHED = "cannot be reached"


@pytest.mark.parametrize(
    ("error", "cause", "said"),
    [
        (ConnectionError("Couldn't reach 'a/b'"), None, UNREACHED),
        (errors.LocalEntryNotFoundError("no"), refusal(503), "status 503"),
        (errors.LocalEntryNotFoundError("no"), None, UNREACHED),
        (errors.HTTPError(f"no route, Bearer {TOKEN}"), None, UNREACHED),
        (refusal(401), None, "accept its terms"),
        (DatasetNotFoundError("somehow not there"), GATED, "accept its terms"),
        (refusal(401, errors.RepositoryNotFoundError), None, "no such dataset"),
        (ValueError("no"), refusal(404, errors.RevisionNotFoundError), "such revision"),
        (ValueError(f'Unknown split "401 gated", {TOKEN}'), None, "check hub, config, split"),
        (OSError(28, "No space left on device", TOKEN), None, "No space left"),
    ],
)
def test_what_fails_is_told_by_its_type_without_the_token(
    monkeypatch: pytest.MonkeyPatch, error: Exception, cause: Exception | None, said: str
) -> None:
    error.__cause__ = cause
    monkeypatch.setattr(hub, "PAUSE", 0.0)
    monkeypatch.setattr("datasets.load_dataset", Mock(side_effect=error))
    monkeypatch.setattr("huggingface_hub.auth_check", Mock(side_effect=cause))
    with pytest.raises(AnchorscopeError) as raised:
        reading.hub_split("a/b", None, "dev", "f" * 40)
    assert said in str(raised.value) and "a/b" in str(raised.value) and "dev" in str(raised.value)
    assert TOKEN not in str(raised.value)
    assert raised.value.__suppress_context__, "the cause may hold the token"


def test_a_hub_that_is_silent_for_a_moment_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "PAUSE", 0.0)
    ask = Mock(side_effect=[ConnectionError(), refusal(503), "commit"])
    assert hub.fetch(ask, "dataset", "a/b") == "commit"
    refused = Mock(side_effect=GATED)
    with pytest.raises(AnchorscopeError, match="gated"):
        hub.fetch(refused, "dataset", "a/b")
    assert refused.call_count == 1
