"""Which jobs a change asks for, and which it leaves alone."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from workflow import PROJECT, TINY, Workspace, merged

from anchorscope.workflow import config

CATALOGUE = yaml.safe_load((PROJECT / "config.yaml").read_text(encoding="utf-8"))
REDRAWN = {"figure": 1, "view": 2}
PER_CELL = ("prompts", "answers", "activations", "scores", "delta_p")


def times(folder: Path) -> dict[str, int]:
    """Products and when they were written."""
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] not in ("logs", "benchmarks")
    }


def test_a_second_run_has_nothing_to_do(tiny_run: Workspace) -> None:
    assert tiny_run.planned() == {}


def test_a_deleted_picture_is_drawn_again_and_nothing_else_is_touched(tiny_run: Workspace) -> None:
    before = times(tiny_run.results)
    picture = tiny_run.results / "figures" / "tiny.svg"
    drawn = picture.read_bytes()
    picture.unlink()
    assert tiny_run.planned() == {"figure": 1}
    tiny_run.build()
    after = times(tiny_run.results)
    assert set(after) == set(before)
    assert {path for path in after if after[path] != before[path]} <= {
        path for path in after if path.startswith("figures/")
    }
    assert picture.read_bytes() == drawn


@pytest.mark.parametrize(
    "change",
    [
        {"chart": {"panel_width": 300}},
        {"models": {"tiny-llama": {"label": "Another name"}}},
        {"datasets": {"tiny-world": {"label": "Another name"}}},
    ],
    ids=["width", "model label", "dataset label"],
)
def test_a_change_of_looks_draws_the_figure_alone(
    tiny_run: Workspace, change: dict[str, Any]
) -> None:
    assert tiny_run.planned(change=change) == REDRAWN


def test_another_grid_of_penalties_needs_no_model_pass(tiny_run: Workspace) -> None:
    planned = tiny_run.planned(change={"probe": {"grid": [0.1, 1.0]}})
    assert planned == {"scores": 1, "delta_p": 1, "table": 1, **REDRAWN}


def test_another_bootstrap_needs_no_scores(tiny_run: Workspace) -> None:
    planned = tiny_run.planned(change={"bootstrap": {"draws": 50}})
    assert planned == {"delta_p": 1, "table": 1, **REDRAWN}


def test_another_condition_is_measured_without_new_answers(tiny_run: Workspace) -> None:
    planned = tiny_run.planned(change={"conditions": {"question": None}})
    anew = dict.fromkeys(("activations", "scores", "delta_p", "table"), 1)
    assert planned == anew | REDRAWN


def test_an_added_dataset_leaves_the_others_untouched(tiny_run: Workspace) -> None:
    world = merged(TINY["datasets"]["tiny-world"], {"world": {"style": "search"}})
    change = {
        "datasets": {"other-world": world},
        "figures": {"tiny": {"datasets": ["tiny-world", "other-world"]}},
    }
    planned = tiny_run.planned(change=change)
    assert planned == dict.fromkeys(("dataset", *PER_CELL, "table"), 1) | REDRAWN
    assert "tiny-world:" not in tiny_run.dry(change=change).partition("Job stats")[2]


def test_resources_and_notes_rerun_nothing(tiny_run: Workspace) -> None:
    resources = {"gpus": 2, "mem_gb": 64, "gpu_mem_gb": 80, "runtime_min": 600}
    change = {
        "models": {"tiny-llama": {"gated": True, "resources": resources}},
        "keep_activations": False,
    }
    assert tiny_run.planned(change=change) == {}


def test_a_limit_has_a_root_of_its_own(tiny_run: Workspace) -> None:
    """Questions and model are shared, every product of a cell is made anew elsewhere."""
    anew = dict.fromkeys((*PER_CELL, "table", "figure"), 1)
    limit = ("--config", "limit=50")
    assert tiny_run.planned("tiny", *limit) == anew
    assert tiny_run.planned("results/limit-50/figures/tiny.html", *limit) == anew
    assert tiny_run.planned("results/figures/tiny.html") == {}


def test_the_published_figures_resolve_offline(fresh: Workspace) -> None:
    planned = fresh.planned("llama-3.2", "qwen3")
    assert planned == {
        "dataset": 4,
        "model": 4,
        **dict.fromkeys(PER_CELL, 16),
        "table": 2,
        "figure": 2,
    }


def test_every_figure_of_the_catalogue_resolves(fresh: Workspace) -> None:
    names = list(CATALOGUE["figures"])
    published = {model for name in names for model in CATALOGUE["figures"][name]["models"]}
    cells = sum(len(f["models"]) * len(f["datasets"]) for f in CATALOGUE["figures"].values())
    planned = fresh.planned(*names)
    assert len(published) == 14
    assert planned["model"] == 14
    assert planned["dataset"] == 8
    assert {planned[stage] for stage in PER_CELL} == {cells}
    assert planned["figure"] == planned["table"] == len(names)


def test_a_figure_resolves_by_path(fresh: Workspace) -> None:
    planned = fresh.planned("results/figures/llama-3.2.html")
    assert planned == {
        "dataset": 4,
        "model": 2,
        **dict.fromkeys(PER_CELL, 8),
        "table": 1,
        "figure": 1,
    }


def test_an_unknown_target_fails(fresh: Workspace) -> None:
    done = fresh.run("lama-3.2")
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "lama-3.2" in said
    assert "Traceback" not in said
    assert not fresh.results.exists()


@pytest.fixture
def shipped(tmp_path: Path, fresh: Workspace) -> Iterator[tuple[Workspace, Path]]:
    """A clone whose shipped checkpoint of calibration-llama has a marker to be written."""
    clone = fresh.copy(tmp_path / "clone")
    folder = clone.root / "resources" / "models" / "calibration-llama"
    folder.mkdir(parents=True, exist_ok=True)
    yield clone, folder / "recipe.json"


def test_a_shipped_checkpoint_of_the_present_recipe_is_not_trained(
    shipped: tuple[Workspace, Path],
) -> None:
    clone, marker = shipped
    target = "results/models/calibration-llama.json"
    recipe = config.load(CATALOGUE).recipe_hash("calibration-llama")
    marker.write_text(json.dumps({"recipe": recipe}), encoding="utf-8")
    assert clone.planned(target) == {"model": 1}
    relabelled = {"models": {"calibration-llama": {"label": "Another name"}}}
    assert clone.planned(target, change=relabelled) == {"model": 1}
    changed = {"models": {"calibration-llama": {"train": {"seed": 1}}}}
    assert clone.planned(target, change=changed) == {"dataset": 4, "train": 1, "model": 1}


def test_retrain_trains_every_recipe_from_nothing(fresh: Workspace) -> None:
    # Four worlds, null-question and the seven null worlds; two models calibrated, four null.
    assert fresh.planned("retrain") == {"dataset": 12, "train": 6}


def test_other_seeds_are_trained_when_asked_for_and_not_before(fresh: Workspace) -> None:
    assert fresh.planned("retrain-seeds") == {"dataset": 4, "train": 2, "model": 2}


def test_calibration_measures_the_answers_of_the_figure_again(tiny_run: Workspace) -> None:
    """More conditions and read-outs, in a root of its own; no new prompts, no new answers."""
    planned = tiny_run.planned("calibration")
    assert planned == {
        "activations": 1,
        "scores": 1,
        "delta_p": 1,
        "truth": 1,
        "refits": 1,
        "calibration_cell": 1,
        "calibration_table": 1,
        "calibration_figure": 1,
        "null_controls": 1,
    }


def test_a_variant_of_the_probes_needs_no_model_pass(tiny_run: Workspace) -> None:
    target = "results/sensitivity/penalty-10/delta_p/tiny-llama/tiny-world.csv"
    assert tiny_run.planned(target) == {"scores": 1, "delta_p": 1}
    target = "results/sensitivity/blocks-answer/delta_p/tiny-llama/tiny-world.csv"
    assert tiny_run.planned(target) == {"activations": 1, "scores": 1, "delta_p": 1}
    target = "results/sensitivity/anchors-subject/delta_p/tiny-llama/tiny-world.csv"
    assert tiny_run.planned(target) == dict.fromkeys(PER_CELL, 1)


def test_retrain_trains_what_is_there_once(tiny_run: Workspace, tmp_path: Path) -> None:
    """Interrupted, it does not train again what is finished; done, it may be asked for again."""
    clone, once = tiny_run.copy(tmp_path / "clone"), {"train": 1}
    tiny = clone.catalogue() | {"models": {"tiny-llama": TINY["models"]["tiny-llama"]}}
    tiny |= {"figures": TINY["figures"]}
    (clone.root / "config.yaml").write_text(yaml.safe_dump(tiny), encoding="utf-8")
    assert clone.planned() == {}
    assert clone.planned("retrain") == once
    fresh = "results/models/.tiny-llama.fresh"
    clone.build(fresh)  # as after an interruption: trained, `retrain` itself not yet done
    assert clone.planned("retrain") == {}
    clone.build("retrain")
    assert not (clone.root / fresh).exists()
    assert clone.planned("retrain") == once
    assert "train" not in clone.planned()


def test_other_weights_of_a_local_model_are_located_anew(
    tmp_path: Path, fresh: Workspace, checkpoint: Callable[..., Path]
) -> None:
    clone, folder = fresh.copy(tmp_path / "clone"), tmp_path / "weights"
    shutil.copytree(checkpoint("llama"), folder)
    change = {
        "data_folders": [str(tmp_path)],
        "models": {"mine": {"local": str(folder), "prompt": "plain"}},
    }
    target = "results/models/mine.json"
    clone.build(target, change=change)
    assert clone.planned(target, change=change) == {}
    prompt = change | {"models": {"mine": {"local": str(folder), "prompt": "chat"}}}
    assert clone.planned(target, change=prompt) == {}
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert clone.planned(target, change=change) == {"model": 1}


def test_changed_rows_and_examples_are_read_anew_and_trained_on(
    tmp_path: Path, fresh: Workspace
) -> None:
    clone, rows, examples = (
        fresh.copy(tmp_path / "clone"),
        tmp_path / "rows",
        tmp_path / "shots.yaml",
    )
    rows.mkdir()
    (rows / "part.jsonl").write_text(
        "".join(f'{{"q": "Who is {i}?", "a": "Nobody {i}"}}\n' for i in range(40)), encoding="utf-8"
    )
    shutil.copy(clone.root / "resources" / "few_shot" / "popqa.yaml", examples)
    recipe = TINY["models"]["tiny-llama"]["train"] | {
        "datasets": ["mine"],
        "curriculum": "plain",
        "steps": 1,
        "settle": 0,
    }
    mine = {
        "local": str(rows),
        "fields": {"question": "q", "answers": ["a"]},
        "few_shot": {"file": str(examples)},
    }
    taught = TINY["models"]["tiny-llama"] | {"train": recipe}
    change = {
        "data_folders": [str(tmp_path)],
        "datasets": {"mine": mine},
        "models": {"taught": taught},
    }
    target = "results/models/taught.json"
    clone.build(target, change=change)
    assert clone.planned(target, change=change) == {}
    anew = {"dataset": 1, "train": 1, "model": 1}
    examples.write_text(examples.read_text("utf-8") + "# seen\n", encoding="utf-8")
    assert clone.planned(target, change=change) == anew
    clone.build(target, change=change)
    with (rows / "part.jsonl").open("a", encoding="utf-8") as more:
        more.write('{"q": "Who is new?", "a": "Nobody"}\n')
    assert clone.planned(target, change=change) == anew


@pytest.mark.parametrize(("gpus", "limited"), [(0, False), (2, True)])
def test_a_machine_with_gpus_runs_no_more_gpu_jobs_than_it_has(
    tmp_path: Path, fresh: Workspace, gpus: int, limited: bool
) -> None:
    clone = fresh.copy(tmp_path / "clone")
    devices = clone.root / "anchorscope" / "workflow" / "devices.py"
    with devices.open("a", encoding="utf-8") as library:
        library.write(f"\n\ndef gpus_here():\n    return {gpus}\n")
    rule = clone.root / "rules" / "answers.smk"
    message = re.compile(r"    message:\n.*\n")  # in its place a dry run shows the resources
    rule.write_text(message.sub("", rule.read_text("utf-8")), encoding="utf-8")
    said = clone.dry(
        "results/answers/llama-3-70b/nq.parquet", "results/answers/qwen3-8b/nq.parquet"
    )
    assert ("gpu=2, device=auto" in said) == limited  # asked for 4, cut to what there is
    assert ("gpu=4, device=auto" in said) != limited
    assert "gpu=1, device=cuda" in said
    own = "results/answers/calibration-llama/world-relation.parquet"
    assert "gpu=0, device=cpu" in clone.dry(own)
    assert "gpu=1, device=auto" in clone.dry(
        "results/answers/llama-3-70b/nq.parquet", "--resources", "gpu=1"
    )


def test_the_report_is_made_once_and_again_when_the_calibration_is_there(
    tiny_run: Workspace, tmp_path: Path
) -> None:
    clone = tiny_run.copy(tmp_path / "clone")
    clone.build("report")
    page = clone.results / "report" / "index.html"
    assert "<html" in page.read_text(encoding="utf-8")
    assert clone.planned("report") == {}
    table = clone.results / "tables" / "null-controls.csv"
    table.write_text("control,empty\n", encoding="utf-8")
    assert clone.planned("report") == {"report_page": 1}
