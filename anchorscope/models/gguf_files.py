"""GGUF files: a whole checkpoint in one file, often quantised, made an ordinary model folder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from anchorscope.models import gguf_header, gguf_settings
from anchorscope.models.gguf_header import Tensor
from anchorscope.models.gguf_settings import OTHERWISE
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_json, write_json

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

PLAIN_SPLITS = frozenset(("gpt-2", "smollm"))
"""Ways to split text before BPE for which transformers' own is right.

`smollm` also cuts numbers into digits; its vocabulary has no longer ones.
"""
WHOLE_WORDS = frozenset(
    ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "tekken")
)
"""Ways to split text before BPE under which a word of the vocabulary is one token, merged or not.

Llama 3 and Mistral NeMo have them. Their texts begin with the start token unless the file says no.
"""
FLOATS = frozenset(("F32", "F16", "BF16"))
RECORD = "gguf.json"


@dataclass(frozen=True)
class Header:
    """What a GGUF file says of itself.

    Attributes:
        config: the keys of config.json.
        numbers: the number of weights in all tensors.
        quantisation: what the file calls its format, such as `Q4_K_M`, or else the format of most
            weights; None if they are floats.
        words: the settings of its tokenizer, without lists.
        has_template: whether it holds a chat template.
    """

    config: Mapping[str, Any]
    numbers: int
    quantisation: str | None
    words: Mapping[str, Any]
    has_template: bool


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
    try:
        fields, tensors = gguf_header.read(path)
    except Exception as error:  # a broken file makes the reader raise whatever it stumbles over
        what = f"the GGUF file cannot be read ({type(error).__name__}: {error})"
        do = "download it again; it may be cut short"
        raise AnchorscopeError(what, path, do, see="broken-weights") from error
    _check_whole(fields, path)
    rows = tensors["token_embd.weight"].rows if "token_embd.weight" in tensors else 0
    config = gguf_settings.config(fields, rows, "output.weight" not in tensors, path)
    _check_tokenizer(fields, path)
    return Header(
        config,
        sum(tensor.numbers for tensor in tensors.values()),
        _format(fields, tensors.values()),
        {
            key: value
            for key, value in fields.items()
            if key.startswith("tokenizer.ggml.") and not isinstance(value, list)
        },
        bool(fields.get("tokenizer.chat_template")),
    )


def convert(path: str | Path, folder: str | Path, dtype: str = "float32") -> None:
    """Write a GGUF file as a folder of safetensors, config and tokenizer.

    Quantised weights become floats, each the number that its block of the file stands for.

    Raises:
        AnchorscopeError: see `read_header`; or its weights are not those of the model.
    """
    path, folder = Path(path).expanduser(), Path(folder)
    header = read_header(path)
    tokenizer = _tokenizer(path, header.words)
    model = _model(path, header.config, dtype)
    if (held := model.num_parameters()) != header.numbers:
        what = f"the file holds {header.numbers:,} numbers, of which the model takes {held:,}"
        raise AnchorscopeError(what, path, OTHERWISE, see="gguf")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_json({"quantisation": header.quantisation}, folder / RECORD)


def quantisation(folder: str | Path) -> str | None:
    """What the weights in a folder were dequantised from, such as `Q4_1`; None if from nothing."""
    path = Path(folder) / RECORD
    return read_json(path)["quantisation"] if path.is_file() else None


def _format(fields: Mapping[str, Any], tensors: Iterable[Tensor]) -> str | None:
    """What the weights of a file are quantised to, see `Header`."""
    from gguf import LlamaFileType

    weights: Counter[str] = Counter()
    for tensor in tensors:
        weights[tensor.format] += tensor.numbers
    most = weights.most_common(1)[0][0]
    if most in FLOATS:
        return None
    names = {int(kind): kind.name for kind in LlamaFileType}
    name = names.get(fields.get("general.file_type", -1), "")
    return name.removeprefix("MOSTLY_") if name.startswith("MOSTLY_Q") else most


def _check_whole(fields: Mapping[str, Any], path: Path) -> None:
    """Refuse a file that is one of several parts, and name those that are not there."""
    count = fields.get("split.count", 0)
    if count < 2:
        return
    stem = re.sub(r"-\d{5}-of-\d{5}$", "", path.stem)
    parts = [path.with_name(f"{stem}-{n:05}-of-{count:05}.gguf") for n in range(1, count + 1)]
    missing = [part.name for part in parts if not part.is_file()]
    what = f"the GGUF file is one of {count} parts"
    do = f"join them: llama-gguf-split --merge {parts[0].name} {stem}.gguf"
    if missing:
        what += f", of which these are not beside it: {', '.join(missing)}"
        do = f"download them, and {do}"
    raise AnchorscopeError(what, path, do, see="gguf")


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


@contextmanager
def _alone(path: Path) -> Iterator[dict[str, Any]]:
    """How transformers is told to read a file, and nothing that lies beside it."""
    with TemporaryDirectory() as folder:
        Path(folder, path.name).symlink_to(path.resolve())
        yield {
            "pretrained_model_name_or_path": folder,
            "gguf_file": path.name,
            "local_files_only": True,
        }


def _tokenizer(path: Path, words: Mapping[str, Any]) -> PreTrainedTokenizerFast:
    """The tokenizer in a file, which reads texts as llama.cpp does.

    Raises:
        AnchorscopeError: it cannot be made.
    """
    from tokenizers import normalizers
    from transformers import PreTrainedTokenizerFast

    try:
        with _alone(path) as options:
            tokenizer: Any = PreTrainedTokenizerFast.from_pretrained(
                trust_remote_code=False, **options
            )
    except Exception as error:
        what = f"the tokenizer in the GGUF file cannot be used ({type(error).__name__})"
        raise AnchorscopeError(what, path, OTHERWISE, see="tokenizer") from error
    backend = tokenizer.backend_tokenizer
    if words["tokenizer.ggml.model"] == "llama":  # sentencepiece; after special tokens, too
        before = [normalizers.Prepend("▁")] * words.get("tokenizer.ggml.add_space_prefix", True)
        backend.normalizer = normalizers.Sequence([*before, normalizers.Replace(" ", "▁")])
        backend.pre_tokenizer = None
    elif words.get("tokenizer.ggml.pre") in WHOLE_WORDS:
        backend.model.ignore_merges = True
        tokenizer.add_bos_token = words.get("tokenizer.ggml.add_bos_token", True)
    return tokenizer


def _model(path: Path, settings: Mapping[str, Any], dtype: str) -> PreTrainedModel:
    """The dequantised model of a file.

    Raises:
        AnchorscopeError: its weights cannot be read, or some are not in the file.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        with _alone(path) as options:
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                config=AutoConfig.for_model(**settings),
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
    # That one is marked as quantised, and cannot be saved.
    config = AutoConfig.for_model(**settings)
    fresh: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=model.dtype)
    fresh.load_state_dict(model.state_dict())
    return fresh
