"""The benchmark: all ways agree, and its table has the rows and columns that it promises."""

import importlib
import json
import os
import subprocess
import sys

import pandas as pd
import psutil
import pytest
import torch
from workflow import PROJECT

FOLDER = PROJECT / "benchmarks"
FIRST = ["workload", "stage", "way", "seconds", "ratio", "max_difference", "peak_mb"]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The folder of a run with tiny sizes."""
    out = tmp_path_factory.mktemp("bench")
    run = subprocess.run(
        [
            *(sys.executable, FOLDER / "bench.py", "--quick", "--threads", "1", "--out", out),
            *("--workloads", "random-weights", "hidden"),
        ],
        cwd=PROJECT,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return out


@pytest.fixture
def module(monkeypatch):
    """`module(name)`: one of the benchmark's modules."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.mark.long
def test_every_way_is_measured_at_every_stage_and_all_gave_the_same(quick):
    table = pd.read_csv(quick / "bench.csv")
    assert list(table.columns[:7]) == FIRST
    plain = {"anchorscope", "one-pass", "literal"}
    expected = {
        ("random-weights", "generate"): plain,
        ("random-weights", "measure"): plain,
        ("hidden", "fit"): {"anchorscope", "scikit-learn"},
    }
    for cell, rows in table.groupby(["workload", "stage"]):
        assert set(rows["way"]) == expected.pop(cell) and rows["way"].is_unique
    assert not expected
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


def test_the_gpu_part_runs_where_there_is_none(module, tmp_path, capsys):
    module("gpu").main("cpu", tmp_path, quick=True)
    notes = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    (row,) = notes["models"]
    assert row["rate"] > 0 and 0 < row["share"] < 2
    assert row["plain_seconds"] > 0 and row["tokens_per_second"] > 0
    # Five folds, each with five inner ones, and six penalties, at three layers.
    assert notes["probes"]["probes"] == 3 * (5 + 25) * 6 and notes["probes"]["seconds"] > 0
    said = capsys.readouterr().out
    assert "| tiny |" in said and "| 3 layers × 150 × 16 |" in said


def test_the_gpu_part_measures_all_conditions_of_a_default_run(module):
    gpu, workloads = module("gpu"), module("workloads")
    work = workloads.Workload("tiny", sequences=16, shape=workloads.TINY)
    table = gpu.exchangeable(workloads.answers(work))
    plan = gpu.planning.plan(table, conditions=gpu.CONDITIONS, batch_tokens=4096)
    passed = {row.condition for batch in plan.batches for row in batch.rows}
    assert passed == {one.name for one, _ in gpu.planning.on(gpu.CONDITIONS)}


def test_steps_on_a_gpu_are_written_and_a_second_run_repeats_none_that_is_done(module, tmp_path):
    on_gpu, count = module("on_gpu"), tmp_path / "count"
    commands = {
        "first": f"echo x >> {count}", "second": f"test -f {tmp_path / 'there'}",
        "third": "sleep 60", "fourth": "echo four",
    }  # fmt: skip
    for outcome in ("exit code 1", "done"):
        found = on_gpu.run(commands, tmp_path, seconds=4)
        outcomes = [one["outcome"] for one in found.values()]
        assert outcomes == ["done", outcome, "out of time", "not run"]
        assert json.loads((tmp_path / "steps.json").read_text("utf-8")) == found
        (tmp_path / "there").touch()
    assert count.read_text() == "x\n"


def test_a_step_out_of_time_leaves_no_process_behind(module, tmp_path):
    seen = tmp_path / "pid"
    command = f"true && (setsid bash -c 'echo $$ > {seen}; sleep 60' & wait $!)"
    found = module("on_gpu").one(command, tmp_path / "log", 1)
    assert found["outcome"] == "out of time"
    left = [one for one in psutil.process_iter() if one.pid == int(seen.read_text())]
    _, alive = psutil.wait_procs(left, timeout=5)
    assert all(one.status() == psutil.STATUS_ZOMBIE for one in alive)
