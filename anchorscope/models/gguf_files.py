"""GGUF files: a whole checkpoint in one file, often quantised, made an ordinary model folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from anchorscope.models import vocabulary
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_json, write_json

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

ARCHITECTURES = ("llama", "qwen2", "qwen3")
"""Architectures of GGUF that the tests hold against the model they were written from."""
UNREAD = ("rope.scaling.type", "attention.sliding_window")
"""Settings of an architecture that transformers does not read from a GGUF file."""
PLAIN_SPLITS = frozenset(("default", "gpt-2", "smollm"))
"""Ways to split text before BPE for which transformers' own is right.

`smollm` also cuts numbers into digits; its vocabulary has no longer ones.
"""
FLOATS = frozenset(("F32", "F16", "BF16"))
RECORD = "gguf.json"
OTHERWISE = "use the original checkpoint, in safetensors format"


@dataclass(frozen=True)
class Header:
    """What a GGUF file says of itself.

    Attributes:
        architecture: one of `ARCHITECTURES`.
        layers: the number of blocks.
        width: the width of the residual stream.
        numbers: the number of weights in all tensors.
        tensors: number format → how many tensors are written in it.
        quantisation: the format of most weights, such as `Q4_1`; None if they are floats.
    """

    architecture: str
    layers: int
    width: int
    numbers: int
    tensors: Mapping[str, int]
    quantisation: str | None


def is_gguf(path: str | Path) -> bool:
    """Whether a path names a GGUF file, whatever is there."""
    return Path(path).suffix == ".gguf"


@cache
def read_header(path: Path) -> Header:
    """Read what a GGUF file says of itself, without its weights.

    Raises:
        AnchorscopeError: there is no such file, it is broken, of another architecture, has no
            tokenizer inside, or sets something that would be lost.
    """
    if not path.is_file():
        do = "check `local` in config.yaml"
        raise AnchorscopeError("there is no such GGUF file", path, do, see="no-checkpoint")
    fields, formats = _contents(path)
    architecture = str(fields.get("general.architecture"))
    if architecture not in ARCHITECTURES:
        what = f"a GGUF file of the architecture {architecture!r} cannot be read"
        do = f"{OTHERWISE}; read are {', '.join(ARCHITECTURES)}"
        raise AnchorscopeError(what, path, do, see="gguf")
    _check_settings(fields, architecture, path)
    _check_tokenizer(fields, path)
    weights: Counter[str] = Counter()
    for name, numbers in formats:
        weights[name] += numbers
    most = weights.most_common(1)[0][0]
    return Header(
        architecture,
        int(fields[f"{architecture}.block_count"]),
        int(fields[f"{architecture}.embedding_length"]),
        weights.total(),
        dict(sorted(Counter(name for name, _ in formats).items())),
        None if most in FLOATS else most,
    )


def convert(path: str | Path, folder: str | Path, dtype: str = "float32") -> None:
    """Write a GGUF file as a folder of safetensors, config and tokenizer.

    Quantised weights become floats, each the number that its block of the file stands for.

    Raises:
        AnchorscopeError: see `read_header`; or its weights are not those of the model.
    """
    path, folder = Path(path).expanduser(), Path(folder)
    header = read_header(path)
    model, tokenizer = _load(path, dtype)
    if (held := model.num_parameters()) != header.numbers:
        what = f"the file holds {header.numbers:,} numbers, of which the model takes {held:,}"
        raise AnchorscopeError(what, path, OTHERWISE, see="gguf")
    _as_floats(model).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    record = {"file": path.name, "quantisation": header.quantisation, "tensors": header.tensors}
    write_json(record, folder / RECORD)


def quantisation(folder: str | Path) -> str | None:
    """What the weights in a folder were dequantised from, such as `Q4_1`; None if from nothing."""
    path = Path(folder) / RECORD
    return read_json(path)["quantisation"] if path.is_file() else None


def _contents(path: Path) -> tuple[dict[str, Any], list[tuple[str, int]]]:
    """The settings of a file, long lists as their lengths, and of each tensor format and size.

    Raises:
        AnchorscopeError: the file is broken.
    """
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
        fields = {
            name: len(field.data) if len(field.data) > 1 else field.contents()
            for name, field in reader.fields.items()
        }
        formats = [(tensor.tensor_type.name, int(tensor.n_elements)) for tensor in reader.tensors]
        if not formats:
            raise ValueError("no tensors")
    except Exception as error:  # a broken file makes the reader raise whatever it stumbles over
        what = f"the GGUF file cannot be read ({type(error).__name__}: {error})"
        do = "download it again; it may be cut short"
        raise AnchorscopeError(what, path, do, see="broken-weights") from error
    return fields, formats


def _check_settings(fields: Mapping[str, Any], architecture: str, path: Path) -> None:
    """Refuse a file without its sizes, or one with a setting that would be lost."""
    for name in ("block_count", "embedding_length"):
        if not isinstance(fields.get(f"{architecture}.{name}"), int):
            what = f"the GGUF file does not say its `{architecture}.{name}`"
            raise AnchorscopeError(what, path, OTHERWISE, see="broken-weights")
    for name in UNREAD:
        key = f"{architecture}.{name}"
        if fields.get(key) not in (None, "none", 0):
            what = f"the GGUF file sets {key} = {fields[key]}, which would be lost"
            raise AnchorscopeError(what, path, OTHERWISE, see="gguf")


def _check_tokenizer(fields: Mapping[str, Any], path: Path) -> None:
    """Refuse a file without a tokenizer, or with one that would split text another way."""
    if not {"tokenizer.ggml.model", "tokenizer.ggml.tokens"} <= set(fields):
        what = "the GGUF file holds no tokenizer"
        raise AnchorscopeError(what, path, OTHERWISE, see="tokenizer")
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    split = fields.get("tokenizer.ggml.pre", "default")
    readable = PLAIN_SPLITS | set(GGUF_PRE_TOKENIZER_SPLITS)
    if fields["tokenizer.ggml.model"] == "gpt2" and split not in readable:
        what = f"the tokenizer in the GGUF file splits text in a way that is not known: {split}"
        raise AnchorscopeError(what, path, OTHERWISE, see="tokenizer")


def _load(path: Path, dtype: str) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """The dequantised model of a file, and its tokenizer.

    Raises:
        AnchorscopeError: the tokenizer or the weights cannot be made, or some are not in the file.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with TemporaryDirectory() as alone:
        # Transformers would prefer a config.json or tokenizer.json that lies beside the file.
        Path(alone, path.name).symlink_to(path.resolve())
        options: dict[str, Any] = {"gguf_file": path.name, "local_files_only": True}
        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(
                alone, trust_remote_code=False, **options
            )
        except Exception as error:
            what = f"the tokenizer in the GGUF file cannot be used ({type(error).__name__})"
            raise AnchorscopeError(what, path, OTHERWISE, see="tokenizer") from error
        vocabulary.check_fast(tokenizer, path)
        try:
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                alone,
                trust_remote_code=False,
                use_safetensors=True,  # never a pickle
                dtype=getattr(torch, dtype),
                output_loading_info=True,
                **options,
            )
        except Exception as error:
            first_line = next(iter(str(error).strip().splitlines()), "")[:200]
            what = f"the weights cannot be read ({type(error).__name__}: {first_line})"
            do = "download the file again; it may be cut short"
            raise AnchorscopeError(what, path, do, see="broken-weights") from error
    model, info = loaded
    missing = [*sorted(info["missing_keys"]), *sorted(map(str, info["mismatched_keys"]))]
    if missing:
        what = f"{len(missing)} weights are not in the GGUF file, the first: {missing[0]}"
        raise AnchorscopeError(what, path, OTHERWISE, see="made-up-weights")
    return model, tokenizer


def _as_floats(model: PreTrainedModel) -> PreTrainedModel:
    """The same model without the mark of a quantised one, which could not be saved."""
    from transformers import AutoModelForCausalLM

    settings = model.config.to_dict()
    settings.pop("quantization_config", None)
    config = type(model.config)(**settings)
    fresh: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=model.dtype)
    fresh.load_state_dict(model.state_dict())
    if model.generation_config is not None:
        fresh.generation_config = model.generation_config
    return fresh
