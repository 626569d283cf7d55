"""The identity of a run: a short hash of all settings that change numbers."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def identity(part: Mapping[str, Any]) -> str:
    """Hash `part` to 12 hex digits. The order of keys does not matter."""
    text = json.dumps(part, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
