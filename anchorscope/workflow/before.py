"""What can be known to fail is said before the first job of a run."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from anchorscope.config.settings import Config
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow import cluster
from anchorscope.workflow.devices import ON_CPU, gpus_here
from anchorscope.workflow.resources import activation_bytes
from anchorscope.workflow.stage import check_writable, scratch
from anchorscope.workflow.studies import Study


def on_a_cluster(workflow: Any) -> bool:
    """Whether Snakemake's jobs are submitted to SLURM."""
    return hasattr(workflow.executor_settings, "status_command")


def check(workflow: Any, config: Config, studies: Mapping[str, Study]) -> None:
    """Refuse a run that cannot end well, and say what it needs.

    Args:
        workflow: Snakemake's, its DAG resolved.
        config: of the run.
        studies: of the run, by their roots.

    Raises:
        AnchorscopeError: folders that cannot be written, activations that do not fit on the
            disk, jobs of an earlier run in the cluster's queue.
    """
    jobs = list(workflow.dag.needrun_jobs())
    check_writable(config.results)
    check_writable(scratch())
    with_model = [job for job in jobs if job.rule.name in ("answers", "activations", "scores")]
    here = not on_a_cluster(workflow) and not gpus_here() and os.environ.get(ON_CPU) != "1"
    if here and (said := without_gpu(config, [job.wildcards.model for job in with_model])):
        print(said, file=sys.stderr)
    if sizes := [_added(job, studies) for job in jobs if job.rule.name == "activations"]:
        need = check_room(sizes, config.keep_activations, config.results)
        print(f"Activations: about {need / 1e9:,.1f} GB in {config.results}.", file=sys.stderr)
    if on_a_cluster(workflow):
        cluster.refuse_orphans(Path.cwd())


def _added(job: Any, studies: Mapping[str, Study]) -> int:
    """Bytes that the activations of a cell add to the disk; those there now are replaced."""
    cell = job.wildcards
    there = sum(path.stat().st_size for path in Path(job.output[0]).rglob("*") if path.is_file())
    found = activation_bytes(studies[cell.root].config, cell.model, cell.dataset)
    return max(0, found - there)


def without_gpu(config: Config, models: Iterable[str]) -> str | None:
    """What a run says where models ask for a GPU and there is none; None if none of them asks."""
    named = set(models)
    asking = [n for n, entry in config.models.items() if n in named and entry.resources.gpus]
    if not asking:
        return None
    more = f" and {len(asking) - 3} more" if len(asking) > 3 else ""
    return f"No GPU here: {', '.join(asking[:3])}{more} will run on the CPU, which may take days."


def check_room(cells: Iterable[int], keep: bool, folder: str | Path) -> int:
    """Refuse to start what cannot be stored.

    Args:
        cells: bytes of the activations of each cell to be measured.
        keep: whether they stay; else only the largest cell must fit.
        folder: where they go; it need not be there yet.

    Returns:
        Bytes needed.

    Raises:
        AnchorscopeError: the disk has less room.
    """
    need = sum(cells) if keep else max(cells, default=0)
    path = Path(folder).expanduser().absolute()
    there = next(place for place in (path, *path.parents) if place.exists())
    free = shutil.disk_usage(there).free
    if need > free:
        raise AnchorscopeError(
            f"activations take about {need / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB are free",
            there,
            "free some, point `results` at a larger disk, set `keep_activations: false`, or "
            "look at fewer samples with `limit`",
            see="no-room",
        )
    return need
