"""Stale: finished products that the present config would not make.

Snakemake remembers with which settings it made a product, and makes it anew where they have
changed. Of a product that was copied there from elsewhere it knows nothing; its record does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anchorscope.storage.errors import AnchorscopeError, redacted_in
from anchorscope.storage.files import read_json
from anchorscope.storage.identity import numbers
from anchorscope.storage.provenance import (
    MAKE_NUMBERS,
    first_difference,
    settings_by_key,
    without_places,
)


def refuse(record: str | Path, settings: Mapping[str, Any]) -> None:
    """Refuse a finished product that would be made with other settings now.

    Args:
        record: of the product; passed over where it is not there, or of another rule.
        settings: those that its rule has now.

    Raises:
        AnchorscopeError: a setting that changes numbers differs, with both values.
    """
    known = read_json(record) if Path(record).is_file() else {}
    if known.get("rule") not in MAKE_NUMBERS:
        return
    made, now = (settings_by_key(_held(found)) for found in (known.get("settings", {}), settings))
    if (key := first_difference(made, now)) is not None:
        raise AnchorscopeError(
            f"a finished product is of another config: `{key}` was {made.get(key)!r} when it was "
            f"made and is {now.get(key)!r} now",
            record,
            "delete the product and run snakemake again; results of another config belong into a "
            "root of their own (`--config results=…`)",
            see="stale-product",
        )


def _held(settings: Mapping[str, Any]) -> Any:
    """Settings as a record holds them (lists for tuples, no token), those alone that count."""
    return json.loads(json.dumps(numbers(without_places(redacted_in(settings))), default=str))
