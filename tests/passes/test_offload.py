"""A model spread over several places gives what it gives in one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conftest import LAYERS
from instrument import CLOSE, TOKENIZER, answers_table, measured, planned
from test_answers import _run

from anchorscope.models import families, loading
from anchorscope.models.families import Loaded

FAMILIES = ("llama", "qwen3", "gemma3_text", "gpt_neox")
LAST = {"gpt_neox": ("gpt_neox", "embed_in", "final_layer_norm", "lm_head")}
USUAL = ("model", "embed_tokens", "norm", "lm_head")


def spread(family: str, embedding: str = "cpu") -> dict[str, str]:
    """A device map with every other block on the disk, and the head in main memory."""
    base, first, norm, head = LAST.get(family, USUAL)
    blocks = {f"{base}.layers.{n}": ("cpu", "disk")[n % 2] for n in range(LAYERS)}
    rotary = {f"{base}.rotary_emb": "cpu"}
    return {f"{base}.{first}": embedding, **blocks, f"{base}.{norm}": "disk", **rotary, head: "cpu"}


@pytest.fixture(params=FAMILIES)
def both(request: pytest.FixtureRequest, checkpoint: Any) -> tuple[Loaded, Loaded]:
    """The model in main memory, and spread over main memory and the disk."""
    folder = checkpoint(request.param, TOKENIZER[request.param])
    return loading.load(folder), loading.load(folder, device=spread(request.param))


def on_disk(loaded: Loaded) -> set[int]:
    """Blocks whose weights are not in memory."""
    return {
        number
        for number, layer in enumerate(families.layers(loaded))
        if all(weight.device.type == "meta" for weight in layer.parameters())
    }


def test_a_model_on_cpu_and_disk_measures_what_the_whole_one_does(
    both: tuple[Loaded, Loaded],
) -> None:
    whole, parted = both
    assert (on_disk(whole), on_disk(parted)) == (set(), {1, 3})
    plan = planned(answers_table(whole.tokenizer))
    expected, found = measured(whole, plan), measured(parted, plan)
    assert set(found) == set(expected)
    for name, states in expected.items():
        torch.testing.assert_close(found[name], states, **CLOSE)
    assert on_disk(parted) == {1, 3}, "blocks leave memory when their turn is over"


def test_a_model_on_cpu_and_disk_gives_the_same_answers(both: tuple[Loaded, Loaded]) -> None:
    (expected, counts), (found, others) = (_run(loaded) for loaded in both)
    assert [list(ids) for ids in found["input_ids"]] == [list(i) for i in expected["input_ids"]]
    assert list(found["ea_text"]) == list(expected["ea_text"])
    assert counts == others


def test_an_embedding_on_the_disk_still_says_where_the_ids_belong(checkpoint: Any) -> None:
    loaded = loading.load(checkpoint("qwen3"), device=spread("qwen3", embedding="disk"))
    assert loaded.device == torch.device("cpu")
    plan = planned(answers_table(loaded.tokenizer).head(2))
    whole = measured(loading.load(checkpoint("qwen3")), plan)
    for name, states in measured(loaded, plan).items():
        torch.testing.assert_close(states, whole[name], **CLOSE)
