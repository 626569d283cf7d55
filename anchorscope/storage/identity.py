"""The identity of a run: a short hash of all settings that change numbers."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

CATALOGUES = ("models", "datasets", "figures")
LOOKS = frozenset(
    "label title resources gated chart results targets keep_activations most_dropped".split()
)
"""Keys that change no number and are left out of identities."""


def identity(part: Mapping[str, Any]) -> str:
    """Hash `part` to 12 hex digits. Ignore keys that change no number, and the order of keys."""
    text = json.dumps(numbers(part), sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def numbers(part: Any, inside: str = "") -> Any:
    """Return `part` without the keys that change no number (`LOOKS`).

    `inside` is the key of `part` in its parent. In `fields` and `CATALOGUES`, all keys are kept:
    there, a key such as `label` is a field, or the name of a model, dataset or figure.
    """
    if isinstance(part, Mapping):
        left_out = frozenset() if inside in ("fields", *CATALOGUES) else LOOKS
        return {key: numbers(value, str(key)) for key, value in part.items() if key not in left_out}
    if isinstance(part, (list, tuple)):
        return [numbers(value) for value in part]
    return part
