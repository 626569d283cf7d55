"""Locks of long jobs, so that no two processes make the same product at the same time.

Snakemake's lock belongs to a run. It does not cover a job that outlives its run, and the end of one
run removes the locks of all runs. So each job holds a lock of its own, in the file
`<root>/.partial/<product>.lock`. The operating system releases this lock when the process ends.
"""

import fcntl
import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from anchorscope.storage.partial import waiting

log = logging.getLogger(__name__)


def path_of(root: str | Path, product: str | Path) -> Path:
    """Return the path of a product's lock, next to its finished batches."""
    waits = waiting(root, product)
    return waits.with_name(f"{waits.name}.lock")


def holder(root: str | Path, product: str | Path) -> str | None:
    """Return the holder of a product's lock, such as `process 12 on node3`, or None."""
    with suppress(OSError), path_of(root, product).open(encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return file.read().strip() or "another process"
    return None


@contextmanager
def held(root: str | Path, product: str | Path) -> Iterator[bool]:
    """Hold the lock of a product, and wait while another process holds it.

    On a file system without locks, no lock is held.

    Yields:
        Whether another process held the lock before.
    """
    path = path_of(root, product)
    path.parent.mkdir(parents=True, exist_ok=True)
    other = holder(root, product)
    if other is not None:
        log.info("waiting for %s, which is making %s", other, product)
    file = _locked(path)
    try:
        yield other is not None
    finally:
        # Remove the file before releasing it: a waiting process then sees this and makes a new one.
        path.unlink(missing_ok=True)
        file.close()


def _locked(path: Path) -> IO[str]:
    """Open the file at `path`, lock it, and write the holder into it."""
    while True:
        file = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            log.info("%s cannot be locked: %s", path, error)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                break
        file.close()  # its last holder has removed it
    file.truncate(0)
    file.write(f"process {os.getpid()} on {platform.node()}\n")
    file.flush()
    return file
