"""Products that another process makes, and products that are missing.

Products are whole without locks, since each process writes its own draft (`files.atomic`). But
Snakemake deletes the products of a job that it is about to run, and its own lock covers neither a
job that outlives its run nor a run in another folder with the same `results`. So each job that
takes long holds a lock on the file `.partial/<product>.lock` beside its product. The operating
system releases it when the process ends. Some network disks have no locks.
"""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
import platform
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anchorscope.storage import partial, provenance
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.provenance import beside

if TYPE_CHECKING:
    from anchorscope.config.settings import Config

log = logging.getLogger(__name__)


def job_of(job: Any) -> str:
    """Describe a job, for example `rule scores, model qwen3-8b, dataset popqa`."""
    cell = [f"{name} {value}" for name, value in job.wildcards.items()]
    return ", ".join([f"rule {job.rule}", *cell])


def has_lock(job: Any) -> bool:
    """Return whether a job holds a lock: if it makes a product of a cell, or trains a model.

    All others take seconds: they locate a model, read rows, or join the tables of cells.
    """
    return str(job.rule) == "train" or {"model", "dataset"} <= dict(job.wildcards.items()).keys()


def refuse_held(jobs: Iterable[Any]) -> None:
    """Refuse products that another run is making: this run's Snakemake would delete them.

    Raises:
        AnchorscopeError: There are such products. The error names their jobs and processes.
    """
    held = {}
    for job in jobs:
        if has_lock(job) and (process := holder(job.output[0])):
            held[str(job.output[0])] = f"{job_of(job)}: {process}"
    if held:
        what = f"a job of another run is still making {', '.join(held)}"
        do = "wait for it, or stop it (`kill`); then run the same command again"
        raise AnchorscopeError(what, "; ".join(held.values()), do, see="still-running")


@contextmanager
def alone(job: Any) -> Iterator[None]:
    """Wait for a job's lock and hold it. End this job if another job made the product meanwhile."""
    if not has_lock(job):
        yield
        return
    with locked(job.output[0]) as waited:
        if waited and _is_made(job):
            log.info("nothing to do: another process has made %s", job.output[0])
            raise SystemExit(0)
        yield


def _is_made(job: Any) -> bool:
    """Return whether the job's products exist and were made from the same inputs and settings."""
    product = job.output[0]
    if not all(Path(path).exists() for path in (*job.output, beside(product))):
        return False
    return bool(provenance.read(product)["identity"] == provenance.identity(job))


@contextmanager
def locked(product: str | Path) -> Iterator[bool]:
    """Hold the lock of a product, and wait while another process holds it.

    On a disk without locks, no lock is held.

    Yields:
        Whether another process held the lock before.
    """
    path = lock_of(product)
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


def holder(product: str | Path) -> str | None:
    """Return the holder of a product's lock, such as `process 12 on node3`, or None."""
    with suppress(OSError), lock_of(product).open(encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return file.read().strip() or "another process"
    return None


def lock_of(product: str | Path) -> Path:
    """Return the path of a product's lock, next to its finished batches."""
    waits = partial.waiting(product)
    return waits.with_name(f"{waits.name}.lock")


def warn_without_locks(folder: Path) -> None:
    """Warn if a folder is on a disk without locks, where `refuse_held` finds nothing."""
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            what = "files on this disk cannot be locked, so Anchorscope does not see other runs"
            do = "start no other run with the same `results` until this one has ended"
            error = AnchorscopeError(what, folder, do, see="no-locks")
            print(f"warning: {error}", file=sys.stderr)


def lost_input(job: Any) -> AnchorscopeError | None:
    """Return the error for inputs that were deleted while the job ran, or None if all exist."""
    lost = [str(path) for path in getattr(job, "input", ()) if not Path(path).exists()]
    if not lost:
        return None
    what = "an input was deleted while this job ran; another run does this to make it again"
    do = "let only one run at a time use these `results`, and run the same command again"
    return AnchorscopeError(what, ", ".join(lost), do, see="still-running")


def drop_forced(workflow: Any) -> None:
    """Drop the saved batches of jobs that the user forces to run again (`--forceall`, …).

    Snakemake also forces jobs that were interrupted. Their batches are kept.
    """
    asked = workflow.dag_settings
    if asked.forceall or asked.forcetargets or asked.forcerun:
        jobs = workflow.dag.needrun_jobs()
        partial.drop(job.output[0] for job in jobs if workflow.dag.reason(job).forced)


def lost(
    config: Config, figures: Iterable[str], behind: Mapping[str, Any], experiment: str = ""
) -> list[str]:
    """Return missing products behind some figures: of failed jobs, or deleted by hand.

    Snakemake does not remake a missing product if later ones exist, even if these are out of date.
    So targets ask for it. A failed job leaves neither product nor record, but a log that is newer
    than the figure's table or, if that is missing, the cell's. A product deleted by hand leaves its
    record. Activations may be deleted.

    `behind` holds the rules whose products are looked for, by name.
    """
    found: list[str] = []
    for figure in figures:
        of_figure = changed(f"{config.root}/tables/{figure}.csv")
        for (model, dataset), name in itertools.product(config.cells(figure), behind):
            made = of_figure or changed(f"{config.root}/delta_p/{model}/{dataset}.csv")
            answering = name in ("model", "prompts", "answers")
            for one in {model, config.answering(model)} if answering else {model}:
                cell = {"figure": figure, "model": one, "dataset": dataset}
                cell["experiment"] = experiment
                products = [str(path).format(**cell) for path in behind[name].output]
                record = str(beside(products[0]))
                if name != "activations" and os.path.exists(record):
                    found += products
                elif changed(str(behind[name].log[0]).format(**cell)) > made:
                    found.append(record)
    return [path for path in dict.fromkeys(found) if not os.path.exists(path)]


def changed(path: str) -> float:
    """Return when a file was last changed, in seconds since the epoch; 0 without the file."""
    return os.path.getmtime(path) if os.path.exists(path) else 0.0
