"""List generated files with their sizes, and remove them if the user agrees.

The script needs only Python, so it also works before `make setup`.
"""

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
MADE = "results/* .snakemake slurm_logs build .pytest_cache .mypy_cache .ruff_cache".split()


def size(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder. Links are not followed."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(size(child) for child in path.iterdir())


def main(root: Path, *, yes: bool) -> int:
    """List the files, ask unless `yes`, remove them, and return the exit status."""
    paths = [path for name in MADE for path in sorted(root.glob(name))]
    if not paths:
        print("nothing to free")
        return 0
    for path in paths:
        print(f"{size(path) / 1e6:12,.1f} MB  {path.relative_to(root)}")
    print("kept: .venv, resources, revisions.lock.yaml, the models in the hub's own cache")
    if not yes and input("remove these? [y/N] ").strip().lower() not in ("y", "yes"):
        print("nothing was removed (make clean YES=1 does not ask)")
        return 1
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:  # removes a link, not its target
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(ROOT, yes="--yes" in sys.argv[1:]))
