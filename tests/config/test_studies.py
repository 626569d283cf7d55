"""Studies: other settings in a root of their own, sharing whatever those settings leave alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from anchorscope.workflow import config, studies

ROOT = Path(__file__).parents[2]
CONFIG = config.load(yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def found() -> dict[str, studies.Study]:
    return studies.of(CONFIG)


def test_the_main_study_comes_first_and_owns_every_stage(found: dict[str, studies.Study]) -> None:
    root, main = next(iter(found.items()))
    assert root == CONFIG.root
    assert main.config == CONFIG
    assert all(main.owns(stage) for stage in studies.STAGES)


def test_calibration_measures_more_of_the_same_answers(found: dict[str, studies.Study]) -> None:
    study = found["results/calibration"]
    assert not study.owns("answers")
    assert study.owns("activations")
    assert len(study.config.readouts) == 12
    conditions = study.config.conditions
    assert conditions.random is not None
    assert conditions.random.draws == CONFIG.calibration.random_draws
    assert conditions.matched is not None and conditions.placebo is not None
    assert conditions.replicate is not None
    assert conditions.question == CONFIG.conditions.question
    assert study.config.probe == CONFIG.probe.model_copy(update={"refits": 0})


def test_a_few_shot_model_in_the_calibration_gets_prompts_of_its_own() -> None:
    entry = CONFIG.models["calibration-llama"].model_copy(update={"prompt": "few_shot"})
    changed = CONFIG.model_copy(update={"models": {**CONFIG.models, "calibration-llama": entry}})
    assert studies.of(changed)["results/calibration"].owns("prompts")


@pytest.mark.parametrize(
    ("variant", "first"),
    [
        ("penalty-0.1", "scores"),
        ("penalty-10", "scores"),
        ("prior-natural", "scores"),
        ("disjoint-subject-answer", "scores"),
        ("anchors-subject", "prompts"),
        ("blocks-answer", "activations"),
        ("finder-offline", "prompts"),
    ],
)
def test_a_variant_starts_where_its_choice_first_matters(
    found: dict[str, studies.Study], variant: str, first: str
) -> None:
    study = found[f"results/sensitivity/{variant}"]
    assert study.first == first
    assert study.config != CONFIG


def test_a_config_without_the_calibration_models_has_no_such_cells() -> None:
    raw = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    del raw["calibration"], raw["sensitivity"], raw["figures"]["demo"]
    raw["models"] = {name: model for name, model in raw["models"].items() if "hub" in model}
    raw["targets"] = ["llama-3.2"]
    own = config.load(raw)
    assert own.calibrated() == []
    assert "results/calibration" in studies.of(own)


def test_variants_and_no_other_study_vary(found: dict[str, studies.Study]) -> None:
    varied = [root for root in found if studies.varies(root)]
    assert varied == [*studies.sensitivity_roots(CONFIG).values()]


def test_every_study_of_a_limited_run_lies_under_its_root() -> None:
    limited = CONFIG.model_copy(update={"limit": 50})
    assert all(root.startswith("results/limit-50") for root in studies.of(limited))
