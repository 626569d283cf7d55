"""Models that ask for a GPU, on a machine without one: said before the first job, with the time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import workflow
import yaml

from anchorscope.workflow import cost
from anchorscope.workflow.config import load

BASE = yaml.safe_load((workflow.PROJECT / "config.yaml").read_text(encoding="utf-8"))
LARGE, SMALL = "llama-3.2-1b", "calibration-llama"


@pytest.fixture(autouse=True)
def no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without products, on a machine whose GPUs are hidden."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path)


def cells(*models: str, **changes: object) -> list[cost.Work]:
    config = load({**BASE, **changes})
    return [cost.Work(config.root, config, model, "popqa") for model in models]


def test_models_that_ask_for_none_are_no_matter() -> None:
    assert cost.without_gpu([]) is None
    assert cost.without_gpu(cells(SMALL)) is None


def test_the_models_and_the_time_are_said() -> None:
    said = cost.without_gpu(cells(LARGE, SMALL, LARGE))
    assert said == cost.without_gpu(cells(LARGE)), "a cell counts once, others not at all"
    # 1.24e9 weights × 2 × (2,000 answers + 16,064 rows) × some 160 tokens at 2e10 a second.
    assert said and said.startswith(f"No GPU here: {LARGE} will run on the CPU, which may take 4 d")
    assert "ANCHORSCOPE_CPU=1" in said and "--profile slurm" in said


def test_of_a_model_of_unknown_size_no_more_is_claimed_than_is_known() -> None:
    strange = {"hub": "nobody/knows", "label": "Nobody"}
    said = cost.without_gpu(cells("strange", models={**BASE["models"], "strange": strange}))
    assert said and "strange will run on the CPU, which may take at least" in said


@pytest.mark.parametrize("silenced", [False, True])
def test_a_run_says_it_before_its_first_job(fresh: workflow.Workspace, silenced: bool) -> None:
    (fresh.root / "huge.yaml").write_text("sample_size: 10000000000\n")  # so that it ends there
    environment = fresh.environment() | {"CUDA_VISIBLE_DEVICES": ""}
    if not silenced:
        del environment["ANCHORSCOPE_CPU"]
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--nocolor", "llama-3.2"]
    done = subprocess.run(
        [*command, "--configfile", "config.yaml", "huge.yaml"],
        cwd=fresh.root,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "activations take" in done.stderr and "rule dataset" not in done.stderr
    assert ("No GPU here: llama-3.2-1b," in done.stderr) != silenced, done.stderr
