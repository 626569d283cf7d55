"""Put the checkpoints that `retrain` made where a fresh clone finds them: `make ship`."""

import argparse
import shutil
from collections.abc import Mapping
from pathlib import Path

import yaml

from anchorscope import config
from anchorscope.checkpoints import RECIPE, fits
from anchorscope.errors import AnchorscopeError
from anchorscope.files import atomic

LARGEST = 4_000_000
"""Bytes that one shipped checkpoint may take."""


def ship(trained: Path, resources: Path, recipes: Mapping[str, str]) -> list[str]:
    """Copy every trained checkpoint of `trained` into `resources`; returns their names.

    Args:
        trained: folder of checkpoint folders.
        resources: where to.
        recipes: model → hash of its present recipe.

    Raises:
        AnchorscopeError: there is none, one is larger than a repository should hold, or one is
            not of the present recipe. Nothing is copied then.
    """
    folders = sorted(path.parent for path in trained.glob(f"*/{RECIPE}"))
    if not folders:
        raise AnchorscopeError(
            "there is no trained checkpoint", trained, "run `make retrain` first"
        )
    for folder in folders:
        _check(folder, recipes)
    for folder in folders:
        with atomic(resources / folder.name) as draft:
            shutil.copytree(folder, draft, ignore=shutil.ignore_patterns(".snakemake*"))
    return [folder.name for folder in folders]


def _check(folder: Path, recipes: Mapping[str, str]) -> None:
    recipe = recipes.get(folder.name)
    if recipe is None or not fits(folder, recipe):
        raise AnchorscopeError(
            f"this checkpoint was not trained by the present recipe ({recipe})",
            folder / RECIPE,
            "run `make retrain` again, or delete the folder of a model that is no more",
        )
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    if size > LARGEST:
        raise AnchorscopeError(
            f"the checkpoint takes {size:,} bytes, more than {LARGEST:,}",
            folder,
            "ship a smaller model",
        )


def present(path: Path) -> dict[str, str]:
    """The recipes' hashes of a config file, by model."""
    chosen = config.load(yaml.safe_load(path.read_text(encoding="utf-8")), source=str(path))
    return {name: chosen.recipe_hash(name) for name, m in chosen.models.items() if m.train}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trained", type=Path, default=Path("results/models"))
    parser.add_argument("--resources", type=Path, default=Path("resources/models"))
    parser.add_argument("--config", type=Path, default=Path("config.yaml"))
    chosen = parser.parse_args()
    try:
        shipped = ship(chosen.trained, chosen.resources, present(chosen.config))
        print("shipped:", ", ".join(shipped))
    except AnchorscopeError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
