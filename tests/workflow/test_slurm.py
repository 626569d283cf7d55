"""A real SLURM: the same tables as here, GPUs for whom they are due, and nothing left running.

Each test starts where the one before it ended up; `make test-slurm` runs them, on a cluster of
one node that lives for these tests only.
"""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import onenode
import pytest
import workflow
import yaml

pytestmark = pytest.mark.skipif(
    not os.environ.get("SLURM_TESTS"), reason="starts a SLURM cluster: make test-slurm"
)

WITH_GPU, WITHOUT = "tiny-qwen3", "tiny-llama"
RUN_SECONDS = 2400  # so long may a run last on a busy machine; the waits below are as patient
EDITED = {
    "# slurm_partition: main ": "slurm_partition: main ",
    "# gpu_partition: gpu ": "gpu_partition: accelerated ",
    "# gpu_type: h200 ": "gpu_type: fake ",
    "# max_runtime: 2880 ": "max_runtime: 500 ",
}
"""The lines of the profile that a user of this cluster would edit."""

IN_JOBS = {"OMP_NUM_THREADS": "1", "ANCHORSCOPE_CPU": "1"}
"""The GPUs are none: what asks for one runs on the CPU."""

FASTER = ("--slurm-init-seconds-before-status-checks", "3", "--seconds-between-status-checks", "3")
USUAL = ("--nocolor", *FASTER, "--configfile", "config.yaml", "overlay.yaml")
SNAKEMAKE = (sys.executable, "-m", "snakemake", "--profile", "slurm")
# The first attempt gets less than python and torch need.
STARVED = ("--set-resources", "scores:mem_mb=150 * 8 ** (attempt - 1)")


def overlay() -> dict[str, Any]:
    """The tiny figure with a second model, which asks for a GPU."""
    tiny = workflow.TINY["models"]["tiny-llama"]
    patient = tiny | {"resources": tiny["resources"] | {"runtime_min": 60}}
    second = {"label": "Tiny Qwen3", "local": WITH_GPU, "resources": {"gpus": 1}}
    change = {
        "models": {WITHOUT: patient, WITH_GPU: workflow.merged(patient, second)},
        "figures": {"tiny": {"models": [WITHOUT, WITH_GPU]}},
        "batch_tokens": 1024,  # several batches
    }
    return workflow.merged(workflow.TINY, change)


@dataclass(frozen=True)
class Clone:
    """A clone with a profile edited for the cluster."""

    cluster: onenode.OneNode
    root: Path

    def start(self, *more: str) -> subprocess.Popen[str]:
        """`snakemake --profile slurm`, as a process of its own."""
        return self._begin([*SNAKEMAKE, *more, *USUAL])

    def run(self, *more: str) -> int:
        """The same, to its end."""
        return self.end(self.start(*more))

    def run_in_session(self, *more: str) -> int:
        """The same from inside a job that holds a GPU, two cores and much memory."""
        held = ("--partition=accelerated", "--gres=gpu:1", "--mem=20000", "--cpus-per-task=2")
        return self.end(self._begin(["srun", *held, "--time=90", *SNAKEMAKE, *more, *USUAL]))

    def resume(self) -> int:
        """`make resume PROFILE=slurm`, with the environment that the tests run in set up."""
        shutil.copy2(workflow.PROJECT / "Makefile", self.root)
        (self.root / ".venv").symlink_to(sys.prefix)
        command = ["make", "--old-file=.venv/.ready", "resume", "PROFILE=slurm"]
        return self.end(self._begin([*command, f"ARGS={' '.join(USUAL)}"]))

    def _begin(self, command: list[str]) -> subprocess.Popen[str]:
        with open(self.root / "said", "a", encoding="utf-8") as said:
            return subprocess.Popen(
                command,
                cwd=self.root,
                env=os.environ | IN_JOBS | self.cluster.environment,
                stdout=said,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
                # What a shell starts in the background ignores SIGINT, its children too.
                preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
            )

    def end(self, process: subprocess.Popen[str]) -> int:
        try:
            return process.wait(RUN_SECONDS)
        finally:
            process.kill()

    def said(self) -> str:
        return (self.root / "said").read_text(encoding="utf-8")

    def jobs(self) -> list[onenode.Job]:
        """Jobs that runs in this clone submitted."""
        runs = re.findall(r"SLURM run ID: (\S+)", self.said())
        return [job for job in self.cluster.jobs() if job.run in runs]

    def tables(self) -> dict[str, bytes]:
        folders = ("delta_p", "tables")
        found = [p for f in folders for p in (self.root / "results" / f).rglob("*.csv")]
        return {str(path.relative_to(self.root)): path.read_bytes() for path in found}

    def locked(self) -> bool:
        with sqlite3.connect(self.root / ".snakemake" / "metadata.db") as records:
            return bool(records.execute("SELECT * FROM snakemake_locks").fetchall())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[onenode.OneNode]:
    lacking = onenode.missing()
    packages = "apt-get install --no-install-recommends slurmctld slurmd slurm-client munge"
    assert not lacking, f"{', '.join(lacking)} not found: {packages}"
    with onenode.running(tmp_path_factory.mktemp("slurm") / "cluster") as started:
        yield started
    assert started.processes() == []


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> workflow.Workspace:
    """The same figure, made without a cluster."""
    finished = workflow.workspace(tmp_path_factory.mktemp("local") / "clone", overlay())
    workflow.taught(finished.root)
    workflow.taught(finished.root, WITH_GPU, "qwen3")
    finished.build()
    return finished


@pytest.fixture
def clone(cluster: onenode.OneNode, local: workflow.Workspace, tmp_path: Path) -> Clone:
    """A clone that has the trained models and the questions, and no products of a cell."""
    root = local.copy(tmp_path / "clone").root
    for folder in (root / "results").iterdir():
        if folder.name not in ("data", "models"):
            shutil.rmtree(folder)
    shutil.rmtree(root / ".snakemake" / "log")
    shutil.copytree(workflow.PROJECT / "slurm", root / "slurm")
    (root / "overlay.yaml").write_text(yaml.safe_dump(overlay()), encoding="utf-8")
    profile = root / "slurm" / "config.yaml"
    text = profile.read_text(encoding="utf-8")
    for old, new in EDITED.items():
        assert old in text
        text = text.replace(old, new)
    profile.write_text(text, encoding="utf-8")
    return Clone(cluster, root)


def test_a_cluster_gives_the_same_tables_and_gpus_only_where_due(clone, local):
    """One run also proves that a job killed for memory comes back with more."""
    assert clone.run(*STARVED) == 0, clone.said()
    assert clone.tables() == Clone(clone.cluster, local.root).tables()

    jobs = clone.jobs()
    due = {
        job.what
        for job in jobs
        if WITH_GPU in job.what and re.search("answers|activations|scores", job.what)
    }
    assert {job.what for job in jobs if job.gpus} == due
    assert len(due) == 3, "answers, activations, scores"
    assert {job.gpus for job in jobs} == {0, 1}
    for job in jobs:
        assert job.partition == ("accelerated" if job.gpus else "main")

    *killed, last = [job for job in jobs if "scores" in job.what and WITH_GPU in job.what]
    assert killed and last.state == "COMPLETED"
    assert all(job.state != "COMPLETED" and job.mem_mb < last.mem_mb for job in killed)
    for job in killed:
        (log,) = (clone.root / ".snakemake" / "slurm_logs").rglob(f"{job.id}.log")
        assert "exceeded memory limit" in log.read_text(encoding="utf-8")
    assert clone.cluster.queue() == []


def test_interrupting_snakemake_cancels_its_jobs(clone):
    run = clone.start()
    try:
        onenode.wait(clone.cluster.queue, 600, "a job")
        run.send_signal(signal.SIGINT)
        assert run.wait(600) != 0
    finally:
        run.kill()
    onenode.wait(lambda: not clone.cluster.queue(), 300, "an empty queue")
    assert {job.state for job in clone.jobs()} == {"CANCELLED"}
    assert not clone.locked()


def test_resume_after_a_kill_cancels_the_orphans(clone, local):
    run = clone.start()
    try:
        onenode.wait(lambda: any(j.state == "RUNNING" for j in clone.jobs()), 900, "a job")
    finally:
        run.kill()
        run.wait()
    assert clone.locked()
    # They would end by themselves.
    clone.cluster.stop(clone.cluster.queue())
    orphans = clone.cluster.queue()
    assert orphans and clone.resume() == 0, clone.said()
    assert (
        clone.tables() == Clone(clone.cluster, local.root).tables() and clone.cluster.queue() == []
    )
    ended = {job.id: job.state for job in clone.jobs()}
    assert {ended[orphan] for orphan in orphans} == {"CANCELLED"}
    done = [job.what for job in clone.jobs() if job.state == "COMPLETED"]
    assert sorted(done) == sorted(set(done)), "nothing is done twice"


def test_a_session_inside_slurm_sends_the_same_jobs_as_a_login_node(clone):
    answers = ("--until", "answers")
    assert clone.run(*answers) == 0, clone.said()
    from_outside = clone.jobs()
    for folder in ("prompts", "answers"):
        shutil.rmtree(clone.root / "results" / folder)
    assert clone.run_in_session(*answers) == 0, clone.said()
    from_inside = clone.jobs()[len(from_outside) :]
    assert {job.gpus for job in from_outside} == {0, 1}
    assert sorted((job.what, job.asked) for job in from_inside) == sorted(
        (job.what, job.asked) for job in from_outside
    )


def test_an_array_is_refused_before_its_first_job(clone):
    """Models that differ in what they need would share the first one's request."""
    assert clone.run("--slurm-array-jobs", "all") != 0
    assert "remove this option from the command line and from slurm/config.yaml" in clone.said()
    assert clone.jobs() == []


def test_a_job_that_slurm_preempts_and_does_not_start_again_is_sent_again(clone):
    run = clone.start("--until", "answers")
    try:
        onenode.wait(lambda: running(clone), 900, "a job")
        clone.cluster.preempt()
    except BaseException:
        run.kill()
        raise
    assert clone.end(run) == 0, clone.said()
    assert {job.state for job in clone.jobs()} == {"PREEMPTED", "COMPLETED"}
    assert all_answered(clone)


def test_jobs_that_slurm_lost_are_sent_again(clone):
    """The last test: the cluster forgets the jobs of all tests."""
    run = clone.start("--until", "answers")
    try:
        onenode.wait(lambda: running(clone), 900, "a job")
        clone.cluster.forget()
    except BaseException:
        run.kill()
        raise
    assert clone.end(run) == 0, clone.said()
    sent = re.findall(r"submitted with SLURM jobid (\d+)", clone.said())
    assert {*sent} > {job.id for job in clone.jobs()}, "some are lost"
    assert all_answered(clone)


def running(clone: Clone) -> list[str]:
    return [job.id for job in clone.jobs() if job.state == "RUNNING"]


def all_answered(clone: Clone) -> bool:
    made = (clone.root / "results/answers").glob("*/*.parquet")
    return {path.parent.name for path in made} == {WITH_GPU, WITHOUT}
