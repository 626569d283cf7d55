"""Check that a checkpoint's folder holds exactly the tensors of its model, without reading them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anchorscope.models.families import NOT_TEXT, also_reads_images, text_config
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_json

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARD = re.compile(r"(?:shard-\d+-)?model-\d+-of-\d+\.safetensors")
"""Names of files that transformers reads as parts of a model."""
PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth")
FLOATS = frozenset(("F64", "F32", "F16", "BF16"))
LEFTOVERS = re.compile(
    r"(?:^|\.)(?:rotary_emb\.inv_freq|position_ids|(?:attn|attention)\.(?:masked_)?bias)$"
)
"""Names of tensors (positions, masks) that older transformers saved; models now compute them."""
MERGE = "merge the adapter first (`merge_and_unload` of peft), and save the model it gives"
LORA = ".lora_"
"""Part of the names of tensors that peft adds inside a model."""


def weights(folder: Path) -> list[str]:
    """Return the names of the files that hold the weights, whether or not they are there.

    Raises:
        AnchorscopeError: The index names a file outside of the folder.
    """
    index = folder / INDEX
    if (folder / SINGLE).is_file() or not index.is_file():
        shards = any(folder.glob("model-*.safetensors"))
        return [INDEX if shards and not (folder / SINGLE).is_file() else SINGLE]
    names = sorted(_indexed(index))
    if outside := [name for name in names if Path(name).name != name]:
        what = f"the index names {outside[0]}, which lies outside of the checkpoint's folder"
        raise AnchorscopeError(what, index, "download the model again", see="no-checkpoint")
    return names


def _indexed(index: Path) -> set[str]:
    """Return the file names that the file `index` lists; an empty set if there is no such file."""
    if not index.is_file():
        return set()
    try:
        return {*json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise broken(index, error) from error


def check_once(folder: Path) -> None:
    """Refuse a folder with a second set of weight files, present or only named in a JSON file."""
    read = {*weights(folder)}
    shards = {path.name for path in folder.iterdir() if SHARD.fullmatch(path.name)}
    chosen = read_json(folder / "config.json").get("transformers_weights")
    others = (shards | _indexed(folder / INDEX) | ({chosen} if chosen else set())) - read
    if others:
        what = f"the folder has two sets of weights, {min(read)} and {min(others)}"
        do = f"delete the set that is not the model's, and {INDEX} if it names those files"
        raise AnchorscopeError(what, folder, do, see="weights-twice")


def check_adapter(folder: Path) -> None:
    """Refuse a folder with an adapter, which transformers applies only if peft is installed."""
    if found := [*folder.glob("adapter_config.json"), *folder.glob("adapter_model.*")]:
        what = "the folder holds an adapter, which changes the model that it was trained on"
        raise AnchorscopeError(what, found[0], MERGE, see="adapter")


def newer_pickles(folder: Path) -> list[str]:
    """Return the names of pickled weights that are newer than every safetensors file."""
    read = [folder / name for name in weights(folder)]
    if not all(path.is_file() for path in read):
        return []
    newest = max(path.stat().st_mtime for path in read)
    pickled = sorted(folder.glob(PICKLES[0]))
    return [path.name for path in pickled if path.stat().st_mtime > newest]


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    """Return name → tensor without values (on the device `meta`). Leave out `LEFTOVERS`.

    Raises:
        AnchorscopeError: A file is cut short, two files hold the same tensor, or the weights are
            quantised.
    """
    import torch

    found: dict[str, torch.Tensor] = {}
    for name in weights(folder):
        for key, (dtype, shape) in _header(folder / name).items():
            if key in found:
                what = f"two files hold the tensor {key}"
                do = "download or save the model again, into an empty folder"
                raise AnchorscopeError(what, folder / name, do, see="weights-twice")
            if LEFTOVERS.search(key):
                continue
            if dtype not in FLOATS:
                what = f"the weights are quantised: {key} is of the type {dtype}"
                do = "use the original checkpoint, from before quantisation"
                raise AnchorscopeError(what, folder, do, see="quantised")
            found[key] = torch.empty(shape, device="meta")
    return found


def _header(path: Path) -> dict[str, tuple[str, list[int]]]:
    """Return the type (such as `BF16`) and shape of each tensor in a file, by name."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            slices = {key: file.get_slice(key) for key in sorted(file.keys())}
            return {key: (one.get_dtype(), one.get_shape()) for key, one in slices.items()}
    except (SafetensorError, OSError) as error:
        raise broken(path, error) from error


def broken(where: Path, error: Exception) -> AnchorscopeError:
    """Return the error for weights that cannot be loaded."""
    first_line = next(iter(str(error).strip().splitlines()), "")[:200]
    what = f"the weights cannot be loaded ({type(error).__name__}: {first_line})"
    do = "download or save the model again; the files may be cut short"
    return AnchorscopeError(what, where, do, see="broken-weights")


def check_class(config: Mapping[str, Any], where: Path) -> None:
    """Refuse a config whose `architectures` name a class other than the one transformers loads."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CLASSES,
        MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as WITH_IMAGES,
    )

    whole = config["model_type"]
    loaded = str(CLASSES[text_config(config, where).model_type])
    named = config.get("architectures") or [loaded]
    if not {loaded, CLASSES.get(whole), WITH_IMAGES.get(whole)} & {*named}:
        what = f"config.json names the class {', '.join(named)}, but {loaded} would be loaded"
        do = f"use a checkpoint that was saved as {loaded}; other classes compute something else"
        raise AnchorscopeError(what, where, do, see="other-class")


def check_tensors(folder: Path) -> None:
    """Refuse a checkpoint whose tensors do not match its model, without reading weights."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    held = tensors(folder)
    try:
        chosen = options(folder)
        model_class: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(chosen["config"])]
        prefix = f"{model_class.base_model_prefix}."
        with _quiet():
            _, info = model_class.from_pretrained(
                None,
                state_dict=held,
                device_map={"": "meta"},
                trust_remote_code=False,
                output_loading_info=True,
                **chosen,
            )
    except Exception as error:  # conversions raise any type of error
        raise broken(folder, error) from error
    refuse(info, folder)
    if twice := sorted(key for key in held if prefix + key in held):
        what = f"the checkpoint holds tensors twice, as {prefix}{twice[0]} and as {twice[0]}"
        do = "save the model again, into an empty folder"
        raise AnchorscopeError(what, folder, do, see="weights-twice")


def options(folder: Path) -> dict[str, Any]:
    """Return the arguments with which `from_pretrained` loads a checkpoint's language model.

    If a checkpoint also reads images, only its language model is loaded. The weights of such a
    checkpoint have older names, which `key_mapping` replaces.
    """
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    if not also_reads_images(config):
        return {"config": config}
    names = {
        r"^(model\.language_model|language_model\.model)\.": "model.",
        r"^language_model\.lm_head": "lm_head",
    }
    return {"config": config.get_text_config(decoder=True), "key_mapping": names}


def refuse(info: Mapping[str, Any], folder: Path) -> None:
    """Refuse a checkpoint with missing or unused tensors, which `from_pretrained` lists in `info`.

    Unused tensors are allowed if they are known leftovers or parts that read images.
    """
    is_part = "text_config" in read_json(folder / "config.json")  # of a model that reads images
    unused = sorted(
        key
        for key in info["unexpected_keys"]
        if not LEFTOVERS.search(key) and not (is_part and NOT_TEXT.match(key))
    )
    if any(LORA in key for key in unused):
        what = "the checkpoint was saved with an adapter inside"
        raise AnchorscopeError(what, folder, MERGE, see="adapter")
    made_up = [*sorted(info["missing_keys"]), *sorted(map(str, info["mismatched_keys"]))]
    if made_up:
        first = ", ".join(made_up[:3])
        what = f"{len(made_up)} weights, missing or misshapen, would be random, such as {first}"
        do = "save the whole causal language model (with its LM head) with `save_pretrained`"
        raise AnchorscopeError(what, folder, do, see="made-up-weights")
    if unused:
        first = ", ".join(unused[:3])
        what = f"the model does not use {len(unused)} tensors of the checkpoint, such as {first}"
        do = "use the checkpoint of the language model alone, with its config.json and no adapter"
        raise AnchorscopeError(what, folder, do, see="unused-weights")


def check_tied(model: PreTrainedModel, folder: Path) -> None:
    """If the config ties the LM head to the embedding, refuse a checkpoint in which they differ."""
    import torch

    modules = model.get_output_embeddings(), model.get_input_embeddings()
    head, embedding = (module.get_parameter("weight") for module in modules)
    if not model.config.tie_word_embeddings or head is embedding:
        return
    if not torch.equal(head.to(embedding.device), embedding):
        what = "the config ties the LM head to the embedding, but the checkpoint holds another head"
        do = "set tie_word_embeddings in config.json to false if the model was trained untied"
        raise AnchorscopeError(what, folder, do, see="unused-weights")


@contextmanager
def _quiet() -> Iterator[None]:
    from transformers.utils import logging

    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
