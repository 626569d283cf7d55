"""Which folder a catalogue model is loaded from, and whether a trained one is of today's recipe."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anchorscope.models import models
from anchorscope.questions import revisions
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_json, sha256

RECIPE = "recipe.json"
_SHA256 = re.compile(r"[0-9a-f]{64}")


def fits(folder: str | Path, recipe: str) -> bool:
    """Whether the trained checkpoint in `folder` was made by the recipe of this hash."""
    marker = Path(folder) / RECIPE
    return marker.is_file() and read_json(marker).get("recipe") == recipe


def parts(folder: str | Path) -> list[Path]:
    """The files of a checkpoint folder that decide numbers: config, weights, tokenizer."""
    found = {p for pattern in models.WANTED_FILES for p in Path(folder).expanduser().glob(pattern)}
    return sorted(path for path in found if path.is_file() and not path.name.startswith("."))


def digests(folder: str | Path) -> dict[str, str]:
    """File name → SHA-256 of config, weights and tokenizer of a checkpoint.

    Large files in the hub's cache are named by the digest that the hub gives for them, so it is
    not computed: what was downloaded is held against what was published.
    """
    return {path.name: _published(path) or sha256(path) for path in parts(folder)}


def _published(path: Path) -> str | None:
    """The digest by which a file of the hub's cache is named, if it is."""
    blob = path.resolve()
    return blob.name if blob.parent.name == "blobs" and _SHA256.fullmatch(blob.name) else None


def locate(
    model: Mapping[str, Any], trained: str | Path | None = None, recipe: str | None = None
) -> dict[str, Any]:
    """Where a model lies; a hub model is downloaded first.

    Args:
        model: its catalogue entry.
        trained: folder of the checkpoint, for a model that is trained.
        recipe: hash that its marker must hold.

    Returns:
        `path` (a folder), `revision` (commit of a hub model, recipe hash of a trained one, of a
        local one the digest of its files), `source`, for a trained one `content`, the digest of its
        files; and `files`, see `digests`. No file is read twice.

    Raises:
        AnchorscopeError: gated, missing, no network, nothing in the folder that could be
            measured, or a checkpoint of another recipe.
    """
    if model.get("hub"):
        asked = model.get("revision")
        path, commit = models.fetch(model["hub"], revisions.wanted("models", model["hub"], asked))
        models.check(path)
        revisions.keep("models", model["hub"], commit, asked)
        found = {"path": str(path), "revision": commit, "source": model["hub"]}
        return found | {"files": digests(path)}
    if trained is not None:
        if not fits(trained, recipe or ""):
            raise AnchorscopeError(
                f"this checkpoint was not trained by the present recipe ({recipe})",
                Path(trained) / RECIPE,
                "delete its folder and run snakemake again, which trains it",
                see="other-recipe",
            )
        files = digests(trained)
        made = {"path": str(trained), "revision": recipe, "source": "trained"}
        return made | {"content": _digest(files), "files": files}
    folder = Path(model["local"]).expanduser()
    if not (folder / "config.json").is_file():
        raise AnchorscopeError(
            "there is no checkpoint in this folder (no config.json)",
            folder,
            "correct `local:` in config.yaml, or save the model there with save_pretrained",
            see="no-checkpoint",
        )
    models.check(folder)
    files = digests(folder)
    own = {"path": str(folder.resolve()), "revision": _digest(files), "source": "local"}
    return own | {"files": files}


def _digest(files: Mapping[str, str]) -> str:
    """SHA-256 over names and content of files, of which the content's is known."""
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
