"""The benchmark: all ways agree, and its table has the rows that it promises."""

import importlib
import json
import os
import subprocess
import sys

import pandas as pd
import pytest
import torch
from workflow import PROJECT

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
    module("gpu").main("cpu", tmp_path, quick=True)
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
        "third": "sleep 60", "fourth": "echo four",
    }  # fmt: skip
    for outcome in ("exit code 1", "done"):
        found = on_gpu.run(commands, tmp_path, seconds=4)
        outcomes = [one["outcome"] for one in found.values()]
        assert outcomes == ["done", outcome, "out of time", "not run"]
        assert json.loads((tmp_path / "steps.json").read_text("utf-8")) == found
        (tmp_path / "there").touch()
    assert count.read_text() == "x\n"
