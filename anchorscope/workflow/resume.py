"""End a run on Ctrl-C, and continue it after a crash (`make resume`).

After a crash, the lock of the last run is cleared, unless a process of that run is still alive.
Snakemake's lock does not name its owner. So this module looks for processes of Snakemake and of its
jobs, on this machine and in the same folder. A killed Snakemake also leaves its jobs in the
cluster's queue, and neither Snakemake nor its SLURM plugin finds them again. Old and new jobs would
write the same files. So this module finds the old jobs by the run's id and cancels them.
"""

import atexit
import getpass
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from anchorscope.storage.errors import AnchorscopeError

PATIENCE = 3.0
"""Seconds to wait before a job is terminated, and again before it is killed."""


def end_on_interrupt(*, end_jobs: bool) -> None:
    """Make SIGINT end a run. The last line of its output then says how to continue.

    Snakemake waits for its jobs. The jobs receive Ctrl-C in a terminal, but not a signal sent to
    Snakemake alone. With `end_jobs`, for runs without a cluster, SIGINT ends Snakemake's children.
    """

    def interrupt(*_: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        do = "add --rerun-incomplete to the same command to continue"
        atexit.register(print, f"interrupted; {do}", file=sys.stderr)
        if end_jobs:
            _end(psutil.Process().children(recursive=True))
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)


def _end(processes: Iterable[psutil.Process]) -> None:
    """Wait for processes to end. Terminate those that do not, and finally kill them."""
    steps: list[Callable[[psutil.Process], None]] = [psutil.Process.terminate, psutil.Process.kill]
    for end in steps:
        deadline = time.monotonic() + PATIENCE
        while any(map(_runs, processes)) and time.monotonic() < deadline:
            time.sleep(0.1)
        for process in filter(_runs, processes):
            with suppress(psutil.Error):
                end(process)


def _runs(process: psutil.Process) -> bool:
    """Return whether a process is running. Do not take its exit code, which Snakemake waits for."""
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def orphans(folder: Path) -> list[str]:
    """Return the ids of the jobs in SLURM's queue that earlier runs in `folder` submitted.

    Raises:
        AnchorscopeError: SLURM does not answer.
    """
    logs = (folder / ".snakemake" / "log").glob("*.snakemake.log")
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in logs]
    # Snakemake logs the id of a run, which is also the name of its SLURM jobs.
    runs = {name for text in texts for name in re.findall(r"^SLURM run ID: (\S+)$", text, re.M)}
    if not runs or shutil.which("squeue") is None:
        return []
    whose = (f"--user={getpass.getuser()}", f"--name={','.join(sorted(runs))}")
    return _ask_slurm("squeue", "--noheader", *whose, "--format=%i").split()


def refuse_orphans(folder: Path) -> None:
    """Refuse to start beside jobs of an earlier run, which would write the same files."""
    if jobs := orphans(folder):
        raise _still_there(jobs, "are still in the queue and would write the same files", folder)


def cancel_orphans(folder: Path, patience: float = 180.0) -> list[str]:
    """Cancel the jobs that earlier runs left in the queue, and return their ids once they are gone.

    Raises:
        AnchorscopeError: SLURM does not answer, or the jobs do not end within `patience` seconds.
    """
    cancelled = orphans(folder)
    left = cancelled
    deadline = time.monotonic() + patience
    while left:
        _ask_slurm("scancel", *left)
        if time.monotonic() > deadline:
            raise _still_there(left, "do not end", folder)
        time.sleep(1.0)
        left = orphans(folder)
    return cancelled


def _still_there(jobs: list[str], what: str, folder: Path) -> AnchorscopeError:
    return AnchorscopeError(
        f"{len(jobs)} jobs of an earlier run {what}",
        f"{folder}, job {', '.join(jobs[:5])}",
        "run `make resume PROFILE=slurm`, which cancels these jobs and continues the run",
        see="jobs-in-the-queue",
    )


def _ask_slurm(*command: str) -> str:
    """Run a command of SLURM and return its output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        what = f"SLURM does not answer: {getattr(error, 'stderr', None) or error}"
        do = "run Snakemake on a login node, or without --profile slurm"
        raise AnchorscopeError(what, f"`{command[0]}`", do, see="slurm-profile") from None
    return done.stdout


def owners(folder: Path, cancelled: Collection[str] = ()) -> dict[str, str]:
    """Return process id → user, for Snakemake and its jobs in `folder` on this machine.

    Processes that belong to the SLURM jobs `cancelled` are left out.
    """
    this = psutil.Process()
    ours = {process.pid for process in [this, *this.parents()]}
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid in ours or not _runs_in(process, folder):
                continue
            if process.environ().get("SLURM_JOB_ID") not in cancelled:
                found[str(process.pid)] = process.username()
    return found


def _runs_in(process: psutil.Process, folder: Path) -> bool:
    """Return whether a process is Snakemake, or a job of it, working in `folder`."""
    words = process.cmdline()
    runs = any(Path(word).name == "snakemake" or "/.snakemake/scripts/" in word for word in words)
    return runs and Path(process.cwd()).resolve() == folder.resolve()


def _still_running(
    folder: Path, alive: Mapping[str, str], arguments: Collection[str]
) -> AnchorscopeError:
    who = [f"process {pid} of {user}" for pid, user in alive.items()]
    where = f"{folder}, {', '.join(who)}"
    again = shlex.join([sys.executable, "-m", "anchorscope.workflow.resume", *arguments])
    do = f"wait for it, or stop it (kill {' '.join(alive)}); then run: {again}"
    return AnchorscopeError("another run is active here", where, do, see="still-running")


def clear(folder: Path, arguments: list[str]) -> list[str]:
    """Cancel the last run's cluster jobs, unlock `folder`, and return the command to continue.

    Raises:
        AnchorscopeError: A run is active in `folder`, or the cancelled jobs do not end.
    """
    if alive := owners(folder, orphans(folder)):
        raise _still_running(folder, alive, arguments)
    if cancelled := cancel_orphans(folder):
        print(f"cancelled jobs of the last run: {', '.join(cancelled)}", file=sys.stderr)
    snakemake, arguments = [sys.executable, "-m", "snakemake"], arguments or ["--cores", "all"]
    # The options precede the arguments, which may end in `--` and targets.
    unlocked = subprocess.run([*snakemake, "--unlock", *arguments], cwd=folder)
    if unlocked.returncode:
        sys.exit(unlocked.returncode)  # Snakemake has said why
    return [*snakemake, "--rerun-incomplete", *arguments]


if __name__ == "__main__":
    try:
        goes_on = clear(Path.cwd(), sys.argv[1:])
    except AnchorscopeError as error:
        sys.exit(f"error: {error}")
    # Snakemake replaces this process, so that Ctrl-C reaches only Snakemake.
    os.execv(goes_on[0], goes_on)
