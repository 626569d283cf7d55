"""Progress of a long stage: a bar on a terminal, and a line in the log every few seconds."""

import io
import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

log = logging.getLogger(__name__)

SECONDS_BETWEEN_LINES = 5.0
FIRST_LINE = 30.0
"""Seconds after which a first line is written, even if no step is done yet."""
LINE = "{desc}: {n_fmt} of {total_fmt}{unit}, {rate_noinv_fmt}, {remaining} left"


class Progress(tqdm):
    """A tqdm bar that also writes lines to the log.

    Use it as `with Progress(total=2000) as progress: progress.update(64)`. It takes tqdm's
    arguments. A `Progress` inside another one writes no lines.
    """

    monitor_interval = 0
    job = ""
    """Name of the current job. Every bar and line begins with it."""
    kept = False
    """Whether an earlier process did the steps of the next `update`, see `partial.once`."""

    def __init__(self, *args: Any, unit: str = "samples", **options: Any) -> None:
        """Make a bar with the arguments of tqdm."""
        self._last_line = time.monotonic()
        Progress.kept = False
        options["file"] = sys.stderr if sys.stderr.isatty() else io.StringIO()
        options["desc"] = ": ".join(filter(None, (self.job, options.get("desc"))))
        # Show the mean rate, not the rate of the last steps, since steps differ in speed.
        usual = {"unit": f" {unit}", "leave": None, "delay": 1, "smoothing": 0}
        super().__init__(*args, **{**usual, **options})
        self._first = threading.Timer(FIRST_LINE, self.refresh)
        self._first.daemon = True
        self._first.start()

    @property
    def seconds(self) -> float:
        """Seconds since the work began."""
        return self.format_dict["elapsed"]

    def update(self, n: float | None = 1) -> bool | None:
        """Count `n` more steps. If an earlier process did them (`kept`), the rate ignores them."""
        if Progress.kept:
            self.initial += n or 0
            Progress.kept = False
        return super().update(n)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Draw the bar, and write a line to the log if the last one is old. Called by tqdm."""
        super().display(msg, pos)
        if msg is None and time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._write_line()

    def close(self) -> None:
        """Write the last line to the log, then close the bar."""
        self._first.cancel()
        if not self.disable:
            self._write_line()
        super().close()

    def _write_line(self) -> None:
        self._last_line = time.monotonic()
        if self.pos > 0:  # inside another bar
            return
        line = self.format_meter(**{**self.format_dict, "bar_format": LINE, "ncols": None})
        log.info("%s", " ".join(line.split()))  # tqdm pads a rate below ten with a space


@contextmanager
def shown(job: str) -> Iterator[None]:
    """Show the log of the block on the terminal or in the notebook, as a workflow job does.

    If the caller has set up a log for `anchorscope`, nothing is added to it. Every line of progress
    begins with the name of the job.
    """
    top, handler = logging.getLogger("anchorscope"), Lines(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    alone, level, Progress.job = not top.hasHandlers(), top.level, job
    if alone:
        top.addHandler(handler)
        top.setLevel(logging.INFO)
    try:
        yield
    finally:
        Progress.job = ""
        if alone:
            top.removeHandler(handler)
            top.setLevel(level)


class Lines(logging.StreamHandler):
    """A log handler that writes to the terminal without breaking the bar.

    On a terminal, it leaves out lines of progress, because the bar shows the same.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        try:
            if record.name == __name__ and self.stream.isatty():
                return
            tqdm.write(self.format(record), file=self.stream)
        except Exception:
            self.handleError(record)
