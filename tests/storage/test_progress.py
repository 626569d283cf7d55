"""Long work says how far it is: in its log in lines, on a terminal that is its own as a bar."""

from __future__ import annotations

import gc
import logging
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import pytest
import report_run
from workflow import Workspace

from anchorscope.storage import progress, provenance
from anchorscope.storage.progress import Download, Progress
from anchorscope.workflow.messages import Shown
from anchorscope.workflow.stage import stage

ROOT = Path(__file__).parents[2]
STAGE = """
import sys, time
from types import SimpleNamespace
from anchorscope.storage import progress
from anchorscope.workflow import stage
progress.SECONDS_BETWEEN_LINES = 0.0
job = SimpleNamespace(log=[sys.argv[1]], input=[], rule="activations", wildcards={})
with stage.stage(job), progress.Progress(total=40, delay=0, mininterval=0) as work:
    for _ in range(4):
        work.update(10)
        stage.log.warning("careful")
    if len(sys.argv) > 2:
        print("go", flush=True)
        input()
"""


@pytest.fixture(autouse=True)
def nobody_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that another test has left unfinished is not spoken for here."""
    monkeypatch.setattr(Progress, "_speaker", None)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line is due whenever something is done."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_line_says_how_many_how_fast_and_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    with Progress(total=2000) as work:
        work.n = 1200
        monkeypatch.setattr(Progress, "seconds", 30.0)
        assert work.line() == "1,200 of 2,000 samples, 40.0 samples/s, 0:20 left"
        work.set_description("probes")
        work.set_postfix_str("loss 0.3")
        monkeypatch.setattr(Progress, "seconds", 1200.0)
        expected = "probes: 1,200 of 2,000 samples, 1.0 samples/s, 13:20 left, loss 0.3"
        assert work.line() == expected


def test_bytes_are_said_in_units(monkeypatch: pytest.MonkeyPatch) -> None:
    with Download(total=16e9, unit="B", unit_scale=True) as work:
        work.n = 4e9
        monkeypatch.setattr(Progress, "seconds", 100.0)
        assert work.line() == "4.00G of 16.0G B, 40.0M B/s, 5:00 left"


def test_what_has_no_end_says_how_far_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with Progress() as work:
        work.update(3)
    assert re.fullmatch(r"3 samples, [\d,.]+ samples/s", lines(caplog)[-1])


def test_the_log_says_at_the_end_that_nothing_is_left(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for _ in Progress(range(7), unit="draws"):
        pass
    assert lines(caplog)[-1].startswith("7 of 7 draws, ")
    assert lines(caplog)[-1].endswith(" 0:00 left")


def test_parts_of_a_stage_are_silent_while_it_speaks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with Progress(total=2, unit="stages") as whole:
        for _ in Progress(range(5), unit="parts"):
            pass
        whole.update(2)
    for _ in Progress(range(5), unit="parts"):
        pass
    said = lines(caplog)
    assert [line for line in said[:-1] if "parts" in line] == []
    assert "5 of 5 parts" in said[-1]


def test_a_whole_that_gathers_counts_what_its_parts_report_in_its_unit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    with Progress(total=10, unit="probes", gathers=True) as whole:
        for unit in ("probes", "rows", "probes"):
            with Progress(total=5, unit=unit) as part:
                part.update(2)
                part.update(3)
    assert whole.n == 10 and lines(caplog)[-1].startswith("10 of 10 probes, ")
    assert not any("of 5" in line for line in lines(caplog))
    with Progress(total=10, unit="probes") as alone, Progress(unit="probes") as other:
        other.update(4)
    assert alone.n == 0


def test_of_several_downloads_the_one_that_moves_speaks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with Download(total=0, unit="B"), Download(total=10, unit="B") as second:
        second.update(10)
    assert lines(caplog) and all("of 10 B" in line for line in lines(caplog))


def test_a_stage_that_fails_lets_the_next_one_speak(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(RuntimeError), Progress(total=3):
        raise RuntimeError
    with Progress(total=4) as work:
        work.update(4)
    assert "4 of 4" in lines(caplog)[-1]


def test_a_download_that_fails_lets_the_next_one_speak(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    left_open = []
    with pytest.raises(RuntimeError), Download.closed_after() as bars:
        left_open.append(bars(total=10, unit="B"))
        left_open[0].update(5)
        raise RuntimeError
    with Progress(total=4) as work:
        work.update(4)
    assert "4 of 4" in lines(caplog)[-1]


def test_a_pipe_gets_lines_and_no_bar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = SimpleNamespace(log=[str(tmp_path / "log")], input=[], rule="r", wildcards={})
    with stage(job), Progress(total=40, delay=0) as work:
        work.update(40)
    said = capsys.readouterr().err
    assert "40 of 40 samples" in said and "%" not in said and "\r" not in said
    assert (tmp_path / "log").read_text("utf-8") == said


@dataclass
class Terminal:
    """A terminal of 100 columns, and what is shown on it."""

    side: int
    shown: bytes = b""

    def read(self, ours: int, ended: Event) -> None:
        while select.select([ours], [], [], 0.05)[0] or not ended.is_set():
            if select.select([ours], [], [], 0)[0]:
                self.shown += os.read(ours, 4096)

    def text(self, start: int = 0) -> str:
        time.sleep(0.3)
        return self.shown[start:].decode()


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (30, 100))
    terminal, ended = Terminal(theirs), Event()
    reader = Thread(target=terminal.read, args=(ours, ended), daemon=True)
    reader.start()
    yield terminal
    ended.set()
    reader.join(timeout=10)
    os.close(theirs)
    os.close(ours)


def start(log: Path, terminal: Terminal, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", STAGE, str(log), *more],
        stderr=terminal.side,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def test_alone_on_a_terminal_there_is_a_bar_and_the_log_has_lines(
    tmp_path: Path, terminal: Terminal
) -> None:
    job = start(tmp_path / "log", terminal)
    assert job.wait(timeout=60) == 0
    log = (tmp_path / "log").read_text("utf-8")
    assert "40 of 40 samples" in log and "left" in log and "%" not in log
    assert log.count("careful") == 4
    shown = terminal.text()
    assert "100% |" in shown and "samples/s" in shown
    assert shown.count("careful") == 4
    assert "40 of 40 samples, 0:00 left\n" not in shown


def test_two_on_a_terminal_do_not_draw_over_each_other(tmp_path: Path, terminal: Terminal) -> None:
    first = start(tmp_path / "first", terminal, "wait")
    assert first.stdout is not None and first.stdout.readline() == "go\n"
    before = len(terminal.text())
    second = start(tmp_path / "second", terminal)
    assert second.wait(timeout=60) == 0
    shown = terminal.text(before)
    assert "%" not in shown and "40 of 40 samples" in shown
    first.communicate("\n", timeout=60)
    assert first.returncode == 0


def test_a_message_names_model_and_dataset_as_a_reader_does(fresh: Workspace) -> None:
    said = fresh.dry("results/delta_p/qwen3-8b/nq.csv", "results/delta_p/qwen3-8b/popqa.csv")
    for name in ("NQ", "PopQA"):  # a name that ends in q, which Snakemake takes for quotes
        assert f"scores of Qwen3-8B on {name}: fitting the probes to 2,000 samples" in said


def test_a_message_counts_the_samples_once_they_are_known(tmp_path: Path) -> None:
    config = report_run.settings(tmp_path / "results")
    shown = Shown(config)
    assert f"{shown.samples:hard/}" == "2,000 samples"
    questions = tmp_path / "results" / "data" / "hard.parquet"
    counts = provenance.Counts(98, 71, {"empty": 27})
    provenance.record(questions, identity="i", settings={}, counts=counts)
    assert f"{shown.samples:hard/}" == "71 samples"
    assert f"{shown.cell:first/hard/}" == "First <b>model</b> on hard"


def test_a_bar_that_was_left_open_says_nothing_when_it_is_collected(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    Progress(total=3).update(2)
    gc.collect()
    assert lines(caplog) == []
    with Progress(total=4) as work:
        work.update(4)
    assert "4 of 4" in lines(caplog)[-1]


def test_a_name_that_a_client_gives_a_bar_later_is_parted_from_the_numbers() -> None:
    with Download(total=10, unit="B") as bar:
        bar.desc = "Download complete"
        assert bar.line().startswith("Download complete: 0 of 10 B")
