"""Jobs of SLURM that an ended run left in the queue, and jobs that SLURM preempted or lost.

A killed Snakemake leaves its jobs in the queue, and neither Snakemake nor its SLURM plugin finds
them again. Old and new jobs would write the same files. So this module finds the old jobs by the
run's id and cancels them.

The plugin asks `squeue` or `sacct` for the states of a run's jobs. It waits for a job that was
preempted, as if SLURM always started it again, and for a job that is not listed. With
`PreemptMode=CANCEL`, and after SLURM lost a job, it would wait for ever. If SLURM does not answer
for a while, it forgets all jobs. It has no setting for this. So a run puts commands named `squeue`
and `sacct` first in PATH. They ask the real ones, and report lost and preempted jobs as failed.
Snakemake then sends these jobs again, as often as `retries` says.
"""

import getpass
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic

COMMANDS = ("squeue", "sacct")
PREEMPTED = "PREEMPTED"

States = Mapping[str, str]
"""State of each job, by its id."""


def orphans(folder: Path) -> list[str]:
    """Return the ids of the jobs in SLURM's queue that earlier runs in `folder` submitted.

    Raises:
        AnchorscopeError: SLURM does not answer.
    """
    # Snakemake logs the id of a run, which is also the name of its SLURM jobs.
    runs = {
        name
        for log in _logs(folder)
        for name in re.findall(r"^SLURM run ID: (\S+)$", log, re.MULTILINE)
    }
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
    cancelled = left = orphans(folder)
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


def _logs(folder: Path) -> list[str]:
    """Return the texts of Snakemake's logs of all runs in `folder`."""
    paths = (folder / ".snakemake" / "log").glob("*.snakemake.log")
    return [path.read_text("utf-8", errors="replace") for path in paths]


def _ask_slurm(*command: str) -> str:
    """Run a command of SLURM and return its output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        what = f"SLURM does not answer: {getattr(error, 'stderr', None) or error}"
        do = "run Snakemake on a login node, or without --profile slurm"
        raise AnchorscopeError(what, f"`{command[0]}`", do, see="slurm-profile") from None
    return done.stdout


def install() -> None:
    """Put this module's commands first in PATH, for this process and its children."""
    folder = Path(".snakemake", "anchorscope", "bin").absolute()
    places = [one for one in os.environ["PATH"].split(os.pathsep) if one != str(folder)]
    for name in COMMANDS:
        if real := shutil.which(name, path=os.pathsep.join(places)):
            command = shlex.join([sys.executable, "-m", __name__, real])
            with atomic(folder / name) as draft:
                draft.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
                draft.chmod(0o755)
    os.environ["PATH"] = os.pathsep.join([str(folder), *places])


def completed(asked: States | None, queue: States | None, submitted: Iterable[str]) -> States:
    """Return a state for each job of a run that ends if the job has ended.

    A job that SLURM lost is an `ERROR`. A preempted job is `CANCELLED`, unless SLURM starts it
    again. If SLURM did not answer, jobs whose state is not known are `RUNNING`: the plugin would
    otherwise forget them.

    Args:
        asked: What the plugin's command answered. None if it failed.
        queue: What `squeue` answered after that. A job that starts again is pending here.
        submitted: Jobs that were submitted before the plugin asked.
    """
    answered = asked is not None and queue is not None
    asked, queue = asked or {}, queue or {}
    states = dict(asked)
    for job in submitted:
        state = asked.get(job)
        if state in (None, PREEMPTED):
            state = queue.get(job, state)
        if state in (None, PREEMPTED):
            ended = "CANCELLED" if state else "ERROR"
            state = ended if answered else "RUNNING"
        states[job] = state
    return states


def submitted_in(run: str) -> set[str]:
    """Return the ids of the jobs that a run has submitted, from its log."""
    mine = [log for log in _logs(Path()) if f"SLURM run ID: {run}\n" in log]
    return {job for log in mine for job in re.findall(r"submitted with SLURM jobid (\d+)", log)}


def _states(*command: str) -> States | None:
    """Run a command that prints lines like `12|RUNNING`. Return None if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return None
    fields = (line.partition("|") for line in done.stdout.splitlines())
    return {job.strip(): state.strip() for job, _, state in fields}


def main(command: str, *arguments: str) -> None:
    """Run `command`. If the plugin asks for the states of a run, complete them."""
    if "--name" not in arguments:  # not the plugin's question
        os.execv(command, [command, *arguments])
    run = arguments[arguments.index("--name") + 1]
    submitted = submitted_in(run)
    asked = _states(command, *arguments)
    queue = _states("squeue", "--noheader", "--states=all", f"--name={run}", "--format=%i|%T")
    print(*map("|".join, completed(asked, queue, submitted).items()), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
