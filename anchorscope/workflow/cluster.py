"""SLURM: where jobs go, and what an earlier run left in the queue."""

from __future__ import annotations

import getpass
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anchorscope.storage.errors import AnchorscopeError

PROFILE = "slurm/config.yaml"
RUN_ID = re.compile(r"^SLURM run ID: (\S+)$", re.MULTILINE)
"""How Snakemake's log names a run, and SLURM the jobs of it."""


@dataclass(frozen=True)
class Site:
    """The lines of the profile that a user edits; None where left out."""

    partition: str | None = None
    gpu_partition: str | None = None
    gpu_type: str | None = None
    max_runtime: int | None = None
    max_mem_gb: int | None = None

    def partition_of(self, gpus: int) -> str | None:
        """The partition of a job; None for the cluster's default."""
        return (self.gpu_partition or self.partition) if gpus else self.partition


def site(default_resources: Mapping[str, Any] | None) -> Site:
    """The profile's own lines, from Snakemake's default resources.

    Raises:
        AnchorscopeError: a limit that is no whole number.
    """
    given = {name: _text(value) for name, value in (default_resources or {}).items()}
    text = {name: value for name, value in given.items() if value}
    return Site(
        text.get("slurm_partition"),
        text.get("gpu_partition"),
        text.get("gpu_type"),
        _limit(text, "max_runtime", "minutes, two days as 2880"),
        _limit(text, "max_mem_gb", "GB"),
    )


def _limit(text: Mapping[str, str], name: str, unit: str) -> int | None:
    said = text.get(name)
    if said is None or re.fullmatch(r"0*[1-9]\d*", said):
        return None if said is None else int(said)
    raise AnchorscopeError(
        f"`{name}: {said}` is not a whole number above 0",
        PROFILE,
        f"write it in {unit}",
        see="slurm-profile",
    )


def _text(value: Any) -> str:
    """A value as it stands in the profile, out of the quotes that keep it from being evaluated."""
    written = getattr(value, "raw", value)
    return "" if written is None else str(written).strip("'\"")


@dataclass(frozen=True)
class Queued:
    """A job in the queue: its id, and the run (`name`) that submitted it."""

    id: str
    name: str


def logs(folder: Path) -> list[str]:
    """Snakemake's logs of the runs in `folder`, the last one last, but those a lock turned away."""
    paths = sorted((folder / ".snakemake" / "log").glob("*.snakemake.log"))
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in paths]
    return [text for text in texts if text and "LockException" not in text]


def orphans(folder: Path) -> list[Queued]:
    """Jobs in the queue that an earlier run in `folder` submitted.

    Raises:
        AnchorscopeError: the last run was on a cluster, and SLURM is not here or not answering.
    """
    texts = logs(folder)
    ids = {name for text in texts for name in RUN_ID.findall(text)}
    # A folder that has moved on to a machine of its own needs no SLURM any more.
    if not ids or (shutil.which("squeue") is None and not RUN_ID.findall(texts[-1])):
        return []
    said = _ask_slurm("squeue", "--noheader", f"--user={getpass.getuser()}", "--format=%i|%j")
    jobs = [Queued(*line.strip().split("|", 1)) for line in said.splitlines() if "|" in line]
    return [job for job in jobs if job.name in ids]


def refuse_orphans(folder: Path) -> None:
    """Refuse to start beside jobs of an earlier run, which would write the same files."""
    if left := orphans(folder):
        raise _still_there(left, "are still in the queue and would write the same files", folder)


def cancel_orphans(folder: Path, patience: float = 180.0) -> list[Queued]:
    """Cancel what an earlier run left in the queue, and wait until its last process is gone.

    Returns:
        The jobs cancelled.

    Raises:
        AnchorscopeError: SLURM does not answer, or the jobs do not end in `patience` seconds.
    """
    left = found = orphans(folder)
    deadline = time.monotonic() + patience
    for name in sorted({job.name for job in found}):
        _ask_slurm("scancel", f"--user={getpass.getuser()}", f"--name={name}")
    while left:
        if time.monotonic() > deadline:
            raise _still_there(left, "do not end", folder)
        time.sleep(1.0)
        left = orphans(folder)
    return found


def _still_there(jobs: list[Queued], what: str, folder: Path) -> AnchorscopeError:
    return AnchorscopeError(
        f"{len(jobs)} jobs of an earlier run {what}",
        f"{folder}, job {', '.join(job.id for job in jobs[:5])}",
        "make resume PROFILE=slurm, which cancels them and goes on",
        see="jobs-in-the-queue",
    )


def _ask_slurm(*command: str) -> str:
    where, do = f"`{command[0]}`", "run it on a login node; or without --profile slurm"
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout
    except FileNotFoundError:
        what = "there is no SLURM on this machine"
    except subprocess.TimeoutExpired:
        what = "SLURM does not answer in a minute"
    except subprocess.CalledProcessError as error:
        what = f"SLURM does not answer: {error.stderr.strip()}"
    raise AnchorscopeError(what, where, do, see="slurm-profile")
