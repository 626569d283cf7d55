"""Put the checkpoints that `retrain` made where a fresh clone finds them: `make ship`."""

import argparse
import shutil
from pathlib import Path

from anchorscope.checkpoints import RECIPE
from anchorscope.errors import AnchorscopeError
from anchorscope.files import atomic

LARGEST = 4_000_000
"""Bytes that one shipped checkpoint may take."""


def ship(trained: Path, resources: Path) -> list[str]:
    """Copy every trained checkpoint of `trained` into `resources`; returns their names.

    Raises:
        AnchorscopeError: there is none, or one is larger than a repository should hold.
    """
    folders = sorted(path.parent for path in trained.glob(f"*/{RECIPE}"))
    if not folders:
        raise AnchorscopeError(
            "there is no trained checkpoint", trained, "run `make retrain` first"
        )
    for folder in folders:
        size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
        if size > LARGEST:
            raise AnchorscopeError(
                f"the checkpoint takes {size:,} bytes, more than {LARGEST:,}",
                folder,
                "ship a smaller model",
            )
        with atomic(resources / folder.name) as draft:
            shutil.copytree(folder, draft, ignore=shutil.ignore_patterns(".snakemake*"))
    return [folder.name for folder in folders]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trained", type=Path, default=Path("results/models"))
    parser.add_argument("--resources", type=Path, default=Path("resources/models"))
    chosen = parser.parse_args()
    try:
        print("shipped:", ", ".join(ship(chosen.trained, chosen.resources)))
    except AnchorscopeError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
