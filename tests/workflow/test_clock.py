"""Files of the future are dated now, in their order; all others stay as they are."""

from __future__ import annotations

import ast
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from anchorscope.workflow import clock

ROOT = Path(__file__).parents[2]
SOURCES = sorted(p for name in ("anchorscope", "scripts") for p in (ROOT / name).rglob("*.py"))
WALL = frozenset("time time_ns now utcnow today localtime gmtime ctime fromtimestamp".split())
"""Calls that tell the time of day; `time.monotonic` does not, and never jumps."""
DAY = 86_400.0


def test_what_is_dated_ahead_is_set_back_in_its_order(tmp_path: Path) -> None:
    now = time.time()
    times = {"old": now - DAY, "b": now + DAY, "c": now + 2 * DAY, "a": now + DAY - 5, "d": now + 9}
    times |= {"same": now + DAY}
    for name, at in times.items():
        (tmp_path / name).write_text(name, encoding="utf-8")
        os.utime(tmp_path / name, (at, at))
    assert clock.set_back(tmp_path) == 4
    after = {path.name: path.stat().st_mtime for path in tmp_path.iterdir()}
    assert after["old"] == times["old"] and abs(after["d"] - times["d"]) < 1e-3
    assert now - 1 < after["a"] < after["b"] == after["same"] < after["c"] <= time.time()
    assert clock.set_back(tmp_path) == 0
    assert {p.name: p.read_text(encoding="utf-8") for p in tmp_path.iterdir()} == {
        name: name for name in times
    }


def test_links_and_missing_folders_are_left_alone(tmp_path: Path) -> None:
    ahead = tmp_path / "ahead"
    ahead.touch()
    at = time.time() + DAY
    os.utime(ahead, (at, at))
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "link").symlink_to(ahead)
    assert clock.set_back(tmp_path / "results") == clock.set_back(tmp_path / "nowhere") == 0
    assert ahead.stat().st_mtime > time.time() + DAY / 2


def asked(source: str) -> Iterator[str]:
    """Where a source asks for the time of day."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (name.name for name in node.names if name.name in WALL)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = ast.unparse(node.func.value).rpartition(".")[2]
            if node.func.attr in WALL and of in ("time", "datetime", "date", "Timestamp"):
                yield ast.unparse(node)


def test_nothing_is_decided_by_the_time_of_day() -> None:
    """Pauses, patience and progress go by the steady clock; files of the future are the exception,
    which are held against the time of day because Snakemake holds them against it."""
    found = {path.name: [*asked(path.read_text(encoding="utf-8"))] for path in SOURCES}
    assert {name: calls for name, calls in found.items() if calls} == {"clock.py": ["time.time()"]}


@pytest.mark.parametrize(
    "source",
    [
        "import time\nx = time.time() + 5",
        "from time import time",
        "from datetime import UTC, datetime\ndatetime.now(UTC)",
        "import datetime\ndatetime.datetime.utcnow()",
        "import pandas as pd\npd.Timestamp.now()",
    ],
)
def test_the_scan_of_sources_sees(source: str) -> None:
    assert [*asked(source)]
