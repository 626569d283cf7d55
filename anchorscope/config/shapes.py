"""The published shapes of the catalogue's models, known without a download."""

import copy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from anchorscope.storage.errors import AnchorscopeError, nearest


@cache
def shapes() -> Mapping[str, Mapping[str, Any]]:
    """Return the keys of config.json that give a model's shape, by the model's catalogue key."""
    path = Path(__file__).with_name("shapes.yaml")
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))


def config_of(model: str) -> dict[str, Any]:
    """Return the keys of config.json that give the shape of a catalogue model.

    They are arguments of `transformers.AutoConfig.for_model`, `model_type` among them.

    Raises:
        AnchorscopeError: No shape is known for this key.
    """
    if model not in shapes():
        what = f"no shape is known for the model `{model}`"
        raise AnchorscopeError(what, "the catalogue", nearest(model, shapes()), see="config")
    return copy.deepcopy(dict(shapes()[model]))
