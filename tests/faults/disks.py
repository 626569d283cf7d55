"""Small disks of a test's own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Put a folder, with what it holds, onto a disk of 64 MB."""
    aside = folder.with_name(folder.name + ".aside")
    folder.rename(aside)
    folder.mkdir()
    try:
        mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
        try:
            shutil.copytree(aside, folder, symlinks=True, dirs_exist_ok=True)
            yield
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
    finally:
        shutil.rmtree(aside)


def fill(folder: Path) -> Path:
    """Leave no room on a small disk; the file that took it."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as taken, suppress(OSError):
        while True:
            taken.write(bytes(4096))
    return ballast
