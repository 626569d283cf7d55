"""The benchmark: all ways agree, and its table has the rows and columns that it promises."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
WAYS = {"anchorscope", "one-pass", "literal-1", "literal-32"}
FIRST = ["workload", "stage", "way", "seconds", "ratio", "max_difference", "peak_mb"]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The folder of a run with tiny sizes."""
    out = tmp_path_factory.mktemp("bench")
    run = subprocess.run(
        [sys.executable, FOLDER / "bench.py", "--quick", "--threads", "1", "--out", out],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
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


def test_every_stage_of_every_workload_is_measured_by_every_way(quick):
    table = pd.read_csv(quick / "bench.csv")
    assert list(table.columns[:7]) == FIRST
    for workload in ("plain", "prefix"):
        for stage in ("generate", "measure", "fit", "end to end"):
            rows = table[(table["workload"] == workload) & (table["stage"] == stage)]
            assert set(rows["way"]) >= WAYS and rows["way"].is_unique
    assert not table.duplicated(["workload", "stage", "way"]).any()


def test_a_ratio_is_to_the_plain_one_pass_way_of_the_same_stage(quick):
    table = pd.read_csv(quick / "bench.csv")
    for _, rows in table.groupby(["workload", "stage"]):
        plain = rows.loc[rows["way"] == "one-pass", "seconds"].item()
        assert rows.loc[rows["way"] == "one-pass", "ratio"].item() == 1
        assert rows["ratio"].tolist() == pytest.approx(list(rows["seconds"] / plain), abs=0.05)
    assert (table["seconds"] > 0).all() and (table["peak_mb"] > 0).all()


def test_a_ratio_is_taken_within_a_round_and_rounds_go_forwards_and_backwards(module):
    # The machine is four times as slow in the second round, and the way twice as fast in the third.
    assert module("timing").ratio([1, 4, 1], [2, 8, 4]) == 0.5
    orders = ["".join(module("timing").in_turn("abc", number)) for number in range(4)]
    assert orders == ["abc", "cba", "abc", "cba"]


def test_scikit_learn_is_converged_at_every_layer_not_the_deepest_alone(module):
    ways, baselines = module("ways"), module("baselines")
    draws = np.random.default_rng(0)
    z, fold = draws.integers(0, 2, 300), draws.permutation(300) % 5
    x = draws.normal(size=(2, 300, 20)).astype(np.float32)
    x[0, :, :4] += 3 * z[:, None]  # nearly parted: slow
    exact = baselines.scikit_learn(x, z, fold, range(2), tol=1e-10, max_iter=10_000)
    tolerance = ways._tolerance(x, z, fold, range(2), exact)
    assert tolerance < ways._tolerance(x[1:], z, fold, range(2), exact[1:])
    found = baselines.scikit_learn(x, z, fold, range(2), tol=tolerance, max_iter=10_000)
    assert np.abs(found - exact).max() <= ways.EQUAL


def test_all_ways_gave_the_same(quick):
    table = pd.read_csv(quick / "bench.csv").set_index("stage")
    assert (table.loc["generate", "max_difference"] == 0).all()
    assert (table.loc["measure", "max_difference"] <= 1e-5).all()
    fits = table.loc["fit"]
    assert (fits.loc[fits["way"] == "anchorscope", "max_difference"] <= 1e-3).all()


def test_the_table_comes_with_the_machine_and_a_figure(quick):
    notes = json.loads((quick / "bench.json").read_text(encoding="utf-8"))
    assert notes["machine"] and notes["clock"] == "wall time" and notes["rounds"] == 1
    assert {"plain", "prefix"} == set(notes["floor"])
    for ending in ("png", "svg", "html", "vl.json"):
        assert (quick / f"bench.{ending}").stat().st_size > 1000


def test_ways_that_differ_are_not_timed(module):
    bench = module("bench")
    one, other = {0: torch.zeros(3)}, {0: torch.full((3,), 2e-5)}
    with pytest.raises(bench.Disagreement, match="anchorscope differs by 2.0e-05"):
        bench.differences("measure", {"one-pass": one, "anchorscope": other})
    with pytest.raises(bench.Disagreement):
        bench.differences("generate", {"one-pass": {0: (1, 2)}, "literal-1": {0: (1, 3)}})
    assert bench.differences("measure", {"one-pass": one, "x": one}) == {"one-pass": 0, "x": 0}


def test_blocking_changes_what_is_compared(module):
    """Else the ways would agree whatever they did."""
    baselines, workloads = module("baselines"), module("workloads")
    work = workloads.workloads(quick=True)[0]
    loaded, table = workloads.llama(work.shape), workloads.answers(work)
    states = baselines.one_pass(loaded, table)
    moved = max(
        float((states[n, "knockout", 2] - states[n, "clean", 2]).abs().max()) for n in range(8)
    )
    assert moved > 1e-3


def test_the_floor_counts_every_token_that_is_not_shared_once(module):
    floor, workloads = module("floor"), module("workloads")
    for work in workloads.workloads(quick=True):
        table = workloads.answers(work)
        whole = sum(map(len, table["input_ids"])) - work.prefix * len(table)
        cut = sum(len(ids) - eq[-1] - 1 for ids, eq in table[["input_ids", "eq_tokens"]].to_numpy())
        assert floor.needed(work)["tokens"] == work.prefix + whole + cut


def test_peak_memory_forgets_what_was_freed(module):
    timing = module("timing")

    def large() -> int:
        return int(torch.ones(50_000_000).sum() > 0)

    _, before = timing.timed(lambda: 0, "wall")
    _, during = timing.timed(large, "wall")
    _, after = timing.timed(lambda: 0, "wall")
    assert during.peak_mb - before.peak_mb > 150
    assert after.peak_mb < during.peak_mb - 100


def test_the_times_of_a_part_are_scaled_to_the_whole(module):
    ways, workloads = module("ways"), module("workloads")
    work = workloads.workloads(quick=True)[0]
    found = ways.measuring(work, workloads.llama(work.shape), workloads.answers(work))
    assert found["literal-1"].scale == work.sequences / work.timed
    # Three passes of the L + 1 = 4, on all eight sequences.
    assert found["literal-32"].scale == 4 / 3
    assert found["anchorscope"].scale == found["one-pass"].scale == 1


def test_the_gpu_part_runs_where_there_is_none(module, tmp_path, capsys):
    module("gpu").main("cpu", tmp_path, quick=True)
    notes = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    (row,) = notes["models"]
    assert row["rate"] > 0 and 0 < row["share"] < 2
    # Five folds, each with five inner ones, and six penalties, at three layers.
    assert notes["probes"]["probes"] == 3 * (5 + 25) * 6 and notes["probes"]["seconds"] > 0
    said = capsys.readouterr().out
    assert "| tiny |" in said and "| 3 layers × 150 × 16 |" in said


def test_operations_are_those_of_every_token_but_for_the_last_layers_mlp(module):
    gpu, workloads = module("gpu"), module("workloads")
    work = workloads.replace(workloads.PREFIX, sequences=3)
    given = {"knockout": {}}
    plan = gpu.activations.plan(workloads.answers(work), conditions=given, batch_tokens=4096)
    real, total = gpu.TINY, 0
    projections = 2 * real.width * real.head_width * (2 * real.heads + 2 * real.key_heads)
    mlp = 2 * 3 * real.width * real.inner
    for sample in plan.samples:
        for token in range(plan.heads[0], len(sample.input_ids)):
            for layer in range(real.layers):
                total += projections + 4 * real.heads * real.head_width * (token + 0.5)
                if layer < real.layers - 1 or token == sample.positions["final"]:
                    total += mlp
    assert plan.heads[0] == work.prefix
    assert gpu.operations(real, plan) == pytest.approx(2 * total)  # clean and knockout


def test_a_model_that_the_card_cannot_hold_is_named_and_left_out(module, monkeypatch, capsys):
    gpu = module("gpu")
    large = gpu.MODELS[-1]
    assert large.name == "Qwen3-32B" and large.batch_tokens >= 16_000
    assert large.gigabytes == pytest.approx(65.5, abs=0.5)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (141 << 30, 141 << 30))
    assert gpu._lacking(large, "cuda") == ""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (48 << 30, 80 << 30))
    assert list(gpu.rows_of(large, "cuda", torch.bfloat16, 1.0, compiled=False)) == []
    said = capsys.readouterr().out
    assert said == "Qwen3-32B was not measured: it takes 72 GB, 52 GB are free\n"


def test_compiled_parts_are_what_is_measured_and_give_the_same(module, monkeypatch):
    gpu, workloads, baselines = module("gpu"), module("workloads"), module("baselines")
    called: list[int] = []

    def compiled(forward, *, dynamic):
        assert dynamic

        def run(*given):
            called.append(id(forward))
            return forward(*given)

        return run

    work = workloads.workloads(quick=True)[0]
    loaded, table = workloads.llama(work.shape), workloads.answers(work)
    expected = baselines.one_pass(loaded, table)
    monkeypatch.setattr(torch, "compile", compiled)
    gpu.compile_parts(loaded)
    found = baselines.one_pass(loaded, table)
    assert all(torch.equal(found[key], states) for key, states in expected.items())
    assert len(set(called)) == 3 * work.shape.layers  # an MLP and two norms each


def test_features_are_drawn_layer_by_layer_and_the_same_again(module):
    gpu = module("gpu")
    z = torch.arange(40) % 2
    drawn = gpu.Drawn((3, 40, 16), z, "cpu")
    assert drawn[:].shape == drawn.shape and torch.equal(drawn[:][1:2], drawn[1:2])
    assert not torch.equal(drawn[0:1], drawn[1:2])
    spread = torch.linalg.svdvals(drawn[0:1][0])
    assert spread[0] > 5 * spread[-1]


def test_results_go_into_their_place_of_a_page(module, tmp_path):
    page, path = module("page"), tmp_path / "page.md"
    path.write_text("a\n<!-- bench -->\nold\n<!-- /bench -->\nb\n", encoding="utf-8")
    page.put(path, "bench", "new")
    assert path.read_text(encoding="utf-8") == "a\n<!-- bench -->\nnew\n<!-- /bench -->\nb\n"
    with pytest.raises(ValueError, match="no place for scaling"):
        page.put(path, "scaling", "new")
    committed = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for name in ("bench", "scaling"):
        assert committed.index(f"<!-- {name} -->") < committed.index(f"<!-- /{name} -->")


def test_an_exponent_is_the_slope_of_the_logarithms(module):
    scaling = module("scaling")
    sizes = [250, 500, 1000, 2000]
    slope, error = scaling.exponent(sizes, [3e-3 * size**1.1 for size in sizes])
    assert slope == pytest.approx(1.1) and error == pytest.approx(0, abs=1e-7)
    _, error = scaling.exponent(sizes, [1, 2.4, 3.6, 8.4])
    assert 0.02 < error < 0.2


def test_the_scaling_run_says_how_each_stage_grows(module, tmp_path):
    found = module("scaling").main(tmp_path, quick=True)
    table = pd.read_csv(tmp_path / "scaling.csv")
    lines = {tuple(pair) for pair in table[["stage", "varied"]].to_numpy()}
    assert lines == {
        ("measure", "layers"), ("measure", "samples"), ("measure", "prefix"),
        ("fit", "layers"), ("fit", "samples"),
    }  # fmt: skip
    assert all(f"| {stage}, {varied} |" in found for stage, varied in lines)
    assert "- fit: peak at 40 samples" in found and "- measure, layers: exponent" in found


@pytest.mark.parametrize(("growth", "holds"), [(1.0, "holds"), (1.3, "does not hold")])
def test_the_scaling_run_says_whether_its_demands_hold(module, growth, holds):
    sizes = [1_000, 2_000, 4_000, 8_000]
    table = pd.DataFrame({"stage": "fit", "varied": "samples", "size": sizes})
    table["seconds"] = [1e-3 * size**growth for size in sizes]
    table["peak_mb"] = [400.0, 400.0, 900.0, 400.0 * growth]
    exponent, peak = module("scaling").judged(table).splitlines()
    assert exponent == f"- fit, samples: exponent {growth:.2f} ± 0.00, at most 1.1 {holds}."
    ratio = f"{growth:.2f} × that at 1,000"
    assert peak == f"- fit: peak at 8,000 samples {ratio}, at most 1.1 {holds}."


@pytest.mark.parametrize(
    ("code", "left", "expected"),
    [(-9, "", "it said nothing (signal 9)"), (1, "a\nb\n", "b (exit 1)"), (2, " \n", "(exit 2)")],
)
def test_a_peer_that_failed_is_named_with_how_it_ended(module, code, left, expected):
    run = subprocess.CompletedProcess(["peer"], code, "", left)
    assert module("peers")._why(run).endswith(expected)
