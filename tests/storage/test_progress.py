"""Progress: a slow first step does not leave the log silent."""

import logging
import threading
from collections.abc import Iterator

import pytest

from anchorscope.storage import progress


class Heard(logging.Handler):
    """A handler that keeps the first line and says that it has come."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.came = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.came.set()


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler, level = Heard(), progress.log.level
    progress.log.addHandler(handler)
    progress.log.setLevel(logging.INFO)
    yield handler
    progress.log.setLevel(level)
    progress.log.removeHandler(handler)


def test_a_line_comes_before_a_slow_first_step_is_done(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "FIRST_LINE", 0.01)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    with progress.Progress(total=40, unit="answers"):
        assert heard.came.wait(60)
        assert heard.lines[0].startswith("0 of 40 answers")


def test_a_bar_that_ended_writes_no_further_line(heard: Heard) -> None:
    with progress.Progress(total=1) as bar:
        bar.update(1)
    bar._first.join(60)
    assert len(heard.lines) == 1 and not bar._first.is_alive()
