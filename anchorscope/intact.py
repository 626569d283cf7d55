"""Whether a checkpoint is still, to the bit, what was located: a flipped bit loads like any other.

The record of where a model lies (`results/models/<model>.json`) holds the SHA-256 of every file
that decides numbers; every job that passes something through the model compares, once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anchorscope.checkpoints import parts
from anchorscope.errors import AnchorscopeError
from anchorscope.files import sha256

_SHA256 = re.compile(r"[0-9a-f]{64}")


def digests(folder: str | Path) -> dict[str, str]:
    """File name → SHA-256 of config, weights and tokenizer of a checkpoint.

    Large files in the hub's cache are named by the digest that the hub gives for them, so it is
    not computed: what was downloaded is held against what was published.
    """
    return {path.name: _published(path) or sha256(path) for path in parts(folder)}


def check(located: Mapping[str, Any], *, weights: bool = True) -> None:
    """Refuse a checkpoint that was changed or damaged since it was located.

    Args:
        located: `path`, and `files` as `digests` found them; without these nothing is compared.
        weights: False leaves out the weights, where none are loaded.

    Raises:
        AnchorscopeError: a file is missing, or not what it was.
    """
    for name, written in located.get("files", {}).items():
        path = Path(located["path"]) / name
        if not weights and path.suffix == ".safetensors":
            continue
        if not path.is_file() or sha256(path) != written:
            raise AnchorscopeError(
                "the checkpoint is not what was located: a file was changed or damaged since",
                path,
                "download, save or train it again (of a trained model delete the folder); if you "
                "changed it on purpose, delete results/models/<model>.json; then run again",
                see="broken-weights",
            )


def _published(path: Path) -> str | None:
    """The digest by which a file of the hub's cache is named, if it is."""
    blob = path.resolve()
    return blob.name if blob.parent.name == "blobs" and _SHA256.fullmatch(blob.name) else None
