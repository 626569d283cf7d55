"""`anchorscope convert`: convert a GGUF file to a model folder, with transformers."""

import re
import shlex
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic, read_json, write_json

COMPARED = {("llama", "smollm"), ("gemma3", "default")}
"""(Architecture, pre-tokenizer) of files that transformers was found to convert correctly.
Converting other files may drop settings, or change how some texts are split into tokens."""
OTHERWISE = "use the original checkpoint, in safetensors format"
FLOATS = ("ALL_F32", "MOSTLY_F16", "MOSTLY_BF16")
RECORD = "gguf.json"
PART = re.compile(r"-\d{5}-of-(?P<count>\d{5})(?=\.gguf$)")  # in the name of a part's file


def refuse(path: Path) -> None:
    """If `path` is a GGUF file instead of a model folder, refuse it and say how to convert it."""
    if path.suffix == ".gguf":
        command = shlex.join(["anchorscope", "convert", str(path), str(path.with_suffix(""))])
        do = f"run this command, and name the folder that it makes: {command}"
        raise AnchorscopeError("a model is a folder, and this is a GGUF file", path, do, see="gguf")


def convert(path: Path, folder: Path) -> None:
    """Write a GGUF file as a model folder, with weights dequantised to float32.

    Raises:
        AnchorscopeError: The package `gguf` is missing; the file cannot be read, lacks weights, or
            is of a kind outside `COMPARED`; or `folder` exists and `convert` did not write it.
    """
    if folder.exists() and not (folder / RECORD).is_file():
        what = "the folder already exists and is not from an earlier conversion"
        raise AnchorscopeError(what, folder, "name another folder", see="gguf")
    if find_spec("gguf") is None:
        what, do = "the package gguf is not installed", "pip install 'gguf>=0.19'"
        raise AnchorscopeError(what, path, do, see="gguf")
    try:
        quantisation = _check(path)
        model, tokenizer, info = _read(path)
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
        write_json({"quantisation": quantisation}, draft / RECORD)


def quantisation(folder: Path) -> str | None:
    """Return the quantised format, such as `Q4_1`, that the weights once had, or None."""
    record = folder / RECORD
    return read_json(record)["quantisation"] if record.is_file() else None


def _check(path: Path) -> str | None:
    """Refuse an untested kind of file. Return the format of quantised weights, None for floats."""
    from gguf import LlamaFileType
    from transformers.integrations.gguf import read_gguf_metadata

    _check_whole(path)
    says, tensors = read_gguf_metadata(str(path))
    kind = says["general.architecture"], says.get("tokenizer.ggml.pre", "default")
    scaled = says.get(f"{kind[0]}.rope.scaling.type", "none") != "none"
    if kind not in COMPARED or scaled or "rope_freqs.weight" in tensors:
        scaling = " with scaled positions" if kind in COMPARED else ""
        what = f"GGUF files of the kind {'/'.join(kind)}{scaling} may lose settings when converted"
        raise AnchorscopeError(what, path, OTHERWISE, see="gguf")
    name = LlamaFileType(says["general.file_type"]).name
    return None if name in FLOATS else name.removeprefix("MOSTLY_")


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
