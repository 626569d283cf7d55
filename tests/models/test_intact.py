"""A checkpoint damaged since it was located is named before anything is passed through it."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anchorscope.models import checkpoints, intact, models
from anchorscope.storage import files
from anchorscope.storage.errors import AnchorscopeError


@pytest.fixture
def located(checkpoint: Callable[..., Path], tmp_path: Path) -> dict[str, Any]:
    own = shutil.copytree(checkpoint("llama"), tmp_path / "model")
    return checkpoints.locate({"local": str(own)})


def flipped(path: Path) -> None:
    """Turn one bit, among the numbers."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 + 3] ^= 64
    path.write_bytes(content)


def test_one_flipped_bit_of_the_weights_which_loads_is_named(located: dict[str, Any]) -> None:
    intact.check(located)
    weights = Path(located["path"]) / "model.safetensors"
    flipped(weights)
    models.load(located["path"])  # nobody else notices
    with pytest.raises(AnchorscopeError, match="changed or damaged since") as caught:
        intact.check(located)
    assert caught.value.where == weights
    intact.check(located, weights=False)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_every_file_that_decides_numbers_is_compared(located: dict[str, Any], name: str) -> None:
    path = Path(located["path"]) / name
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    for weights in (True, False):
        with pytest.raises(AnchorscopeError, match=name):
            intact.check(located, weights=weights)
    path.unlink()
    with pytest.raises(AnchorscopeError, match=name):
        intact.check(located)


def test_a_hub_file_is_held_against_the_digest_that_was_published(tmp_path: Path) -> None:
    """A download cut short before it was ever located is found, too."""
    published = hashlib.sha256(b"whole").hexdigest()
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "c0ffee"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / published).write_bytes(b"who")
    (blobs / "0123").write_bytes(b"{}")
    (snapshot / "model.safetensors").symlink_to(blobs / published)
    (snapshot / "config.json").symlink_to(blobs / "0123")
    found = checkpoints.digests(snapshot)
    assert found["model.safetensors"] == published
    assert found["config.json"] == hashlib.sha256(b"{}").hexdigest()
    with pytest.raises(AnchorscopeError, match=r"model\.safetensors"):
        intact.check({"path": str(snapshot), "files": found})


def test_a_located_file_is_read_once(
    checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a large model take minutes."""
    read, sha256 = [], files.sha256
    for module in (checkpoints, files):
        monkeypatch.setattr(module, "sha256", lambda path: read.append(path.name) or sha256(path))
    found = checkpoints.locate({"local": str(checkpoint("llama"))})
    assert sorted(read) == sorted(found["files"]) and "model.safetensors" in read


@pytest.mark.parametrize("stage", ["answers", "activations", "truth"])
def test_every_stage_that_loads_the_model_compares_first(stage: str) -> None:
    script = Path(__file__).parents[2] / "scripts" / f"{stage}.py"
    text = script.read_text(encoding="utf-8")
    assert 0 < text.index("intact.check(located") < text.index("loaded = load(")
