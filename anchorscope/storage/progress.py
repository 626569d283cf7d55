"""How far a long stage is: a bar on the terminal, and a line in its log every few seconds."""

from __future__ import annotations

import io
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar
from weakref import ref

from tqdm import tqdm

log = logging.getLogger(__name__)

SECONDS_BETWEEN_LINES = 5.0
BAR = (
    "{desc}{percentage:3.0f}% |{bar}| "
    "{n_fmt} of {total_fmt}{unit}, {rate_noinv_fmt}, {remaining} left"
)


class Progress(tqdm):
    """Counts what is done: `with Progress(total=2000) as progress: progress.update(64)`.

    Says how many of how many, how many a second, and how much time is left: to the log every few
    seconds and at the end; on a terminal as a bar. Of several in a process the first speaks until
    it is closed, the others are silent: a stage is not interrupted by its parts. Of several
    processes on a terminal the first draws; the others write lines there.

    Args:
        As tqdm's. `unit` is `samples` by default, `desc` what is being done. `gathers`: whether
        what its silent parts report by `update`, in the same unit, counts for it.
    """

    monitor_interval = 0
    """No thread of tqdm's own: it only wakes bars that hardly move."""
    waits = False
    """Whether to speak only once it has moved: for one of several, of which some never do."""
    _speaker: ClassVar[ref[Progress] | None] = None

    def __init__(self, *args: Any, **given: Any) -> None:
        self.gathers = bool(given.pop("gathers", False))
        self._terminal: int | None = None
        self._began = self._said = time.monotonic()
        unit = f" {given.pop('unit', 'samples')}"
        desc = given.pop("desc", None)
        given["desc"] = f"{desc.removesuffix(': ')}: " if desc else None
        ours: dict[str, Any] = {"unit": unit, "file": io.StringIO(), "bar_format": BAR}
        ours |= {"dynamic_ncols": True, "leave": False, "miniters": 1}
        super().__init__(*args, **{"delay": 1, **given, **ours})
        if not self.waits:
            self._speaks()

    @property
    def seconds(self) -> float:
        """Since the work began, never 0."""
        return max(time.monotonic() - self._began, 1e-9)

    @property
    def drawn(self) -> bool:
        """Whether there is a bar on the terminal."""
        return self._terminal is not None

    def update(self, n: float | None = 1) -> bool | None:
        """So many more are done, here and in the whole that gathers them."""
        whole = Progress._speaking()
        if whole is not None and whole is not self and whole.gathers and whole.unit == self.unit:
            whole.update(n)
        return super().update(n)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Draw the bar if the terminal is ours, write a line if one is due; called by tqdm."""
        if not self._speaks():
            return
        if self.drawn:
            super().display(msg, pos)
        if msg is None and time.monotonic() - self._said >= SECONDS_BETWEEN_LINES:
            self._say()

    def close(self) -> None:
        """Say how it ended, and leave terminal and log to others."""
        if not self.disable and self._speaks():
            self._say()
        super().close()
        if Progress._speaking() is self:
            Progress._speaker = None
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None

    def __del__(self) -> None:
        """Somebody left it open: it makes room for others, and says nothing so late."""
        self.disable = True
        self.close()

    def line(self) -> str:
        """For example `1,200 of 2,000 samples, 35.1 samples/s, 0:23 left`."""
        rate = self.n / self.seconds
        of = "" if self.total is None else f" of {self._number(self.total)}"
        desc = f"{self.desc.removesuffix(': ')}: " if self.desc else ""  # a client may set it anew
        said = f"{desc}{self._number(self.n)}{of}{self.unit}"
        said += f", {self._number(rate) if self.unit_scale else f'{rate:,.1f}'}{self.unit}/s"
        if self.total is not None and rate:
            left = round((self.total - self.n) / rate)
            said += f", {left // 60}:{left % 60:02d} left"
        return said + (f", {self.postfix}" if self.postfix else "")

    def _number(self, value: float) -> str:
        return self.format_sizeof(value) if self.unit_scale else f"{value:,.0f}"

    def _say(self) -> None:
        self._said = time.monotonic()
        log.info("%s", self.line(), extra={"drawn": self.drawn})

    @staticmethod
    def _speaking() -> Progress | None:
        """The one that speaks, unless nobody holds it any more."""
        return None if Progress._speaker is None else Progress._speaker()

    def _speaks(self) -> bool:
        """Whether this is the one that speaks; if nobody does, it begins to."""
        if Progress._speaking() is None and (self.n or not self.waits):
            Progress._speaker = ref(self)
            self._terminal = _free_terminal()
            if self.drawn:
                self.fp, self.sp = sys.stderr, self.status_printer(sys.stderr)
        return Progress._speaking() is self


def _free_terminal() -> int | None:
    """A lock on the terminal behind stderr, if there is one on which nobody draws."""
    import fcntl

    opened = None
    try:
        opened = os.open(os.ttyname(sys.stderr.fileno()), os.O_WRONLY | os.O_NOCTTY)
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, ValueError):
        if opened is not None:
            os.close(opened)
        return None
    return opened


class Download(Progress):
    """What the hub's client makes several of: of bytes in parts, as they come, and of files."""

    waits = True

    @classmethod
    @contextmanager
    def closed_after(cls) -> Iterator[type[Download]]:
        """Closes the one that speaks, should a failed download leave it open."""
        try:
            yield cls
        finally:
            speaking = Progress._speaking()
            if isinstance(speaking, cls):
                speaking.close()


class Lines(logging.StreamHandler):
    """Writes a log to the terminal around the bar; what the bar shows is not said twice."""

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "drawn", False):
            return
        try:
            Progress.write(self.format(record), file=self.stream)
        except Exception:
            self.handleError(record)
