"""A catalogue that grows: as many jobs as cells ask for, and work in proportion to them."""

from __future__ import annotations

import importlib
import pstats
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, get_args

import pytest
import yaml
from faults.disks import fill, small_disk
from workflow import PROJECT, Workspace, counted

from anchorscope.config.settings import Readout

DATASETS, READOUTS = 2, 6
PER_CELL = ("prompts", "answers", "activations", "scores", "delta_p")


class Dry(NamedTuple):
    """A dry run: its jobs, all calls of functions, and those of `config.load`."""

    jobs: dict[str, int]
    calls: int
    loads: int


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    """`benchmarks/dag.py`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PROJECT / "benchmarks"))
        return importlib.import_module("dag")


def dry(workspace: Workspace, catalogue: dict[str, object], folder: Path) -> Dry:
    """Resolve a catalogue beside the project's own, every call counted."""
    grown, stats = workspace.root / "grown.yaml", folder / "stats"
    grown.write_text(yaml.safe_dump(catalogue), encoding="utf-8")
    command = [sys.executable, "-m", "cProfile", "-o", str(stats), "-m", "snakemake", "-n"]
    command += ["--cores", "1", "--nocolor", "--quiet", "rules"]
    done = subprocess.run(
        [*command, "--configfile", "config.yaml", grown.name],
        cwd=workspace.root,
        env=workspace.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    profile = pstats.Stats(str(stats))
    counts = profile.stats.items()  # type: ignore[attr-defined]
    loads = [
        values[1] for (file, _, name), values in counts
        if file.endswith("anchorscope/workflow/config.py") and name == "load"
    ]  # fmt: skip
    return Dry(counted(done.stdout + done.stderr), profile.total_calls, sum(loads))  # type: ignore[attr-defined]


def test_jobs_and_work_grow_with_the_cells_and_no_faster(
    fresh: Workspace, benchmark: ModuleType, tmp_path: Path
) -> None:
    found = {n: dry(fresh, benchmark.catalogue(n, DATASETS, READOUTS), tmp_path) for n in (2, 4, 8)}
    for models, one in found.items():
        assert {one.jobs[stage] for stage in PER_CELL} == {models * DATASETS}
        assert (one.jobs["model"], one.jobs["dataset"]) == (models, DATASETS)
        assert (one.jobs["table"], one.jobs["figure"]) == (1, 1)
        drawn = [name for name in get_args(Readout)[:READOUTS] if not name.endswith("/prompt_end")]
        assert one.jobs["view"] == 3 + len(drawn) - 1, "controls, probes, read-outs; each other one"
        assert one.loads == 1, "the config is checked once, however many jobs there are"
    first, second = found[4].calls - found[2].calls, found[8].calls - found[4].calls
    assert first > 0
    assert second <= 2.2 * first, "twice the cells, twice the work"


def test_activations_that_cannot_fit_are_refused_before_the_first_job(
    fresh: Workspace, tmp_path: Path
) -> None:
    clone = fresh.copy(tmp_path / "clone")
    done = clone.run("llama-3.2", change={"sample_size": 10**10})
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "activations take" in said and "GB are free" in said
    assert "what-goes-wrong.md#no-room" in said
    assert "Traceback" not in said and "rule dataset" not in said
    assert not list(clone.root.rglob("*.parquet"))


def test_a_full_scratch_disk_is_said_before_the_first_job(
    fresh: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone, scratch = fresh.copy(tmp_path / "clone"), tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    with small_disk(scratch):
        fill(scratch)
        done = clone.run("results/data/world-relation.parquet")
    said = done.stdout + done.stderr
    assert done.returncode != 0 and f"the disk is full\n  where: {scratch}\n" in said
    assert "Traceback" not in said and not list(clone.root.rglob("*.parquet"))


def test_the_benchmark_measures_a_whole_dry_run(benchmark: ModuleType) -> None:
    found = benchmark.resolve(benchmark.catalogue(1, 1, 1))
    assert found.jobs["scores"] == 1
    assert 0 < found.cpu_seconds < found.listed_cpu_seconds
    assert 0 < found.seconds < found.listed_seconds
    assert found.peak_mb > 50
    with pytest.raises(RuntimeError, match="nobody"):
        benchmark.resolve(benchmark.catalogue(1, 1, 1) | {"targets": ["nobody"]})
