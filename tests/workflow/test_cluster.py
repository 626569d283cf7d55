"""SLURM without SLURM: the lines of the profile, which jobs are ours, and what resuming does."""

import getpass
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import workflow
import yaml

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow import resources
from anchorscope.workflow.interrupted import cluster, resume
from anchorscope.workflow.resources import Site


def test_only_gpu_jobs_go_to_the_gpu_partition_and_as_shipped_all_go_to_the_default():
    profile = yaml.safe_load((workflow.PROJECT / resources.PROFILE).read_text(encoding="utf-8"))
    assert resources.site_of(profile["default-resources"]) == Site()
    said = {"slurm_partition": "main", "gpu_partition": "'gpu'", "max_runtime": "600"}
    site = resources.site_of(said | {"mem_mb": "2000 * attempt"})
    assert site == Site(slurm_partition="main", gpu_partition="gpu", max_runtime=600)
    assert (site.partition_of(0), site.partition_of(2)) == ("main", "gpu")
    assert Site(slurm_partition="main").partition_of(2) == "main"


@pytest.mark.parametrize(("name", "said"), [("max_runtime", "1-00:00:00"), ("max_mem_gb", "0")])
def test_a_limit_that_is_no_number_is_refused_in_words(name, said):
    with pytest.raises(AnchorscopeError, match=f"`{name}: {said}` is not a whole number") as caught:
        resources.site_of({name: said})
    assert resources.PROFILE in str(caught.value)


def test_the_profile_keeps_snakemakes_records_in_one_file(tmp_path: Path):
    profile = yaml.safe_load((workflow.PROJECT / resources.PROFILE).read_text(encoding="utf-8"))
    (tmp_path / "Snakefile").write_text("rule a:\n output: 'made'\n shell: 'touch made'\n")
    backend = ("--persistence-backend", profile["persistence-backend"])
    workflow.said(workflow.call(tmp_path, os.environ, *backend))
    assert (tmp_path / ".snakemake/metadata.db").is_file()
    assert [*(tmp_path / ".snakemake").glob("metadata/*")] == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a cluster run's log; `queue` holds the jobs that a made-up squeue knows."""
    (tmp_path / "bin").mkdir()
    programs = {
        "squeue": f'case "$*" in *--name=mine*) cat {tmp_path}/queue;; esac',
        "scancel": f'echo "$@" >> {tmp_path}/cancelled; : > {tmp_path}/queue',
    }
    for name, does in programs.items():
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    (tmp_path / "queue").write_text("11\n13\n")
    log(tmp_path, "SLURM run ID: mine\n")
    return tmp_path


def log(folder: Path, text: str) -> None:
    logs = folder / ".snakemake" / "log"
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "1.snakemake.log").write_text(text)


def test_jobs_of_an_earlier_run_are_refused_and_cancelled(folder):
    with pytest.raises(AnchorscopeError, match="still in the queue") as caught:
        cluster.refuse_orphans(folder)
    assert "11, 13" in str(caught.value) and "make resume" in str(caught.value)
    assert cluster.cancel_orphans(folder) == ["11", "13"]
    assert (folder / "cancelled").read_text() == "11 13\n"
    cluster.refuse_orphans(folder)


def test_a_folder_that_saw_a_cluster_and_no_other_asks_slurm(folder):
    (folder / "bin" / "squeue").write_text("#!/bin/sh\necho no controller >&2\nexit 1\n")
    with pytest.raises(AnchorscopeError, match="SLURM does not answer: no controller"):
        cluster.orphans(folder)
    log(folder, "a run of this machine\n")
    assert cluster.cancel_orphans(folder) == []


@pytest.mark.parametrize(
    ("asked", "queue", "state"),
    [
        ("RUNNING", "RUNNING", "RUNNING"),
        ("COMPLETED", None, "COMPLETED"),
        ("PREEMPTED", "PREEMPTED", "CANCELLED"),
        ("PREEMPTED", None, "CANCELLED"),
        ("PREEMPTED", "PENDING", "PENDING"),  # SLURM starts it again
        (None, "PENDING", "PENDING"),  # accounting does not know it yet
        (None, "COMPLETED", "COMPLETED"),
        (None, None, "ERROR"),
    ],
)
def test_a_job_that_slurm_preempted_or_lost_has_failed_unless_it_starts_again(asked, queue, state):
    found, listed = ({"7": of} if of else {} for of in (asked, queue))
    assert cluster.completed(found, listed, ["7"]) == {"7": state}


def test_while_slurm_does_not_answer_no_job_has_ended():
    for answer in (None, {}, {"7": "PREEMPTED"}):
        assert cluster.completed(answer, None, ["7"]) == {"7": "RUNNING"}
    assert cluster.completed(None, {}, ["7"]) == {"7": "RUNNING"}
    assert cluster.completed({"7": "FAILED"}, None, ["7"]) == {"7": "FAILED"}


def test_the_plugins_question_is_answered_for_all_jobs_of_the_run_and_no_other_is_changed(
    folder, monkeypatch
):
    """The plugin's own command, as it is installed here."""
    from snakemake_executor_plugin_slurm import job_status_query as plugin

    monkeypatch.chdir(folder)
    submitted = "Job 1 has been submitted with SLURM jobid 1{} (log: x).\n"
    log(folder, f"SLURM run ID: mine\n{submitted.format(1)}{submitted.format(2)}")
    (folder / "queue").write_text("11|PREEMPTED\n13|RUNNING\n")
    both = 'case "$*" in *"--name mine"*|*--name=mine*) cat {}/queue;; *) echo "$@";; esac'
    (folder / "bin/squeue").write_text(f"#!/bin/sh\n{both.format(folder)}\n")
    for _ in range(2):
        cluster.install()
    for query in (plugin.query_job_status_squeue, plugin.query_job_status_sacct):
        shutil.copy(folder / "bin/squeue", folder / "bin/sacct")
        cluster.install()
        said = subprocess.run(shlex.split(query("mine")), capture_output=True, text=True)
        assert said.stdout.split() == ["11|CANCELLED", "13|RUNNING", "12|ERROR"], said
    assert subprocess.check_output(["squeue", "--noheader", "a b"]) == b"--noheader a b\n"


def test_jobs_that_do_not_end_are_not_raced(folder):
    (folder / "bin" / "scancel").write_text("#!/bin/sh\n")
    with pytest.raises(AnchorscopeError, match="2 jobs of an earlier run do not end"):
        cluster.cancel_orphans(folder, patience=0.0)


def test_resume_leaves_the_lock_of_a_live_run(tmp_path):
    """A process that runs Snakemake in this folder owns the lock, unless it is a cluster's job
    that is to be cancelled; one elsewhere does not."""
    (tmp_path / "elsewhere").mkdir()
    command = [sys.executable, "-c", "import time; time.sleep(60)", "snakemake"]
    environment = os.environ | {"SLURM_JOB_ID": "11"}
    folders = (tmp_path, tmp_path / "elsewhere")
    runs = [subprocess.Popen(command, cwd=where, env=environment) for where in folders]
    try:
        time.sleep(0.2)
        alive = {str(runs[0].pid): getpass.getuser()}
        assert resume.owners(tmp_path) == resume.owners(tmp_path, ["12"]) == alive
        assert resume.owners(tmp_path, ["11", "12"]) == {}
        with pytest.raises(AnchorscopeError, match="another run is active here") as caught:
            resume.clear(tmp_path, ["--version"])
        assert f"process {runs[0].pid} of {getpass.getuser()}" in str(caught.value)
        assert f"(kill {runs[0].pid}); then" in str(caught.value)
        assert "anchorscope.workflow.interrupted.resume --version" in str(caught.value)
    finally:
        for run in runs:
            run.kill()
            run.wait()
    assert not resume.owners(tmp_path)
