"""List the files that can be made again with their sizes, and remove them after asking.

The script needs only Python, so it also works before anything is set up.
"""

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = (
    "results",
    ".snakemake",
    "slurm_logs",
    "build",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
)


def size(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder. Links are not followed."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(size(child) for child in path.iterdir())


def freed(root: Path) -> list[tuple[Path, int]]:
    """Return (path, bytes) of everything to remove. Entries of `results` are listed one by one."""
    paths: list[Path] = []
    for folder in (root / name for name in FOLDERS):
        if folder.is_dir() and not folder.is_symlink() and folder.name == "results":
            paths += sorted(folder.iterdir())
        elif folder.is_dir() or folder.is_symlink():
            paths.append(folder)
    return [(path, size(path)) for path in paths]


def remove(path: Path) -> None:
    """Remove a folder, a file, or a link (never its target)."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def main(root: Path, *, yes: bool) -> int:
    """List the files, ask unless `yes`, remove them, and return the exit status."""
    rows = freed(root)
    if not rows:
        print("nothing to free")
        return 0
    for path, count in [*rows, (Path("together"), sum(count for _, count in rows))]:
        name = path.relative_to(root) if path.is_absolute() else path
        print(f"{count / 1e6:12,.1f} MB  {name}")
    print("kept: .venv, resources, revisions.lock.yaml, the models in the hub's own cache")
    if not yes and not _agreed():
        print("nothing was removed (make clean YES=1 does not ask)")
        return 1
    for path, _ in rows:
        remove(path)
    return 0


def _agreed() -> bool:
    try:
        return input("remove these? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


if __name__ == "__main__":
    sys.exit(main(ROOT, yes="--yes" in sys.argv[1:]))
