"""After a crash: end what is left of the last run, clear its lock, then go on.

Snakemake's lock does not say who made it, so owners are looked for among the processes of this
machine: any Snakemake, or job of one, that works in the same folder. Jobs that a killed run left
in a cluster's queue are found by its run id and cancelled: they would write the files of the jobs
that take their place.
"""

import binascii
import platform
import re
import subprocess
import sys
import time
from base64 import urlsafe_b64decode
from contextlib import suppress
from pathlib import Path

import psutil

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import move
from anchorscope.storage.provenance import beside, read
from anchorscope.workflow import cluster

OWNER_GONE = "--owner-gone"


def owners(folder: Path) -> list[int]:
    """Ids of the live processes that run Snakemake or one of its jobs in `folder`."""
    found = []
    ours = {process.pid for process in [psutil.Process(), *psutil.Process().parents()]}
    for process in psutil.process_iter():
        try:
            if process.pid not in ours and _runs_snakemake(process) and _works_in(process, folder):
                found.append(process.pid)
        except psutil.Error:
            continue
    return sorted(found)


def _runs_snakemake(process: psutil.Process) -> bool:
    words = process.cmdline()
    return process.status() != psutil.STATUS_ZOMBIE and (
        any(Path(word).name == "snakemake" for word in words)
        or any("/.snakemake/scripts/" in word for word in words)
    )


def _works_in(process: psutil.Process, folder: Path) -> bool:
    return Path(process.cwd()).resolve() == folder.resolve()


def _jobs_of(processes: list[int]) -> dict[int, str | None]:
    """Processes with the cluster's job that each belongs to; those that are gone left out."""
    found: dict[int, str | None] = {}
    for process in processes:
        try:
            found[process] = psutil.Process(process).environ().get("SLURM_JOB_ID")
        except psutil.NoSuchProcess:
            continue
        except psutil.Error:
            found[process] = None
    return found


def _end_last_processes(
    folder: Path, jobs: set[str], grace: float = 30.0, patience: float = 60.0
) -> list[int]:
    """Wait for what runs here of cancelled jobs: as it ends, it removes what it had half written.

    Most clusters keep a job in the queue until its last process is gone; some lose sight of one
    whose parent went first. What has not ended after `grace` seconds is killed: it may never have
    been asked to.

    Returns:
        Ids of the processes killed.

    Raises:
        AnchorscopeError: they do not end even so, in `patience` seconds.
    """
    killed: list[int] = []
    since = time.monotonic()
    while alive := [p for p, job in _jobs_of(owners(folder)).items() if job in jobs]:
        waited = time.monotonic() - since
        if waited >= grace + patience:
            raise AnchorscopeError(
                "processes of a cancelled job do not end",
                f"{folder}, process {', '.join(map(str, alive))}",
                "they were killed and hang, on a disk mostly; run `make resume` once they are gone",
                see="still-running",
            )
        for process in alive if waited >= grace else []:
            with suppress(psutil.Error):
                psutil.Process(process).kill()
                killed += [process] if process not in killed else []
        time.sleep(0.5)
    return killed


def other_host(folder: Path) -> str | None:
    """The machine that holds the lock, where it is not this one: its processes are unseen here."""
    texts = cluster.logs(folder)
    if not texts or not any((folder / ".snakemake" / "locks").glob("*")):
        return None
    host = re.search(r"^ *Host: (\S+)$", texts[-1], re.MULTILINE | re.IGNORECASE)
    return host[1] if host and host[1] != platform.node() else None


def give_back(folder: Path) -> list[str]:
    """Let the batches of jobs that ended after their Snakemake had died wait for the next try.

    Snakemake never heard of their end, takes them for incomplete and deletes them before it runs
    them again. Where their batches wait the job finds them all and has nothing left to measure.

    Returns:
        The products, as Snakemake names them.
    """
    found = []
    for name in sorted(_incomplete(folder)):
        product = folder / name
        if product.is_dir() and beside(product).is_file() and (waits := read(product).get("waits")):
            move(product, folder / waits)
            found.append(name)
    return found


def _incomplete(folder: Path) -> set[str]:
    """What Snakemake has marked as begun: its marks are named after the paths, in base 64."""
    marks = folder / ".snakemake" / "incomplete"
    found = set()
    for mark in marks.rglob("*"):
        parts = [part.removeprefix("@") for part in mark.relative_to(marks).parts]
        try:
            found.add(urlsafe_b64decode("".join(parts)).decode())
        except (binascii.Error, UnicodeDecodeError):
            continue
    return found


def main(folder: Path, arguments: list[str]) -> int:
    """Cancel the last run's cluster jobs, unlock `folder` and run Snakemake there.

    Args:
        folder: where Snakemake is run.
        arguments: Snakemake's; `--owner-gone` says that the machine of the last run is gone.

    Raises:
        AnchorscopeError: a run is still going on, or went on elsewhere, or its jobs do not end.
    """
    owner_gone = OWNER_GONE in arguments
    arguments = [word for word in arguments if word != OWNER_GONE]
    left = {job.id for job in cluster.orphans(folder)}
    alive = [p for p, job in _jobs_of(owners(folder)).items() if job not in left]
    if alive:
        raise AnchorscopeError(
            "a run is still going on here, so its lock stays",
            f"{folder}, process {', '.join(map(str, alive))}",
            "wait for it, or stop it, then run `make resume` again",
            see="still-running",
        )
    elsewhere = other_host(folder)
    if elsewhere and not owner_gone:
        raise AnchorscopeError(
            f"the last run was started on {elsewhere}, whose processes cannot be seen from here",
            folder,
            f"run `make resume` there; if that machine is gone, add ARGS={OWNER_GONE} here",
            see="still-running",
        )
    for job in cluster.cancel_orphans(folder):
        print(f"cancelled job {job.id} of the run {job.name}", file=sys.stderr)
    for process in _end_last_processes(folder, left):
        print(f"killed process {process} of a cancelled job", file=sys.stderr)
    for name in give_back(folder):
        print(f"taken over, finished batches of {name}", file=sys.stderr)
    command = [sys.executable, "-m", "snakemake", *(arguments or ["--cores", "all"])]
    subprocess.run([*command, "--unlock"], cwd=folder, check=True)
    return subprocess.run([*command, "--rerun-incomplete"], cwd=folder).returncode


if __name__ == "__main__":
    try:
        sys.exit(main(Path.cwd(), sys.argv[1:]))
    except AnchorscopeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
