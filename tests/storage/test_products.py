"""Products are whole or absent, say what they were made from, and share a config in a table."""

import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hostile import cases, text
from hypothesis import given, strategies as st

from anchorscope.models import loading
from anchorscope.storage import files, provenance, records
from anchorscope.storage.counts import Counts
from anchorscope.storage.errors import AnchorscopeError


def test_a_file_that_fails_half_way_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "product.csv"
    target.write_text("old")
    with pytest.raises(RuntimeError), files.atomic(target) as draft:
        draft.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["product.csv"]


@pytest.mark.parametrize("folder", [False, True])
def test_two_processes_that_write_one_product_do_not_touch_each_others_drafts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: bool
) -> None:
    def write(draft: Path, text: str) -> None:
        if folder:
            draft.mkdir()
        (draft / "file" if folder else draft).write_text(text)

    target = tmp_path / "product"
    with files.atomic(target) as first:
        write(first, "first")
        with monkeypatch.context() as other:
            other.setattr(files.os, "getpid", os.getppid)
            with files.atomic(target) as second:
                write(second, "second")
        assert (target / "file" if folder else target).read_text() == "second"
    assert (target / "file" if folder else target).read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["product"]


def test_the_draft_of_a_killed_process_is_removed_by_the_next_one(tmp_path: Path) -> None:
    target = tmp_path / "product.csv"
    killed = (
        "import os, sys; from anchorscope.storage import files\n"
        "with files.atomic(sys.argv[1]) as draft:\n"
        "    draft.mkdir(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", killed, target], check=False)
    assert len([*tmp_path.glob(".product.csv.*.draft")]) == 1
    with files.atomic(target) as draft:
        draft.write_text("whole")
    assert [path.name for path in tmp_path.iterdir()] == ["product.csv"]


def test_arrays_may_be_read_by_whom_the_umask_lets_read(tmp_path: Path) -> None:
    with files.atomic(tmp_path / "folder") as draft:
        files.write_arrays(draft / "two.safetensors", ["a"], {"x": np.zeros(1)})
        os.chmod(draft / "two.safetensors", 0o600)  # as a library leaves it
    (tmp_path / "plain").touch()
    mode = (tmp_path / "folder/two.safetensors").stat().st_mode
    assert mode == (tmp_path / "plain").stat().st_mode


@cases
@given(st.lists(st.tuples(st.none() | text, st.lists(text, max_size=3)), min_size=1, max_size=4))
def test_text_and_lists_of_a_parquet_come_back(rows: list[tuple[str | None, list[str]]]) -> None:
    frame = pd.DataFrame(rows, columns=["said", "golds"], dtype=object)
    with tempfile.TemporaryDirectory() as folder:
        files.write_parquet(frame, f"{folder}/t.parquet")
        back = files.read_parquet(f"{folder}/t.parquet")
    assert list(back["said"]) == list(frame["said"])
    assert list(back["golds"]) == list(frame["golds"])


def test_text_and_numbers_of_a_csv_come_back(tmp_path: Path) -> None:
    said = ["NA", 'a "b", c', "two\nlines", None]
    frame = pd.DataFrame({"said": said, "p": [-math.inf, 1 / 3, -3.2, 1e-9]})
    files.write_csv(frame, tmp_path / "t.csv")
    back = files.read_csv(tmp_path / "t.csv")
    assert back["said"].tolist()[:3] == said[:3] and back["said"].isna().tolist()[3]
    assert back["p"].tolist() == pytest.approx(frame["p"].tolist(), rel=1e-5)


def test_a_broken_table_is_named_and_counts_must_add_up(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"no table")
    with pytest.raises(AnchorscopeError, match="t.parquet"):
        files.read_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="do not add up"):
        Counts(10, 8, {"empty": 1})


def made(product: Path, *inputs: str, content: str = "", **settings: object) -> dict[str, Any]:
    """The record of a job's product, from others in the same folder."""
    rows = [product.parent / name for name in inputs]
    job = SimpleNamespace(rule="dataset", input=rows, output=[], params=settings)
    counts = Counts(2, 1, {"empty": 1})
    provenance.of_stage(job, product, content=[content], counts=counts)
    return provenance.read(product)


def test_an_identity_follows_settings_content_and_inputs_and_no_place(tmp_path: Path) -> None:
    def identity(product: str, *inputs: str, **given: Any) -> str:
        return made(tmp_path / product, *inputs, **given)["identity"]

    first = identity("a", seed=0, local="/here/rows.csv")
    same = identity("b", seed=0, local="/there/rows.csv")
    other = identity("c", seed=1)
    assert first == same != other
    assert identity("d", seed=0, content="decade") != identity("e", seed=0)
    assert identity("f", "a", seed=5) == identity("g", "b", seed=5) != identity("h", "c", seed=5)


def test_a_record_holds_every_record_before_it_once(tmp_path: Path) -> None:
    made(tmp_path / "dataset", seed=0)
    made(tmp_path / "answers", "dataset", max_new_tokens=3)
    record = made(tmp_path / "scores", "dataset", "answers", seed=1)
    before = {Path(path).name: found for path, found in record["inputs"].items()}
    assert set(before) == {"dataset", "answers"}
    assert before["answers"]["settings"] == {"max_new_tokens": 3}
    assert before["answers"]["counts"]["dropped"] == {"empty": 1}
    assert not any("inputs" in found for found in before.values())


def test_a_record_holds_the_time_and_memory_of_its_job(tmp_path: Path) -> None:
    block = np.ones((2**20, 16))  # 128 MiB
    while time.process_time() < 0.2:
        block.sum()
    usage = made(tmp_path / "product")["usage"]
    assert 128 < usage["peak_memory_mib"] < 4096 and usage["seconds"] > 0 < usage["cpu_seconds"]


def test_other_weights_are_another_revision_of_a_local_model(
    tmp_path: Path, checkpoint: Callable[..., Path]
) -> None:
    folder, moved = tmp_path / "one", tmp_path / "two"
    shutil.copytree(checkpoint("llama"), folder)
    first = loading.locate({"local": str(folder)})["revision"]
    shutil.copytree(folder, moved)
    assert loading.locate({"local": str(moved)})["revision"] == first
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1  # of the same size, and with the time it had
    before = weights.stat()
    weights.write_bytes(content)
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert loading.locate({"local": str(folder)})["revision"] != first


SETTINGS: dict[str, dict[str, Any]] = {
    "dataset": {"dataset": {"hub": "a/b"}, "local": None, "sample_size": 1000, "seed": 0},
    "activations": {"dtype": "float32", "conditions": {"knockout": {}, "question": None}},
    "scores": {"probe": {"folds": 10, "prior": "balanced"}, "readouts": ["mlp/final"]},
    "delta_p": {"bootstrap": {"draws": 1000}, "seed": 0},
    "model": {"model": {"hub": "a/b"}},
}


def cell(curve: Path, **changed: dict[str, Any]) -> Path:
    """A curve whose record holds every rule on its way, some settings changed."""
    every = {rule: {**given, **changed.get(rule, {})} for rule, given in SETTINGS.items()}
    own = every.pop("delta_p")
    inputs = {f"{curve}/{rule}": {"rule": rule, "settings": of} for rule, of in every.items()}
    provenance.record(curve, identity="i", settings=own, rule="delta_p", inputs=inputs)
    return curve


@pytest.mark.parametrize(
    ("rule", "changed", "named"),
    [
        ("scores", {"probe": {"folds": 10, "prior": "natural"}}, "`probe.prior` of scores"),
        ("activations", {"conditions": {"question": {"draws": 1}}}, "`conditions.knockout"),
    ],
)
def test_cells_of_different_configs_are_not_put_into_one_table_whatever_is_their_own(
    tmp_path: Path, rule: str, changed: dict[str, Any], named: str
) -> None:
    own = {
        "dataset": {"dataset": {"hub": "c/d"}, "local": "x.csv", "sample_size": 50},
        "activations": {"dtype": "bfloat16"},
        "model": {"model": {"local": "m"}},
    }
    alike = [cell(tmp_path / "a"), cell(tmp_path / "b", **own), tmp_path / "without a record"]
    records.check_settings(alike)
    with pytest.raises(AnchorscopeError, match="different settings") as caught:
        records.check_settings([*alike, cell(tmp_path / "c", **{rule: changed})])
    assert named in caught.value.what
    assert all(str(tmp_path / name) in str(caught.value.where) for name in "ac")
