"""Long work says how far it is, in its log; a terminal gets tqdm's bar."""

import logging

import pytest

from anchorscope.storage import progress
from anchorscope.storage.progress import Progress


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """No bar that another test left open counts, and every update is due for a line."""
    Progress._instances.clear()
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    # Some other test may have begun a stage, whose log keeps to itself.
    monkeypatch.setattr(logging.getLogger("anchorscope"), "propagate", True)
    caplog.set_level(logging.INFO, "anchorscope")


def test_lines_say_how_many_of_how_many_and_how_fast(caplog: pytest.LogCaptureFixture) -> None:
    with Progress(total=2000, desc="probes", mininterval=0, delay=0) as work:
        work.update(1200)
        assert caplog.messages[-1].startswith("probes: 1200 of 2000 samples, ")
        work.update(800)
    assert caplog.messages[-1].startswith("probes: 2000 of 2000 samples, ")
    assert caplog.messages[-1].endswith(" samples/s, 00:00 left")


def test_parts_are_silent_while_the_whole_is_open(caplog: pytest.LogCaptureFixture) -> None:
    with Progress(total=1, unit="stages"):
        list(Progress(range(5), unit="parts"))
    assert not [line for line in caplog.messages if "parts" in line]
