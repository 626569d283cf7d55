"""The catalogue that every run has below its own keys, however its config is read."""

import pytest
import torch
import yaml
from transformers import AutoConfig, AutoModelForCausalLM
from workflow import PROJECT, SHIPPED

from anchorscope.config import shipped
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow.config import load

OWN = yaml.safe_load((PROJECT / "config.yaml").read_text("utf-8"))
ROWS = {"local": "rows.jsonl", "fields": {"question": "q", "answers": ["a"]}}


def test_a_config_of_settings_alone_has_the_models_and_null_controls():
    found = load({"targets": ["mine"], "figures": {"mine": figure("hard-qwen3", "world-search")}})
    assert found.models["qwen3-4b"].hub == "Qwen/Qwen3-4B"
    assert found.calibration.nulls.keys() == load(SHIPPED).calibration.nulls.keys()


def test_a_key_of_the_users_wins_and_the_rest_of_the_entry_stays():
    given = {"mistral-7b-v0.1": {"local": "folder", "hub": None}}
    model = load(OWN | {"models": OWN["models"] | given}).models["mistral-7b-v0.1"]
    assert (model.local, model.hub, model.label) == ("folder", None, "Mistral-7B-v0.1")


def test_a_shipped_figure_that_cannot_be_drawn_is_left_out_and_one_of_the_users_is_refused():
    bare = {"targets": ["mine"], "datasets": {"rows": ROWS}}
    own = bare | {"figures": {"mine": figure("llama-3-8b", "rows")}}
    assert list(load(own).figures) == ["mine"]
    elsewhere = OWN | {"readouts": ["attn/final"], "targets": ["mine"]}
    elsewhere["figures"] = {"mine": figure("llama-3-8b", "nq") | {"readout": "attn/final"}}
    assert list(load(elsewhere).figures) == ["mine"]
    with pytest.raises(AnchorscopeError, match="figures.mistral.datasets.0.*`popqa`"):
        load(own | {"figures": {"mistral": {}} | own["figures"]})


def figure(model: str, dataset: str) -> dict[str, object]:
    return {"models": [model], "datasets": [dataset]}


def test_every_model_of_the_hub_has_a_published_shape_that_transformers_knows():
    from_hub = {name for name, model in load(SHIPPED).models.items() if model.hub}
    assert from_hub == {*shipped.shapes()}
    for name in shipped.shapes():
        given = shipped.shape_of(name)
        config = AutoConfig.for_model(**given).to_dict()
        assert {key: config[key] for key in given} == given, name


@pytest.mark.parametrize(
    ("name", "billions"),
    [("llama-3.2-1b", 1.24), ("llama-3-70b", 70.55), ("mistral-7b-v0.3", 7.25),
     ("qwen3-32b", 32.76), ("smollm2-360m", 0.362)],
)  # fmt: skip
def test_shapes_have_the_published_number_of_parameters(name, billions):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**shipped.shape_of(name)))
    assert model.num_parameters() / 1e9 == pytest.approx(billions, rel=0.005)
