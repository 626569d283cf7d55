"""The benchmark: all ways agree, and its table has the rows that it promises."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import psutil
import pytest
import torch
from workflow import PROJECT

from anchorscope.workflow.config import read

FOLDER = PROJECT / "benchmarks"


@pytest.fixture
def module(monkeypatch):
    """`module(name)`: one of the benchmark's modules."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.mark.long
def test_every_way_is_measured_at_every_stage_and_all_gave_the_same(tmp_path):
    options = ["--quick", "--threads", "1", "--workloads", "random-weights", "hidden"]
    command = [sys.executable, FOLDER / "bench.py", *options, "--out", tmp_path]
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    subprocess.run(command, cwd=PROJECT, env=environment, check=True)
    table = pd.read_csv(tmp_path / "bench.csv")
    cells = {cell: {*rows["way"]} for cell, rows in table.groupby(["workload", "stage"])}
    plain = {"anchorscope", "one-pass", "literal"}
    assert cells == {
        ("random-weights", "generate"): plain,
        ("random-weights", "measure"): plain,
        ("hidden", "fit"): {"anchorscope", "scikit-learn"},
    }
    differs = table.set_index("stage")["max_difference"]
    assert (differs["generate"] == 0).all() and (differs["measure"] <= 1e-5).all()
    assert (differs["fit"] <= 1e-3).all()


def test_ways_that_differ_are_not_timed(module):
    bench = module("bench")
    one, other = {0: torch.zeros(3)}, {0: torch.full((3,), 2e-5)}
    with pytest.raises(bench.Disagreement, match="anchorscope differs by 2.0e-05"):
        bench.differences("measure", {"one-pass": one, "anchorscope": other})
    with pytest.raises(bench.Disagreement):
        bench.differences("generate", {"one-pass": {0: (1, 2)}, "literal": {0: (1, 3)}})
    assert bench.differences("measure", {"one-pass": one, "x": one}) == {"one-pass": 0, "x": 0}


def test_the_gpu_part_runs_where_there_is_none(module, tmp_path):
    options = ["--device", "cpu", "--quick", "--models", "tiny", "probes"]
    module("bench").main([*options, "--out", str(tmp_path), "--threads", "1"])
    notes = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    (row,) = notes["models"]
    assert row["rate"] > 0 and 0 < row["share"] < 2
    assert row["plain_seconds"] > 0 and row["tokens_per_second"] > 0
    # Five folds, each with five inner ones, and six penalties, at three layers.
    assert notes["probes"]["probes"] == 3 * (5 + 25) * 6 and notes["probes"]["seconds"] > 0


def test_steps_on_a_gpu_are_written_and_a_second_run_repeats_none_that_is_done(module, tmp_path):
    on_gpu, count = module("on_gpu"), tmp_path / "count"
    commands = {
        "first": f"echo x >> {count}", "second": f"test -f {tmp_path / 'there'}",
        **dict.fromkeys(("third", "fourth", "fifth"), "sleep 60"), "sixth": "echo six",
    }  # fmt: skip
    for outcome in ("exit code 1", "done"):
        found = on_gpu.run(commands, tmp_path, seconds=4)
        outcomes = [one["outcome"] for one in found.values()]
        assert outcomes == ["done", outcome, *["out of time"] * 3, "not run"]
        assert json.loads((tmp_path / "steps.json").read_text("utf-8")) == found
        (tmp_path / "there").touch()
    assert count.read_text() == "x\n"


def test_the_gpu_part_measures_the_default_conditions(module):
    gpu, workloads = module("gpu"), module("workloads")
    default = read([PROJECT / "config.yaml"])
    assert default.conditions.model_dump() == gpu.CONDITIONS
    assert default.readouts == gpu.READOUTS
    table = gpu.exchangeable(workloads.answers(sequences=16, vocabulary=500))
    plan = gpu.planning.plan(table, conditions=gpu.CONDITIONS, batch_tokens=4096)
    passed = {row.condition for batch in plan.batches for row in batch.rows}
    assert passed == {one.name for one, _ in gpu.planning.on(gpu.CONDITIONS)}


def test_a_model_that_the_card_cannot_hold_is_refused_before_it_is_built(
    module, monkeypatch, capsys, tmp_path
):
    gpu = module("gpu")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (20e9, 80e9))
    monkeypatch.setattr(gpu, "gemm_rate", lambda *_: 1.0)
    monkeypatch.setattr(gpu, "one", lambda *_: pytest.fail("built"))
    gpu.main("cuda", tmp_path, {"machine": "a GPU"}, quick=False, models=["qwen3-32b"])
    assert "qwen3-32b was not measured: it takes 72 GB, but only 20 GB" in capsys.readouterr().out


def test_steps_on_a_gpu_are_refused_without_one_and_can_be_tried_on_the_cpu(
    module, tmp_path, monkeypatch
):
    on_gpu, given = module("on_gpu"), ["--rows", "rows", "--out", str(tmp_path)]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(on_gpu, "one", lambda *_: pytest.fail("ran"))
    with pytest.raises(SystemExit, match="^there is no GPU here: add --quick [^\n]*$"):
        on_gpu.main(given)
    ran = []
    monkeypatch.setattr(on_gpu, "one", lambda *given: ran.append(given[0]) or {"outcome": "done"})
    on_gpu.main([*given, "--quick"])
    commands = on_gpu.steps(Path("rows"), tmp_path / "quick", quick=True)
    assert ran == [*commands.values()]
    assert [*commands] == [
        "speed of llama-3.2-1b", "speed of llama-3.2-3b", "speed of qwen3-8b", "probes",
        "bfloat16 tests", "rehearsal of llama-3.2-1b", "rehearsal of qwen3-8b", "selftest",
        "speed of qwen3-32b",
    ]  # fmt: skip
    assert not any("cuda" in command or "--layers 0" in command for command in ran)
    assert not any("-m snakemake" in command for command in ran)  # a lock would stop it
    assert not (tmp_path / "steps.json").exists()  # a trial leaves the steps on a GPU to do


@pytest.mark.parametrize("built", [False, True])
def test_a_run_is_killed_with_its_jobs_and_continued_even_if_its_figure_was_there(
    module, tmp_path, monkeypatch, built
):
    monkeypatch.chdir(tmp_path)
    figure = tmp_path / "results/rehearsal/figures/figure.html"
    batch = tmp_path / "results/rehearsal/activations/.partial/cell/0.safetensors"
    if built:
        figure.parent.mkdir(parents=True)
        figure.touch()
    (tmp_path / "run").write_text(
        f"test -f {figure} && exit; test -f {batch} && touch continued && exit\n"
        f"mkdir -p {batch.parent}; echo $$ > pid; touch {batch}; sleep 60 & wait; touch survived",
        encoding="utf-8",
    )
    on_gpu = module("on_gpu")
    command = on_gpu.KILLED.format(run="bash run")
    assert on_gpu.one(f"({command})", tmp_path / "log", 30)["outcome"] == "done"
    assert (tmp_path / "continued").exists() and not (tmp_path / "survived").exists()
    assert _ended(tmp_path / "pid")


def _ended(file):
    """Whether the process whose id a file holds has ended, or does within five seconds."""
    left = [one for one in psutil.process_iter() if one.pid == int(file.read_text())]
    _, alive = psutil.wait_procs(left, timeout=5)
    return all(one.status() == psutil.STATUS_ZOMBIE for one in alive)


def test_a_step_out_of_time_leaves_no_process_behind(module, tmp_path):
    command = f"true && (setsid bash -c 'echo $$ > {tmp_path}/pid; sleep 60' & wait $!)"
    found = module("on_gpu").one(command, tmp_path / "log", 1)
    assert found["outcome"] == "out of time"
    assert _ended(tmp_path / "pid")
