"""Disks, a second run, a silent worker: a clear end, and the same tables after."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults import disks
from faults.conftest import Ledger
from faults.harness import (
    FULL,
    PATIENCE,
    TOKEN,
    World,
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


def test_nothing_that_a_run_leaves_holds_the_token(world: World) -> None:
    """Products, records, logs, what was said, and Snakemake's own files."""
    left = [path for path in world.finished.root.rglob("*") if path.is_file()]
    assert len(left) > 100
    assert [path for path in left if TOKEN.encode() in path.read_bytes()] == []
