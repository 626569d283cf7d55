"""The catalogue that comes with the library: every run has it, below its own keys."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FILES = ("catalogue.yaml", "calibration.yaml")
"""In this folder; no two of them hold the same entry."""


@cache
def catalogue() -> dict[str, Any]:
    """Models, datasets, figures and null controls by key, as in a config file."""
    whole: dict[str, Any] = {}
    for name in FILES:
        text = Path(__file__).with_name(name).read_text(encoding="utf-8")
        whole = laid_over(whole, yaml.safe_load(text))
    return whole


def complete(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A run's own keys, which come first and win, and the catalogue.

    A figure of the catalogue is left out if the run lacks a model, a dataset or the read-out of it.
    """
    whole = laid_over(raw, catalogue())
    figures, own = whole["figures"], raw.get("figures", {})
    if isinstance(figures, Mapping):
        whole["figures"] = {
            name: figure
            for name, figure in figures.items()
            if name in own or _can_be_drawn(figure, whole)
        }
    return whole


def laid_over(above: Mapping[str, Any], below: Mapping[str, Any]) -> dict[str, Any]:
    """`above`, and behind it what only `below` holds; mappings that both hold are merged."""
    both = dict(above)
    for key, value in below.items():
        if key not in both:
            both[key] = value
        elif isinstance(both[key], Mapping) and isinstance(value, Mapping):
            both[key] = laid_over(both[key], value)
    return both


def _can_be_drawn(figure: Mapping[str, Any], whole: Mapping[str, Any]) -> bool:
    """Whether a config holds all that a figure needs; it is not checked yet."""
    for kind in ("models", "datasets"):
        held = whole[kind] if isinstance(whole[kind], Mapping) else {}
        if not held.keys() >= set(figure[kind]):
            return False
    readouts = whole.get("readouts")
    return not isinstance(readouts, list) or figure["readout"] in readouts
