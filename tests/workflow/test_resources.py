"""What jobs ask for and what a run takes on the disk; said or refused before the first job."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from workflow import SHIPPED, merged

from anchorscope.experiments.registry import RunConfig
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow import around, resources, trials
from anchorscope.workflow.config import load
from anchorscope.workflow.resources import Jobs, Site
from anchorscope.workflow.trials import Trial

CELL = SimpleNamespace(model="llama-3-8b", dataset="popqa")
CELL_KEYS = ("llama-3-8b", "popqa")


def config(**changes: Any) -> RunConfig:
    """The shipped config in a folder without products."""
    return load(merged(SHIPPED, changes))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(resources.loading, "cached", lambda *_: None)


@pytest.mark.parametrize("kind", resources.MEMORY)
def test_demands_grow_with_the_checkpoint_and_the_samples(monkeypatch, kind):
    said = {"gpus": 1, "mem_gb": None, "runtime_min": None}
    chosen = config(models={"llama-3-8b": {"resources": said}})

    def demand(size: float, limit: int) -> dict[str, int]:
        monkeypatch.setattr(resources, "weights_gb", lambda config, model: size)
        jobs = Jobs(chosen.model_copy(update={"limit": limit}))
        return jobs.demand(kind, "llama-3-8b", "popqa")

    base, larger, longer = demand(2.5, 500), demand(140, 500), demand(2.5, 2000)
    assert longer["runtime"] > base["runtime"] and larger["runtime"] >= base["runtime"]
    assert (larger["mem_mb"] > base["mem_mb"]) == (kind == "passes"), "only passes hold the model"
    assert (longer["mem_mb"] > base["mem_mb"]) == (kind != "passes"), "passes hold one batch"
    assert kind != "passes" or larger["mem_mb"] > 140_000


def asked(kind: str, attempt: int = 1, site: Site | None = None, **changes: Any) -> tuple[int, int]:
    found = Jobs(config(**changes), site or Site()).asks(kind)
    return found["mem_mb"](CELL, attempt), found["runtime"](CELL, attempt)


def test_a_job_that_comes_back_asks_for_more_within_the_limits_of_the_profile():
    memory, runtime = asked("passes")
    assert asked("passes", 3) == (3 * memory, 3 * runtime)
    limits = Site(max_runtime=runtime + 1, max_mem_gb=memory // 1000 + 1)
    assert asked("passes", 3, limits) == (1000 * (memory // 1000 + 1), runtime + 1)


def trial(chosen: RunConfig, **changes: Any) -> Trial:
    """Make up a trial of the cell's model."""
    entry = chosen.models[CELL.model]
    found = {
        "model": CELL.model, "card": "NVIDIA H100 80GB HBM3", "dtype": "bfloat16",
        "settings": trials.settings_of(chosen, entry), "batch_tokens": 8192,
        "largest_batch_tokens": 65536, "weights_gb": 24.0, "memory_gb": {},
        "seconds": {"answers": 0.3, "activations": 1.2, "scores": 0.6},
    }  # fmt: skip
    return Trial.model_validate(found | changes)


def test_what_was_measured_on_the_clusters_card_takes_the_place_of_the_estimate():
    chosen, h100 = config(), Site(gpu_type="h100")
    measured = Jobs(chosen, h100, trials=(trial(chosen),))
    assert measured.demand("passes", CELL.model, CELL.dataset, "activations") == {
        "mem_mb": 4000 + 1500 * 24, "runtime": 15 + 2 * 2000 * 1.2 / 60
    }  # fmt: skip
    assert measured.asks("probes", "scores")["runtime"](CELL, attempt=1) == 15 + 40

    def runtime(jobs: Jobs, stage: trials.Stage | None = "activations") -> int:
        return jobs.demand("passes", CELL.model, CELL.dataset, stage)["runtime"]

    estimate = runtime(Jobs(chosen, h100))
    assert runtime(measured, None) == estimate, "an experiment passes more than the main run"
    for site in (Site(gpu_type="h200"), Site()):
        assert runtime(Jobs(chosen, site, trials=measured.trials)) == estimate, "another card"
    other = config(probe={"folds": 4})
    assert runtime(Jobs(other, h100, trials=measured.trials)) == runtime(Jobs(other, h100))


def test_the_size_of_a_model_is_that_of_its_files_once_all_are_here(tmp_path, monkeypatch):
    chosen = config()
    assert resources.weights_gb(chosen, "llama-3-8b") == 24, "until then that of its GPUs"
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "model-1.safetensors").write_bytes(bytes(3_000_000))
    monkeypatch.setattr(resources.loading, "cached", lambda *_: tmp_path)
    assert resources.weights_gb(chosen, "llama-3-8b") == 24
    (tmp_path / "model-2.safetensors").write_bytes(bytes(1_000_000))
    assert resources.weights_gb(chosen, "llama-3-8b") == pytest.approx(0.004)


def test_a_file_of_few_rows_in_the_folder_of_data_is_not_taken_for_a_full_sample(tmp_path):
    (tmp_path / "data").mkdir()
    local = {"data_folder": "data", "datasets": {"popqa": {"local": "rows.jsonl", "hub": None}}}
    assert resources.samples(config(**local), "popqa") == 2000, "it is not there"
    (tmp_path / "data/rows.jsonl").write_text("\n".join(f"row {n}" for n in range(30)))
    assert resources.samples(config(**local), "popqa") == 30
    local["datasets"]["popqa"]["local"] = "rows.csv"
    (tmp_path / "data/rows.csv").write_text("question,answers\n" + "a,b\n" * 30)
    assert resources.samples(config(**local), "popqa") == 30, "the first line names the columns"
    for name, end in (("windows", "\r\n"), ("mac", "\r")):
        local["datasets"]["popqa"]["local"] = f"{name}.csv"
        (tmp_path / f"data/{name}.csv").write_bytes(
            end.join(["question,answers", *["é,b"] * 30]).encode()
        )
        assert resources.samples(config(**local), "popqa") == 30, f"{end!r} ends one line"
    (tmp_path / "data/empty.csv").touch()
    local["datasets"]["popqa"]["local"] = "empty.csv"
    assert resources.samples(config(**local), "popqa") == 0


def test_jobs_go_where_their_model_needs_them():
    several = config(models={"llama-3-8b": {"resources": {"gpus": 4}}})
    jobs = Jobs(several, Site(slurm_partition="main", gpu_partition="gpu", gpu_type="h200"))
    assert {name: value(CELL) for name, value in jobs.place().items()} == {
        "gpu": 4, "device": "auto", "slurm_partition": "gpu", "gpu_model": "h200", "nodes": 1
    }  # fmt: skip
    assert jobs.place(most_gpus=1)["gpu"](CELL) == 1, "probes need one, however large the model"
    tiny = SimpleNamespace(model="calibration-llama", dataset="popqa")
    assert {name: value(tiny) for name, value in jobs.place().items()} == {
        "gpu": 0, "device": "cpu", "slurm_partition": "main", "gpu_model": None, "nodes": None
    }  # fmt: skip


def test_activations_are_estimated_from_the_models_config(tmp_path):
    chosen, model = config(models={"llama-3-8b": {"hub": None, "local": "."}}), "llama-3-8b"
    sizes = {"num_hidden_layers": 32, "hidden_size": 4096}
    Path("config.json").write_text(json.dumps({"model_type": "llama", **sizes}))
    exact = 2000 * 10 * 2 * 32 * 4096 * 2
    assert resources.activation_bytes(chosen, model, "popqa") == exact
    assert resources.activation_bytes(config(), model, "popqa") == exact, "as published"


def test_what_cannot_be_stored_is_refused_and_what_fits_is_not(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=2_000_000_000)
    monkeypatch.setattr(around.shutil, "disk_usage", lambda path: usage)
    cells = [1_500_000_000, 1_000_000_000]
    assert around.check_room(cells, False, tmp_path / "not" / "there") == 1_500_000_000
    with pytest.raises(AnchorscopeError, match=r"about 2.5 GB; only 2.0 GB are free") as caught:
        around.check_room(cells, True, tmp_path)
    assert "keep_activations: false" in str(caught.value) and "#no-room" in str(caught.value)


def test_time_and_disk_count_the_questions_asked_and_the_answers_measured():
    chosen = config(sample_size=1300, pool_size=6000)
    assert (resources.asked(chosen, "popqa"), resources.samples(chosen, "popqa")) == (6000, 1300)
    limited = config(limit=300)
    assert (resources.asked(limited, "nq"), resources.samples(limited, "nq")) == (1500, 300)
    few, many = (
        Jobs(config(sample_size=1300, pool_size=pool), Site()).demand("passes", *CELL_KEYS, stage)
        for pool, stage in ((1300, "answers"), (6000, "answers"))
    )
    assert few["runtime"] < many["runtime"]
    few, many = (
        Jobs(config(sample_size=1300, pool_size=pool), Site()).demand("passes", *CELL_KEYS)
        for pool in (1300, 6000)
    )
    assert few == many, "passes are of the measured answers only"
