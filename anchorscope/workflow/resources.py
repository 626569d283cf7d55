"""Estimate the resources that a job requests on a cluster, and the disk space of activations.

Estimates follow from the size of the checkpoint and the number of samples, or from the self-test of
the model on the cluster's GPU. A failed job is submitted again with more resources (`attempt`), so
an estimate that is too low costs one attempt.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, PositiveInt, ValidationError

from anchorscope.config import shipped
from anchorscope.config.settings import Config
from anchorscope.models import families, loading
from anchorscope.passes import interventions
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_json
from anchorscope.workflow.devices import ON_CPU, gpus_here

if TYPE_CHECKING:
    from anchorscope.workflow.trials import Stage, Trial

MEMORY = {"passes": (4000, 0, 1500), "probes": (4000, 4, 0), "tables": (1000, 1, 0)}
"""Kind of job → main memory in MB: per job, per sample, and per GB of the checkpoint."""
BASE_MINUTES, SAMPLE_MINUTES, PASS_MINUTES = 15, 0.01, 0.003
"""Minutes on a slow GPU: per job, per sample, and per sample × GB of the checkpoint."""
MARGIN = 2
"""Factor between measured and requested time, since nodes differ and share disks."""
SLOWER_ON_CPU = 1000
"""Factor by which a model's passes take longer on a CPU."""
TINY_GB = 0.01
"""Weights of a model for which one thread is enough."""
STATES_PER_GB = 3500
"""Assumed layers × width per GB of memory of a model's GPUs, if the model's shape is unknown."""
LINES = (".jsonl", ".csv")
"""Endings of files in which each row takes at least one line."""
PROFILE = "slurm/config.yaml"


class Site(BaseModel):
    """The keys of the SLURM profile that a user edits. A key that is left out is None."""

    slurm_partition: str | None = None
    gpu_partition: str | None = None
    gpu_type: str | None = None
    max_runtime: PositiveInt | None = None
    max_mem_gb: PositiveInt | None = None

    def partition_of(self, gpus: int) -> str | None:
        """Return the partition of a job with this many GPUs; None for the cluster's default."""
        return (self.gpu_partition or self.slurm_partition) if gpus else self.slurm_partition


def site_of(default_resources: Mapping[str, Any] | None) -> Site:
    """Read the user's keys of the profile, which Snakemake passes on as default resources.

    Raises:
        AnchorscopeError: A limit is not a whole number.
    """
    raw = {name: getattr(v, "raw", v) for name, v in (default_resources or {}).items()}
    # Quotes keep Snakemake from evaluating a name.
    lines = {name: str(value).strip("'\"") for name, value in raw.items() if value}
    try:
        return Site.model_validate(lines)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        what = f"`{name}: {lines[name]}` is not a whole number above 0"
        do = "write time in minutes, two days as 2880, and memory in GB"
        raise AnchorscopeError(what, PROFILE, do, see="slurm-profile") from None


def trials_on(site: Site) -> tuple[Trial, ...]:
    """Return the results of the self-test, which count if the profile names its GPU."""
    if not site.gpu_type:
        return ()
    from anchorscope.workflow import trials

    return trials.read()


@dataclass(frozen=True)
class Jobs:
    """The resources of a run's jobs, as functions of the wildcards of their rules."""

    config: Config
    site: Site = field(default_factory=Site)
    here: bool = True  # whether the jobs run on this machine
    trials: tuple[Trial, ...] = ()  # results of the self-test

    def asks(self, kind: str, stage: Stage | None = None) -> dict[str, Callable[..., int]]:
        """Return functions that estimate `mem_mb` and `runtime` (minutes) of jobs of one `kind`.

        Both grow with each attempt, up to the limits of the profile. The kinds are in `MEMORY`. If
        the self-test times these jobs, `stage` is its name for them.
        """
        limits = {"mem_mb": 1000 * (self.site.max_mem_gb or 0), "runtime": self.site.max_runtime}

        def resource(name: str) -> Callable[..., int]:
            def amount(wildcards: Any, attempt: int) -> int:
                cell = wildcards.model, wildcards.dataset
                wanted = attempt * self.demand(kind, *cell, stage)[name]
                return min(wanted, limits[name] or wanted)

            return amount

        return {name: resource(name) for name in limits}

    def demand(
        self, kind: str, model: str, dataset: str, stage: Stage | None = None
    ) -> dict[str, int]:
        """Estimate main memory (`mem_mb`) and minutes (`runtime`) of the first attempt.

        Values in the model's `resources` replace the estimates, except for `tables`.
        """
        entry, trial = self.config.models[model].resources, self._trial(model)
        gigabytes = trial.weights_gb if trial else weights_gb(self.config, model)
        count = asked if stage == "answers" else samples
        n = count(self.config, dataset)
        per_job, per_sample, per_gb = MEMORY[kind]
        minutes_per_sample, said = SAMPLE_MINUTES, dict[str, int]()
        if kind != "tables":
            on_cpu = kind == "passes" and not entry.gpus
            minutes_per_sample += PASS_MINUTES * gigabytes * (SLOWER_ON_CPU if on_cpu else 1)
            said = {"mem_mb": 1000 * (entry.mem_gb or 0), "runtime": entry.runtime_min or 0}
        if trial and stage:
            minutes_per_sample = MARGIN * trial.seconds[stage] / 60
        estimate = {
            "mem_mb": math.ceil(per_job + per_sample * n + per_gb * gigabytes),
            "runtime": math.ceil(BASE_MINUTES + minutes_per_sample * n),
        }
        return {name: said.get(name) or amount for name, amount in estimate.items()}

    def _trial(self, model: str) -> Trial | None:
        """Return the self-test of a model on the type of GPU that its jobs request, or None."""
        if not self.site.gpu_type or self.config.models[model].resources.gpus != 1:
            return None
        from anchorscope.workflow import trials

        return trials.of(self.trials, self.config, model, [self.site.gpu_type])

    def place(self, most_gpus: int | None = None) -> dict[str, Callable[..., Any]]:
        """Return the resources that say where a rule's jobs run.

        A job asks for the GPUs that its model's config sets, but for at most `most_gpus`.
        """

        def gpus(wildcards: Any) -> int:
            wanted = self.config.models[wildcards.model].resources.gpus
            return wanted if most_gpus is None else min(wanted, most_gpus)

        return {
            "gpu": gpus,
            # The argument of `best_device`; text, so that Snakemake does not count it as GPUs.
            "device": lambda wildcards: {0: "cpu", 1: "cuda"}.get(gpus(wildcards), "auto"),
            "slurm_partition": lambda wildcards: self.site.partition_of(gpus(wildcards)),
            "gpu_model": lambda wildcards: self.site.gpu_type if gpus(wildcards) else None,
            # SLURM counts GPUs per job, so without this they might lie on several nodes.
            "nodes": lambda wildcards: 1 if gpus(wildcards) else None,
        }

    def cores(self, wildcards: Any) -> int:
        """Return the threads of a job: four for a model on the CPU, else one.

        Models of a few megabytes get one, because more threads do not help them.
        """
        entry = self.config.models[wildcards.model]
        # A job on a cluster gets the GPUs that it requests, whatever GPUs this machine has.
        here = self.here and "SLURM_JOB_ID" not in os.environ
        no_gpu = os.environ.get(ON_CPU) == "1" or (here and not gpus_here())
        on_cpu = no_gpu or entry.resources.gpus == 0
        tiny = 0 < weights_gb(self.config, wildcards.model) < TINY_GB
        return 4 if on_cpu and not tiny else 1


def samples(config: Config, dataset: str) -> int:
    """Return the largest number of samples that a cell of this dataset can have."""
    n = asked(config, dataset)
    return min(n, config.sample_size_of(dataset), config.limit or n)


def asked(config: Config, dataset: str) -> int:
    """Return the largest number of questions that a model is asked of this dataset."""
    n = config.pool_size_of(dataset)
    path = Path(config.local_of(dataset) or "").expanduser()
    if path.suffix in LINES and path.is_file():
        header = path.suffix == ".csv"
        rows = max(0, _lines(path, path.stat().st_mtime_ns) - header)
        n = rows if n is None else min(n, rows)
    if n is None:  # all rows, whose number is not known yet
        n = config.sample_size_of(dataset)
    return min(n, config.asked_of(dataset) or n)


@lru_cache
def _lines(path: Path, _changed: int) -> int:
    """Return an upper bound on the rows of a text file, cached until the file changes."""
    # Any bytes are valid in this encoding, and the line ends \n, \r and \r\n count once.
    with path.open(encoding="latin-1") as file:
        return sum(1 for _ in file)


def weights_gb(config: Config, model: str) -> float:
    """Return a model's GB in memory: from its files, or else from its `gpus` × `gpu_mem_gb`."""
    entry = config.models[model]
    folder = checkpoint(config, model)
    stored = 0
    if folder and not loading.missing(folder):
        stored = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    # While 16-bit weights are loaded as float32, memory holds both.
    wider = 2.3 if entry.dtype == "float32" else 1
    return wider * stored / 1e9 or float(entry.resources.gpus * entry.resources.gpu_mem_gb)


def checkpoint(config: Config, model: str) -> Path | None:
    """Return the folder of a model's checkpoint; None if it is not on this machine."""
    located, entry = Path(config.results, "models", f"{model}.json"), config.models[model]
    with suppress(AnchorscopeError, KeyError, TypeError):  # missing, or damaged: its job says so
        return Path(read_json(located)["path"])
    if entry.local:
        return Path(entry.local).expanduser()
    return loading.cached(entry.hub, entry.revision) if entry.hub else None


def activation_bytes(config: Config, model: str, dataset: str) -> int:
    """Estimate the bytes that the activations of a cell take on the disk.

    The estimate is samples × conditions × read-outs × layers × width × bytes of a number.

    Raises:
        AnchorscopeError: config.json cannot be read, or models of this family cannot be measured.
    """
    measured = interventions.on(config.conditions.model_dump())
    passes = sum(not one.own_batch for one, _ in measured)
    numbers = samples(config, dataset) * passes * len(config.readouts) * _states(config, model)
    return numbers * (4 if config.models[model].dtype == "float32" else 2)


def _states(config: Config, model: str) -> int:
    """Return layers × width of a model, estimated if its shape is not known on this machine."""
    entry = config.models[model]
    if found := shape(config, model):
        layers, width = families.sizes(found, f"models.{model}")
        return layers * width
    return STATES_PER_GB * max(1, entry.resources.gpus * entry.resources.gpu_mem_gb)


def shape(config: Config, model: str) -> Mapping[str, Any] | None:
    """Return a model's config.json from its checkpoint on this machine, else from `shapes.yaml`.

    Return None if there is neither.

    Raises:
        AnchorscopeError: The checkpoint's config.json cannot be read.
    """
    folder = checkpoint(config, model)
    if folder and (folder / "config.json").is_file():
        return loading.read_config(folder)
    published = config.models[model].hub and model in shipped.shapes()
    return shipped.shape_of(model) if published else None
