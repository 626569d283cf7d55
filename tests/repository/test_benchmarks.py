"""The benchmark: all ways agree, and its table has the rows and columns that it promises."""

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


def test_every_simulated_world_is_judged(module):
    """Those of a signal train probes for minutes, and are left to the benchmark."""
    claims = module("claims")
    groups = [one for one in claims.GROUPS.values() if one.judge is not claims.signal]
    for group in groups:
        for name, world in group.worlds.items():
            found = group.judge(world, (15, 60), 0, True)
            told = {one.verdict for one in found.values()}
            assert told <= {"yes", "no", "too few", "not measured", "by design"}, name
            assert {*group.false, *group.true} <= {*claims.CLAIMS} >= {*found}
    assert len(groups) + 2 == len(claims.GROUPS)


@pytest.mark.parametrize(
    ("group", "verdicts"),
    [
        ("passes through E_Q", {"yes"}),
        ("nothing passes through E_Q", {"no", "too few", "not measured", "by design"}),
    ],
)
def test_what_passes_is_told_from_what_does_not(module, group, verdicts):
    group = module("claims").GROUPS[group]
    for name, world in [*group.worlds.items()][:4]:
        assert group.judge(world, (200, 200), 0, False)["through_eq"].verdict in verdicts, name


def test_a_table_of_worlds_marks_false_claims_that_are_made_too_often(module):
    claims = module("claims")
    group = claims.Group(claims.NULL, ["truth"], sizes=[(16, 60)])
    found = pd.DataFrame(claims.rows("no truth", group, 2, "sums"))
    assert set(found["claim"]) == {"interaction", "own_answer", "truth"}
    assert (found["expected"] == "false").all()
    assert "!" not in claims.table(found.assign(made=0.0))
    assert claims.table(found.assign(made=0.5)).count("0.500 !") == len(found)
    said = claims.summary(found.assign(made=0.5), 2)
    assert said.count("0.500 sums") >= 1 and "False claims in more than 0.05:" in said


def test_the_gpu_part_runs_where_there_is_none(module, tmp_path, capsys):
    module("gpu").main("cpu", tmp_path, quick=True)
    notes = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    (row,) = notes["models"]
    assert row["rate"] > 0 and 0 < row["share"] < 2
    # Five folds, each with five inner ones, and six penalties, at three layers.
    assert notes["probes"]["probes"] == 3 * (5 + 25) * 6 and notes["probes"]["seconds"] > 0
    said = capsys.readouterr().out
    assert "| tiny |" in said and "| 3 layers × 150 × 16 |" in said
