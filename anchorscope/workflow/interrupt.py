"""Ctrl-C: end Snakemake and its jobs on this machine."""

import atexit
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import psutil

PATIENCE = 3.0
"""Seconds to wait before a job is terminated, and again before it is killed."""


def install(*, end_jobs: bool) -> None:
    """Make SIGINT end a run. The last line of its output then says how to continue.

    Snakemake waits for its jobs. They receive Ctrl-C in a terminal, but not a signal that is sent
    to Snakemake alone.

    Args:
        end_jobs: Whether to end the child processes, which are the jobs unless a cluster runs them.
    """

    def interrupt(*_: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        atexit.register(print, "interrupted; the same command goes on", file=sys.stderr)
        if end_jobs:
            _end(psutil.Process().children(recursive=True))
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)


def _end(processes: Iterable[psutil.Process]) -> None:
    """Wait for processes to end. Terminate, then kill those that do not."""
    steps: list[Callable[[psutil.Process], None]] = [psutil.Process.terminate, psutil.Process.kill]
    for end in steps:
        deadline = time.monotonic() + PATIENCE
        while any(map(_runs, processes)) and time.monotonic() < deadline:
            time.sleep(0.1)
        for process in filter(_runs, processes):
            with suppress(psutil.Error):
                end(process)


def _runs(process: psutil.Process) -> bool:
    """Return whether a process is running, without collecting its exit code.

    Snakemake waits for the exit code.
    """
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
