"""Nothing that is read can run code, and nothing that is written holds the user's token."""

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anchorscope.models import loading
from anchorscope.questions import datasets, reading, revisions
from anchorscope.storage import provenance
from anchorscope.storage.errors import AnchorscopeError, redacted
from anchorscope.workflow.stage import log, stage


class Bomb:
    """A pickle that makes a file when it is read."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.marker),)


@pytest.fixture
def trapped(checkpoint: Callable[..., Path], tmp_path: Path) -> tuple[Path, Path]:
    """A checkpoint that brings code and pickles along, and what they would make."""
    folder, marker = tmp_path / "model", tmp_path / "ran"
    shutil.copytree(checkpoint("llama"), folder)
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt"):
        (folder / name).write_bytes(pickle.dumps(Bomb(marker)))
    (folder / "trap.py").write_text(f"import os\nos.mkdir({str(marker)!r})\n", encoding="utf-8")
    for name, classes in (
        ("config.json", {"AutoConfig": "trap.C", "AutoModelForCausalLM": "trap.M"}),
        ("tokenizer_config.json", {"AutoTokenizer": ["trap.T", "trap.T"]}),
    ):
        known = json.loads((folder / name).read_text(encoding="utf-8"))
        (folder / name).write_text(json.dumps(known | {"auto_map": classes}), encoding="utf-8")
    return folder, marker


def test_code_and_pickles_are_not_run_and_refused_without_safetensors(trapped):
    folder, marker = trapped
    loaded = loading.load(folder)
    assert type(loaded.model).__module__.startswith("transformers.")
    for path in folder.glob("*.safetensors"):
        path.unlink()
    with pytest.raises(AnchorscopeError, match="safetensors"):
        loading.load(folder)
    assert not marker.exists()


def test_pickled_rows_and_yaml_that_calls_functions_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    marker, path, rows = tmp_path / "ran", revisions.LOCK, Path("rows.parquet")
    rows.write_bytes(pickle.dumps(Bomb(marker)))
    with pytest.raises(AnchorscopeError):
        reading.file_rows(rows)
    path.write_text(f"!!python/object/apply:os.mkdir ['{marker}']", encoding="utf-8")
    with pytest.raises(AnchorscopeError):
        datasets.read_examples(path)
    with pytest.raises(AnchorscopeError):
        revisions.wanted("models", "owner/name", None)
    assert not marker.exists()


@pytest.fixture(params=["hf_PlantedPlantedPlantedPlantedPla0123", "planted-of-another-kind"])
def token(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A token in the environment."""
    secret: str = request.param
    monkeypatch.setenv("HF_TOKEN", secret)
    return secret


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("Bearer hf_oauth_eyJhbGciOiJF.abc-def_0, refused", "Bearer <token>, refused"),
        ("http://user:p@ss@proxy:3128/x, c@d", "http://<token>@proxy:3128/x, c@d"),
        ("https://ghs_0123@host/a@b", "https://<token>@host/a@b"),
        ("/data/hf_experiments/hf_rows.parquet", "/data/hf_experiments/hf_rows.parquet"),
    ],
)
def test_what_looks_like_a_token_or_a_login_is_left_out_and_nothing_else(said, left):
    assert redacted(said) == left


@pytest.mark.parametrize("kind", [AnchorscopeError, RuntimeError])
def test_no_log_and_no_record_holds_the_token(tmp_path, token, kind, capsys):
    """`test_faults` looks at every file of a run, products included."""
    job = SimpleNamespace(rule="r", log=[str(tmp_path / "log")], wildcards={}, input=[])
    with pytest.raises(SystemExit), stage(job):
        log.info("fetching with %s", token)
        raise kind(f"refused: {token}")
    path, settings = tmp_path / "x", {"dataset": {"hub": f"https://user:{token}@host/x"}}
    provenance.record(path, identity="x", settings=settings)
    written = [file.read_text("utf-8") for file in (tmp_path / "log", provenance.beside(path))]
    for said in (*written, capsys.readouterr().err):
        assert token not in said and "<token>" in said


def test_a_warning_is_marked_on_the_terminal_and_in_the_log(tmp_path, capsys):
    job = SimpleNamespace(rule="r", log=[str(tmp_path / "log")], wildcards={}, input=[])
    with stage(job):
        log.info("read %d rows", 3)
        log.warning("%d are too few", 3)
    for said in ((tmp_path / "log").read_text("utf-8"), capsys.readouterr().err):
        assert " read 3 rows\n" in said and " warning: 3 are too few\n" in said


def test_a_folder_named_like_a_hub_id_is_not_read_in_its_place(tmp_path, monkeypatch):
    (folder := tmp_path / "owner/name").mkdir(parents=True)
    (folder / "train.csv").write_text("q,a\nwho,me\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AnchorscopeError, match="files of this machine"):
        reading.hub_split("owner/name", None, "train", "0" * 40)
