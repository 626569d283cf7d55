"""Checks before a run's first job."""

import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from anchorscope.experiments.settings import RunConfig
from anchorscope.storage.errors import AnchorscopeError, of_the_disk
from anchorscope.workflow import resume
from anchorscope.workflow.resources import activation_bytes
from anchorscope.workflow.studies import Study


def on_a_cluster(workflow: Any) -> bool:
    """Whether Snakemake submits its jobs to SLURM."""
    return hasattr(workflow.executor_settings, "status_command")


def check(workflow: Any, config: RunConfig, studies: Mapping[str, Study]) -> None:
    """Refuse a run that cannot end well, once its DAG is known, and print what it needs.

    Raises:
        AnchorscopeError: results cannot be written, activations do not fit on the disk, a model's
            family is unknown, jobs of an earlier run are in the cluster's queue, or jobs would be
            sent as an array.
    """
    check_writable(config.results)
    if on_a_cluster(workflow):
        refuse_arrays(workflow.executor_settings)
        resume.refuse_orphans(Path.cwd())
    measuring = [job for job in workflow.dag.needrun_jobs() if job.rule.name == "activations"]
    if sizes := [_added_bytes(job, studies) for job in measuring]:
        need = check_room(sizes, config.keep_activations, config.results)
        print(f"Activations: about {need / 1e9:,.1f} GB in {config.results}.", file=sys.stderr)


def _added_bytes(job: Any, studies: Mapping[str, Study]) -> int:
    """Bytes that the activations of a cell add to the disk; those there now are replaced."""
    cell = job.wildcards
    present = sum(path.stat().st_size for path in Path(job.output[0]).rglob("*") if path.is_file())
    needed = activation_bytes(studies[cell.root].config, cell.model, cell.dataset)
    return max(0, needed - present)


def refuse_arrays(settings: Any) -> None:
    """Refuse arrays of jobs, which would all get the memory, time and GPUs of their first job."""
    if settings.array_jobs:
        what = "all jobs of an array get the memory, time and GPUs of the first, whatever its model"
        where = f"--slurm-array-jobs {settings.array_jobs}"
        do = "leave it out, on the command line and in slurm/config.yaml"
        raise AnchorscopeError(what, where, do, see="slurm-profile")


def check_writable(folder: str | Path) -> None:
    """Refuse a folder, which need not exist yet, in which nothing can be written.

    Raises:
        AnchorscopeError: it is read-only, not accessible, or its disk is full.
    """
    existing = _existing(folder)
    try:
        with tempfile.TemporaryFile(dir=existing) as trial:
            trial.write(b"x")
    except OSError as error:
        if disk_error := of_the_disk(error):
            what, do = disk_error.what, disk_error.do
            raise AnchorscopeError(what, existing, do, see=disk_error.see) from None
        raise


def check_room(cells: Iterable[int], keep: bool, folder: str | Path) -> int:
    """The bytes that activations need on the disk.

    Args:
        cells: bytes of each cell.
        keep: whether activations stay; if not, only one cell's are there at a time.
        folder: where they will lie; it need not exist yet.

    Raises:
        AnchorscopeError: the disk has less room.
    """
    need = sum(cells) if keep else max(cells, default=0)
    existing = _existing(folder)
    free = shutil.disk_usage(existing).free
    if need > free:
        what = f"activations take about {need / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB are free"
        do = (
            "free some, point `results` at a larger disk, set `keep_activations: false`, or "
            "look at fewer samples with `limit`"
        )
        raise AnchorscopeError(what, existing, do, see="no-room")
    return need


def _existing(folder: str | Path) -> Path:
    """The folder, or the nearest of its parents that exists."""
    path = Path(folder).expanduser().absolute()
    return next(place for place in (path, *path.parents) if place.exists())
