"""What Ctrl-C does to a run: its jobs on this machine end, and so does Snakemake."""

import atexit
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import psutil

PATIENCE = 3.0
"""Seconds in which a job may end by itself; then again until one that is terminated is killed."""


def install(*, end_jobs: bool) -> None:
    """Make SIGINT end a run, and say as the last line how it goes on.

    Snakemake waits for its jobs, which see Ctrl-C in a terminal but no signal to Snakemake alone.

    Args:
        end_jobs: end the child processes, which are the jobs unless a cluster runs them.
    """

    def interrupt(*_: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        atexit.register(print, "interrupted; the same command goes on", file=sys.stderr)
        if end_jobs:
            _end(psutil.Process().children(recursive=True))
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)


def _end(processes: Iterable[psutil.Process]) -> None:
    """Wait for processes to end; terminate, then kill those that do not."""
    steps: list[Callable[[psutil.Process], None]] = [psutil.Process.terminate, psutil.Process.kill]
    for end in steps:
        deadline = time.monotonic() + PATIENCE
        while any(map(_runs, processes)) and time.monotonic() < deadline:
            time.sleep(0.1)
        for process in filter(_runs, processes):
            with suppress(psutil.Error):
                end(process)


def _runs(process: psutil.Process) -> bool:
    """Whether a process has not ended. Snakemake waits for its exit code, so this does not."""
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
