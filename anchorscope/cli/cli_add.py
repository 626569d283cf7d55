"""`anchorscope add-model`: a catalogue entry, put in as text, so that comments stay."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from anchorscope.models import models
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic
from anchorscope.workflow import config as config_module
from anchorscope.workflow.resources import in_cache

CHAT_WORDS = frozenset(["instruct", "chat", "it"])
"""Words in a hub id that say: tuned on conversations."""
LARGEST_GPU = 80
SMALL = 0.2e9
"""Bytes of weights up to which a model does well without a GPU."""


@dataclass(frozen=True)
class Entry:
    """A new entry of the catalogue.

    Attributes:
        key: its name.
        values: what stands under it.
        notes: what was guessed, and from what.
    """

    key: str
    values: dict[str, Any]
    notes: tuple[str, ...]


def propose(
    source: str,
    *,
    key: str | None = None,
    label: str | None = None,
    prompt: str | None = None,
    dtype: str = "bfloat16",
    gated: bool = False,
) -> Entry:
    """The entry of a hub model or a local folder; nothing is asked of the hub.

    Args:
        source: `owner/name`, or a folder made by `save_pretrained`.
        key: its name in the catalogue; by default made from the source's.
        label: its name in figures; by default the source's.
        prompt: `plain`, `few_shot` or `chat`; guessed where left out.
        dtype: number format of the weights.
        gated: whether the hub wants an accepted licence.

    Raises:
        AnchorscopeError: neither a folder nor a hub id, or a folder that cannot be measured.
    """
    where, folder = _located(source)
    name = Path(source.rstrip("/")).expanduser().resolve().name if "local" in where else source
    name = name.rpartition("/")[2]
    style, why = (prompt, None) if prompt else _prompt(source, folder)
    size = sum(f.stat().st_size for f in folder.glob("*.safetensors")) if folder else 0
    values: dict[str, Any] = {**where, "label": label or name, "prompt": style, "dtype": dtype}
    values |= {"gated": True} if gated else {}
    notes = [] if why is None else [f"prompt: {style}, {why}"]
    if size:
        values["resources"] = resources(size)
        notes.append(f"resources: from weights of {size / 1e9:.2g} GB")
    else:
        notes.append("resources: left at their defaults, the weights are not on this machine")
    if "hub" in where and not gated:
        notes.append("gated: not set; add --gated if the model's page asks for its terms")
    return Entry(key or config_module.valid_key(name), values, tuple(notes))


def _located(source: str) -> tuple[dict[str, Any], Path | None]:
    """`local` or `hub` with its value, and the folder that is on this machine."""
    path = Path(source).expanduser()
    if path.is_dir():
        models.check(path)
        return {"local": source.rstrip("/") or source}, path
    if re.fullmatch(r"[\w.-]+/[\w.-]+", source) and not source.startswith("."):
        return {"hub": source, "revision": None}, in_cache(source)
    raise AnchorscopeError(
        "this is neither a folder nor a hub id",
        source,
        "give a folder, or owner/name",
        see="config",
    )


def _prompt(source: str, folder: Path | None) -> tuple[str, str]:
    """The prompt style, and what it was guessed from."""
    if folder is not None and (known := chat_template(folder)) is not None:
        if known:
            return "chat", "guessed: its tokenizer has a chat template"
        return "few_shot", "guessed: its tokenizer has no chat template"
    words = re.split(r"[^a-z0-9]+", source.lower())
    if CHAT_WORDS & set(words):
        return "chat", "guessed from its name"
    return "few_shot", "guessed: its name does not say that it is an instruct model"


def chat_template(folder: Path) -> bool | None:
    """Whether a checkpoint's tokenizer has a chat template; None if no tokenizer config is here."""
    if (folder / "chat_template.jinja").is_file() or (folder / "chat_template.json").is_file():
        return True
    try:
        text = (folder / "tokenizer_config.json").read_text(encoding="utf-8")
        return bool(json.loads(text).get("chat_template"))
    except (OSError, ValueError, AttributeError):
        return None


def resources(weights: float) -> dict[str, int]:
    """GPUs for a model with so many bytes of weights, generously."""
    if weights < SMALL:
        return {"gpus": 0, "gpu_mem_gb": 0}
    memory = math.ceil(1.15 * weights / 1e9 + 4)
    gpus = math.ceil(memory / LARGEST_GPU)
    return {"gpus": gpus, "gpu_mem_gb": math.ceil(memory / gpus)}


def yaml_of(entry: Entry, indent: int = 2, step: int = 2) -> str:
    """The entry as it stands in the config, below `models:`."""
    values = {k: v for k, v in entry.values.items() if k != "resources"}
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 10_000}
    text = yaml.safe_dump({entry.key: values}, indent=step, **options)
    if "resources" in entry.values:
        flow = yaml.safe_dump(entry.values["resources"], default_flow_style=True, **options)
        text += f"{' ' * step}resources: {flow.strip()}\n"
    return "".join(f"{' ' * indent}{line}\n" for line in text.splitlines())


def inserted(text: str, entry: Entry, source: str = "config.yaml") -> str:
    """The config's text with the entry first in its catalogue, all else as it was.

    Raises:
        AnchorscopeError: the key is there already, there is no block of `models:` to put it in, or
            the text would no longer be a valid config.
    """
    before = _loaded(text, source)
    catalogue = before.get("models")
    if isinstance(catalogue, Mapping) and entry.key in catalogue:
        raise taken(entry.key, source)
    lines = text.splitlines(keepends=True)
    heads = [i for i, line in enumerate(lines) if re.fullmatch(r"models:\s*(#.*)?\s*", line)]
    if len(heads) != 1:
        raise _by_hand("there is no block `models:` to put the entry into", source, entry)
    end = "\r\n" if lines[heads[0]].endswith("\r\n") else "\n"
    head = lines[heads[0]].rstrip("\r\n") + end
    addition = yaml_of(entry, *_indents(lines[heads[0] + 1 :])).replace("\n", end)
    new = "".join([*lines[: heads[0]], head, addition, *lines[heads[0] + 1 :]])
    after = _loaded(new, source)
    added = after.get("models", {}).pop(entry.key, None)
    if added != entry.values or after != {**before, "models": catalogue or {}}:
        raise _by_hand("the entry cannot be put in without changing the rest", source, entry)
    config_module.load(_loaded(new, source), source)
    return new


def taken(key: str, source: str) -> AnchorscopeError:
    """There is such an entry already."""
    do = "choose another name with --key, or change the entry by hand"
    return AnchorscopeError(
        f"there is a model `{key}` already", f"{source}, models.{key}", do, see="config"
    )


def _by_hand(what: str, source: str, entry: Entry) -> AnchorscopeError:
    return AnchorscopeError(what, source, f"put it in by hand:\n{yaml_of(entry)}", see="config")


def _loaded(text: str, source: str) -> dict[str, Any]:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise AnchorscopeError(
            f"not valid YAML: {error}", source, "correct it first", see="config"
        ) from None
    if not isinstance(found, dict):
        raise AnchorscopeError("the config has no keys", source, "correct it first", see="config")
    return found


def _indents(lines: list[str]) -> tuple[int, int]:
    """Columns before an entry's name, and from there to its keys, as the entries there have it."""
    found: list[int] = []
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        depth = len(line) - len(line.lstrip())
        if depth == 0 or len(found) == 2:
            break
        found.append(depth)
    first = found[0] if found else 2
    step = found[1] - first if len(found) == 2 and found[1] > first else 2
    return first, step


def write(path: Path, text: str) -> None:
    """Replace a config file; a link stays a link, and the file's mode what it is."""
    path = path.resolve()
    with atomic(path) as draft:
        draft.write_bytes(text.encode("utf-8"))
        shutil.copymode(path, draft)
