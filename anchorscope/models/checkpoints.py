"""Which folder a catalogue model is loaded from, and whether a trained one is of today's recipe."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anchorscope.models import loading
from anchorscope.questions import revisions
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import digest, read_json

RECIPE = "recipe.json"


def fits(folder: str | Path, recipe: str) -> bool:
    """Whether the trained checkpoint in `folder` was made by the recipe of this hash."""
    marker = Path(folder) / RECIPE
    return marker.is_file() and read_json(marker).get("recipe") == recipe


def parts(folder: str | Path) -> list[Path]:
    """The files of a checkpoint folder that decide numbers: config, weights, tokenizer."""
    found = {p for pattern in loading.WANTED_FILES for p in Path(folder).expanduser().glob(pattern)}
    return sorted(path for path in found if path.is_file() and not path.name.startswith("."))


def locate(
    model: Mapping[str, Any], trained: str | Path | None = None, recipe: str | None = None
) -> dict[str, Any]:
    """Where a model lies; a hub model is downloaded first.

    Args:
        model: its catalogue entry.
        trained, recipe: for a model that is trained, its folder and the hash of its recipe.

    Returns:
        `path` (a folder), `revision` (commit of a hub model, recipe hash of a trained one, of a
        local one the digest of its files), `source`; for a trained one `content`, the digest of its
        files.

    Raises:
        AnchorscopeError: gated, missing, no network, nothing in the folder that could be
            measured, or a checkpoint of another recipe.
    """
    if model.get("hub"):
        asked = model.get("revision")
        path, commit = loading.fetch(model["hub"], revisions.wanted("models", model["hub"], asked))
        loading.check(path)
        revisions.keep("models", model["hub"], commit, asked)
        return {"path": str(path), "revision": commit, "source": model["hub"]}
    if trained is not None:
        if not fits(trained, recipe or ""):
            what = f"this checkpoint was not trained by the present recipe ({recipe})"
            do = "delete its folder and run snakemake again, which trains it"
            raise AnchorscopeError(what, Path(trained) / RECIPE, do, see="other-recipe")
        made = {"path": str(trained), "revision": recipe, "source": "trained"}
        return made | {"content": digest(parts(trained))}
    folder = Path(model["local"]).expanduser()
    loading.check(folder)
    return {"path": str(folder.resolve()), "revision": digest(parts(folder)), "source": "local"}
