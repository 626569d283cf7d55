"""Locate, check and load checkpoints. Refuse missing weights, which would be drawn at random."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anchorscope.models import contents, families, vocabulary
from anchorscope.models.families import Loaded
from anchorscope.questions import hub, revisions
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import digest, read_json

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

WANTED_FILES = (
    "*.safetensors", "*.json", "*.model", "*.txt", "*.jinja", "additional_chat_templates/*.jinja",
)  # fmt: skip
UNWANTED_FILES = ("original/*", "consolidated*", "onnx/*", "*.gguf")
TEMPLATES = ("tokenizer_config.json", *vocabulary.TEMPLATES)
GGUF_RECORD = "gguf.json"
"""Record of a model that was converted from a GGUF file."""
KEPT_FREE = 0.15
"""Share of each GPU's memory that is kept free of weights if a model is spread over GPUs."""


def load(
    folder: str | Path,
    *,
    dtype: str = "float32",
    device: str = "cpu",
    attention: str | None = None,
    batch_tokens: int | None = None,
    parts: Mapping[str, str] | None = None,
) -> Loaded:
    """Load a checkpoint from a folder, without touching the network.

    Args:
        folder: A folder as `save_pretrained` writes it.
        dtype: `float32`, `bfloat16` or `float16`.
        device: `cpu`, `cuda`, `cuda:1`, …; `auto` spreads the layers over all GPUs, `auto:0,2` over
            some of them.
        attention: `eager`, whose attention weights can be read and differentiated. The default is
            `sdpa`, or `eager` for families without it.
        batch_tokens: Limit of a pass: rows × padded length. The default depends on the device.
        parts: Paths of modules that are not found by structure: `blocks` from the base model,
            `attn` and `mlp` from a block.

    Raises:
        AnchorscopeError: A file is missing or broken, the model cannot be measured, or weights,
            config and tokenizer do not fit together.
    """
    folder = Path(folder).expanduser()
    check(folder, parts)
    placement, tokenizer = _placement(device), vocabulary.load(folder)
    vocabulary.check_begin(tokenizer, folder)
    model = _weights(folder, dtype, placement, attention)
    return wrapped(model, tokenizer, folder, batch_tokens=batch_tokens, parts=parts)


def build(shape: Mapping[str, Any], dtype: str, device: torch.device) -> Loaded:
    """Build a model with random weights and no tokenizer. `shape` has the keys of config.json."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(
            families.text_config(shape, "the model"), dtype=getattr(torch, dtype)
        )
    model = model.eval().requires_grad_(False)
    none: Any = None
    found = families.find(model, "the model")
    return Loaded(model, none, found, families.window(model.config), device)


def wrapped(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    where: object = None,
    *,
    batch_tokens: int | None = None,
    parts: Mapping[str, str] | None = None,
) -> Loaded:
    """Check a model that is in memory, such as the user's own, and return it as `load` does.

    `where` names the model in errors. For `parts` see `load`.

    Raises:
        AnchorscopeError: The model is wrapped by an adapter, has no LM head, also reads images, or
            cannot be measured; or the tokenizer is a slow one, splits its special tokens, or does
            not have the model's vocabulary.
    """
    from anchorscope.models import fitness  # loads torch, which plans and tables do not need

    where = where or type(model).__name__
    _check_model(model, where)
    families.text_config(model.config.to_dict(), where)
    vocabulary.check_kind(tokenizer, where)
    vocabulary.check_size(tokenizer, families.embedded(model), where)
    without_cudnn()
    model = model.eval().requires_grad_(False)
    found, window = families.find(model, where, parts), families.window(model.config)
    device = families.device_of(model)
    limit = families.batch_tokens(batch_tokens, device.type)
    loaded = Loaded(model, tokenizer, found, window, device, limit)
    fitness.check(loaded, where)
    return loaded


def _check_model(model: PreTrainedModel, where: object) -> None:
    """Refuse a model that is not a plain causal language model, or that ignores our mask."""
    if any(one.__name__ == "PeftModel" for one in type(model).__mro__):
        what = "the model is a PeftModel: an adapter wraps its layers"
        raise AnchorscopeError(what, where, contents.MERGE, see="adapter")
    if model.get_output_embeddings() is None:
        what, do = "the model has no LM head", "load it with `AutoModelForCausalLM`"
        raise AnchorscopeError(what, where, do, see="other-class")
    if families.also_reads_images(model.config):
        what = "the model also reads images"
        do = "take its language model: `anchorscope.models.loading.load(folder).model`"
        raise AnchorscopeError(what, where, do, see="other-class")
    if (used := model.config._attn_implementation) not in ("eager", "sdpa"):  # ignores our mask
        what = f"the attention implementation `{used}` cannot block attention to single tokens"
        do = 'load the model with attn_implementation="sdpa"'
        raise AnchorscopeError(what, where, do, see="attention")


def check(folder: str | Path, parts: Mapping[str, str] | None = None) -> None:
    """Refuse a checkpoint that `load` would refuse, without reading its weights."""
    folder = Path(folder)
    _check_folder(folder)
    _check_config(folder, parts)
    vocabulary.check_files(folder)
    _check_files(folder)
    contents.check_once(folder)
    contents.check_tensors(folder)


def _check_folder(folder: Path) -> None:
    """Refuse a path that is not a folder."""
    if folder.suffix == ".gguf":
        command = shlex.join(["anchorscope", "convert", str(folder), str(folder.with_suffix(""))])
        do = f"run this command, and name the folder that it makes: {command}"
        what = "a model is a folder, and this is a GGUF file"
        raise AnchorscopeError(what, folder, do, see="gguf")
    if not folder.is_dir():
        do = "check `local` in the config; for a hub model, delete results/models/<model>.json"
        raise AnchorscopeError("there is no such model folder", folder, do, see="no-checkpoint")


def _check_config(folder: Path, parts: Mapping[str, str] | None) -> None:
    """Refuse a model whose configs show that it cannot be measured."""
    import torch
    from transformers import AutoModelForCausalLM

    contents.check_adapter(folder)
    config, where = read_config(folder), folder / "config.json"
    families.sizes(config, where)
    families.check_rotary(config, where)
    contents.check_class(config, where)
    with torch.device("meta"):  # no memory is allocated
        model = AutoModelForCausalLM.from_config(families.text_config(config, where))
    families.find(model, where, parts)


def _check_files(folder: Path) -> None:
    if not (lacking := missing(folder)):
        return
    pickles = any(any(folder.glob(one)) for one in contents.PICKLES)
    if lacking == [contents.SINGLE] and pickles:
        what = "the model has no weights in safetensors format"
        do = "save it with `save_pretrained`; pickled weights are not read, as they can run code"
        raise AnchorscopeError(what, folder, do, see="no-safetensors")
    what = f"the checkpoint lacks {', '.join(lacking[:3])}{', …' if len(lacking) > 3 else ''}"
    do = "copy what is missing into the folder, or run where the hub can be reached"
    raise AnchorscopeError(what, folder, do, see="missing-files")


def check_prompt(folder: str | Path, named: bool) -> None:
    """Refuse a model that has a chat template, unless its entry names a prompt style (`named`)."""
    if not named and vocabulary.has_template(Path(folder)):
        what = "the model has a chat template, and its entry does not name a `prompt`"
        do = "add `prompt: chat` for an instruct model, or `prompt: few_shot` for a base model"
        raise AnchorscopeError(what, folder, do, see="chat-template")


def missing(folder: Path) -> list[str]:
    """Return the names of the weight files that are missing from a folder."""
    return [name for name in contents.weights(folder) if not (folder / name).is_file()]


def without_cudnn() -> None:
    """Switch off cuDNN attention, which makes a new plan for every shape of an explicit mask."""
    from torch.backends import cuda

    cuda.enable_cudnn_sdp(False)


def fetch(
    hub_id: str,
    revision: str | None = None,
    names_prompt: bool = True,
    parts: Mapping[str, str] | None = None,
) -> tuple[Path, str]:
    """Download a hub model's safetensors, tokenizer and config files. Return (folder, commit).

    `HF_HOME`, `HF_TOKEN` and `HF_HUB_OFFLINE` are respected. If the hub cannot be reached, return
    the cached folder, even if files are missing from it (see `check`). `revision` is a commit, a
    branch or a tag; None is the newest commit.

    Raises:
        AnchorscopeError: The model is gated or missing, there is no such revision or no network, or
            the model cannot be measured. In the last case only its configs are downloaded.
    """
    try:
        configs = _download(hub_id, revision, "config.json", "adapter_config.json", *TEMPLATES)
        _check_config(configs, parts)
        check_prompt(configs, names_prompt)
        path = _download(hub_id, revision, *WANTED_FILES)
    except AnchorscopeError as error:
        folder = cached(hub_id, revision)
        if error.see not in hub.PASSING or folder is None:
            raise
        path = folder
    return path, path.name


def fetch_config(hub_id: str, revision: str | None = None) -> dict[str, Any]:
    """Download only the config.json of a hub model, and return its content."""
    return read_config(_download(hub_id, revision, "config.json"))


def _download(hub_id: str, revision: str | None, *wanted: str) -> Path:
    from huggingface_hub import snapshot_download

    call = partial(
        snapshot_download,
        hub_id,
        revision=revision,
        allow_patterns=[*wanted],
        ignore_patterns=[*UNWANTED_FILES],
    )
    return Path(hub.fetch(call, "model", hub.place(hub_id, revision)))


def cached(hub_id: str, revision: str | None = None) -> Path | None:
    """Return a hub model's folder in the cache, complete or not; None if it is not in the cache."""
    commit = revisions.known_commit("models", hub_id, revision)
    folder = revisions.cache_of("models", hub_id) / "snapshots" / (commit or "")
    return folder if commit and folder.is_dir() else None


def files(folder: str | Path) -> list[Path]:
    """Return the files of a checkpoint folder that affect results: config, weights, tokenizer."""
    paths = {path for pattern in WANTED_FILES for path in Path(folder).expanduser().glob(pattern)}
    return sorted(path for path in paths if path.is_file() and not path.name.startswith("."))


def locate(model: Mapping[str, Any], names_prompt: bool = True) -> dict[str, Any]:
    """Locate the model of a catalogue entry; a hub model is downloaded and checked first.

    Of a local model, only folder and prompt style are checked. A run checks the rest before its
    first job, and `load` does so again.

    Returns:
        `path`, the folder; `source`; and `revision`: a hub model's commit, or the digest of a local
        model's files. A dequantised model also has `dequantised_from`, such as `Q4_1`. If the entry
        names `parts`, they are there, too.

    Raises:
        AnchorscopeError: See `fetch` and `check`.
    """
    parts = model.get("parts")
    named = {"parts": parts} if parts else {}
    if model.get("hub"):
        revision = model.get("revision")
        wanted = revisions.wanted("models", model["hub"], revision)
        path, commit = fetch(model["hub"], wanted, names_prompt, parts)
        check(path, parts)
        revisions.keep("models", model["hub"], commit, revision)
        return named | {"path": str(path), "revision": commit, "source": model["hub"]}
    folder = Path(model["local"]).expanduser()
    _check_folder(folder)
    check_prompt(folder, names_prompt)
    located = {"path": str(folder.resolve()), "revision": digest(files(folder)), "source": "local"}
    record = folder / GGUF_RECORD
    quantisation = read_json(record)["quantisation"] if record.is_file() else None
    return named | located | ({"dequantised_from": quantisation} if quantisation else {})


def _number(found: dict[str, Any]) -> Any:
    """Return the number that transformers writes as `{"__float__": "Infinity"}`, else `found`."""
    return float(found["__float__"]) if found.keys() == {"__float__"} else found


def read_config(folder: Path) -> dict[str, Any]:
    """Return the content of a checkpoint's config.json.

    Raises:
        AnchorscopeError: The file cannot be read or names no `model_type`, or the checkpoint is
            quantised.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"), object_hook=_number)
        if not isinstance(config["model_type"], str):
            raise TypeError
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"config.json cannot be read or names no model_type ({type(error).__name__})"
        do = "save the model with `save_pretrained`"
        raise AnchorscopeError(what, path, do, see="no-checkpoint") from error
    if quantised := config.get("quantization_config"):
        what = f"the checkpoint is quantised ({quantised.get('quant_method', 'method not named')})"
        do = "use the original checkpoint, from before quantisation"
        raise AnchorscopeError(what, path, do, see="quantised")
    return dict(config)


def _weights(
    folder: Path, dtype: str, placement: Mapping[str, Any], attention: str | None
) -> PreTrainedModel:
    """Load the model of a folder; refuse it if memory does not suffice or weights do not match."""
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
            **placement,
            **contents.options(folder),
        )
    except torch.cuda.OutOfMemoryError as error:
        raise no_room from error
    except Exception as error:  # safetensors, json and shape errors share no base class
        raise contents.broken(folder, error) from error
    model, info = loaded
    if "disk" in getattr(model, "hf_device_map", {}).values():  # `auto` moves the rest there
        raise no_room
    contents.refuse(info, folder)
    contents.check_tied(model, folder)
    return model


def _placement(device: str) -> dict[str, Any]:
    """Return the options of `from_pretrained` that place the layers on devices."""
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
    memory = {gpu: int((1 - KEPT_FREE) * torch.cuda.mem_get_info(gpu)[0]) for gpu in gpus}
    return {"device_map": "auto", "max_memory": memory}
