"""After a crash: end what is left of the last run, clear its lock, then go on.

Snakemake's lock does not say who made it, so owners are looked for among the processes of this
machine: any Snakemake, or job of one, that works in the same folder. Jobs that a killed run left
in a cluster's queue are found by its run id and cancelled: they would write the files of the jobs
that take their place.
"""

import platform
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow import cluster

OWNER_GONE = "--owner-gone"
GRACE = 30.0
"""Seconds in which the processes of a cancelled job end by themselves; they are killed then."""


def owners(folder: Path) -> dict[psutil.Process, str | None]:
    """The live processes of Snakemake and its jobs in `folder`, each with its SLURM job."""
    ours = {process.pid for process in [psutil.Process(), *psutil.Process().parents()]}
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid not in ours and _runs_in(process, folder):
                found[process] = process.environ().get("SLURM_JOB_ID")
    return found


def _runs_in(process: psutil.Process, folder: Path) -> bool:
    words = process.cmdline()
    runs = any(Path(word).name == "snakemake" or "/.snakemake/scripts/" in word for word in words)
    return runs and Path(process.cwd()).resolve() == folder.resolve()


def end(folder: Path, jobs: set[str], grace: float = GRACE) -> None:
    """Wait for what runs here of cancelled jobs, and kill what does not end: a cluster may lose
    sight of a process whose parent went first."""
    left = [process for process, job in owners(folder).items() if job in jobs]
    for process in psutil.wait_procs(left, timeout=grace)[1]:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left, timeout=GRACE)


def other_host(folder: Path) -> str | None:
    """The machine that holds the lock, where it is not this one: its processes are unseen here."""
    texts = cluster.logs(folder)
    if not texts or not any((folder / ".snakemake" / "locks").glob("*")):
        return None
    host = re.search(r"^ *Host: (\S+)$", texts[-1], re.MULTILINE | re.IGNORECASE)
    return host[1] if host and host[1] != platform.node() else None


def main(folder: Path, arguments: list[str]) -> int:
    """Cancel the last run's cluster jobs, unlock `folder` and run Snakemake there.

    Args:
        folder: where Snakemake is run.
        arguments: Snakemake's; `--owner-gone` says that the machine of the last run is gone.

    Raises:
        AnchorscopeError: a run is still going on, or went on elsewhere, or its jobs do not end.
    """
    jobs = {job.id for job in cluster.orphans(folder)}
    if alive := [str(process.pid) for process, job in owners(folder).items() if job not in jobs]:
        raise AnchorscopeError(
            "a run is still going on here, so its lock stays",
            f"{folder}, process {', '.join(alive)}",
            "wait for it, or stop it, then run `make resume` again",
            see="still-running",
        )
    if OWNER_GONE not in arguments and (elsewhere := other_host(folder)):
        raise AnchorscopeError(
            f"the last run was started on {elsewhere}, whose processes cannot be seen from here",
            folder,
            f"run `make resume` there; if that machine is gone, add ARGS={OWNER_GONE} here",
            see="still-running",
        )
    for job in cluster.cancel_orphans(folder):
        print(f"cancelled job {job.id} of the run {job.name}", file=sys.stderr)
    end(folder, jobs)
    given = [word for word in arguments if word != OWNER_GONE] or ["--cores", "all"]
    command = [sys.executable, "-m", "snakemake", *given]
    subprocess.run([*command, "--unlock"], cwd=folder, check=True)
    return subprocess.run([*command, "--rerun-incomplete"], cwd=folder).returncode


if __name__ == "__main__":
    try:
        sys.exit(main(Path.cwd(), sys.argv[1:]))
    except AnchorscopeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
