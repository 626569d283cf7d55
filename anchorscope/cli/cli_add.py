"""`anchorscope add-model`: a catalogue entry, put in as text, so that comments stay."""

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
    """A new entry of the catalogue: its name, what stands under it, and what was guessed."""

    key: str
    values: dict[str, Any]
    notes: list[str]


def propose(
    source: str, *, key: str | None = None, prompt: str | None = None, dtype: str = "bfloat16"
) -> Entry:
    """The entry of a hub model or of a folder made by `save_pretrained`; the hub is not asked.

    By default `key` is made from the source's name, and `prompt` guessed. Raises AnchorscopeError:
    neither a folder nor a hub id, or a folder that cannot be measured.
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
        prompt, why = _prompt(source, folder)
        notes.append(f"prompt: {prompt}, guessed: {why}")
    name = place.resolve().name
    values |= {"label": name, "prompt": prompt, "dtype": dtype}
    if weights := sum(f.stat().st_size for f in folder.glob("*.safetensors")) if folder else 0:
        values["resources"] = resources(weights)
        notes.append(f"resources: from weights of {weights / 1e9:.2g} GB")
    else:
        notes.append("resources: left at their defaults, the weights are not on this machine")
    return Entry(key or valid_name(name), values, notes)


def _prompt(source: str, folder: Path | None) -> tuple[str, str]:
    """The prompt style, and what it was guessed from."""
    if folder is not None and (known := chat_template(folder)) is not None:
        has = "a" if known else "no"
        return "chat" if known else "few_shot", f"its tokenizer has {has} chat template"
    if {"instruct", "chat", "it"} & set(re.split(r"[^a-z0-9]+", source.lower())):
        return "chat", "its name says that it is an instruct model"
    return "few_shot", "its name does not say that it is an instruct model"


def chat_template(folder: Path) -> bool | None:
    """Whether a checkpoint's tokenizer has a chat template; None if no tokenizer config is here."""
    if any(folder.glob("chat_template.*")):
        return True
    try:
        text = (folder / "tokenizer_config.json").read_text(encoding="utf-8")
        return bool(json.loads(text).get("chat_template"))
    except (OSError, ValueError):
        return None


def resources(weights: float) -> dict[str, int]:
    """GPUs for a model with so many bytes of weights, generously."""
    if weights < 0.2e9:  # so small a model does well without one
        return {"gpus": 0, "gpu_mem_gb": 0}
    memory = math.ceil(1.15 * weights / 1e9 + 4)
    gpus = math.ceil(memory / 80)  # GB of the largest GPU
    return {"gpus": gpus, "gpu_mem_gb": math.ceil(memory / gpus)}


def yaml_of(entry: Entry, indent: int = 2) -> str:
    """The entry as it stands in the config, below `models:`."""
    text = yaml.safe_dump({entry.key: entry.values}, sort_keys=False, allow_unicode=True)
    return "".join(f"{' ' * indent}{line}\n" for line in text.splitlines())


def inserted(text: str, entry: Entry) -> str:
    """The config's text with the entry first in its catalogue, all else as it was.

    Raises AnchorscopeError: the text has no block `models:` that the entry can be put into.
    """
    found = re.search(r"^models:[ \t]*(#.*)?\n", text, re.M)
    new = text
    if found and (first := re.search(r"^( +)[^\s#]", text[found.end() :], re.M)):
        new = text[: found.end()] + yaml_of(entry, len(first[1])) + text[found.end() :]
    before, after = yaml.safe_load(text), yaml.safe_load(new)
    if after != {**before, "models": {**before["models"], entry.key: entry.values}}:
        what, do = "the entry cannot be put in without changing the rest", "put it in by hand"
        raise AnchorscopeError(what, "config.yaml", f"{do}:\n{yaml_of(entry)}", see="config")
    config.load(after)
    return new
