"""How far a long stage is: tqdm's bar on a terminal, and a line in the log every few seconds."""

import io
import logging
import sys
import time
from typing import Any

from tqdm import tqdm

log = logging.getLogger(__name__)

SECONDS_BETWEEN_LINES = 5.0
LINE = "{desc}: {n_fmt} of {total_fmt}{unit}, {rate_noinv_fmt}, {remaining} left"


class Progress(tqdm):
    """Counts what is done: `with Progress(total=2000) as progress: progress.update(64)`.

    A stage's parts within another `Progress` are silent. Takes tqdm's arguments.
    """

    monitor_interval = 0
    job = ""
    """What the bars of this process belong to."""

    def __init__(self, *args: Any, unit: str = "samples", **given: Any) -> None:
        self._said = time.monotonic()
        given["file"] = sys.stderr if sys.stderr.isatty() else io.StringIO()
        given["desc"] = ": ".join(filter(None, (self.job, given.get("desc"))))
        super().__init__(*args, **{"unit": f" {unit}", "leave": None, "delay": 1, **given})

    @property
    def seconds(self) -> float:
        """Since the work began."""
        return self.format_dict["elapsed"]

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Draw the bar, and write a line if one is due; called by tqdm."""
        super().display(msg, pos)
        if msg is None and time.monotonic() - self._said >= SECONDS_BETWEEN_LINES:
            self._say()

    def close(self) -> None:
        """Say how it ended."""
        if not self.disable:
            self._say()
        super().close()

    def _say(self) -> None:
        self._said = time.monotonic()
        if self.pos == 0:  # not within another that is open
            line = {"bar_format": LINE, "ncols": None}
            said = self.format_meter(**{**self.format_dict, **line})
            log.info("%s", " ".join(said.split()))  # tqdm pads a rate below ten


class Lines(logging.StreamHandler):
    """Writes a log to the terminal around the bar, but what the bar says there already."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if record.name == __name__ and self.stream.isatty():
                return
            tqdm.write(self.format(record), file=self.stream)
        except Exception:
            self.handleError(record)
