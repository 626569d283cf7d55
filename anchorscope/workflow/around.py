"""Checks before a run's first job, and explanations of failed jobs at the end of the run.

Snakemake has no documented API for the jobs of a run, so they are read from its DAG, here and in
`interrupted.products`.
"""

import logging
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from anchorscope.experiments.registry import RunConfig
from anchorscope.models import loading
from anchorscope.storage.errors import AnchorscopeError, of_the_disk
from anchorscope.storage.provenance import beside, made_with
from anchorscope.storage.records import SHOW_NUMBERS, check_inputs
from anchorscope.workflow.interrupted import cluster, products
from anchorscope.workflow.interrupted.products import job_of
from anchorscope.workflow.jobs import prepared
from anchorscope.workflow.resources import activation_bytes


def check(workflow: Any, config: RunConfig, *, here: bool) -> None:
    """Refuse a run that cannot succeed, and print the disk space of its activations.

    Finished batches of jobs that are forced to run again are removed, once the run may start.
    `here` says whether jobs run on this machine.

    Raises:
        AnchorscopeError: Results cannot be written, a model or dataset is not available,
            activations do not fit on the disk, a model's family is unknown, jobs of an earlier run
            are still running or in the cluster's queue, jobs would be submitted as an array, or
            products made with other settings would be used.
    """
    check_writable(config.results)
    products.warn_without_locks(_existing(config.results))
    if not here:
        refuse_arrays(workflow.executor_settings)
        cluster.refuse_orphans(Path.cwd())
        cluster.install()
    jobs = list(workflow.dag.needrun_jobs())
    products.refuse_held(jobs)
    check_sources(jobs)
    check_made(workflow, config.most_dropped)
    say_copied(workflow)
    cells = [job.wildcards for job in jobs if job.rule.name == "activations"]
    if cells:  # old activations are deleted only after the new ones are made
        sizes = [activation_bytes(config, w.model, w.dataset) for w in cells]
        need = check_room(sizes, config.keep_activations, config.results)
        print(f"Activations: about {need / 1e9:,.1f} GB in {config.results}.", file=sys.stderr)
    products.drop_forced(workflow)


def if_nothing_to_do(check: Callable[[], None]) -> None:
    """Call `check` when Snakemake finds nothing to do, also in a dry run.

    Snakemake has no hook for this: it calls `onstart` only before a job. But it logs a message.
    """
    from snakemake.common import NOTHING_TO_BE_DONE_MSG

    def watch(record: logging.LogRecord) -> bool:
        if record.msg == NOTHING_TO_BE_DONE_MSG:
            check()
        return True

    logging.getLogger("snakemake.logging").addFilter(watch)


def check_made(workflow: Any, most_dropped: float) -> None:
    """Refuse products that do not fit the config and are not made again.

    Snakemake keeps such products with `rerun-triggers: [mtime]`, after `--touch`, and if it has no
    record of them (without `.snakemake`). Jobs check `most_dropped` in `stage`; this function
    checks it for products whose jobs do not run.

    Raises:
        AnchorscopeError: A kept product was made with other settings or source files than the
            config has now, or was made from fewer samples than `most_dropped` allows.
    """
    made_again = () if workflow.touch else set(workflow.dag.needrun_jobs())
    kept = [job for job in workflow.dag.jobs if job not in made_again and job.output]
    recorded = [job for job in kept if beside(job.output[0]).is_file()]
    of_numbers = [job for job in recorded if job.rule.name not in SHOW_NUMBERS]
    if changed := [job for job in of_numbers if not made_with(job.output[0], job.params)]:
        raise _made_otherwise(changed)
    check_inputs({str(path) for job in kept for path in job.input}, most_dropped)


def say_copied(workflow: Any) -> None:
    """Say why products are made again that fit the config: Snakemake has no record of any.

    This happens if results are copied to another clone. Snakemake then goes by the files' times.
    """
    dag, records = workflow.dag, workflow.persistence
    again = [job for job in dag.needrun_jobs() if job.output and not dag.reason(job).forced]
    fitting = [
        job
        for job in again
        if beside(job.output[0]).is_file() and made_with(job.output[0], job.params)
    ]
    if (
        workflow.touch
        or not fitting
        or any(records.metadata(job.output[0]) for job in dag.jobs if job.output)
    ):
        return
    what = f"{len(fitting)} jobs run again, although their products exist and fit the config"
    where = "Snakemake has no records of them here, and some files are newer than what they made"
    do = "to keep them, stop this run (Ctrl-C) and run the same command once with `--touch`"
    print(f"warning: {AnchorscopeError(what, where, do, see='copied-results')}", file=sys.stderr)


def _made_otherwise(jobs: Iterable[Any]) -> AnchorscopeError:
    """Return the error for products of `jobs`, which were made with other settings."""
    made = sorted(str(job.output[0]) for job in jobs)
    rules = sorted({job.rule.name for job in jobs})
    what = "products were made with other settings or source files than the config has now"
    where = f"{', '.join(made[:3])}{f' and {n} more' if (n := len(made) - 3) > 0 else ''}"
    do = (
        f"add `--forcerun {' '.join(rules)}` to make them again, without `--touch`; remove "
        "`rerun-triggers` from your Snakemake profile, if it is set"
    )
    return AnchorscopeError(what, where, do, see="stale-product")


def refuse_arrays(settings: Any) -> None:
    """Refuse job arrays, since all jobs would get the memory, time and GPUs of the first one."""
    if getattr(settings, "array_jobs", None):
        what = "all jobs of an array would get the memory, time and GPUs of the first job"
        where = f"--slurm-array-jobs {settings.array_jobs}"
        do = "remove this option from the command line and from slurm/config.yaml"
        raise AnchorscopeError(what, where, do, see="slurm-profile")


def check_sources(jobs: Iterable[Any]) -> None:
    """Check that the models and datasets of a run are available, as far as this is cheap.

    A model or dataset that an earlier run recorded is looked up completely, so that its job cannot
    fail. If it failed, Snakemake would delete the record, on which every later product depends.

    Raises:
        AnchorscopeError: Models or datasets are not available. The error names all of them.
    """
    errors = []
    for job in jobs:
        try:
            if job.rule.name == "model":
                _look_up_model(job)
            elif job.rule.name == "dataset":
                _look_up_rows(job)
        except AnchorscopeError as error:
            what = f"{job.rule.name} `{job.wildcards[0]}`: {error.what}"
            errors.append(AnchorscopeError(what, error.where, error.do, see=error.see))
    if len(errors) == 1:
        raise errors[0]
    if errors:
        lines = [f"\n  - {one.what} ({one.where}); {one.do}" for one in errors]
        what = f"{len(errors)} models or datasets are not available:{''.join(lines)}"
        raise AnchorscopeError(what, None, "correct their entries in the config", see="sources")


def _look_up_model(job: Any) -> None:
    entry, named = job.params.model, job.params.names_prompt
    if entry["local"]:
        folder = Path(entry["local"]).expanduser()
        loading.check(folder, entry.get("parts"))
        loading.check_prompt(folder, named)
    elif entry["hub"] and Path(job.output[0]).exists():
        loading.locate(entry, names_prompt=named)


def _look_up_rows(job: Any) -> None:
    local = job.params.local
    if Path(job.output[0]).exists() or (local and not Path(local).expanduser().exists()):
        prepared(job)


def why_failed(job: Any) -> str:
    """Return the error in the log of a failed job, or of each job in a group.

    Without an error in the log, the result says how the job ended.
    """
    if job.is_group():
        return "\n".join(map(why_failed, job.jobs))
    what, see = f"{job_of(job)} ended without an error in its log", "killed"
    do = "run the same command again; if the job ends the same way, give it more memory or time"
    with suppress(OSError, IndexError):
        text = Path(job.log[0]).read_text(encoding="utf-8", errors="replace")
        if said := re.search(r"^[\d:]+ (error: .*)", text, re.MULTILINE | re.DOTALL):
            return said[1].rstrip()
        if "anchorscope failed in" in text:
            what, see = f"a bug in Anchorscope, in {job_of(job)}", "fault"
            do = "report the bug, with this log"
    return f"error: {AnchorscopeError(what, next(iter(job.log), None), do, see=see)}"


def check_writable(folder: str | Path) -> None:
    """Refuse a folder that cannot be written to. The folder need not exist yet.

    Raises:
        AnchorscopeError: The folder is read-only or not accessible, or its disk is full.
    """
    existing = Path(folder)
    try:
        existing = _existing(folder)
        with tempfile.TemporaryFile(dir=existing) as trial:
            trial.write(b"x")
    except OSError as error:
        if disk_error := of_the_disk(error):
            what, do = disk_error.what, disk_error.do
            raise AnchorscopeError(what, existing, do, see=disk_error.see) from None
        raise


def check_room(cells: Iterable[int], keep: bool, folder: str | Path) -> int:
    """Return the bytes of disk space that activations need. `cells` holds the bytes of each cell.

    If `keep` is false, only one cell's activations are on the disk at a time.

    Raises:
        AnchorscopeError: The disk of `folder` has less free space.
    """
    need = sum(cells) if keep else max(cells, default=0)
    existing = _existing(folder)
    free = shutil.disk_usage(existing).free
    if need > free:
        what = f"activations take about {need / 1e9:,.1f} GB; only {free / 1e9:,.1f} GB are free"
        do = (
            "free some space, point `results` at a larger disk, set `keep_activations: false`, or "
            "measure fewer samples with `limit`"
        )
        raise AnchorscopeError(what, existing, do, see="no-room")
    return need


def _existing(folder: str | Path) -> Path:
    """Return the folder, or its nearest parent that exists."""
    path = Path(folder).expanduser().absolute()
    return next(place for place in (path, *path.parents) if place.exists())
