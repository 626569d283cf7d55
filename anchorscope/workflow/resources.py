"""What a job asks a cluster for, and what activations take on the disk: rough estimates.

From the size of the checkpoint and the number of samples alone. A job that fails is sent again with
more (`attempt`), so an estimate that is too low costs one try.
"""

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, PositiveInt, ValidationError

from anchorscope.config.settings import Config
from anchorscope.passes import interventions
from anchorscope.questions import null_worlds, revisions
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow.devices import ON_CPU, gpus_here

MEMORY = {"passes": (4000, 0, 1500), "probes": (4000, 4, 0), "tables": (1000, 1, 0)}
"""Main memory in MB of a kind of job, for each sample, and for each GB of the checkpoint."""
BASE_MINUTES, SAMPLE_MINUTES, PASS_MINUTES = 15, 0.01, 0.003
"""Time of a job, of a sample, and of a sample and GB of the checkpoint, on a slow GPU."""
STATES_PER_GB = 3500
"""Layers × width of a model for each GB of its GPUs, while its config.json is not here."""
PROFILE = "slurm/config.yaml"


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


def site_of(default_resources: Mapping[str, Any] | None) -> Site:
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


@dataclass(frozen=True)
class Jobs:
    """What the jobs of a run ask for, as functions of the wildcards of their rules."""

    config: Config
    site: Site = field(default_factory=Site)  # the lines of the cluster's profile
    here: bool = True  # whether they run on this machine

    def asks(self, kind: str) -> dict[str, Callable[..., int]]:
        """Memory and time of jobs of a kind: more with each attempt, up to the profile's limits."""
        limits = {"mem_mb": 1000 * (self.site.max_mem_gb or 0), "runtime": self.site.max_runtime}

        def resource(name: str) -> Callable[..., int]:
            def asked(wildcards: Any, attempt: int) -> int:
                wanted = attempt * self.demand(kind, wildcards.model, wildcards.dataset)[name]
                return min(wanted, limits[name] or wanted)

            return asked

        return {name: resource(name) for name in limits}

    def demand(self, kind: str, model: str, dataset: str) -> dict[str, int]:
        """Main memory in MB and time in minutes of the first attempt.

        The catalogue overrides both, except for `tables`.
        """
        entry = self.config.models[model].resources
        size, most = weights_gb(self.config, model), samples(self.config, dataset)
        of_a_job, of_a_sample, of_a_gb = MEMORY[kind]
        per_gb = 0 if kind == "tables" else PASS_MINUTES * size
        if kind == "passes" and not entry.gpus:
            per_gb *= 1000  # how much longer passes take on a CPU
        found = {
            "mem_mb": math.ceil(of_a_job + of_a_sample * most + of_a_gb * size),
            "runtime": math.ceil(BASE_MINUTES + most * (SAMPLE_MINUTES + per_gb)),
        }
        said = {"mem_mb": 1000 * (entry.mem_gb or 0), "runtime": entry.runtime_min}
        return found if kind == "tables" else {name: said[name] or found[name] for name in found}

    def place(self, most_gpus: int | None = None) -> dict[str, Callable[..., Any]]:
        """Where a rule's jobs run: on the GPUs of their model, `most_gpus` at most."""

        def gpus(wildcards: Any) -> int:
            wanted = self.config.models[wildcards.model].resources.gpus
            return wanted if most_gpus is None else min(wanted, most_gpus)

        return {
            "gpu": gpus,
            # What `best_device` is asked for; text, so that the limit on GPUs leaves it alone.
            "device": lambda wildcards: {0: "cpu", 1: "cuda"}.get(gpus(wildcards), "auto"),
            "slurm_partition": lambda wildcards: self.site.partition_of(gpus(wildcards)),
            "gpu_model": lambda wildcards: self.site.gpu_type if gpus(wildcards) else None,
            # SLURM counts GPUs by the job: several may else come from more than one node.
            "nodes": lambda wildcards: 1 if gpus(wildcards) else None,
        }

    def cores(self, wildcards: Any) -> int:
        """Several for a model on the CPU; the tiny ones trained here gain nothing by it."""
        entry = self.config.models[wildcards.model]
        # A cluster's job has the cores that it asked for, wherever it landed.
        here = self.here and "SLURM_JOB_ID" not in os.environ
        without = os.environ.get(ON_CPU) == "1" or (here and not gpus_here())
        return 4 if (without or entry.resources.gpus == 0) and not entry.train else 1


def samples(config: Config, dataset: str) -> int:
    """Most samples that a cell of this dataset can have."""
    world = config.datasets[dataset].world
    most = config.sample_size_of(dataset)
    if world and world.style in null_worlds.FOLLOWS:
        most = null_worlds.SAMPLES
    elif world:
        facts = 4 * world.scored + 2 * (world.redundant + world.neutral) + world.unseen
        most = 2 * facts  # each in two wordings
    return min(most, config.limit or most)


def weights_gb(config: Config, model: str) -> float:
    """Size of a checkpoint in memory: by its files, else as much as the GPUs of its entry hold."""
    entry = config.models[model]
    folder = checkpoint(config, model)
    stored = sum(path.stat().st_size for path in folder.glob("*.safetensors")) if folder else 0
    # Loaded as float32, 16-bit weights are in memory in both forms for a while.
    wider = 2.3 if entry.dtype == "float32" else 1
    return wider * stored / 1e9 or float(entry.resources.gpus * entry.resources.gpu_mem_gb)


def checkpoint(config: Config, model: str) -> Path | None:
    """The folder of a checkpoint, located by the rule `model` or not yet; None if it is unknown."""
    located, entry = Path(config.results, "models", f"{model}.json"), config.models[model]
    if located.is_file():
        return Path(json.loads(located.read_text(encoding="utf-8"))["path"])
    if entry.local:
        return Path(entry.local).expanduser()
    return in_cache(entry.hub, entry.revision) if entry.hub else None


@cache
def in_cache(hub: str, revision: str | None = None) -> Path | None:
    """A hub model's folder in the cache, found without asking the hub; None if there is none."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    wanted = revisions.wanted("models", hub, revision)
    try:
        return Path(snapshot_download(hub, revision=wanted, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None


def activation_bytes(config: Config, model: str, dataset: str) -> int:
    """Samples × conditions × read-outs × layers × width × bytes of a number, of one cell."""
    measured = interventions.on(config.conditions.model_dump())
    passes = sum(not one.own_batch for one, _ in measured)
    numbers = samples(config, dataset) * passes * len(config.readouts) * _states(config, model)
    return numbers * (4 if config.models[model].dtype == "float32" else 2)


def _states(config: Config, model: str) -> int:
    """Layers × width of a model."""
    entry, folder = config.models[model], checkpoint(config, model)
    if entry.train:
        return entry.train.layers * entry.train.width
    if folder and (folder / "config.json").is_file():
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        found = found.get("text_config", found)
        return int(found["num_hidden_layers"]) * int(found["hidden_size"])
    return STATES_PER_GB * max(1, entry.resources.gpus * entry.resources.gpu_mem_gb)
