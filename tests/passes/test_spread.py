"""A model spread over several places by accelerate's hooks gives what it gives in one."""

from typing import Any

import pytest
import torch
from accelerate import dispatch_model
from conftest import LAYERS
from instrument import TOKENIZER, answers_table, assert_alike, measured, planned
from test_answers import _run

from anchorscope.models import families, loading
from anchorscope.models.families import Loaded

PARTS = {
    "llama": ("model", "embed_tokens", "norm", "lm_head"),
    "gpt_neox": ("gpt_neox", "embed_in", "final_layer_norm", "lm_head"),
}


@pytest.fixture(params=PARTS)
def both(request: pytest.FixtureRequest, checkpoint: Any, tmp_path: Any) -> tuple[Loaded, Loaded]:
    """The model whole, and with every other block brought to memory for its turn only."""
    folder = checkpoint(request.param, TOKENIZER[request.param])
    whole, parted = loading.load(folder), loading.load(folder)
    base, embedding, norm, head = PARTS[request.param]
    places = {f"{base}.layers.{n}": ("cpu", "disk")[n % 2] for n in range(LAYERS)}
    places |= {f"{base}.{part}": "cpu" for part in (embedding, norm, "rotary_emb")}
    model = dispatch_model(parted.model, {**places, head: "cpu"}, offload_dir=tmp_path)
    return whole, loading.wrapped(model, parted.tokenizer)


def test_a_model_in_parts_measures_and_answers_as_the_whole_one(both: Any) -> None:
    whole, parted = both
    waiting = [
        all(weight.device.type == "meta" for weight in layer.parameters())
        for layer in families.layers(parted)
    ]
    assert waiting == [False, True] * (LAYERS // 2)
    assert parted.device == torch.device("cpu")
    plan = planned(answers_table(whole.tokenizer))
    assert_alike(measured(parted, plan), measured(whole, plan))
    (expected, counts), (found, others) = (_run(loaded) for loaded in both)
    assert found["input_ids"].tolist() == expected["input_ids"].tolist()
    assert counts == others
