"""Which jobs a change asks for, and which it leaves alone."""

import re
from typing import Any

import numpy as np
import pytest
import yaml
from small_cell import clean_difference
from workflow import SHIPPED, TINY, call, counted, merged, said

from anchorscope import Detector
from anchorscope.experiments.measured import Measurements
from anchorscope.models import loading
from anchorscope.statistics.scores import Scores
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, read_parquet

REDRAWN = {"picture": 2}
TOLD_ANEW = {"methods": 1}
PER_CELL = ("prompts", "answers", "activations", "scores", "delta_p")
FROM_SCORES = dict.fromkeys(("scores", "delta_p", "table"), 1) | REDRAWN | TOLD_ANEW
NOTES = {"gated": True, "resources": {"gpus": 2, "mem_gb": 64, "gpu_mem_gb": 80, "runtime_min": 9}}
SMALL = "calibration-llama/world-relation"
OTHER_ROWS = {"figures": {"tiny": {"datasets": ["tiny-world", "world-search"]}}}

CHANGES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "width, label and notes": (
        {
            "chart": {"width": 300},
            "models": {"tiny-llama": NOTES | {"label": "Another name"}},
            "keep_activations": False,
        },
        REDRAWN | TOLD_ANEW,
    ),
    "penalties": ({"probe": {"grid": [0.1, 1.0]}}, FROM_SCORES),
    "bootstrap": ({"bootstrap": {"draws": 50}}, {"delta_p": 1, "table": 1} | REDRAWN | TOLD_ANEW),
    "another order of the read-outs": ({"readouts": [*reversed(SHIPPED["readouts"])]}, FROM_SCORES),
    "conditions, and another dataset": (
        merged(OTHER_ROWS, {"conditions": {"question": None}}),
        dict.fromkeys(("dataset", "prompts", "answers", "table"), 1)
        | dict.fromkeys(("activations", "scores", "delta_p"), 2)
        | REDRAWN
        | TOLD_ANEW,
    ),
}
"""A change of a finished run → the jobs that it asks for."""


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_reruns_what_depends_on_it_alone(tiny_run, change):
    changed, jobs = CHANGES[change]
    assert tiny_run.planned(change=changed) == jobs


def test_a_limit_has_a_root_of_its_own(tiny_run):
    """Questions and model are shared, every product of a cell is made anew elsewhere."""
    anew = dict.fromkeys((*PER_CELL, "table", "picture", "methods"), 1)
    assert tiny_run.planned("tiny", "--config", "limit=50") == anew


def test_the_report_of_a_file_that_is_given_needs_its_figure_and_no_cell_of_the_demo(
    fresh, checkpoint, tmp_path
):
    rows, given = tmp_path / "rows.jsonl", tmp_path / "mine.yaml"
    rows.write_text('{"q": "Who?", "a": "Ann"}\n', encoding="utf-8")
    fields = {"question": "q", "answers": ["a"]}
    config = {
        "datasets": {"mine": {"local": str(rows), "fields": fields, "sample_size": 100}},
        "models": {"own": {"local": str(checkpoint("llama")), "prompt": "plain"}},
        "figures": {"myfig": {"models": ["own"], "datasets": ["mine"]}},
    }
    given.write_text(yaml.safe_dump(config), encoding="utf-8")
    done = call(fresh.root, fresh.environment(), "-n", "report", "--configfile", str(given))
    planned, once = counted(said(done)), ("dataset", "model", *PER_CELL, "report_page")
    assert {rule: planned[rule] for rule in once} == dict.fromkeys(once, 1)
    assert "train" not in planned and "results/tables/myfig.csv" in done.stdout + done.stderr


def test_an_experiment_measures_the_read_outs_of_every_figure(tiny_run, tmp_path):
    """Drawn by path, a figure of a read-out that no target draws needs no passes of its own."""
    clone = tiny_run.copy(tmp_path / "clone")
    figure = TINY["figures"]["tiny"] | {"readout": "mlp/prompt_end"}
    change = {"figures": {"other": figure}, "experiments": {"patching": {"arms": ["placebo"]}}}
    picture = "results/figures/other.patching.svg"
    clone.build(picture, change=change)
    of_targets = {"experiment_table": 1, "picture": 2}
    assert clone.planned("patching", change=change) == of_targets
    path = clone.results / "experiments/patching/tiny-llama/tiny-world.safetensors"
    record = provenance.read(path)
    assert record["settings"]["settings"] == {"arms": ["placebo"]}
    assert record["settings"]["readouts"] == SHIPPED["readouts"]
    scores = Scores.read(clone.results / "scores/tiny-llama/tiny-world.safetensors")
    assert clean_difference(Measurements.read(path), scores) < 1e-4


def test_a_machine_with_gpus_runs_no_more_gpu_jobs_than_it_has(tmp_path, fresh):
    clone = fresh.copy(tmp_path / "clone")
    devices = clone.root / "anchorscope" / "workflow" / "devices.py"
    with devices.open("a", encoding="utf-8") as library:
        library.write("\n\ndef gpus_here():\n    return 2\n")
    rule = clone.root / "rules" / "answers.smk"
    message = re.compile(r"    message:\n.*\n")  # in its place a dry run shows the resources
    rule.write_text(message.sub("", rule.read_text("utf-8")), encoding="utf-8")
    targets = [f"results/answers/{cell}.parquet" for cell in ("llama-3-70b/nq", SMALL)]
    text = said(clone.run("-n", *targets))
    assert "gpu=2, device=auto" in text and "gpu=0, device=cpu" in text


def test_the_report_and_a_detector_are_made_once_and_the_detector_scores_like_its_figure(
    tiny_run, tmp_path
):
    built = tiny_run.copy(tmp_path / "clone")
    done = said(built.run("tiny", "report", "detectors"))
    assert done.splitlines()[-1] == "report: results/report/index.html"
    assert built.planned("report", "detectors") == {}
    served = Detector.load(built.results / "detectors/tiny-llama/tiny-world/resid")
    assert served.readout == "resid/final" and served.n > 0
    folder = built.results / "detectors/tiny-llama/tiny-world/probe"
    detector = Detector.load(folder)
    samples = read_csv(built.results / "tables/tiny.samples.csv").set_index("id")
    record = provenance.read(folder)
    assert record["counts"]["kept"] == detector.n == len(samples) and record["rule"] == "detector"
    assert (samples["layer"] == detector.layer).all()
    loaded = loading.load(built.root / detector.origin.model)
    answers = read_parquet(built.results / "answers/tiny-llama/tiny-world.parquet")
    rows = answers.assign(response=answers["answer"])[["id", "question", "response"]]
    found = detector.score(loaded.model, loaded.tokenizer, rows).set_index("id").loc[samples.index]
    assert np.corrcoef(found["p_balanced"], samples["p"])[0, 1] > 0.9
