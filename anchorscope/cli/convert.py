"""`anchorscope convert`: convert a GGUF file to a model folder, with transformers."""

import re
import shlex
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from anchorscope.models.loading import GGUF_RECORD
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic, write_json

SEQUENCE_TO_SEQUENCE = {"t5", "t5encoder", "umt5"}
SPLIT_LIKE_GPT2 = {"gpt-2", "mpt", "olmo", "smollm", "starcoder"}
"""Byte-level pre-tokenizers for which transformers' default, the one of GPT-2, is right. They split
all texts like it, or were trained on single digits, so that no merge joins two."""
OTHERWISE = "use the original checkpoint, in safetensors format"
FLOATS = ("ALL_F32", "MOSTLY_F16", "MOSTLY_BF16")
FACTORS = "rope_freqs.weight"
"""Tensor of a GGUF file by which llama.cpp divides the frequencies of the rotary positions."""
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""Scaling of rotary positions in Llama 3.1 and later. Only its `factor` differs between models."""
PART = re.compile(r"-\d{5}-of-(?P<count>\d{5})(?=\.gguf$)")  # in the name of a part's file


def convert(path: Path, folder: Path) -> None:
    """Write a GGUF file as a model folder, with weights dequantised to float32.

    Raises:
        AnchorscopeError: The package `gguf` is missing; the file cannot be read, lacks weights, or
            is of a kind that transformers does not convert exactly; or `folder` exists and
            `convert` did not write it.
    """
    if folder.exists() and not (folder / GGUF_RECORD).is_file():
        what = "the folder already exists and is not from an earlier conversion"
        raise AnchorscopeError(what, folder, "name another folder", see="gguf")
    if find_spec("gguf") is None:
        what, do = "the package gguf is not installed", "pip install 'gguf>=0.19'"
        raise AnchorscopeError(what, path, do, see="gguf")
    try:
        quantisation = _check(path)
        model, tokenizer, info = _read(path)
        _check_positions(path, model.config)
        _scale_positions(path, model.config)
    except AnchorscopeError:
        raise
    except Exception as error:  # transformers raises any type of error on a broken file
        what = f"the GGUF file cannot be read ({type(error).__name__}: {str(error)[:200]})"
        do = "download it again; it may be cut short, or one of several parts to be joined first"
        raise AnchorscopeError(what, path, do, see="broken-weights") from error
    if lost := sorted(str(name) for names in info.values() for name in names):
        what = f"{len(lost)} weights of the file do not fit the model, the first: {lost[0]}"
        raise AnchorscopeError(what, path, OTHERWISE, see="made-up-weights")
    with atomic(folder) as draft:
        model.save_pretrained(draft)
        tokenizer.save_pretrained(draft)
        write_json({"quantisation": quantisation}, draft / GGUF_RECORD)


def _check(path: Path) -> str | None:
    """Refuse an unknown kind of file. Return the format of quantised weights, None for floats."""
    from gguf import LlamaFileType
    from transformers.integrations.gguf import read_gguf_metadata

    _check_whole(path)
    says, tensors = read_gguf_metadata(str(path))
    family = says["general.architecture"]
    if _plain(family) not in _families():
        raise AnchorscopeError(
            f"transformers reads no {family} from GGUF", path, OTHERWISE, see="gguf"
        )
    if pre := _unknown_split(says):
        what = f"transformers may split texts into other tokens than the pre-tokenizer {pre} does"
        raise AnchorscopeError(what, path, OTHERWISE, see="gguf")
    scaled = says.get(f"{family}.rope.scaling.type", "none") != "none"
    if scaled or any(name.startswith("rope_f") and name != FACTORS for name in tensors):
        raise _positions_lost(family, path)
    name = LlamaFileType(says["general.file_type"]).name
    return None if name in FLOATS else name.removeprefix("MOSTLY_")


def _families() -> set[str]:
    """Return the architectures of causal language models that transformers reads from GGUF."""
    from transformers.integrations.gguf import GGUF_ARCHS
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    others = {"general", "tokenizer"} | SEQUENCE_TO_SEQUENCE  # sections of the reader's mapping
    return {_plain(name) for name in {*GGUF_ARCHS, *GGUF_SUPPORTED_ARCHITECTURES} - others}


def _plain(family: str) -> str:
    """Return a name in which llama.cpp's and transformers' spelling agree: `qwen2moe`, `gptoss`."""
    return family.replace("-", "").replace("_", "")


def _unknown_split(says: Mapping[str, Any]) -> str | None:
    """Return the pre-tokenizer of a byte-level vocabulary if transformers does not know it."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    pre = str(says.get("tokenizer.ggml.pre", "default"))
    if says["tokenizer.ggml.model"] != "gpt2" or pre in {*GGUF_PRE_TOKENIZER_SPLITS}:
        return None
    return None if pre in SPLIT_LIKE_GPT2 else pre


def _check_positions(path: Path, config: Any) -> None:
    """Refuse a model whose rotary base is not the file's. For some families it is not read."""
    from transformers.integrations.gguf import read_gguf_metadata

    says, _ = read_gguf_metadata(str(path))
    base = says.get(f"{says['general.architecture']}.rope.freq_base")
    if base is None or base in _bases(config.to_dict().get("rope_parameters") or {}):
        return
    what = f"the base of the rotary positions, {base:g}, is lost when this file is converted"
    raise AnchorscopeError(what, path, OTHERWISE, see="gguf")


def _scale_positions(path: Path, config: Any) -> None:
    """Add Llama 3's scaling of rotary positions to the config if the file holds its factors.

    A GGUF file holds a factor per frequency in place of the scaling's parameters, and transformers
    reads neither. The largest factor is the parameter `factor`.

    Raises:
        AnchorscopeError: The factors differ from those of Llama 3's scaling.
    """
    import torch
    from gguf import GGUFReader
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    stored = [one.data for one in GGUFReader(path).tensors if one.name == FACTORS]
    if not stored:
        return
    factors, plain = torch.tensor(stored[0]), dict(getattr(config, "rope_parameters", None) or {})
    if "rope_theta" not in plain:  # each kind of layers has its own base
        raise _positions_lost(config.model_type, path)
    scaled = LLAMA3 | {"rope_type": "llama3", "factor": float(factors.max())}
    config.rope_parameters = plain | scaled
    found, _ = ROPE_INIT_FUNCTIONS["llama3"](config)
    exponents = torch.arange(len(found)) / len(found)
    unscaled = plain["rope_theta"] ** -exponents
    if found.shape != factors.shape or not torch.allclose(found * factors, unscaled, rtol=1e-4):
        raise _positions_lost(config.model_type, path)


def _positions_lost(family: str, path: Path) -> AnchorscopeError:
    what = f"the scaled positions of this {family} file are lost when it is converted"
    return AnchorscopeError(what, path, OTHERWISE, see="gguf")


def _bases(parameters: Mapping[str, Any]) -> set[float]:
    """Return the rotary bases of a config; each kind of layers may have its own."""
    nested = [value for value in parameters.values() if isinstance(value, Mapping)]
    return {found["rope_theta"] for found in (parameters, *nested) if "rope_theta" in found}


def _check_whole(path: Path) -> None:
    """Refuse one of several files of a model. In it, an absent LM head does not mean a tied one."""
    from gguf import GGUFReader

    said, named = GGUFReader(path).get_field("split.count"), PART.search(path.name)
    # llama.cpp writes 0 into the file that it merges, so a merged file may keep a part's name.
    count = int(said.contents() if said else named["count"] if named else 1)
    if count <= 1:
        return
    first = path.with_name(PART.sub(f"-00001-of-{count:05}", path.name)) if named else path
    whole = path.with_name(PART.sub("", path.name)) if named else path.with_suffix(".whole.gguf")
    command = shlex.join(["llama-gguf-split", "--merge", str(first), str(whole)])
    what = f"the file is one of {count} files of a model"
    do = f"download all {count}, run this command of llama.cpp on the first: {command}"
    raise AnchorscopeError(what, path, f"{do}; then convert {whole}", see="gguf")


def _read(path: Path) -> tuple[Any, Any, Mapping[str, Any]]:
    """Return (model, tokenizer, info). `info` names the weights that do not fit."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    with TemporaryDirectory() as folder:  # so that transformers reads no other file beside it
        Path(folder, path.name).symlink_to(path.resolve())
        options: Any = {"gguf_file": path.name, "local_files_only": True}
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, **options)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            trust_remote_code=False,
            use_safetensors=True,  # never a pickle
            dtype=torch.float32,
            quantization_config=GgufConfig(dequantize=True),
            output_loading_info=True,
            **options,
        )
    model, info = loaded
    return model, tokenizer, info
