"""Locks of long jobs, which show that a job is running.

Products are whole without locks, since each process writes its own draft (`files.atomic`). But
Snakemake deletes the products of a job that it is about to run, and its own lock covers neither a
job that outlives its run nor a run in another folder with the same `results`. So each job holds a
lock: a new run sees it and is refused (`around.refuse_held`). If two runs start at the same time,
the second job waits and need not do the work again.

A lock is on the file `.partial/<product>.lock` beside the product. The operating system releases it
when the process ends. Some network disks have no locks.
"""

import fcntl
import logging
import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from anchorscope.storage.partial import waiting

log = logging.getLogger(__name__)


def supported(folder: str | Path) -> bool:
    """Return whether files in a folder can be locked."""
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def path_of(product: str | Path) -> Path:
    """Return the path of a product's lock, next to its finished batches."""
    waits = waiting(product)
    return waits.with_name(f"{waits.name}.lock")


def holder(product: str | Path) -> str | None:
    """Return the holder of a product's lock, such as `process 12 on node3`, or None."""
    with suppress(OSError), path_of(product).open(encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return file.read().strip() or "another process"
    return None


@contextmanager
def held(product: str | Path) -> Iterator[bool]:
    """Hold the lock of a product, and wait while another process holds it.

    On a disk without locks (see `supported`), no lock is held.

    Yields:
        Whether another process held the lock before.
    """
    path = path_of(product)
    path.parent.mkdir(parents=True, exist_ok=True)
    other = None
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = holder(product) or "another process"
            log.info("waiting for %s, which is making %s", other, product)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            log.info("%s cannot be locked: %s", path, error)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}\n")
        file.flush()
        yield other is not None
