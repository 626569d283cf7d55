"""A clock of a run's own, which jumps: Debian's libfaketime, in every process of the run."""

from __future__ import annotations

from pathlib import Path

import pytest

LIBRARY = "libfaketimeMT.so.1"
SLEEP = """\
# libfaketime 0.9 refuses the call that `time.sleep` makes while the steady clock is left alone.
import select
import time

time.sleep = lambda seconds: select.select([], [], [], seconds)
"""


class Clock:
    """What the processes of a run read as the time; their steady clock is the machine's.

    Files have the machine's times, as those of a disk on another machine do.

    Args:
        folder: where it keeps its own files; made.
    """

    def __init__(self, folder: Path) -> None:
        found = sorted(Path("/usr/lib").glob(f"**/faketime/{LIBRARY}"))
        if not found:
            pytest.skip("no libfaketime here (Debian's package `libfaketime`)")
        folder.mkdir(parents=True)
        (folder / "sitecustomize.py").write_text(SLEEP, encoding="utf-8")
        self._said = folder / "clock"
        self.jump("+0s")
        self.environment = {
            "LD_PRELOAD": str(found[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._said),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
            "PYTHONPATH": str(folder),
        }

    def jump(self, to: str) -> None:
        """Set the clock; `-2y` is two years behind the machine's."""
        draft = self._said.with_name("draft")
        draft.write_text(f"{to}\n", encoding="utf-8")
        draft.replace(self._said)
