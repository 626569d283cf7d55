"""Read the shipped catalogue, which completes every config, and the shapes of hub models."""

import copy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FILES = ("catalogue.yaml", "demo.yaml")
"""Files of the catalogue in this folder. No entry is in both."""


@cache
def catalogue() -> dict[str, Any]:
    """Return models, datasets and figures by key, as in a config file."""
    whole: dict[str, Any] = {}
    for name in FILES:
        text = Path(__file__).with_name(name).read_text(encoding="utf-8")
        whole = laid_over(whole, yaml.safe_load(text))
    return whole


def complete(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Add the catalogue to `raw`, whose keys win. Skip catalogue figures that cannot be drawn."""
    moved = bool(raw.get("data_folder"))
    own_files = {"models": _found("models"), "datasets": _found("datasets", moved)}
    whole = laid_over(raw, catalogue() | own_files)
    figures, own = whole["figures"], raw.get("figures", {})
    if isinstance(figures, Mapping):
        whole["figures"] = {
            name: figure
            for name, figure in figures.items()
            if name in own or _can_be_drawn(figure, whole)
        }
    return whole


def laid_over(above: Mapping[str, Any], below: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings recursively. Where both have a key, the value in `above` wins."""
    both = dict(above)
    for key, value in below.items():
        if key not in both:
            both[key] = value
        elif isinstance(both[key], Mapping) and isinstance(value, Mapping):
            both[key] = laid_over(both[key], value)
    return both


def _found(kind: str, moved: bool = False) -> dict[str, Any]:
    """Return the catalogue's models or datasets. Local ones lie here, or in the project's folder.

    `moved` says that relative paths start from elsewhere, so those of the catalogue are absolute.
    """
    project = Path(__file__).parents[2]
    entries: dict[str, Any] = dict(catalogue()[kind])
    for name, entry in entries.items():
        if "local" in entry and (moved or not Path(entry["local"]).exists()):
            entries[name] = {**entry, "local": str(project / entry["local"])}
    return entries


def _can_be_drawn(figure: Mapping[str, Any], whole: Mapping[str, Any]) -> bool:
    """Return whether `whole`, a config not checked yet, has all that a figure needs."""
    for kind in ("models", "datasets"):
        held = whole[kind] if isinstance(whole[kind], Mapping) else {}
        if not held.keys() >= set(figure[kind]):
            return False
    readouts = whole.get("readouts")
    return not isinstance(readouts, list) or figure["readout"] in readouts


@cache
def shapes() -> Mapping[str, Mapping[str, Any]]:
    """Return {model key: shape}: the part of the model's config.json that gives its shape."""
    path = Path(__file__).with_name("shapes.yaml")
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))


def shape_of(model: str) -> dict[str, Any]:
    """Return the shape of a catalogue model, as arguments of `AutoConfig.for_model`."""
    return copy.deepcopy(dict(shapes()[model]))
