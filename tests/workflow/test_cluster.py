"""SLURM without SLURM: the lines of the profile, which jobs are ours, and what resuming does."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import onenode
import pytest
import workflow
import yaml

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow import cluster, resume
from anchorscope.workflow.cluster import Site


def test_the_profile_as_shipped_sends_jobs_to_the_default_partition() -> None:
    profile = yaml.safe_load((workflow.PROJECT / cluster.PROFILE).read_text(encoding="utf-8"))
    assert cluster.site(profile["default-resources"]) == Site()
    assert Site().partition_of(0) is None and Site().partition_of(1) is None


def test_only_gpu_jobs_go_to_the_gpu_partition() -> None:
    site = cluster.site({"slurm_partition": "main", "gpu_partition": "gpu", "max_runtime": "600"})
    assert site == Site("main", "gpu", None, 600)
    assert cluster.site({"max_mem_gb": "500"}).max_mem_gb == 500
    assert (site.partition_of(0), site.partition_of(2)) == ("main", "gpu")
    assert Site("main").partition_of(2) == "main"
    assert cluster.site({"gpu_partition": "'max'"}).gpu_partition == "max"


@pytest.mark.parametrize("name", ["max_runtime", "max_mem_gb"])
@pytest.mark.parametrize("said", ["2d", "1-00:00:00", "0", "1.5", "-3"])
def test_a_limit_that_is_no_number_is_refused_in_words(name: str, said: str) -> None:
    with pytest.raises(AnchorscopeError, match=f"`{name}: {said}` is not a whole number") as caught:
        cluster.site({name: said})
    assert cluster.PROFILE in str(caught.value)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a cluster run's log; `queue` there holds what a made-up squeue says."""
    (tmp_path / "bin").mkdir()
    programs = {"squeue": f"cat {tmp_path}/queue", "scancel": f'echo "$@" >> {tmp_path}/cancelled'}
    programs["scancel"] += f"; : > {tmp_path}/queue"
    for name, does in programs.items():
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    (tmp_path / "queue").write_text("11|mine\n12|other\n13|mine\n")
    log(tmp_path, "1", f"  Host: {platform.node()}\nSLURM run ID: mine\n")
    return tmp_path


def log(folder: Path, name: str, text: str) -> None:
    logs = folder / ".snakemake" / "log"
    logs.mkdir(parents=True, exist_ok=True)
    (logs / f"{name}.snakemake.log").write_text(text)


def lock(folder: Path) -> None:
    (folder / ".snakemake" / "locks").mkdir(parents=True)
    (folder / ".snakemake" / "locks" / "0.output.lock").write_text("x\n")


def test_orphans_are_the_jobs_of_this_folders_runs_and_no_others(folder: Path) -> None:
    assert [job.id for job in cluster.orphans(folder)] == ["11", "13"]
    assert [job.id for job in cluster.cancel_orphans(folder)] == ["11", "13"]
    (line,) = (folder / "cancelled").read_text().splitlines()
    assert "--name=mine" in line and "--user=" in line
    assert cluster.orphans(folder) == []


def test_a_run_beside_jobs_of_an_earlier_one_is_refused(folder: Path) -> None:
    with pytest.raises(AnchorscopeError, match="still in the queue") as caught:
        cluster.refuse_orphans(folder)
    assert "11, 13" in str(caught.value) and "make resume" in str(caught.value)


def test_a_folder_that_never_saw_a_cluster_asks_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cluster.cancel_orphans(tmp_path) == []


def test_without_slurm_a_cluster_run_cannot_be_resumed_and_a_later_local_one_can(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(AnchorscopeError, match="no SLURM on this machine"):
        cluster.orphans(folder)
    log(folder, "2", "a run of this machine\n")
    assert cluster.orphans(folder) == []


def test_jobs_that_do_not_end_are_not_raced(folder: Path) -> None:
    (folder / "bin" / "scancel").write_text("#!/bin/sh\n")
    with pytest.raises(AnchorscopeError, match="2 jobs of an earlier run do not end"):
        cluster.cancel_orphans(folder, patience=0.0)


def test_resume_leaves_the_lock_of_a_run_on_another_machine(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock(folder)
    log(folder, "2", "  Host: login-7\nSLURM run ID: mine\n")
    log(folder, "3", f"  Host: {platform.node()}\nLockException:\n")
    with pytest.raises(AnchorscopeError, match="started on login-7"):
        resume.main(folder, ["--version"])
    assert not (folder / "cancelled").exists()

    ran: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(resume.subprocess, "run", run)
    monkeypatch.setattr(cluster, "cancel_orphans", lambda folder: [])
    monkeypatch.setattr(cluster, "orphans", lambda folder: [])
    assert resume.main(folder, ["--profile", "slurm", "--owner-gone"]) == 0
    assert [words[3:] for words in ran] == [
        ["--profile", "slurm", "--unlock"],
        ["--profile", "slurm", "--rerun-incomplete"],
    ]


def test_resume_ends_what_still_runs_of_a_cancelled_job(folder: Path) -> None:
    """A cluster may lose sight of a process; that of another job is left alone."""
    command = [sys.executable, "-c", "import time; time.sleep(60)", "snakemake"]
    process = subprocess.Popen(command, cwd=folder, env=os.environ | {"SLURM_JOB_ID": "11"})
    try:
        onenode.wait(lambda: resume.owners(folder), 60, "the process")
        resume.end(folder, {"12"}, grace=0.0)
        assert process.poll() is None
        resume.end(folder, {"11"}, grace=0.0)
        assert not resume.owners(folder)
    finally:
        process.kill()
        process.wait()
