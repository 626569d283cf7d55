"""Whether a checkpoint is still, to the bit, what was located: a flipped bit loads like any other.

The record of where a model lies (`results/models/<model>.json`) holds the SHA-256 of every file
that decides numbers; every job that passes something through the model compares, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import sha256


def check(located: Mapping[str, Any], *, weights: bool = True) -> None:
    """Refuse a checkpoint that was changed or damaged since it was located.

    Args:
        located: `path`, and `files` as `checkpoints.digests` found them; without these nothing is
            compared.
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
