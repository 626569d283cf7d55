"""SLURM: where jobs go, and what an earlier run left in the queue."""

import getpass
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, PositiveInt, ValidationError

from anchorscope.storage.errors import AnchorscopeError

PROFILE = "slurm/config.yaml"
RUN_ID = re.compile(r"^SLURM run ID: (\S+)$", re.MULTILINE)
"""How Snakemake's log names a run, and SLURM the jobs of it."""


class Site(BaseModel):
    """The lines of the profile that a user edits; None where left out."""

    slurm_partition: str | None = None
    gpu_partition: str | None = None
    gpu_type: str | None = None
    max_runtime: PositiveInt | None = None
    max_mem_gb: PositiveInt | None = None

    def partition_of(self, gpus: int) -> str | None:
        """The partition of a job; None for the cluster's default."""
        return (self.gpu_partition or self.slurm_partition) if gpus else self.slurm_partition


def site(default_resources: Mapping[str, Any] | None) -> Site:
    """The profile's own lines, from Snakemake's default resources.

    Raises AnchorscopeError: a limit that is no whole number.
    """
    raw = {name: getattr(v, "raw", v) for name, v in (default_resources or {}).items()}
    # Quotes keep Snakemake from evaluating a name.
    given = {name: str(value).strip("'\"") for name, value in raw.items() if value}
    try:
        return Site.model_validate(given)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        what = f"`{name}: {given[name]}` is not a whole number above 0"
        do = "write time in minutes, two days as 2880, and memory in GB"
        raise AnchorscopeError(what, PROFILE, do, see="slurm-profile") from None


def host_of(folder: Path) -> Path:
    """The file that names the machine of the last run in `folder`."""
    return folder / ".snakemake" / "anchorscope.host"


def orphans(folder: Path) -> list[str]:
    """Ids of the jobs in the queue that an earlier run in `folder` submitted.

    Raises AnchorscopeError: SLURM does not answer.
    """
    logs = (folder / ".snakemake" / "log").glob("*.snakemake.log")
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in logs]
    runs = {name for text in texts for name in RUN_ID.findall(text)}
    if not runs or shutil.which("squeue") is None:
        return []
    whose = (f"--user={getpass.getuser()}", f"--name={','.join(sorted(runs))}")
    return _ask_slurm("squeue", "--noheader", *whose, "--format=%i").split()


def refuse_orphans(folder: Path) -> None:
    """Refuse to start beside jobs of an earlier run, which would write the same files."""
    if left := orphans(folder):
        raise _still_there(left, "are still in the queue and would write the same files", folder)


def cancel_orphans(folder: Path, patience: float = 180.0) -> list[str]:
    """Cancel what an earlier run left in the queue, wait until it is gone, and return its ids.

    Raises AnchorscopeError: SLURM does not answer, or the jobs do not end in `patience` seconds.
    """
    left = found = orphans(folder)
    deadline = time.monotonic() + patience
    while left:
        _ask_slurm("scancel", *left)
        if time.monotonic() > deadline:
            raise _still_there(left, "do not end", folder)
        time.sleep(1.0)
        left = orphans(folder)
    return found


def _still_there(jobs: list[str], what: str, folder: Path) -> AnchorscopeError:
    return AnchorscopeError(
        f"{len(jobs)} jobs of an earlier run {what}",
        f"{folder}, job {', '.join(jobs[:5])}",
        "make resume PROFILE=slurm, which cancels them and goes on",
        see="jobs-in-the-queue",
    )


def _ask_slurm(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        what = f"SLURM does not answer: {getattr(error, 'stderr', None) or error}"
        do = "run it on a login node; or without --profile slurm"
        raise AnchorscopeError(what, f"`{command[0]}`", do, see="slurm-profile") from None
    return done.stdout
