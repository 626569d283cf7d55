"""Files of the future are dated now, in their order; all others stay as they are."""

from __future__ import annotations

import os
import time
from pathlib import Path

from anchorscope import clock

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
