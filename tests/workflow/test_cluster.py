"""SLURM without SLURM: what jobs ask for, what is refused before the queue, which jobs are ours."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import onenode
import pytest
import torch
import workflow
import yaml
from safetensors.torch import save_file

from anchorscope.models import stored
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow import cluster, cost, demand, resume
from anchorscope.workflow.cluster import Ask, Nodes, Site
from anchorscope.workflow.config import load
from anchorscope.workflow.cost import DiskRoom
from anchorscope.workflow.demand import Demand, Share, Size

BASE = yaml.safe_load((workflow.PROJECT / "config.yaml").read_text(encoding="utf-8"))
SMALL, LARGE = Size(1.25e9, 16, 2048), Size(70.5e9, 80, 8192)
HERE = [
    Nodes("main", True, 1440, 64, 256_000, {}),
    Nodes("gpu", False, 720, 32, 512_000, {"a100": 4}),
    Nodes("gpu", False, 720, 96, 1_024_000, {"H200": 8}),
]


STAGES = ["answers", "activations", "truth", "scores", "refits", "delta_p"]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("gpus", [0, 1])
def test_demands_grow_with_model_samples_readouts_and_attempts(stage: str, gpus: int) -> None:
    def of(size: Size, samples: int, readouts: int = 1) -> Demand:
        return demand.demand(stage, size, Share(samples, 5, readouts), gpus)

    base, longer = of(SMALL, 500), of(SMALL, 50_000)
    larger = of(LARGE, 500)
    assert larger.runtime >= base.runtime and larger.mem_mb >= base.mem_mb
    assert (larger.runtime, larger.mem_mb) > (base.runtime, base.mem_mb)
    assert longer.runtime > base.runtime
    if stage in ("scores", "refits", "delta_p"):
        assert of(SMALL, 50_000, 6).runtime > 4 * longer.runtime - 60
    if stage in ("scores", "delta_p"):
        assert of(SMALL, 50_000, 6).mem_mb > longer.mem_mb
    assert [base.at(n).mem_mb for n in (1, 2, 3)] == [base.mem_mb * n for n in (1, 2, 3)]
    assert [base.at(n).runtime for n in (1, 2, 3)] == [base.runtime * n for n in (1, 2, 3)]


def test_passes_need_no_more_memory_for_more_samples_and_probes_do() -> None:
    def memory(stage: str) -> list[int]:
        return [demand.demand(stage, SMALL, Share(n, 5), 1).mem_mb for n in (500, 50_000)]

    for stage in ("answers", "activations", "truth"):
        few, many = memory(stage)
        assert few == many
    for stage in ("scores", "refits", "delta_p"):
        few, many = memory(stage)
        assert few < many


def test_refits_cost_more_than_scores_and_truth_more_than_the_passes() -> None:
    share = Share(2000, 5)
    for more, less in (("refits", "scores"), ("truth", "activations")):
        one, other = (demand.demand(stage, SMALL, share, 1).runtime for stage in (more, less))
        assert one > other


def test_weights_fit_the_memory_asked_for() -> None:
    for size in (SMALL, LARGE):
        for gpus in (0, 1):
            asked = demand.demand("answers", size, Share(100, 5), gpus)
            assert asked.mem_mb > size.weights_mb


def test_the_catalogue_has_the_last_word() -> None:
    wanted = Demand(7000, 30)
    assert wanted.unless(None, None) == wanted
    assert wanted.unless(16, None) == Demand(16_000, 30)
    assert wanted.unless(None, 90) == Demand(7000, 90)


def test_time_stays_within_what_the_partition_allows() -> None:
    wanted = demand.demand("activations", LARGE, Share(2000, 5), 4)
    assert wanted.at(3, 60).runtime == 60
    assert wanted.at(3, 60).mem_mb == 3 * wanted.mem_mb


def test_a_job_that_comes_back_asks_for_no_more_memory_than_a_node_has() -> None:
    wanted = Demand(180_000, 60)
    assert [wanted.at(n, None, 500).mem_mb for n in (1, 2, 3)] == [180_000, 360_000, 500_000]
    # What is too much from the first is for the check before the queue to refuse.
    assert [wanted.at(n, None, 100).mem_mb for n in (1, 2)] == [180_000, 180_000]


@pytest.mark.parametrize(("dtype", "stored"), [(torch.bfloat16, 2), (torch.float32, 4)])
def test_the_size_of_a_model_is_read_off_its_checkpoint(
    tmp_path: Path, dtype: torch.dtype, stored: int
) -> None:
    located = tmp_path / "model.json"
    assert demand.size_of(located) is None
    located.write_text(json.dumps({"path": str(tmp_path)}))
    for part in (1, 2):
        tensors = {"a": torch.zeros(500, 400, dtype=dtype), "b": torch.zeros(7, dtype=dtype)}
        save_file(tensors, tmp_path / f"model-{part}.safetensors")
    text = {"num_hidden_layers": 3, "hidden_size": 8}
    for layers, config in ((3, text), (5, {"text_config": {**text, "num_hidden_layers": 5}})):
        (tmp_path / "config.json").write_text(json.dumps(config))
        os.utime(located, ns=(layers, layers))
        for held in (2, 4):
            assert demand.size_of(located, held) == Size(400_014, layers, 8, held, stored)


def test_weights_that_cannot_be_read_count_by_the_size_of_their_file(tmp_path: Path) -> None:
    located = tmp_path / "model.json"
    located.write_text(json.dumps({"path": str(tmp_path)}))
    config = {"num_hidden_layers": 3, "hidden_size": 8}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"0" * 1_000_000)
    assert demand.size_of(located) == Size(500_000, 3, 8)


def test_memory_is_that_of_the_weights_as_they_are_loaded() -> None:
    """Seen of 335 million bfloat16 weights: 0.7 GB loaded as they are, 2.0 GB as float32."""
    as_stored, widened = Size(335e6, 16, 1024), Size(335e6, 16, 1024, held=4)
    for gpus in (0, 1):
        small, large = (
            demand.demand("answers", size, Share(100, 5), gpus) for size in (as_stored, widened)
        )
        assert small.mem_mb > demand.ROOM_MB + 670
        assert large.mem_mb > demand.ROOM_MB + 2000, "the file is there while it is widened"
        assert small.runtime == large.runtime, "the operations are the same"


def test_probes_hold_blocks_of_layers_and_not_all_of_them() -> None:
    """A read-out of 80 layers × 2,000 × 8,192 is 5.2 GB, of which 0.5 GB are held at a time."""
    layer = 4 * 2000 * 8192
    whole = LARGE.layers * layer
    for gpus in (0, 1):
        needed = demand.probe_bytes(LARGE, 2000, gpus)
        assert 2 * stored.BLOCK_BYTES < needed < whole + 2 * stored.BLOCK_BYTES
    found = demand.FITTED * (8 * 8192 + 8 * 2000 / 6)
    more = replace(LARGE, layers=160)
    assert demand.probe_bytes(more, 2000, 0) == pytest.approx(
        demand.probe_bytes(LARGE, 2000, 0) + 80 * found
    ), "twice the layers add no features, only probes"


def test_samples_and_rows_come_from_the_config() -> None:
    base = yaml.safe_load((workflow.PROJECT / "config.yaml").read_text(encoding="utf-8"))
    config = load(base)
    world = config.datasets["world-relation"].world
    assert world is not None
    assert demand.samples(config, "world-relation") == 2 * (4 * 60 + 2 * 60 + 2 * 25 + 40)
    assert demand.samples(config, "popqa") == 2000
    assert demand.samples(load({**base, "limit": 50}), "popqa") == 50
    few = {"knockout": {}, "random": None, "question": None, "noop": None}
    bare = load({**base, "conditions": few}).conditions
    assert demand.rows(bare) == 3, "generation, clean, knockout"
    more = load({**base, "conditions": {**few, "random": {"draws": 5}, "question": {}}}).conditions
    assert demand.rows(more) == 9
    shipped = config.conditions
    assert demand.rows(shipped) == 9, "generation, clean, knockout, 3 random, question, 2 partners"
    passed = cost.rows_of(config, 2000) - 64
    assert passed == (demand.rows(shipped) - 1) * 2000, "all but the generation"


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


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("(null)", {}),
        ("gpu:4", {"": 4}),
        ("gpu", {"": 1}),
        ("gpu:h200:8(S:0-1)", {"h200": 8}),
        ("gpu:a100:2,gpu:v100:1,tmp:10", {"a100": 2, "v100": 1}),
        ("gpu:nvidia_a100_80gb_pcie_1g.10gb:7", {"nvidia_a100_80gb_pcie_1g.10gb": 7}),
        ("tmp:gpu:3", {}),
    ],
)
def test_gpus_are_read_from_generic_resources(gres: str, gpus: dict[str, int]) -> None:
    assert cluster.gpus_in(gres) == gpus


@pytest.mark.parametrize(
    ("limit", "minutes"),
    [("infinite", None), ("30:00", 30), ("8:00:00", 480), ("1-12:00:00", 2160), ("n/a", None)],
)
def test_time_limits_are_read_in_minutes(limit: str, minutes: int | None) -> None:
    assert cluster.minutes(limit) == minutes


def test_what_the_cluster_can_give_passes() -> None:
    fine = [
        Ask("a"),
        Ask("b", "main", mem_mb=256_000, runtime=1440, cpus=64),
        Ask("c", "gpu", 4, None, mem_mb=1_000_000),
        Ask("d", "gpu", 8, "h200", cpus=96, runtime=720),
        Ask("e", "main,gpu", 1, "a100"),
    ]
    cluster.check(fine, HERE)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (Ask("rule x", "gpuu", 1), ["no partition `gpuu`", "gpu_partition", "did you mean `gpu`"]),
        (Ask("rule x", "zzz"), ["no partition `zzz`", "slurm_partition", "gpu, main"]),
        (Ask("rule x", "main", 1), ["no node", "a GPU", "gpu (4 a100 a node), gpu (8 H200"]),
        (Ask("rule x", "gpu", 1, "v100"), ["no node", "v100 GPU", "gpu_type"]),
        (Ask("rule x", "gpu", 8, "a100"), ["no node", "8 a100 GPUs"]),
        (Ask("rule x", "gpu", 1, "a100", mem_mb=600_000), ["600000 MB", "512000"]),
        (Ask("rule x", "main", cpus=65), ["65 cores", "64"]),
        (Ask("rule x", "gpu", 1, runtime=721), ["721 minutes", "max_runtime: 720"]),
    ],
)
def test_what_it_cannot_give_is_one_clear_message(ask: Ask, words: list[str]) -> None:
    others = [replace(ask, job=f"rule y {n}") for n in range(3)]
    with pytest.raises(AnchorscopeError) as caught:
        cluster.check([ask, *others], HERE)
    for word in [*words, cluster.PROFILE, "rule x and 3 more"]:
        assert word in str(caught.value)


def test_a_group_too_long_for_its_partition_is_told_as_one() -> None:
    whole = Ask("3 jobs of the rules answers", "gpu", runtime=1441, members=3)
    with pytest.raises(
        AnchorscopeError, match="group of 3 jobs, whose times are added up"
    ) as caught:
        cluster.check([whole], HERE)
    for words in ("1441 minutes", "allows 720", "group-components", "max_runtime: 720"):
        assert words in str(caught.value)


def test_without_a_default_partition_one_must_be_named() -> None:
    with pytest.raises(AnchorscopeError, match="no default partition"):
        cluster.check([Ask("rule x")], HERE[1:])


@pytest.mark.parametrize(
    ("command", "accounting", "age", "message"),
    [
        ("sacct", "none", 300, "set it to squeue"),
        ("squeue", "none", 60, "set it to sacct"),
        ("squeue", "none", 300, None),
        ("squeue", "slurmdbd", 300, None),
        ("sacct", "slurmdbd", 2, None),
    ],
)
def test_a_status_command_that_would_wait_for_ever_is_refused(
    command: str, accounting: str, age: int, message: str | None
) -> None:
    config = (
        f"AccountingStorageType   = accounting_storage/{accounting}\n"
        f"MinJobAge               = {age} sec\n"
    )
    if message is None:
        cluster.check_status_command(command, config, 40)
        return
    with pytest.raises(AnchorscopeError, match=message):
        cluster.check_status_command(command, config, 40)


# --- The disk --------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without products."""
    monkeypatch.chdir(tmp_path)


def cells(**changes: object) -> list[cost.Work]:
    """Two cells of a model of known size."""
    config = load({**BASE, **changes})
    return [cost.Work(config.root, config, "llama-3.2-1b", dataset) for dataset in ("popqa", "nq")]


@pytest.mark.usefixtures("elsewhere")
def test_room_is_that_of_every_cell_or_of_the_largest_alone() -> None:
    work = cells()
    one = cost.activation_bytes(work[0].config, "llama-3.2-1b", 2000)
    rows = 8 * 2000 + 64
    assert one == rows * 2 * 16 * 2048 * 2, "rows × read-outs × layers × width × bytes"
    assert cost.room_needed(work, keep=True) == DiskRoom(2 * one, 2 * one)
    assert cost.room_needed([], keep=True) == DiskRoom()
    several = cells(readouts=["mlp/final", "attn/final", "resid/final"])
    assert cost.room_needed(several, keep=True).must == 2 * 3 * one // 2, "cells × read-outs"


@pytest.mark.usefixtures("elsewhere")
def test_activations_that_go_once_scored_count_as_often_as_jobs_may_run() -> None:
    datasets = {**BASE["datasets"], "popqa": {**BASE["datasets"]["popqa"], "sample_size": 3000}}
    work, uneven = cells(), cells(datasets=datasets)
    small, large = (
        cost.activation_bytes(one.config, "llama-3.2-1b", n)
        for one, n in ((work[0], 2000), (uneven[0], 3000))
    )
    assert cost.room_needed(uneven, keep=False) == DiskRoom(large, large, 1)
    for at_once in (2, 200):
        assert cost.room_needed(uneven, keep=False, at_once=at_once) == DiskRoom(
            large, large + small, 2
        )
    said = cost.room_needed(work, keep=False, at_once=2).words("results")
    assert said.startswith("Activations: about 4.2 GB in results while the 2 largest cells")


@pytest.mark.usefixtures("elsewhere")
def test_models_of_unknown_size_are_named_and_not_counted_as_nothing() -> None:
    work = cells()
    assert cost.room_needed(work, keep=True).words("here") == "Activations: at most 4.2 GB in here."
    entry = {"hub": "nobody/knows", "label": "Nobody"}
    config = load({**BASE, "models": {**BASE["models"], "unheard-of": entry}})
    strange = cost.Work(config.root, config, "unheard-of", "popqa")
    for keep in (True, False):
        alone = cost.room_needed([strange], keep).words("here")
        assert "at least 0 kB in here" in alone
        assert "and those of 1 model whose size is not known yet (unheard-of)." in alone
    assert cost.room_needed([*work, strange], keep=True).words("here") == (
        "Activations: at least 4.2 GB in here, and those of 1 model whose size is not known yet "
        "(unheard-of)."
    )


@pytest.mark.usefixtures("elsewhere")
def test_activations_that_are_replaced_make_room() -> None:
    work = cells()
    before = cost.room_needed(work, keep=True).must
    there = Path(f"{work[0].root}/activations/llama-3.2-1b/popqa/batch-00000.safetensors")
    there.parent.mkdir(parents=True)
    there.write_bytes(b"0" * 1000)
    assert cost.room_needed(work, keep=True).must == before - 1000


def test_what_cannot_be_stored_is_refused_and_what_fits_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def usage(path: Path) -> object:
        asked.append(path)
        return type("Usage", (), {"free": 2_000_000_000})()

    monkeypatch.setattr(cost.shutil, "disk_usage", usage)
    cost.check_room(2_000_000_000, tmp_path / "not" / "there" / "yet")
    with pytest.raises(AnchorscopeError, match=r"take 2.1 GB, and 2.0 GB are free") as caught:
        cost.check_room(2_100_000_000, tmp_path / "results")
    assert set(asked) == {tmp_path}, "asked of the disk that the folder will lie on"
    for remedy in ("keep_activations: false", "limit", "#no-room"):
        assert remedy in str(caught.value)


# --- What an earlier run left ----------------------------------------------------------------


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
        assert resume._end_last_processes(folder, {"12"}, grace=0.0) == []
        with pytest.raises(AnchorscopeError, match=f"process {process.pid}"):
            resume._end_last_processes(folder, {"11"}, grace=0.0, patience=0.0)
        assert process.poll() is None
        assert resume._end_last_processes(folder, {"11"}, grace=0.0) == [process.pid]
        assert process.wait(60) == -signal.SIGKILL
        assert resume._end_last_processes(folder, {"11"}) == []
    finally:
        process.kill()
        process.wait()


def test_a_process_that_ends_while_it_is_looked_at_holds_nothing_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    monkeypatch.setattr(resume, "owners", lambda folder: [ended.pid])
    monkeypatch.setattr(cluster, "orphans", lambda folder: [])
    assert resume.main(folder, ["--version"]) == 0
