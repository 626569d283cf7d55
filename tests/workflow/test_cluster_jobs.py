"""What the workflow's jobs ask a cluster for, alone and in groups; no cluster is needed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import workflow

GROUPED = """
rule first:
    output: "{name}.first"
    group: "both"
    resources: runtime=400, mem_mb=100
    shell: "touch {output}"

rule second:
    input: "{name}.first"
    output: "{name}.second"
    group: "both"
    resources: runtime=500, mem_mb=300
    shell: "touch {output}"

rule alone:
    input: "a.second"
    output: "a.third"
    resources: runtime=7, mem_mb=50
    shell: "touch {output}"

onstart:
    import os
    from anchorscope.workflow import cluster
    asks = cluster.asks_of(workflow.dag.needrun_jobs(), workflow.dag.get_job_group)
    with open("asked", "w") as file:
        for ask in asks:
            print(ask.job, ask.runtime, ask.members, sep="|", file=file)
    os._exit(0)
"""


def test_a_group_asks_for_the_time_of_its_stages_together(tmp_path: Path) -> None:
    """Of Snakemake's own groups: it adds their times up, level by level."""
    (tmp_path / "Snakefile").write_text(GROUPED, encoding="utf-8")
    command = [sys.executable, "-m", "snakemake", "--executor", "slurm", "--jobs", "1", "a.third"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(workflow.PROJECT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    asked = sorted((tmp_path / "asked").read_text(encoding="utf-8").splitlines())
    assert asked == ["2 jobs of the rules first, second, name a|900|2", "rule alone|7|1"]


def made_up_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch, nodes: str) -> None:
    """A cluster that has what `sinfo` says: partition|limit|cores|MB|GPUs."""
    does = {
        "sinfo": f"echo '{nodes}'",
        "squeue": ":",
        "scontrol": "echo 'MinJobAge = 300 sec'",
    }
    for name, line in does.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


ON_SLURM = ("--executor", "slurm", "--jobs", "1")


def test_probes_ask_for_one_gpu_however_many_their_model_needs(
    fresh: workflow.Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a node has one GPU, answers and activations cannot be had, and the scores can."""
    made_up_cluster(tmp_path, monkeypatch, "main*|infinite|64|640000|gpu:1")
    clone = fresh.copy(tmp_path / "clone")
    change = {"models": {"llama-3.2-1b": {"resources": {"gpus": 4}}}}
    done = clone.run(*ON_SLURM, "results/scores/llama-3.2-1b/popqa.parquet", change=change)
    assert done.returncode != 0
    assert "no node of this partition has 4 GPUs" in done.stderr
    refused = re.search(r"rule (\w+), .*? and 1 more$", done.stderr, re.MULTILINE)
    assert refused and refused[1] in ("answers", "activations"), done.stderr


NODES = """
include: "Snakefile"

onstart:
    for job in workflow.dag.needrun_jobs():
        print("asks", job.rule.name, job.resources.get("gpu"), job.resources.get("nodes"))
    os._exit(0)
"""


def test_all_gpus_of_a_job_come_from_one_node(fresh: workflow.Workspace, tmp_path: Path) -> None:
    clone = fresh.copy(tmp_path / "clone")
    (clone.root / "asked.smk").write_text(NODES, encoding="utf-8")
    change = {"models": {"llama-3.2-1b": {"resources": {"gpus": 4}}}}
    target = "results/scores/llama-3.2-1b/popqa.parquet"
    done = clone.run("--snakefile", "asked.smk", *ON_SLURM, target, change=change)
    asked = re.findall(r"^asks (\w+) (\w+) (\w+)$", done.stdout + done.stderr, re.MULTILINE)
    assert set(asked) >= {
        ("answers", "4", "1"),
        ("activations", "4", "1"),
        ("scores", "1", "1"),
    }, done.stderr
    assert {gpus for _, gpus, nodes in asked if nodes == "1"} == {"4", "1"}


def test_more_memory_than_a_node_gives_is_refused_before_the_queue(
    fresh: workflow.Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up_cluster(tmp_path, monkeypatch, "main*|infinite|64|640000|gpu:1")
    clone = fresh.copy(tmp_path / "clone")
    target = "results/scores/llama-3.2-1b/popqa.parquet"
    done = clone.run(*ON_SLURM, target, "--default-resources", "max_mem_gb=1")
    assert done.returncode != 0
    assert re.search(
        r"asks for \d+ MB of memory, no node that fits has more than 1000", done.stderr
    )


@pytest.mark.parametrize(
    ("allowed", "max_runtime", "refused"),
    [
        (500, None, "a group of 3 jobs, whose times are added up, asks for 600 minutes"),
        (230, 500, "a job asks for 240 minutes"),  # the training, which is in no group
    ],
)
def test_a_cell_too_long_for_one_job_is_refused_in_words_or_done_in_several(
    fresh: workflow.Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    allowed: int,
    max_runtime: int | None,
    refused: str,
) -> None:
    """Each of its stages takes 200 minutes, three of which one job does unless told the limit."""
    made_up_cluster(tmp_path, monkeypatch, f"main*|{allowed}|16|64000|(null)")
    clone = fresh.copy(tmp_path / "clone")
    tiny = {**workflow.TINY["models"]["tiny-llama"], "resources": {"gpus": 0, "runtime_min": 200}}
    known = ["--default-resources", f"max_runtime={max_runtime}"] if max_runtime else []
    done = clone.run(*ON_SLURM, *known, change={**workflow.TINY, "models": {"tiny-llama": tiny}})
    assert done.returncode != 0
    assert f"{refused}, this partition allows {allowed}" in done.stderr
