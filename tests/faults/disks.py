"""Small disks of a test's own: full, then larger; read-only, then writable again."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

SIZE = "64m"


def mount(*words: str) -> None:
    """Run mount; skip by name where it is not allowed."""
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Put a folder, with what it holds, onto a small disk."""
    aside = folder.with_name(folder.name + ".aside")
    folder.rename(aside)
    folder.mkdir()
    try:
        mount("-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder))
        try:
            shutil.copytree(aside, folder, symlinks=True, dirs_exist_ok=True)
            yield
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
    finally:
        shutil.rmtree(aside)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Close a small disk to writing."""
    mount("-o", "remount,ro", str(folder))
    try:
        yield
    finally:
        mount("-o", "remount,rw", str(folder))


def fill(folder: Path) -> Path:
    """Leave no room on a small disk; the file that took it."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as taken, suppress(OSError):
        while True:
            taken.write(bytes(4096))
    return ballast
