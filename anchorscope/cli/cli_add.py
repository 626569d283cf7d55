"""`anchorscope add-model`: proposes a catalogue entry, and inserts it into the config's text.

Inserting text, rather than writing the whole config anew, keeps comments.
"""

import json
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from anchorscope.config.sections import valid_name
from anchorscope.models import loading
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow import config
from anchorscope.workflow.resources import in_cache


class Entry(NamedTuple):
    """A new entry of the catalogue."""

    key: str  # its name
    values: dict[str, Any]
    notes: list[str]  # what was guessed, and from what


def propose(
    source: str, *, key: str | None = None, prompt: str | None = None, dtype: str = "bfloat16"
) -> Entry:
    """Propose the entry of a model, without asking the hub.

    Args:
        source: a hub id, or a folder made by `save_pretrained`.
        key: name of the entry, by default made from that of the source.
        prompt: prompt style, by default guessed.
        dtype: format of the weights.

    Raises:
        AnchorscopeError: the source is neither a folder nor a hub id, or the folder's model cannot
            be measured.
    """
    place, folder = Path(source).expanduser(), None
    if place.is_dir():
        folder = place
        loading.check(folder)
        values: dict[str, Any] = {"local": source}
    elif re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", source):
        folder = in_cache(source)
        values = {"hub": source, "revision": None}
    else:
        do = "give a folder, or owner/name"
        raise AnchorscopeError("this is neither a folder nor a hub id", source, do, see="config")
    notes = []
    if prompt is None:
        prompt, reason = _guessed_prompt(source, folder)
        notes.append(f"prompt: {prompt}, guessed: {reason}")
    name = place.resolve().name
    values |= {"label": name, "prompt": prompt, "dtype": dtype}
    weights = sum(file.stat().st_size for file in folder.glob("*.safetensors")) if folder else 0
    if weights:
        values["resources"] = resources(weights)
        notes.append(f"resources: from weights of {weights / 1e9:.2g} GB")
    else:
        notes.append("resources: left at their defaults, the weights are not on this machine")
    return Entry(key or valid_name(name), values, notes)


def _guessed_prompt(source: str, folder: Path | None) -> tuple[str, str]:
    """A guess of the prompt style, and its reason."""
    has_template = chat_template(folder) if folder is not None else None
    if has_template is not None:
        if has_template:
            return "chat", "its tokenizer has a chat template"
        return "few_shot", "its tokenizer has no chat template"
    if {"instruct", "chat", "it"} & set(re.split(r"[^a-z0-9]+", source.lower())):
        return "chat", "its name says that it is an instruct model"
    return "few_shot", "its name does not say that it is an instruct model"


def chat_template(folder: Path) -> bool | None:
    """Whether a checkpoint's tokenizer has a chat template; None if its config cannot be read."""
    if any(folder.glob("chat_template.*")):
        return True
    try:
        text = (folder / "tokenizer_config.json").read_text(encoding="utf-8")
        return bool(json.loads(text).get("chat_template"))
    except (OSError, ValueError):
        return None


def resources(weights: float) -> dict[str, int]:
    """A generous `resources` section for a model by the bytes of its weights."""
    if weights < 0.2e9:  # such a small model needs no GPU
        return {"gpus": 0, "gpu_mem_gb": 0}
    memory = math.ceil(1.15 * weights / 1e9 + 4)
    gpus = math.ceil(memory / 80)  # GB of the largest GPU
    return {"gpus": gpus, "gpu_mem_gb": math.ceil(memory / gpus)}


def yaml_of(entry: Entry, indent: int = 2) -> str:
    """The entry as the YAML below `models:`."""
    text = yaml.safe_dump({entry.key: entry.values}, sort_keys=False, allow_unicode=True)
    return "".join(f"{' ' * indent}{line}\n" for line in text.splitlines())


def inserted(text: str, entry: Entry) -> str:
    """The config's text with the entry inserted as the first model, and nothing else changed.

    Raises:
        AnchorscopeError: the text has no block `models:` that takes the entry.
    """
    head = re.search(r"^models:[ \t]*(#.*)?\n", text, re.M)
    new = text
    if head and (first := re.search(r"^( +)[^\s#]", text[head.end() :], re.M)):
        new = text[: head.end()] + yaml_of(entry, len(first[1])) + text[head.end() :]
    before, after = yaml.safe_load(text), yaml.safe_load(new)
    if after != {**before, "models": {**before["models"], entry.key: entry.values}}:
        what, do = "the entry cannot be put in without changing the rest", "put it in by hand"
        raise AnchorscopeError(what, "config.yaml", f"{do}:\n{yaml_of(entry)}", see="config")
    config.load(after)
    return new
