"""Local files that are replaced, by older ones too: what was made of them is made again."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from workflow import Workspace

from anchorscope.storage.files import HEADER, WHOLE, state_of

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


@pytest.mark.parametrize("differs", ["nothing", "time", "size", "header"])
def test_a_large_file_counts_with_its_size_time_and_header(tmp_path: Path, differs: str) -> None:
    path, other = tmp_path / "one/x.safetensors", tmp_path / "other/x.safetensors"
    for at in (path, other):
        at.parent.mkdir()
        with at.open("wb") as file:
            file.truncate(WHOLE + 1 + (at == other and differs == "size"))
            file.seek(HEADER - 1)
            file.write(b"x" if at == other and differs == "header" else b"y")
        seconds = 1 + (at == other and differs == "time")
        os.utime(at, (seconds, seconds))
    assert (state_of([path]) == state_of([other])) == (differs == "nothing")
