"""Disks, clocks, a second run, a silent worker: a clear end, and the same tables after."""

from __future__ import annotations

import functools
import os
import re
import time
from pathlib import Path

import pytest
from workflow import Workspace

from faults import disks
from faults.clocks import Clock
from faults.conftest import Ledger
from faults.harness import (
    FULL,
    PATIENCE,
    STAGES,
    TOKEN,
    World,
    batches,
    finish,
    job,
    run,
    said,
    start,
    tables,
    wait,
)


def clear(text: str, *named: str) -> bool:
    """Whether a message says all this, and no traceback of ours is seen."""
    return all(part in text for part in named) and "anchorscope failed" not in text


@pytest.mark.parametrize("stage", ["answers", "activations", "scores"] if FULL else ["scores"])
def test_a_disk_that_fills_up_is_named_and_loses_nothing(
    world: World, ledger: Ledger, tmp_path: Path, stage: str
) -> None:
    with (
        ledger.entering("disk full"),
        world.before(stage, tmp_path / "clone") as clone,
        disks.small_disk(clone.results),
    ):
        running = start(clone)
        wait(lambda: job(running.pid, stage), f"a job of {stage}")
        ballast = disks.fill(clone.results)
        code = running.wait(PATIENCE)
        text = said(clone)
        half = [p.name for p in (clone.results / stage).rglob("*") if p.is_file()]
        ballast.unlink()
        finish(clone)
        assert code != 0 and not half
        assert clear(text, "the disk is full", f"rule {stage}", "#disk-full"), text
        assert tables(clone) == world.tables


def test_read_only_results_are_named_before_any_job(
    world: World, ledger: Ledger, tmp_path: Path
) -> None:
    with (
        ledger.entering("read-only results"),
        world.before("delta_p", tmp_path / "clone") as clone,
        disks.small_disk(clone.results),
    ):
        with disks.read_only(clone.results):
            code, text = run(clone)
        finish(clone)
        named = clear(text, "may not be opened or written", "#not-writable")
        assert code != 0 and named, text
        assert tables(clone) == world.tables


def test_a_second_run_in_the_same_folder_is_refused_and_harms_nothing(
    world: World, ledger: Ledger, tmp_path: Path
) -> None:
    with (
        ledger.entering("two runs in one folder"),
        world.before("scores", tmp_path / "clone") as clone,
    ):
        first = start(clone)
        wait(lambda: job(first.pid, "scores"), "the first run's job")
        second, text = run(clone)
        resumed, told = run(clone, module="anchorscope.workflow.resume")
        code = first.wait(PATIENCE)
        refused = second != 0 and "cannot be locked" in text
        left = resumed != 0 and "still going on" in told
        assert refused and left, text + told
        assert code == 0 and tables(clone) == world.tables, said(clone)[-2000:]


@pytest.mark.parametrize("stage", ["model", "activations", "delta_p"] if FULL else ["delta_p"])
def test_a_worker_that_ends_without_a_word_or_a_product_is_noticed(
    world: World, ledger: Ledger, tmp_path: Path, stage: str
) -> None:
    """It says that all went well and has made nothing."""
    with (
        ledger.entering("worker dies silently"),
        world.before(stage, tmp_path / "clone") as clone,
    ):
        script = clone.root / "scripts" / f"{stage}.py"
        whole = script.read_text(encoding="utf-8")
        script.write_text("import os\n\nos._exit(0)\n", encoding="utf-8")
        code, text = run(clone)
        script.write_text(whole, encoding="utf-8")
        finish(clone)
        assert code != 0 and "MissingOutputException" in text, text
        assert tables(clone) == world.tables


DAY = 86_400.0
JUMPS = {"forward": DAY, "back": -40 * 365 * DAY}


@pytest.mark.parametrize("jump", JUMPS)
def test_a_clock_that_jumps_changes_no_number(
    world: World, ledger: Ledger, tmp_path: Path, jump: str
) -> None:
    """What was made before the jump has times of tomorrow, or of decades ago."""
    if jump == "back" and not FULL:
        pytest.skip("make test-all runs it")
    with (
        ledger.entering("clock jumps"),
        world.before("delta_p", tmp_path / "clone") as clone,
    ):
        at = time.time() + JUMPS[jump]
        for name in list(STAGES)[: list(STAGES).index("delta_p")]:
            for product in STAGES[name]:
                for path in [clone.results / product, *(clone.results / product).rglob("*")]:
                    if path.exists():
                        os.utime(path, (at, at))
        finish(clone)
        assert tables(clone) == world.tables


YEARS = {"answers": 10, "activations": -20, "scores": 30, "delta_p": 20, "table": -40}
"""How far from now a stage finds the clock once it has begun."""
_YEAR = re.compile(r"^\[[\w :]+ (?=\d{4}\]$)|System time: (?=\d{4}-)", re.MULTILINE)


def jumping(clone: Workspace, clock: Clock, jumps: dict[str, int]) -> tuple[int, str]:
    """A run under a clock that jumps as soon as a stage has begun; what is done is taken out."""
    before = len(said(clone))
    running = start(clone, env=clock.environment)
    while jumps and running.poll() is None:
        stage = next(iter(jumps))
        begun = functools.partial(job, running.pid, stage)
        if wait(lambda begun=begun: begun() or running.poll() is not None, stage) is not True:
            clock.jump(f"{jumps.pop(stage):+d}y")
    return running.wait(PATIENCE), said(clone)[before:]


def test_a_clock_that_jumps_under_a_run_changes_no_number(
    world: World, ledger: Ledger, tmp_path: Path
) -> None:
    """By decades. Back it ends the run, in Snakemake's words; the right clock lets it go on."""
    stages = list(YEARS) if FULL else ["delta_p", "table"]
    jumps = {stage: YEARS[stage] for stage in stages}
    expected = {time.localtime(time.time() + 365 * DAY * jumps[stage]).tm_year for stage in stages}
    with (
        ledger.entering("clock jumps under a run") as entry,
        world.before(stages[0], tmp_path / "clone") as clone,
    ):
        clock, told, kept = Clock(tmp_path / "clock"), "", dict[str, int]()
        while jumps:
            code, text = jumping(clone, clock, jumps)
            told += text
            kept = batches(clone) | kept
            assert clear(text, *[] if code == 0 else ["older modification time"]), text[-4000:]
            clock.jump("+0s")
        told += finish(clone, env=clock.environment)
        after = batches(clone)
        entry.lost = sum(after[name] != at for name, at in kept.items())
        assert expected <= {int(told[at.end() : at.end() + 4]) for at in _YEAR.finditer(told)}
        assert "dated ahead of the clock" in told and not entry.lost
        assert tables(clone) == world.tables


def test_nothing_that_a_run_leaves_holds_the_token(world: World) -> None:
    """Products, records, logs, what was said, and Snakemake's own files."""
    left = [path for path in world.finished.root.rglob("*") if path.is_file()]
    assert len(left) > 100
    assert [path for path in left if TOKEN.encode() in path.read_bytes()] == []
