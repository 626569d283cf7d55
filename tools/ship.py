"""Copy the models and rows that `retrain` made into `resources`, for new clones (`make ship`)."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic
from anchorscope.workflow import config
from validation import cells
from validation.recipes import FILE, fits

LARGEST = 4_000_000
"""Largest size of a shipped checkpoint, bytes."""


def ship(trained: Path, resources: Path, recipes: Mapping[str, str]) -> list[str]:
    """Copy the trained checkpoints of `trained` into `resources`, and return their names.

    `recipes` maps each model to copy to the hash of its present recipe.

    Raises:
        AnchorscopeError: There is no checkpoint, one is larger than a repository should hold, or
            one was not trained by the present recipe. Nothing is copied then.
    """
    folders = sorted(path.parent for path in trained.glob(f"*/{FILE}"))
    folders = [folder for folder in folders if folder.name in recipes]
    if not folders:
        what, do = "there is no trained checkpoint", "run `make retrain` first"
        raise AnchorscopeError(what, trained, do, see="other-recipe")
    for folder in folders:
        recipe, size = recipes[folder.name], sum(path.stat().st_size for path in folder.iterdir())
        if not fits(folder, recipe):
            what = f"this checkpoint was not trained by the present recipe ({recipe})"
            raise AnchorscopeError(what, folder, "run `make retrain` again", see="other-recipe")
        if size > LARGEST:
            what = f"the checkpoint takes {size:,} bytes, more than {LARGEST:,}"
            raise AnchorscopeError(what, folder, "ship a smaller model", see="other-recipe")
    for folder in folders:
        with atomic(resources / folder.name) as draft:
            shutil.copytree(folder, draft, ignore=shutil.ignore_patterns(".snakemake*"))
    return [folder.name for folder in folders]


def main() -> None:
    """Ship the trained checkpoints, and the rows of the demo's worlds."""
    made, resources = Path("results/calibration"), Path("resources")
    try:
        chosen = config.read(["config.yaml", "validation/calibration.yaml"])
        known = cells.read("validation/cells.yaml", chosen)
        recipes = {name: known.recipe(name) for name in known.shipped}
        worlds = sorted(path.name for path in resources.glob("worlds/*.jsonl"))
        if missing := [name for name in worlds if not (made / "worlds" / name).is_file()]:
            what, where = "the rows of a world were not made", made / "worlds" / missing[0]
            raise AnchorscopeError(what, where, "run `make retrain`", see="other-recipe")
        shipped = ship(made / "models", resources / "models", recipes)
        for name in worlds:
            with atomic(resources / "worlds" / name) as draft:
                shutil.copy(made / "worlds" / name, draft)
        print("shipped:", ", ".join(shipped))
    except AnchorscopeError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
