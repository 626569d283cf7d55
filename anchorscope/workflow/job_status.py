"""Tell Snakemake's SLURM plugin which jobs have ended without an end that it knows.

The plugin asks `squeue` or `sacct` for the states of a run's jobs. It waits for a job that was
preempted, as if SLURM always started it again, and for a job that is not listed. With
`PreemptMode=CANCEL`, and after SLURM lost a job, it would wait for ever. If SLURM does not answer
for a while, it forgets all jobs. It has no setting for this. So a run puts commands named `squeue`
and `sacct` first in PATH. They ask the real ones, and report lost and preempted jobs as failed.
Snakemake then sends these jobs again, as often as `retries` says.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from anchorscope.storage.files import atomic

COMMANDS = ("squeue", "sacct")
PREEMPTED = "PREEMPTED"
LOGS = Path(".snakemake", "log")


def install() -> None:
    """Put this module's commands first in PATH, for this process and its children."""
    folder = Path(".snakemake", "anchorscope", "bin").absolute()
    places = [one for one in os.environ["PATH"].split(os.pathsep) if one != str(folder)]
    for name in COMMANDS:
        if real := shutil.which(name, path=os.pathsep.join(places)):
            command = shlex.join([sys.executable, "-m", "anchorscope.workflow.job_status", real])
            with atomic(folder / name) as draft:
                draft.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
                draft.chmod(0o755)
    os.environ["PATH"] = os.pathsep.join([str(folder), *places])


States = Mapping[str, str]
"""State of each job, by its id."""


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
    texts = (path.read_text("utf-8", errors="replace") for path in LOGS.glob("*.snakemake.log"))
    mine = [text for text in texts if f"SLURM run ID: {run}\n" in text]
    return {job for text in mine for job in re.findall(r"submitted with SLURM jobid (\d+)", text)}


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
