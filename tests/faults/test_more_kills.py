"""Killed where several jobs share a cell, and in the short jobs behind the table."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from workflow import TINY, Workspace, merged, workspace

from faults.conftest import Ledger
from faults.harness import (
    FULL,
    PATIENCE,
    SEED,
    TARGET,
    Kill,
    Moment,
    Trial,
    World,
    disturb_in_time,
    finish,
    job,
    remove,
    resume,
    sigkill,
    sigkill_snakemake,
    start,
    tables,
    wait,
)
from faults.test_kills import NAMES

pytestmark = pytest.mark.skipif(not FULL, reason="make test-all runs it")

SHARED = {"models": {"tiny": {"resources": {"shards": 2}}}}
CHAIN: Sequence[tuple[str, int, Kill]] = (
    ("answers", 0, sigkill),
    ("activations", 2, sigkill),
    ("activations", 7, sigkill_snakemake),
)
"""Jobs of which stage are killed once how many batches are measured; the first shard has five."""
SHORT = {
    "calibration_cell": "results/calibration/calibration/tiny-llama/tiny-world.csv",
    "calibration_table": "results/tables/calibration.csv",
    "calibration_figure": "results/figures/calibration.vl.json",
    "null_controls": "results/tables/null-controls.csv",
    "join": "results/tables/tiny.refits.csv",
    "reproduction": "results/tables/reproduction.csv",
}
"""Script → what it makes in the run of which more is known to be true."""
Batches = dict[tuple[str, str], int]
"""Finished batches, whichever job's: (stage, name) → time of writing, in nanoseconds."""


def look(clone: Workspace, seen: Batches) -> int:
    """Enter the batches that are there now; how many there are of the measured ones."""
    now: Batches = {}
    with suppress(FileNotFoundError):  # a folder that is moved while it is listed
        for path in clone.results.rglob("batch-*.safetensors"):
            for stage in ("answers", "activations"):
                if f"{stage}+" in str(path) or f"/{stage}/" in str(path):
                    now[stage, path.name] = path.stat().st_mtime_ns
    seen |= now
    return sum(stage == "activations" for stage, _ in now)


def killed(clone: Workspace, stage: str, count: int, kill: Kill, seen: Batches) -> bool:
    """Go on until so many batches are measured and a job of the stage runs, then kill."""
    running = start(clone)
    try:

        def there() -> psutil.Process | bool | None:
            measured = look(clone, seen)
            if running.poll() is not None:
                return True
            any_said = any(name == stage for name, _ in seen)
            return job(running.pid, stage) if measured >= count and any_said else None

        found = wait(there, f"{count} batches")
        if isinstance(found, psutil.Process):
            kill(running, found)
        return isinstance(found, psutil.Process)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait(PATIENCE)


def test_a_job_that_shares_a_cell_loses_the_batch_in_flight(
    world: World, ledger: Ledger, tmp_path: Path
) -> None:
    """Snakemake too, whose orphan ends well: what it made is taken over, not made again."""
    seen, kept, hits = Batches(), Batches(), list[bool]()
    with world.before("answers", tmp_path / "clone") as whole:
        clone = Workspace(whole.root, merged(whole.overlay, SHARED))
        for stage, count, kill in CHAIN:
            hits.append(killed(clone, stage, count, kill, seen))
            kept = seen | kept
        code, text = resume(clone)
        look(clone, seen)
        again = [name for name, at in kept.items() if seen[name] != at]
        same = code == 0 and tables(clone) == world.tables
        for _, _, kill in CHAIN:
            ledger.add(f"{NAMES[kill]}, in a shard", survived=same)
        ledger.lost[f"{NAMES[sigkill]}, in a shard"] += len(again)
        assert code == 0, text[-4000:]
        assert all(hits) and not again and same


@pytest.fixture(scope="module")
def calibrated(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Workspace, dict[str, bytes]]:
    """A run with everything that `SHORT` makes, and what that holds."""
    clone = workspace(tmp_path_factory.mktemp("calibrated") / "clone", TINY)
    finish(clone, TARGET, *SHORT.values())
    return clone, {target: (clone.root / target).read_bytes() for target in SHORT.values()}


def test_short_jobs_are_killed_and_come_out_the_same(
    calibrated: tuple[Workspace, dict[str, bytes]], ledger: Ledger
) -> None:
    clone, made = calibrated
    dice = random.Random(f"{SEED} short")
    for target in SHORT.values():
        remove(clone.root / target)
    world = World(clone, {}, {})
    with ledger.entering("SIGKILL of a short job", len(SHORT)):
        for script, target in SHORT.items():
            trial = Trial(script, Moment(share=dice.random()), sigkill)
            disturb_in_time(world, clone, trial, target)
        finish(clone, *SHORT.values())
        for target in SHORT.values():
            assert (clone.root / target).read_bytes() == made[target]
