"""End a run on Ctrl-C, and continue it after a crash (`make resume`).

After a crash, the lock of the last run is cleared, unless a process of that run is still alive.
Snakemake's lock does not name its owner. So this module looks for processes of Snakemake and of its
jobs, on this machine and in the same folder.
"""

import atexit
import os
import shlex
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
from anchorscope.workflow.interrupted.cluster import cancel_orphans, orphans

MODULE = "anchorscope.workflow.interrupted.resume"
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
    again = shlex.join([sys.executable, "-m", MODULE, *arguments])
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
