"""The identity of a run: a short hash of what changes numbers."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

CATALOGUES = ("models", "datasets", "figures")
LOOKS = frozenset(
    "label title resources gated chart results targets keep_activations most_dropped".split()
)
"""Keys that change no number; identities leave them out."""


def identity(part: Mapping[str, Any]) -> str:
    """Hash of what changes numbers in a part of the config: 12 digits, for any order of keys."""
    text = json.dumps(numbers(part), sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def numbers(part: Any, inside: str = "") -> Any:
    """`part` without the keys that change no number.

    In a field map `label` names a column, and a catalogue's keys are the user's own.
    """
    if isinstance(part, Mapping):
        dropped = frozenset() if inside in ("fields", *CATALOGUES) else LOOKS
        return {key: numbers(value, str(key)) for key, value in part.items() if key not in dropped}
    if isinstance(part, (list, tuple)):
        return [numbers(value) for value in part]
    return part
