"""Folders that hold more than their model takes are refused by name, not measured all the same."""

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ALL_FAMILIES, LAYERS, WIDTH, config
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForImageTextToText, AutoModelForSequenceClassification

from anchorscope.cli import cli_check
from anchorscope.config.sections import Model
from anchorscope.models import contents, families, loading
from anchorscope.storage.errors import AnchorscopeError

ENTRY = Model(local="model", prompt="plain")
Weights = dict[str, torch.Tensor]
QUERY = "model.layers.0.self_attn.q_proj"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


@pytest.fixture
def folder(checkpoint: Any, tmp_path: Path) -> Path:
    """A copy of a good Llama checkpoint, to which something is added."""
    return shutil.copytree(checkpoint("llama"), tmp_path / "model")


def edit(folder: Path, file: str = "config.json", **changes: Any) -> None:
    path = folder / file
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(content | changes), encoding="utf-8")


def add(folder: Path, name: str = "model.safetensors", **more: torch.Tensor) -> None:
    """Add tensors to a file of weights; `__` in their names is a dot."""
    path = folder / name
    held = load_file(path) if path.exists() else {}
    named = {key.replace("__", "."): tensor for key, tensor in more.items()}
    save_file(held | named, path, metadata={"format": "pt"})


def change(make: Callable[[Weights], Weights]) -> Callable[[Path], None]:
    """Return a function that applies `make` to a folder's weights."""

    def changed(folder: Path) -> None:
        path = folder / "model.safetensors"
        save_file(make(load_file(path)), path, metadata={"format": "pt"})

    return changed


def in_shards(folder: Path) -> None:
    """Write the weights as shards and an index, too."""
    held = load_file(folder / "model.safetensors")
    parts = {key: SHARDS[place % len(SHARDS)] for place, key in enumerate(held)}
    for name in SHARDS:
        part = {key: tensor for key, tensor in held.items() if parts[key] == name}
        save_file(part, folder / name, metadata={"format": "pt"})
    edit(folder, contents.INDEX, metadata={}, weight_map=parts)


def in_shards_alone(folder: Path) -> None:
    in_shards(folder)
    (folder / "model.safetensors").unlink()


def float8_with_scales(held: Weights) -> Weights:
    kind = torch.float8_e4m3fn
    small = {key: tensor.to(kind) for key, tensor in held.items() if key.endswith("proj.weight")}
    return held | small | {f"{key}_scale_inv": torch.ones(1) for key in small}


def without_the_head(held: Weights) -> Weights:
    return {key: tensor for key, tensor in held.items() if key != "lm_head.weight"}


def adapter_beside(folder: Path) -> None:
    edit(folder, "adapter_config.json", peft_type="LORA", base_model_name_or_path="a/b")
    add(folder, "adapter_model.safetensors", lora=torch.ones(2))


def elsewhere(folder: Path) -> None:
    shutil.copy(folder / "model.safetensors", folder / "other.safetensors")
    edit(folder, transformers_weights="other.safetensors")


def pickled(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


BIAS = {f"{QUERY}.bias".replace(".", "__"): torch.ones(WIDTH)}
MERGE = "merge the adapter first .`merge_and_unload`"


words = partial(edit, file="tokenizer_config.json")
REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "float8 with scales": (change(float8_with_scales), "proj.weight is of the type F8_E4M3"),
    "a bias": (partial(add, **BIAS), f"does not take 1 tensors .* such as {QUERY}.bias"),
    "a config of more layers": (partial(edit, num_hidden_layers=LAYERS + 1), "9 weights are not"),
    "no LM head, untied": (change(without_the_head), "1 weights are not in the file .*lm_head"),
    "code of its own": (
        partial(edit, architectures=["BidirectionalLlamaForCausalLM"]),
        "class BidirectionalLlamaForCausalLM, loaded would be LlamaForCausalLM",
    ),
    "an adapter beside": (adapter_beside, MERGE),
    "names with and without prefix": (
        change(lambda held: held | {"norm.weight": held["model.norm.weight"] * 2}),
        "twice, as model.norm.weight",
    ),
    "a single file beside shards": (in_shards, "two sets of weights, model.safetensors and model-"),
    "a config that names other weights": (elsewhere, "model.safetensors and other.safetensors"),
    "another family": (partial(edit, model_type="bloom"), "adapter .* 'bloom'"),
    "pickled weights": (pickled, "no weights in safetensors format"),
    "no folder": (shutil.rmtree, "no such model folder"),
    "a config of quantised weights": (
        partial(edit, quantization_config={"quant_method": "awq"}),
        "quantised .awq",
    ),
    **{
        key: (partial(edit, **{key: value}), f"this llama cannot be measured exactly: .*{key}")
        for key, value in families.NOT_EXACT
    },
    "another rope_theta": (
        partial(edit, rope_theta=5.0),
        "rope_theta is 5.0, but rope_theta of .* is 10000.0",
    ),
    "split special tokens": (partial(words, split_special_tokens=True), "splits special tokens"),
}


@pytest.mark.parametrize(("adds", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_measured_is_refused_by_check_and_on_loading(
    folder: Path, adds: Callable[[Path], None], said: str
) -> None:
    adds(folder)
    finding = cli_check.tried("model", "own", cli_check.checkpoint, folder, ENTRY, "plain")
    assert finding.status == "error" and finding.do and finding.see
    assert re.search(said, f"{finding.what} {finding.do}"), finding
    with pytest.raises(AnchorscopeError) as caught:
        loading.load(folder)
    assert caught.value.where and (caught.value.do, caught.value.see) == finding[3:]


def masks_and_frequencies(folder: Path) -> None:
    for name in ("self_attn__rotary_emb__inv_freq", "attn__bias", "attn__masked_bias"):
        add(folder, **{f"model__layers__0__{name}": torch.ones(2)})


@pytest.mark.parametrize("adds", [masks_and_frequencies, in_shards_alone])
def test_known_leftovers_and_shards_change_nothing(
    checkpoint: Any, folder: Path, adds: Callable[[Path], None]
) -> None:
    adds(folder)
    assert cli_check.checkpoint(folder, ENTRY, "plain") == str(folder)
    plain, found = (loading.load(one).model.state_dict() for one in (checkpoint("llama"), folder))
    assert plain.keys() == found.keys()
    assert all(torch.equal(plain[name], found[name]) for name in plain)


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_check_compares_the_tensors_of_every_family_by_their_headers(
    checkpoint: Any, tmp_path: Path, family: str, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    """Experts are stored one by one and loaded as one tensor."""
    folder = shutil.copytree(checkpoint(family), tmp_path / "model")
    monkeypatch.setattr("safetensors.torch.load_file", None)
    capfd.readouterr()
    loading.check(folder)
    assert capfd.readouterr() == ("", "")
    name = max(contents.tensors(folder), key=len)
    for extra in (f"{name}_scale", name.replace(".0.", f".{LAYERS}.")):
        add(folder, **{extra: torch.ones(1)})
    with pytest.raises(AnchorscopeError, match="does not take 2 tensors"):
        loading.check(folder)


def test_a_head_of_its_own_that_the_config_ties_is_refused(folder: Path) -> None:
    edit(folder, tie_word_embeddings=True)
    with pytest.raises(AnchorscopeError, match="ties the LM head") as caught:
        loading.load(folder)
    assert "tie_word_embeddings" in str(caught.value.do)
    for tied in (
        lambda held: held | {"lm_head.weight": held["model.embed_tokens.weight"].clone()},
        without_the_head,
    ):
        change(tied)(folder)
        model = loading.load(folder).model
        assert torch.equal(model.lm_head.weight, model.model.embed_tokens.weight)


def test_a_model_with_an_adapter_around_it_is_refused_at_once(load: Any) -> None:
    loaded = load("llama")
    around = type("PeftModel", (torch.nn.Module,), {"config": loaded.model.config})()
    with pytest.raises(AnchorscopeError, match=MERGE):
        loading.wrapped(around, loaded.tokenizer)


def reward(settings: dict[str, Any]) -> Any:
    return AutoModelForSequenceClassification.from_config(AutoConfig.for_model(**settings))


def reading_images(settings: dict[str, Any]) -> Any:
    vision = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    vision |= {"num_attention_heads": 1, "image_size": 8, "patch_size": 4}
    made = AutoConfig.for_model(
        "gemma3", text_config=settings, vision_config=vision, mm_tokens_per_image=4
    )
    return AutoModelForImageTextToText.from_config(made)


@pytest.mark.parametrize(
    ("make", "family", "said"),
    [(reward, "qwen2", "no LM head"), (reading_images, "gemma3_text", "also reads images")],
)
def test_a_model_in_memory_that_is_no_language_model_by_itself_is_refused(
    byte_level: Any, make: Any, family: str, said: str
) -> None:
    model = make(config(family, len(byte_level)).to_dict())
    with pytest.raises(AnchorscopeError, match=said):
        loading.wrapped(model, byte_level)
