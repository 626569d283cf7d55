"""What can be known to fail is said before the first job of a run."""

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from anchorscope.config.settings import Config
from anchorscope.storage.errors import AnchorscopeError, of_the_disk
from anchorscope.workflow import resume
from anchorscope.workflow.devices import ON_CPU, gpus_here
from anchorscope.workflow.resources import activation_bytes
from anchorscope.workflow.studies import Study


def on_a_cluster(workflow: Any) -> bool:
    """Whether Snakemake's jobs are submitted to SLURM."""
    return hasattr(workflow.executor_settings, "status_command")


def check(workflow: Any, config: Config, studies: Mapping[str, Study]) -> None:
    """Refuse a run, its DAG resolved, that cannot end well; say what it needs.

    Raises AnchorscopeError: results cannot be written, activations do not fit on the disk, jobs of
    an earlier run are in the cluster's queue.
    """
    jobs = list(workflow.dag.needrun_jobs())
    check_writable(config.results)
    resume.host_of(Path.cwd()).write_text(platform.node(), encoding="utf-8")
    if on_a_cluster(workflow):
        resume.refuse_orphans(Path.cwd())
    elif not gpus_here() and os.environ.get(ON_CPU) != "1":
        measured = ("answers", "activations", "scores")
        warn_without_gpu(config, {j.wildcards.model for j in jobs if j.rule.name in measured})
    if sizes := [_added(job, studies) for job in jobs if job.rule.name == "activations"]:
        need = check_room(sizes, config.keep_activations, config.results)
        print(f"Activations: about {need / 1e9:,.1f} GB in {config.results}.", file=sys.stderr)


def _added(job: Any, studies: Mapping[str, Study]) -> int:
    """Bytes that the activations of a cell add to the disk; those there now are replaced."""
    cell = job.wildcards
    there = sum(path.stat().st_size for path in Path(job.output[0]).rglob("*") if path.is_file())
    found = activation_bytes(studies[cell.root].config, cell.model, cell.dataset)
    return max(0, found - there)


def warn_without_gpu(config: Config, models: Iterable[str]) -> None:
    """Name the models that ask for a GPU where there is none."""
    if asking := sorted(name for name in models if config.models[name].resources.gpus):
        named = ", ".join(asking)
        print(f"No GPU here: {named} will run on the CPU, which may take days.", file=sys.stderr)


def check_writable(folder: str | Path) -> None:
    """Refuse to start a run whose products could not be written.

    Raises AnchorscopeError: the folder, or where it is to be made, is read-only, closed or full.
    """
    there = _existing(folder)
    try:
        with tempfile.TemporaryFile(dir=there) as trial:
            trial.write(b"x")
    except OSError as error:
        if known := of_the_disk(error):
            raise AnchorscopeError(known.what, there, known.do, see=known.see) from None
        raise


def check_room(cells: Iterable[int], keep: bool, folder: str | Path) -> int:
    """Bytes that activations need: of all `cells` if they stay (`keep`), else of the largest.

    Raises AnchorscopeError: the disk of `folder`, which need not be there yet, has less room.
    """
    need = sum(cells) if keep else max(cells, default=0)
    there = _existing(folder)
    free = shutil.disk_usage(there).free
    if need > free:
        what = f"activations take about {need / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB are free"
        do = (
            "free some, point `results` at a larger disk, set `keep_activations: false`, or "
            "look at fewer samples with `limit`"
        )
        raise AnchorscopeError(what, there, do, see="no-room")
    return need


def _existing(folder: str | Path) -> Path:
    """The folder, or what there is of the way to it."""
    path = Path(folder).expanduser().absolute()
    return next(place for place in (path, *path.parents) if place.exists())
