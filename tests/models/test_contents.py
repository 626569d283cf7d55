"""Folders that hold more than their model takes are refused by name, not measured all the same."""

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import ALL_FAMILIES, LAYERS, WIDTH, config
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForImageTextToText, AutoModelForSequenceClassification

from anchorscope.cli import check
from anchorscope.config.sections import Model
from anchorscope.models import contents, families, loading
from anchorscope.storage.errors import AnchorscopeError

ENTRY = Model(local="model", prompt="plain")
Weights = dict[str, torch.Tensor]
QUERY = "model.layers.0.self_attn.q_proj"
THREE = tuple(f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3))
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


def in_shards(folder: Path, names: tuple[str, ...] = SHARDS) -> None:
    """Write the weights as shards and an index, too."""
    held = load_file(folder / "model.safetensors")
    parts = {key: names[place % len(names)] for place, key in enumerate(held)}
    for name in names:
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


def packed_as_gptq_does(held: Weights) -> Weights:
    packed = {f"{QUERY}.qweight": torch.zeros(4, WIDTH, dtype=torch.int32)}
    packed |= {f"{QUERY}.scales": torch.ones(1, WIDTH, dtype=torch.float16)}
    return {key: tensor for key, tensor in held.items() if not key.startswith(QUERY)} | packed


def saved_with_its_adapter(held: Weights) -> Weights:
    base = held.pop(f"{QUERY}.weight")
    factors = {f"{QUERY}.lora_{name}.default.weight": torch.ones(2, WIDTH) for name in "AB"}
    return held | factors | {f"{QUERY}.base_layer.weight": base}


def without_the_head(held: Weights) -> Weights:
    return {key: tensor for key, tensor in held.items() if key != "lm_head.weight"}


def gptq(folder: Path) -> None:
    change(packed_as_gptq_does)(folder)
    edit(folder, "quantize_config.json", bits=4)


def adapter_beside(folder: Path) -> None:
    edit(folder, "adapter_config.json", peft_type="LORA", base_model_name_or_path="a/b")
    add(folder, "adapter_model.safetensors", lora=torch.ones(2))


def adapter_alone(folder: Path) -> None:
    adapter_beside(folder)
    for name in ("config.json", "model.safetensors"):
        (folder / name).unlink()


def stale_shards(folder: Path) -> None:
    in_shards_alone(folder)
    shutil.copy(folder / SHARDS[0], folder / "model-00001-of-00003.safetensors")


def a_tensor_in_two_shards(folder: Path) -> None:
    in_shards_alone(folder)
    add(folder, SHARDS[0], **load_file(folder / SHARDS[1]))


def index_of_shards_that_are_gone(folder: Path) -> None:
    in_shards(folder)
    for name in SHARDS:
        (folder / name).unlink()


def a_broken_index(folder: Path, text: str) -> None:
    in_shards_alone(folder)
    (folder / contents.INDEX).write_text(text, encoding="utf-8")


def elsewhere(folder: Path) -> None:
    shutil.copy(folder / "model.safetensors", folder / "other.safetensors")
    edit(folder, transformers_weights="other.safetensors")


def pickled(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def without(name: str) -> Callable[[Path], None]:
    """Return a function that removes a file from a folder."""
    return lambda folder: (folder / name).unlink()


def written(name: str, text: str) -> Callable[[Path], None]:
    """Return a function that overwrites a file of a folder."""

    def write(folder: Path) -> None:
        (folder / name).write_text(text, encoding="utf-8")

    return write


def indexed(*parts: str, there: Sequence[str] = ()) -> Callable[[Path], None]:
    """Return a function that replaces weights by an index of parts, some of them empty files."""

    def index(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        edit(folder, contents.INDEX, weight_map=dict(zip("abc", parts, strict=False)))
        for name in there:
            (folder / name).touch()

    return index


EIGHT_BITS = {f"{QUERY}.weight": torch.ones(WIDTH, WIDTH, dtype=torch.int8)}
BIAS = {f"{QUERY}.bias".replace(".", "__"): torch.ones(WIDTH)}
MORE_LAYERS = {f"model__layers__{LAYERS}__mlp__up_proj__weight": torch.ones(2, 2)}
MERGE = "merge the adapter first .`merge_and_unload`"


words = partial(edit, file="tokenizer_config.json")
REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "float8 with scales": (change(float8_with_scales), "proj.weight is of the type F8_E4M3"),
    "int8": (partial(add, **EIGHT_BITS), f"quantised: {QUERY}.weight is of the type I8"),
    "GPTQ beside its own config": (gptq, f"quantised: {QUERY}.qweight is of the type I32"),
    "a bias": (partial(add, **BIAS), f"does not use 1 tensors .* such as {QUERY}.bias"),
    "a value head": (partial(add, v_head__weight=torch.ones(1, 2)), "such as v_head.weight"),
    "a reward head": (partial(add, score__weight=torch.ones(1, WIDTH)), "such as score.weight"),
    "one layer more": (partial(add, **MORE_LAYERS), f"such as model.layers.{LAYERS}.mlp"),
    "a config of fewer layers": (partial(edit, num_hidden_layers=LAYERS - 1), "not use 9 tensors"),
    "a config of more layers": (partial(edit, num_hidden_layers=LAYERS + 1), "9 weights, missing"),
    "a config of other sizes": (partial(edit, intermediate_size=WIDTH), "cannot be loaded"),
    "no LM head, untied": (change(without_the_head), "1 weights, missing .*lm_head"),
    "code of its own": (
        partial(edit, architectures=["BidirectionalLlamaForCausalLM"]),
        "class BidirectionalLlamaForCausalLM, but LlamaForCausalLM would be loaded",
    ),
    "a classifier": (partial(edit, architectures=["LlamaForSequenceClassification"]), "LlamaForS"),
    "a base model": (partial(edit, architectures=["LlamaModel"]), "names the class LlamaModel"),
    "an adapter beside": (adapter_beside, MERGE),
    "an adapter alone": (adapter_alone, MERGE),
    "an adapter without its config": (
        partial(add, name="adapter_model.safetensors", a=torch.ones(1)),
        MERGE,
    ),
    "an adapter inside": (change(saved_with_its_adapter), MERGE),
    "names with and without prefix": (
        change(lambda held: held | {"norm.weight": held["model.norm.weight"] * 2}),
        "twice, as model.norm.weight",
    ),
    "an index that is a list": (partial(a_broken_index, text="[]"), "cannot be loaded"),
    "an index cut short": (partial(a_broken_index, text="{"), "cannot be loaded"),
    "a single file beside shards": (in_shards, "two sets of weights, model.safetensors and model-"),
    "the index of shards that are gone": (index_of_shards_that_are_gone, "two sets of weights"),
    "shards of a distributed run": (
        partial(add, name="shard-00001-model-00001-of-00001.safetensors", a=torch.ones(1)),
        "two sets of weights, model.safetensors and shard-00001",
    ),
    "shards of an earlier save": (stale_shards, "two sets of weights, .* and model-00001-of-00003"),
    "a tensor in two shards": (a_tensor_in_two_shards, "two files hold the tensor"),
    "a config that names other weights": (elsewhere, "model.safetensors and other.safetensors"),
    "a file cut short": (
        lambda folder: os.truncate(folder / "model.safetensors", 5000),
        "cannot be loaded",
    ),
    "an encoder and decoder": (partial(edit, model_type="t5"), "no causal language model .*'t5'"),
    "an encoder": (partial(edit, model_type="bert"), "'bert' is an encoder"),
    "no positions": (
        partial(edit, model_type="bloom", architectures=None),
        "takes no `position_ids`, so no token can be left out",
    ),
    "a config without a family": (written("config.json", "{}"), "names no model_type"),
    "a broken config": (written("config.json", "{"), "config.json cannot be read"),
    "no config": (without("config.json"), "config.json cannot be read"),
    "no tokenizer": (without("tokenizer.json"), "no tokenizer"),
    "no weights": (without("model.safetensors"), "lacks model.safetensors [(]"),
    "pickled weights": (pickled, "no weights in safetensors format"),
    "a shard less": (
        indexed(*THREE, there=THREE[::2]),
        "lacks model-00002-of-00003.safetensors .*copy what is missing",
    ),
    "parts elsewhere": (indexed("../other.safetensors"), "other.safetensors, which lies outside"),
    "no folder": (shutil.rmtree, "no such model folder"),
    **{
        kind: (partial(edit, quantization_config={"quant_method": kind}), f"quantised .{kind}")
        for kind in ("bitsandbytes", "awq", "gptq", "compressed-tensors", "fp8")
    },
    **{
        key: (partial(edit, **{key: value}), f"this llama cannot be measured exactly: .*{key}")
        for key, value in families.NOT_EXACT
    },
    "another rope_theta": (
        partial(edit, rope_theta=5.0),
        "rope_theta is 5.0, but rope_theta of .* is 10000.0",
    ),
    "another rope_scaling": (
        partial(edit, rope_scaling={"type": "linear", "factor": 2.0}),
        "type is 'linear', but rope_type of .* is 'default'",
    ),
    "split special tokens": (partial(words, split_special_tokens=True), "splits special tokens"),
    "a start token without a name": (partial(words, add_bos_token=True), "no `bos_token`"),
}


@pytest.mark.parametrize(("adds", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_measured_is_refused_by_check_and_on_loading(
    folder: Path, adds: Callable[[Path], None], said: str
) -> None:
    adds(folder)
    finding = check.tried("model", "own", check.checkpoint, folder, ENTRY, "plain")
    assert finding.status == "error" and finding.do and finding.see
    assert re.search(said, f"{finding.what} {finding.do}"), finding
    with pytest.raises(AnchorscopeError) as caught:
        loading.load(folder)
    assert caught.value.where and (caught.value.do, caught.value.see) == finding[3:]


def masks_and_frequencies(folder: Path) -> None:
    start = "model__layers__0__"
    names = ("self_attn__rotary_emb__inv_freq", "attn__bias", "attn__masked_bias", "position_ids")
    kinds = (torch.float32, torch.bool, torch.float32, torch.int64)
    masks = zip(names, kinds, strict=True)
    add(folder, **{start + name: torch.ones(2, dtype=kind) for name, kind in masks})


def files_that_are_not_read(folder: Path) -> None:
    for name in ("consolidated.safetensors", "optimizer.safetensors"):
        add(folder, name, a=torch.ones(1))
    for name in ("training_args.bin", "optimizer.pt", "trainer_state.json"):
        (folder / name).touch()


@pytest.mark.parametrize(
    "adds",
    [
        masks_and_frequencies,
        files_that_are_not_read,
        in_shards_alone,
        partial(edit, architectures=None),
        partial(edit, auto_map={"AutoModelForCausalLM": "modeling_llama.LlamaForCausalLM"}),
        partial(edit, file=contents.INDEX, weight_map={"lm_head.weight": "model.safetensors"}),
        partial(edit, file="quantize_config.json", bits=4),
    ],
)
def test_known_leftovers_change_nothing(
    checkpoint: Any, folder: Path, adds: Callable[[Path], None]
) -> None:
    adds(folder)
    assert check.checkpoint(folder, ENTRY, "plain") == str(folder)
    ids = torch.arange(20, 30)[None]
    with torch.inference_mode():
        plain, found = (
            loading.load(one).model(ids).logits for one in (checkpoint("llama"), folder)
        )
    assert torch.equal(plain, found)


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_check_compares_the_tensors_of_every_family_by_their_headers(
    checkpoint: Any, tmp_path: Path, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Experts are stored one by one and loaded as one tensor."""
    folder = shutil.copytree(checkpoint(family), tmp_path / "model")
    monkeypatch.setattr("safetensors.torch.load_file", None)
    loading.check(folder)
    if family in ("phi3", "falcon"):
        name = json.loads((folder / "config.json").read_text())["architectures"][0]
        edit(folder, auto_map={"AutoModelForCausalLM": f"modeling.{name}"})
        loading.check(folder)
    name = max(contents.tensors(folder), key=len)
    for extra in (f"{name}_scale", name.replace(".0.", f".{LAYERS}.")):
        add(folder, **{extra: torch.ones(1)})
    with pytest.raises(AnchorscopeError, match="does not use 2 tensors"):
        loading.check(folder)


def test_pickled_weights_newer_than_those_read_are_named_by_check(folder: Path) -> None:
    chosen: Any = SimpleNamespace(models={"own": ENTRY.model_copy(update={"local": str(folder)})})
    (folder / "pytorch_model.bin").touch()
    os.utime(folder / "pytorch_model.bin", (1, 1))
    assert [one.status for one in check.model(chosen, "own")] == ["ok"]
    (folder / "pytorch_model.bin").touch()
    (folder / "optimizer.pt").touch()
    os.utime(folder / "model.safetensors", (1, 1))
    read, ignored = check.model(chosen, "own")
    assert (read.status, ignored.status) == ("ok", "warning")
    assert "but not read: pytorch_model.bin" in ignored.what and ignored.do


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


def test_check_prints_nothing_of_the_comparison(folder: Path, capfd: Any) -> None:
    add(folder, extra=torch.ones(1))
    with pytest.raises(AnchorscopeError):
        contents.check_tensors(folder)
    assert capfd.readouterr() == ("", "")


class PeftModel(torch.nn.Module):
    """A wrapper like that of peft, which forwards unknown attributes to the model."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.config = model.config


class PeftModelForCausalLM(PeftModel):
    """The kind of it for language models."""


@pytest.mark.parametrize("kind", [PeftModel, PeftModelForCausalLM])
def test_a_model_with_an_adapter_around_it_is_refused_at_once(load: Any, kind: Any) -> None:
    loaded = load("llama")
    with pytest.raises(AnchorscopeError, match=MERGE) as caught:
        loading.wrapped(kind(loaded.model), loaded.tokenizer)
    assert caught.value.where == kind.__name__


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
    ("make", "said"), [(reward, "no LM head"), (reading_images, "also reads images")]
)
def test_a_model_in_memory_that_is_no_language_model_by_itself_is_refused(
    byte_level: Any, make: Any, said: str
) -> None:
    family = {reward: "qwen2", reading_images: "gemma3_text"}[make]
    model = make(config(family, len(byte_level)).to_dict())
    with pytest.raises(AnchorscopeError, match=said):
        loading.wrapped(model, byte_level)
