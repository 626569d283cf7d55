"""What is said around a run: before its first job what would fail, at its end what is left out."""

import os
import platform
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from anchorscope.experiments.settings import RunConfig
from anchorscope.experiments.tables import rows_where
from anchorscope.storage.errors import AnchorscopeError, of_the_disk
from anchorscope.storage.files import read_csv
from anchorscope.storage.provenance import beside
from anchorscope.storage.records import funnel
from anchorscope.workflow import resume
from anchorscope.workflow.devices import ON_CPU, gpus_here
from anchorscope.workflow.resources import activation_bytes
from anchorscope.workflow.studies import Study


def on_a_cluster(workflow: Any) -> bool:
    """Whether Snakemake's jobs are submitted to SLURM."""
    return hasattr(workflow.executor_settings, "status_command")


def check(workflow: Any, config: RunConfig, studies: Mapping[str, Study]) -> None:
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


def warn_without_gpu(config: RunConfig, models: Iterable[str]) -> None:
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


def last_lines(config: RunConfig, figures: Iterable[str]) -> Iterator[str]:
    """Three lines for each figure that was built: files, samples, points that are marked."""
    for figure in figures:
        table = f"{config.root}/tables/{figure}.csv"
        yield f"{figure}: {config.root}/figures/{figure}.html, its table {table}"
        yield f"  {_samples(config, figure)}"
        yield f"  {_marked(config, figure, table)}"


def _samples(config: RunConfig, figure: str) -> str:
    """How many samples all cells measured, and how many were left out, by reason."""
    measured, left_out = 0, Counter[str]()
    for model, dataset in config.cells(figure):
        cell = f"{config.root}/delta_p/{model}/{dataset}.csv"
        stages = funnel(cell) if beside(cell).is_file() else []
        measured += stages[-1]["kept"] if stages else 0
        for stage in stages:
            left_out.update(stage["dropped"])
    why = ", ".join(f"{count:,} {reason}" for reason, count in left_out.most_common())
    return f"{measured:,} samples measured; left out: {why or 'none'}"


def _marked(config: RunConfig, figure: str, table: str) -> str:
    """Points of the curves that are drawn as no result."""
    site, position = config.figures[figure].readout.split("/")
    place = {"site": site, "position": position, "grouping": config.grouping}
    rows = rows_where(read_csv(table).astype(str), **place, condition="knockout", anchor="Q")
    grey, thin = rows["signal"] == "False", rows["thin"] == "True"
    return (
        f"{len(rows)} question-anchored points: {grey.sum()} without a signal (grey), "
        f"{(thin & ~grey).sum()} more with too few samples"
    )
