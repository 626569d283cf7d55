"""Local files that are replaced, by older ones too: what was made of them is made again."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from workflow import Workspace

from anchorscope.storage import files
from anchorscope.storage.files import WHOLE, digest

TARGETS = ("results/data/mine.parquet", "results/models/mine.json")
DAY = 86_400 * 10**9


def write_rows(path: Path, word: str) -> None:
    rows = [{"q": f"which {word} is number {n}?", "a": [f"{word} {n}"]} for n in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def older(path: Path, times: os.stat_result) -> None:
    """Give a file the time of one that was there, less a day, as `cp -p` may."""
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns - DAY))


def test_older_files_and_a_moved_link_are_noticed_and_files_put_back_are_not(
    fresh: Workspace, checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    clone, rows, latest = fresh.copy(tmp_path / "clone"), tmp_path / "rows.jsonl", tmp_path / "m"
    write_rows(rows, "river")
    versions = [tmp_path / "v1", tmp_path / "v2"]
    for version in versions:
        shutil.copytree(checkpoint("llama"), version)
    config = versions[1] / "config.json"
    times = config.stat()
    config.write_text(config.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    older(config, times)
    latest.symlink_to(versions[0])
    change = {
        "datasets": {"mine": {"local": str(rows), "fields": {"question": "q", "answers": ["a"]}}},
        "models": {"mine": {"local": str(latest), "dtype": "float32", "prompt": "plain"}},
    }
    clone.build(*TARGETS, change=change)
    latest.unlink()
    latest.symlink_to(versions[1])
    first = shutil.copy2(rows, tmp_path / "kept")
    write_rows(rows, "mount")
    older(rows, first.stat())
    assert clone.planned(*TARGETS, change=change) == {"dataset": 1, "model": 1}
    latest.unlink()
    latest.symlink_to(versions[0])
    shutil.copy2(first, rows)
    assert clone.planned(*TARGETS, change=change) == {}


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file whose digest is kept, in a folder where a run keeps digests."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x.safetensors"
    with path.open("wb") as file:
        file.truncate(WHOLE + 1)
    return path


def overwrite(path: Path) -> None:
    """Change the last byte, in place."""
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"y")


def replace(path: Path) -> None:
    """Move a changed copy to the file's place."""
    other = Path(shutil.copy2(path, path.with_name("other")))
    overwrite(other)
    other.replace(path)


@pytest.mark.parametrize("change", [overwrite, replace])
def test_a_large_file_changed_at_its_end_is_noticed_though_size_header_and_time_are_as_before(
    large: Path, change: Callable[[Path], None]
) -> None:
    before, times = digest([large]), large.stat()
    change(large)
    os.utime(large, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (large.stat().st_size, large.stat().st_mtime_ns) == (times.st_size, times.st_mtime_ns)
    assert digest([large]) != before


def test_a_large_file_is_read_again_only_if_it_may_have_changed_and_its_content_decides(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    hashed = files._sha256
    monkeypatch.setattr(files, "_sha256", lambda path: read.append(path) or hashed(path))
    before = digest([large])
    assert digest([large]) == before and len(read) == 1
    large.touch()
    copy = shutil.copy(large, large.with_name("copy"))
    os.replace(copy, large)
    assert digest([large]) == before == digest([large]) and len(read) == 2
    for kept in Path(files.DIGESTS).iterdir():
        kept.write_text("[]", encoding="utf-8")
    assert digest([large]) == before and len(read) == 3


def test_a_checkpoint_merged_anew_is_located_anew_and_one_that_was_touched_is_not(
    fresh: Workspace, checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    """Whatever the user's profile lets Snakemake look at, old and new weights do not mix."""
    clone, folder = fresh.copy(tmp_path / "clone"), tmp_path / "model"
    shutil.copytree(checkpoint("llama"), folder)
    weights = folder / "model.safetensors"
    with (clone.root / "anchorscope/storage/files.py").open("a", encoding="utf-8") as library:
        library.write("\n\nWHOLE = 1000\n")
    change = {"models": {"mine": {"local": str(folder), "dtype": "float32", "prompt": "plain"}}}
    located = "results/models/mine.json"
    clone.build(located, change=change)
    times = weights.stat()
    weights.touch()
    assert clone.planned(located, change=change) == {}
    overwrite(weights)
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert clone.planned(located, change=change) == {"model": 1}
    refused = clone.run(located, "--rerun-triggers", "mtime", change=change)
    assert refused.returncode == 1 and "--forcerun model`" in refused.stderr, refused.stderr
