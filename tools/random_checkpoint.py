"""Write a checkpoint folder of a published shape, with seeded random weights and a real tokenizer.

Weights are drawn and written layer by layer, so the whole model is never in memory.
"""

import json
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GenerationConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
)

from anchorscope.models.contents import INDEX
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic, read_json

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
SPARE_GB = 1
"""Disk space that must stay free beside a checkpoint, GB."""
ENDING = 3.0
"""Factor on the embedding and head rows of tokens that end an answer, so that answers do end."""

Sizes = Mapping[str, tuple[int, ...]]
"""Name of a tensor → its shape."""


def write(
    shape: Mapping[str, Any],
    tokenizer: PreTrainedTokenizerFast,
    folder: Path,
    *,
    layers: int | None = None,
    device: str = "cpu",
) -> None:
    """Write a checkpoint, unless the folder holds one of this shape.

    Args:
        shape: Keys of config.json, see `shipped.shape_of`.
        tokenizer: Tokenizer that gives the ids of the start and the end token. It is saved beside
            the weights.
        folder: Folder of the checkpoint. Another checkpoint in it is replaced.
        layers: Number of the model's layers to write, None for all.
        device: Device on which weights are drawn. Another device draws other weights.

    Raises:
        AnchorscopeError: The disk has no room for the checkpoint.
    """
    config = config_of(shape, tokenizer, layers)
    known = folder / "config.json"
    if known.is_file() and read_json(known) == json.loads(config.to_json_string()):
        return
    shutil.rmtree(folder, ignore_errors=True)  # an old checkpoint, before the space is checked
    sizes = sizes_of(config)
    check_room(sizes, folder)
    with atomic(folder) as draft:
        draft.mkdir()
        write_weights(sizes, ends_of(tokenizer), draft, device)
        tokenizer.save_pretrained(draft)
        config.save_pretrained(draft)
        GenerationConfig.from_model_config(config).save_pretrained(draft)


def write_weights(sizes: Sizes, ends: list[int], folder: Path, device: str) -> None:
    """Write the drawn weights into a folder, one file per layer, with their index."""
    files = [*shards(sizes)]
    places = dict[str, str]()
    for number, names in enumerate(files, 1):
        file = f"model-{number:05}-of-{len(files):05}.safetensors"
        tensors = {name: random_tensor(name, sizes[name], ends, device) for name in names}
        save_file(tensors, folder / file, metadata={"format": "pt"})
        places |= dict.fromkeys(names, file)
    index = {"metadata": {"total_size": size_of(sizes)}, "weight_map": places}
    (folder / INDEX).write_text(json.dumps(index, indent=1), encoding="utf-8")


def config_of(
    shape: Mapping[str, Any], tokenizer: PreTrainedTokenizerFast, layers: int | None
) -> PretrainedConfig:
    """Return the config of a shape, with the tokenizer's start and end token."""
    depth = {} if layers is None else {"num_hidden_layers": layers}
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = AutoConfig.for_model(**{**shape, **depth, **ids}, dtype="bfloat16")
    config.architectures = [type(empty(config)).__name__]
    return config


def empty(config: PretrainedConfig) -> Any:
    """Return the model of a config on the device `meta`, where tensors take no memory."""
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)


def sizes_of(config: PretrainedConfig) -> Sizes:
    """Return name → shape of the tensors in a checkpoint of this config, without a tied head."""
    tensors = empty(config).state_dict()
    return {
        name: tuple(tensor.shape)
        for name, tensor in tensors.items()
        if not (name == HEAD and config.tie_word_embeddings)
    }


def size_of(sizes: Sizes) -> int:
    """Return the bytes of all tensors."""
    return sum(2 * torch.Size(shape).numel() for shape in sizes.values())


def check_room(sizes: Sizes, folder: Path) -> None:
    """Refuse a checkpoint for which the disk of `folder` has no room.

    Raises:
        AnchorscopeError: The disk has less free space than the checkpoint and `SPARE_GB`.
    """
    there = next(place for place in folder.absolute().parents if place.is_dir())
    free, needed = shutil.disk_usage(there).free / 1e9, size_of(sizes) / 1e9
    if free < needed + SPARE_GB:
        what = f"{folder.name} needs {needed + SPARE_GB:.1f} GB on the disk; {free:.1f} GB are free"
        do = "make room, or keep fewer layers: LAYERS=2"
        raise AnchorscopeError(what, folder, do, see="disk-full")


def shards(sizes: Iterable[str]) -> Iterator[list[str]]:
    """Yield the tensor names of each file: one layer, or tensors outside the layers."""
    for _, names in groupby(sizes, key=lambda name: name.split(".")[:3]):
        yield [*names]


def random_tensor(name: str, shape: tuple[int, ...], ends: list[int], device: str) -> torch.Tensor:
    """Draw a tensor, seeded by its name. Norms are all ones.

    The standard deviation of a matrix is 1 / √(number of inputs), so that states keep their size.
    The logits of a normalised state then have a standard deviation of about 1, and the largest
    logit stands out.
    """
    if len(shape) == 1:
        return torch.ones(shape, dtype=torch.bfloat16)
    generator = torch.Generator(device).manual_seed(zlib.crc32(name.encode()))
    tensor = torch.empty(shape, dtype=torch.bfloat16, device=device)
    tensor.normal_(std=shape[1] ** -0.5, generator=generator)
    if name in (EMBEDDING, HEAD):
        tensor[ends] *= ENDING
    return tensor.cpu()


def ends_of(tokenizer: PreTrainedTokenizerFast) -> list[int]:
    """Return the ids that end an answer: the end token and line breaks, in ascending order."""
    lines = (tokenizer.encode(text, add_special_tokens=False)[-1] for text in ("\n", "\n\n"))
    return sorted({tokenizer.eos_token_id, *lines})
