"""Which jobs a change asks for, and which it leaves alone."""

import json
import re
from typing import Any

import documented
import pytest
from workflow import SHIPPED, TINY, merged

from anchorscope.workflow import config

REDRAWN = {"picture": 2}
TOLD_ANEW = {"methods": 1}
PER_CELL = ("prompts", "answers", "activations", "scores", "delta_p")
FROM_SCORES = dict.fromkeys(("scores", "delta_p", "table"), 1) | REDRAWN | TOLD_ANEW
NOTES = {"gated": True, "resources": {"gpus": 2, "mem_gb": 64, "gpu_mem_gb": 80, "runtime_min": 9}}
SMALL = "calibration-llama/world-relation"
OTHER_WORLD = {
    "datasets": {
        "other-world": merged(TINY["datasets"]["tiny-world"], {"world": {"style": "search"}})
    },
    "figures": {"tiny": {"datasets": ["tiny-world", "other-world"]}},
}

CHANGES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "width of a figure": ({"chart": {"width": 300}}, REDRAWN),
    "label of a model": (
        {"models": {"tiny-llama": {"label": "Another name"}}},
        REDRAWN | TOLD_ANEW,
    ),
    "penalties": ({"probe": {"grid": [0.1, 1.0]}}, FROM_SCORES),
    "bootstrap": ({"bootstrap": {"draws": 50}}, {"delta_p": 1, "table": 1} | REDRAWN | TOLD_ANEW),
    "conditions": ({"conditions": {"question": None}}, {"activations": 1} | FROM_SCORES),
    "another dataset": (
        OTHER_WORLD,
        dict.fromkeys(("dataset", *PER_CELL, "table"), 1) | REDRAWN | TOLD_ANEW,
    ),
    "resources and notes": ({"models": {"tiny-llama": NOTES}, "keep_activations": False}, {}),
}
"""A change of a finished run → the jobs that it asks for."""


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_reruns_what_depends_on_it_alone(tiny_run, change):
    changed, jobs = CHANGES[change]
    assert tiny_run.planned(change=changed) == jobs


def test_a_deleted_picture_is_drawn_again_and_nothing_else_is_touched(tiny_run, tmp_path):
    clone = tiny_run.copy(tmp_path / "clone")

    def times() -> dict[str, int]:
        found = [path for path in clone.results.rglob("*") if path.suffix in (".csv", ".parquet")]
        return {str(path): path.stat().st_mtime_ns for path in found}

    before, picture = times(), clone.results / "figures" / "tiny.svg"
    drawn = picture.read_bytes()
    picture.unlink()
    assert clone.planned() == {"picture": 1}
    clone.build()
    assert times() == before and picture.read_bytes() == drawn


def test_a_limit_has_a_root_of_its_own(tiny_run):
    """Questions and model are shared, every product of a cell is made anew elsewhere."""
    anew = dict.fromkeys((*PER_CELL, "table", "picture", "methods"), 1)
    assert tiny_run.planned("tiny", "--config", "limit=50") == anew


def test_every_figure_of_the_catalogue_resolves_offline(fresh):
    names = list(SHIPPED["figures"])
    cells = sum(len(f["models"]) * len(f["datasets"]) for f in SHIPPED["figures"].values())
    of_figure = ("table", "picture", "methods")
    jobs = dict.fromkeys(PER_CELL, cells) | dict.fromkeys(of_figure, len(names))
    assert fresh.planned(*names) == {"model": 17, "dataset": 8} | jobs


def test_a_shipped_checkpoint_of_the_present_recipe_is_not_trained(fresh, tmp_path):
    clone = fresh.copy(tmp_path / "clone")
    folder = clone.root / "resources" / "models" / "calibration-llama"
    folder.mkdir(parents=True, exist_ok=True)
    recipe = config.load(SHIPPED).recipe_hash("calibration-llama")
    (folder / "recipe.json").write_text(json.dumps({"recipe": recipe}), encoding="utf-8")
    target = "results/models/calibration-llama.json"
    assert clone.planned(target) == {"model": 1}
    changed = {"models": {"calibration-llama": {"train": {"seed": 1}}}}
    assert clone.planned(target, change=changed) == {"dataset": 4, "train": 1, "model": 1}


def test_retrain_trains_every_recipe_and_other_seeds_only_when_asked_for(fresh):
    # Four worlds and null-question; two models calibrated, seven others.
    assert fresh.planned("retrain") == {"dataset": 5, "train": 9}
    assert fresh.planned("retrain-seeds") == {"dataset": 4, "train": 2, "model": 2}


def test_calibration_measures_the_answers_of_the_figure_again(tiny_run):
    """More conditions and read-outs, in a root of its own; no new prompts, no new answers."""
    stages = "activations scores delta_p truth calibration_cell calibration_table"
    named = [*stages.split(), "calibration_figure", "null_controls"]
    assert tiny_run.planned("calibration") == dict.fromkeys(named, 1)


EXPERIMENT = dict.fromkeys(("experiment_measure", "experiment_table", "picture"), 1)


def test_an_experiment_measures_the_read_outs_of_every_figure(tiny_run, tmp_path):
    """Drawn by path, a figure of a read-out that no target draws needs no passes of its own."""
    clone = tiny_run.copy(tmp_path / "clone")
    figure = TINY["figures"]["tiny"] | {"readout": "mlp/prompt_end"}
    change = {"figures": {"other": figure}, "experiments": {"patching": {"arms": ["placebo"]}}}
    picture = "results/figures/other.patching.svg"
    assert clone.planned(picture, change=change) == EXPERIMENT
    clone.build(picture, change=change)
    of_targets = {"experiment_table": 1, "picture": 2}
    assert clone.planned("patching", change=change) == of_targets
    record = json.loads(
        (clone.results / "experiments/patching/tiny-llama/tiny-world.parquet.provenance.json")
        .read_text(encoding="utf-8")
    )  # fmt: skip
    assert record["settings"]["settings"] == {"arms": ["placebo"]}
    assert record["settings"]["readouts"] == SHIPPED["readouts"]
    assert record["clean_score_difference"] < 1e-4
    assert any("fewer tokens" in note for note in record["counts"]["notes"])


def test_an_experiment_is_a_folder_and_a_line_in_the_registry(tiny_run, tmp_path):
    clone = tiny_run.copy(tmp_path / "clone")
    packages = clone.root / "anchorscope" / "experiments"
    documented.write(packages)
    documented.register(packages)
    assert clone.planned(documented.NAME) == EXPERIMENT
    record = packages / documented.NAME / "__init__.py"
    text = record.read_text(encoding="utf-8")
    needs = text.replace("    columns=COLUMNS,\n", '    columns=COLUMNS,\n    needs=("truth",),\n')
    record.write_text(needs, encoding="utf-8")
    assert clone.planned(documented.NAME) == EXPERIMENT | {"truth": 1}
    refused = clone.run("-n", f"results/figures/qwen3.{documented.NAME}.html")
    assert refused.returncode
    for words in ("needs the planted truth", "`qwen3-", "name a figure of models with a `train`"):
        assert words in refused.stdout + refused.stderr


@pytest.mark.parametrize(("gpus", "given", "asked"), [(0, (), 4), (2, (), 2), (2, ("gpu=1",), 1)])
def test_a_machine_with_gpus_runs_no_more_gpu_jobs_than_it_has(tmp_path, fresh, gpus, given, asked):
    clone = fresh.copy(tmp_path / "clone")
    devices = clone.root / "anchorscope" / "workflow" / "devices.py"
    with devices.open("a", encoding="utf-8") as library:
        library.write(f"\n\ndef gpus_here():\n    return {gpus}\n")
    rule = clone.root / "rules" / "answers.smk"
    message = re.compile(r"    message:\n.*\n")  # in its place a dry run shows the resources
    rule.write_text(message.sub("", rule.read_text("utf-8")), encoding="utf-8")
    targets = [f"results/answers/{cell}.parquet" for cell in ("llama-3-70b/nq", SMALL)]
    said = clone.dry(*targets, *(("--resources", *given) if given else ()))
    assert f"gpu={asked}, device=auto" in said and "gpu=0, device=cpu" in said


def test_the_report_is_made_once(tiny_run, tmp_path):
    clone = tiny_run.copy(tmp_path / "clone")
    clone.build("report")
    assert clone.planned("report") == {}
