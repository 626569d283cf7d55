"""Checkpoints: where a model lies, and loading it with nothing made up on the way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anchorscope.models import families, vocabulary
from anchorscope.models.families import FAMILIES, NOT_EXACT, TEXT_INSIDE, Family, Loaded
from anchorscope.questions import hub, revisions
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import digest, read_json

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

WANTED_FILES = ("*.safetensors", "*.json", "*.model", "*.txt", "*.jinja")
UNWANTED_FILES = ("original/*", "consolidated*", "onnx/*", "*.gguf")
RECIPE = "recipe.json"
KEPT_FREE = 0.15
"""Share of each of several GPUs that no weights take."""


def load(
    folder: str | Path, *, dtype: str = "float32", device: str = "cpu", attention: str = "sdpa"
) -> Loaded:
    """Load a checkpoint from a folder, without touching the network.

    `dtype` is `float32`, `bfloat16` or `float16`; `device` is `cpu`, `cuda`, `cuda:1`, ..., or
    `auto` to spread the layers over all GPUs, `auto:0,2` over some; `attention` is `sdpa`, or
    `eager`, whose weights can be read and differentiated. Raises AnchorscopeError: anything
    missing, of an unknown family, or not what the weights say.
    """
    folder = Path(folder).expanduser()
    check(folder)
    placed, tokenizer = _placed(device), vocabulary.load(folder)
    vocabulary.check_begin(tokenizer, folder)
    vocabulary.differences(tokenizer, folder)
    return wrapped(_weights(folder, dtype, placed, attention), tokenizer, folder)


def wrapped(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, where: object = None
) -> Loaded:
    """A model that is in memory, such as one of the user's own, as `load` gives it.

    Errors name `where`, by default the model's class. Raises AnchorscopeError: a family without
    adapter, a slow tokenizer, one of another vocabulary.
    """
    where = where or type(model).__name__
    family = _measurable(model.config.to_dict(), model.config.model_type, where)
    vocabulary.check_fast(tokenizer, where)
    rows = len(model.get_input_embeddings().get_parameter("weight"))
    vocabulary.check_size(tokenizer, rows, where)
    without_cudnn()
    model = model.eval().requires_grad_(False)
    window, device = families.window(model.config), families.device_of(model)
    return Loaded(model, tokenizer, family, window, device)


def check(folder: str | Path) -> None:
    """Refuse at once what `load` would refuse later; no weights are read.

    Raises AnchorscopeError: no folder, no config, a family without adapter, no tokenizer, no
    safetensors.
    """
    folder = Path(folder)
    if not folder.is_dir():
        do = "check `local` in config.yaml"
        if "snapshots" in folder.parts:  # a folder in the hub's cache, found by `fetch`
            do = "the hub's cache was pruned: delete results/models/<model>.json and run again"
        raise AnchorscopeError("there is no such model folder", folder, do, see="no-checkpoint")
    _check_config(folder)
    vocabulary.check_files(folder)
    if not any(folder.glob("*.safetensors")):
        what = "the model has no weights in safetensors format"
        do = (
            "save it with `save_pretrained`, which writes model.safetensors; "
            "pickled weights (.bin, .pt) are not read because they can run code"
        )
        raise AnchorscopeError(what, folder, do, see="no-safetensors")
    index = folder / "model.safetensors.index.json"
    named = read_json(index).get("weight_map", {}).values() if index.is_file() else ()
    if outside := [name for name in named if Path(name).name != name]:
        what = f"the index names {outside[0]}, which lies outside of the checkpoint's folder"
        raise AnchorscopeError(what, index, "download the model again", see="no-checkpoint")


def without_cudnn() -> None:
    """Keep a GPU from attending by cuDNN.

    With an explicit mask it plans anew for every shape, and our shapes change from call to call.
    """
    from torch.backends import cuda

    cuda.enable_cudnn_sdp(False)


def attention_of(loaded: Loaded) -> str:
    """What attends, for the record: on a GPU with the back-ends that torch may choose from."""
    from torch.backends import cuda

    name = str(loaded.model.config._attn_implementation)
    if loaded.device.type != "cuda":
        return name
    backends = ("flash", "mem_efficient", "math", "cudnn")
    return f"{name}: {', '.join(b for b in backends if getattr(cuda, f'{b}_sdp_enabled')())}"


def fetch(hub_id: str, revision: str | None = None) -> tuple[Path, str]:
    """Download the safetensors, tokenizer and config files of a model, or find them in the cache.

    Honours `HF_HOME`, `HF_TOKEN` and `HF_HUB_OFFLINE`. Returns the folder, and the commit it holds.
    Raises AnchorscopeError: gated, missing, no such revision, or no network.
    """
    from huggingface_hub import snapshot_download

    files: Any = {"allow_patterns": [*WANTED_FILES], "ignore_patterns": [*UNWANTED_FILES]}
    download = partial(snapshot_download, hub_id, revision=revision, **files)
    path = Path(hub.fetch(download, "model", hub.place(hub_id, revision)))
    return path, path.name


def fits(folder: str | Path, recipe: str) -> bool:
    """Whether the trained checkpoint in `folder` was made by the recipe of this hash."""
    marker = Path(folder) / RECIPE
    return marker.is_file() and read_json(marker).get("recipe") == recipe


def parts(folder: str | Path) -> list[Path]:
    """The files of a checkpoint folder that decide numbers: config, weights, tokenizer."""
    found = {p for pattern in WANTED_FILES for p in Path(folder).expanduser().glob(pattern)}
    return sorted(path for path in found if path.is_file() and not path.name.startswith("."))


def locate(
    model: Mapping[str, Any], trained: str | Path | None = None, recipe: str | None = None
) -> dict[str, Any]:
    """Where the model of a catalogue entry lies; a hub model is downloaded first.

    Of a model that is trained, `trained` is the folder and `recipe` the hash of its recipe.

    Returns:
        `path` (a folder), `revision` (commit of a hub model, recipe hash of a trained one, of a
        local one the digest of its files), `source`; for a trained one `content`, the digest of its
        files.

    Raises:
        AnchorscopeError: gated, missing, no network, nothing in the folder that could be
            measured, or a checkpoint of another recipe.
    """
    if model.get("hub"):
        asked = model.get("revision")
        path, commit = fetch(model["hub"], revisions.wanted("models", model["hub"], asked))
        check(path)
        revisions.keep("models", model["hub"], commit, asked)
        return {"path": str(path), "revision": commit, "source": model["hub"]}
    if trained is not None:
        if not fits(trained, recipe or ""):
            what = f"this checkpoint was not trained by the present recipe ({recipe})"
            do = "delete its folder and run snakemake again, which trains it"
            raise AnchorscopeError(what, Path(trained) / RECIPE, do, see="other-recipe")
        made = {"path": str(trained), "revision": recipe, "source": "trained"}
        return made | {"content": digest(parts(trained))}
    folder = Path(model["local"]).expanduser()
    check(folder)
    return {"path": str(folder.resolve()), "revision": digest(parts(folder)), "source": "local"}


def _check_config(folder: Path) -> None:
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        _measurable({**config, **config.get("text_config", {})}, config["model_type"], path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"config.json cannot be read or names no model_type ({type(error).__name__})"
        do = "save the model with `save_pretrained`"
        raise AnchorscopeError(what, path, do, see="no-checkpoint") from error


def _measurable(config: Mapping[str, Any], model_type: str, where: object) -> Family:
    """The family of a config; refused where there is none, or its passes would not be exact."""
    family = FAMILIES.get(TEXT_INSIDE.get(model_type, model_type))
    if family is None:
        what = f"there is no adapter for the model family {model_type!r}"
        do = (
            f"choose one of {', '.join(sorted([*FAMILIES, *TEXT_INSIDE]))}, or add it to FAMILIES "
            "in anchorscope/models/families.py and to the parity tests"
        )
        raise AnchorscopeError(what, where, do, see="unknown-family")
    for name, why in NOT_EXACT.items():
        if config.get(name):
            what = f"this {model_type} cannot be measured exactly: {why} ({name} in its config)"
            do = "choose another model of the family"
            raise AnchorscopeError(what, where, do, see="unknown-family")
    return family


def _weights(
    folder: Path, dtype: str, placed: Mapping[str, Any], attention: str
) -> PreTrainedModel:
    import torch
    from transformers import AutoModelForCausalLM

    what, do = "the model does not fit on the GPU", "ask for more GPUs, or dtype: bfloat16"
    no_room = AnchorscopeError(what, folder, do, see="out-of-memory")
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=getattr(torch, dtype),
            attn_implementation=attention,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
            **placed,
            **_text_inside(folder),
        )
    except torch.cuda.OutOfMemoryError as error:
        raise no_room from error
    except Exception as error:  # safetensors, json and shape errors share no base class
        first_line = next(iter(str(error).strip().splitlines()), "")[:200]
        what = f"the weights cannot be loaded ({type(error).__name__}: {first_line})"
        do = "download or save the model again; the files may be cut short"
        raise AnchorscopeError(what, folder, do, see="broken-weights") from error
    model, info = loaded
    if "disk" in getattr(model, "hf_device_map", {}).values():  # where `auto` puts what is over
        raise no_room
    if made_up := [*sorted(info["missing_keys"]), *sorted(map(str, info["mismatched_keys"]))]:
        first = ", ".join(made_up[:3])
        what = f"{len(made_up)} weights are not in the file and would be random, the first: {first}"
        do = "save the whole causal language model (with its LM head) with `save_pretrained`"
        raise AnchorscopeError(what, folder, do, see="made-up-weights")
    return model


def _text_inside(folder: Path) -> dict[str, Any]:
    """What loads the language model alone, where a checkpoint holds more; its names are older."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    if config.model_type not in TEXT_INSIDE:
        return {}
    names = {r"^(model\.language_model|language_model\.model)\.": "model.",
             r"^language_model\.lm_head": "lm_head"}  # fmt: skip
    return {"config": config.get_text_config(), "key_mapping": names}


def _placed(device: str) -> dict[str, Any]:
    """What accelerate is told: where the layers go, and how many bytes some places hold.

    One device gets its weights straight from the files, not through all of main memory. Of several
    GPUs a share of each is kept free for the passes.
    """
    import torch

    kind, _, numbers = device.partition(":")
    if kind == "cpu":
        return {}
    if not torch.cuda.is_available():
        do = "run with device cpu, or on a GPU node"
        raise AnchorscopeError("there is no usable GPU", f"device {device}", do, see="no-gpu")
    if kind != "auto":
        return {"device_map": {"": device}}
    gpus = [int(n) for n in numbers.split(",")] if numbers else range(torch.cuda.device_count())
    most = {gpu: int((1 - KEPT_FREE) * torch.cuda.mem_get_info(gpu)[0]) for gpu in gpus}
    return {"device_map": "auto", "max_memory": most}
