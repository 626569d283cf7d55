"""The catalogue that every run has below its own keys, however its config is read."""

import pytest
import yaml
from transformers import AutoConfig
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
