"""`anchorscope check`: what would stop a run, or surprise, found before anything is downloaded."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from anchorscope.config.settings import Config, Dataset
from anchorscope.models import models
from anchorscope.questions import hub, reading, revisions
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow import cost, sizes
from anchorscope.workflow.cost import Cost, Work, gigabytes
from anchorscope.workflow.devices import gpus_here

Status = Literal["ok", "warning", "error"]
TIGHT = 0.9
"""Share of the free room from which on it is called tight."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        status: `ok`, `warning` or `error`.
        about: what it is about: `config`, `target`, `disk`, `gpu`, `hub`, `model`, `dataset`.
        what: what was found.
        do: what to do about it.
    """

    status: Status
    about: str
    what: str
    do: str | None = None

    @property
    def line(self) -> str:
        """The finding without its status, on one line."""
        text = " ".join(self.what.split())
        return f"{text}; {' '.join(self.do.split())}" if self.do else text


def check(
    config: Config, work: Mapping[str, Sequence[Work]], costs: Sequence[Cost]
) -> Iterator[Finding]:
    """Everything that the targets need, one finding after the other.

    Args:
        config: the checked config.
        work: target → its cells, see `cost.work_of`.
        costs: of the targets, see `cost.cost`.
    """
    every = cost.distinct(one for part in work.values() for one in part)
    left = [one for one in every if not one.built]
    named = list(dict.fromkeys(one.model for one in left))
    datasets = list(dict.fromkeys(one.dataset for one in left))
    yield _catalogue(config)
    yield from map(target_finding, costs)
    yield from disk(config, costs[0] if len(costs) == 1 else cost.cost("all of them", every))
    for model in named:
        yield from model_findings(config, model)
    yield from gpu(config, named)
    yield from dataset_findings(config, datasets)
    yield from access(config, named, datasets)


def mistaken(error: AnchorscopeError) -> Finding:
    """An error as a finding."""
    place = "" if error.where is None else f" ({error.where})"
    return Finding("error", "config", f"{error.what}{place}", error.do)


def _catalogue(config: Config) -> Finding:
    counted = [f"{len(getattr(config, c))} {c}" for c in ("models", "datasets", "figures")]
    return Finding("ok", "config", f"valid: {', '.join(counted)}")


def target_finding(found: Cost) -> Finding:
    """A target's cost in words."""
    if not found.cells:
        what = f"{found.target}: no cell to measure"
        if found.target in cost.TRAINING:
            what += f", models to train, roughly {cost.words(found.seconds)}"
        return Finding("ok", "target", what)
    if found.built == found.cells:
        what = f"{found.target}: all {found.cells} cells are there"
        return Finding("ok", "target", what, "whether they are up to date, `snakemake -n` says")
    what = (
        f"{found.target}: {found.cells - found.built} of {found.cells} cells to measure, at most "
        f"{found.samples:,} samples and {found.rows:,} rows of passes; "
        f"to download {gigabytes(found.download_bytes)} of weights, "
        f"activations {gigabytes(found.activation_bytes)}, roughly {cost.words(found.seconds)}"
    )
    if found.unknown:
        what += f"; without {', '.join(found.unknown)}, of unknown size until downloaded"
        return Finding("warning", "target", what)
    return Finding("ok", "target", what)


def disk(config: Config, whole: Cost) -> Iterator[Finding]:
    """Room for activations beside the results, and for weights in the hub's cache."""
    from huggingface_hub import constants

    results = whole.activation_bytes if config.keep_activations else whole.largest_cell
    needs = {config.results: results, constants.HF_HUB_CACHE: whole.download_bytes}
    by_device: dict[int, list[tuple[Path, int]]] = defaultdict(list)
    for name, need in needs.items():
        if need or name == config.results:
            there = cost.existing(name)
            by_device[there.stat().st_dev].append((there, need))
    for places in by_device.values():
        yield _room(places)


def _room(places: Sequence[tuple[Path, int]]) -> Finding:
    """Folders that share a disk."""
    need = sum(size for _, size in places)
    free = shutil.disk_usage(places[0][0]).free
    where = " and ".join(dict.fromkeys(str(path) for path, _ in places))
    what = f"{gigabytes(need)} needed, {gigabytes(free)} free at {where}"
    do = (
        "free some, point `results` or HF_HOME at a larger disk, "
        "set `keep_activations: false`, or look at fewer samples with `limit`"
    )
    if need > free:
        return Finding("error", "disk", what, do)
    return (
        Finding("warning", "disk", what, do) if need > TIGHT * free else Finding("ok", "disk", what)
    )


def model_findings(config: Config, name: str) -> Iterator[Finding]:
    """Local folders, and checkpoints trained here: whether they are what the config says."""
    entry = config.models[name]
    if entry.train:
        yield _trained(config, name)
    elif entry.local:
        folder = Path(entry.local).expanduser()
        try:
            models.check(folder)
        except AnchorscopeError as error:
            yield Finding("error", "model", f"{name}: {error.what} ({folder})", error.do)
        else:
            yield Finding("ok", "model", f"{name}: {folder}")


def _trained(config: Config, name: str) -> Finding:
    place = cost.trained(config, name)
    recipe = config.recipe_hash(name)
    if place is None:
        time = cost.words(cost.training_seconds(config, name))
        what = f"{name}: no checkpoint of the present recipe ({recipe}), it is trained first"
        return Finding("warning", "model", f"{what}, roughly {time}")
    try:
        models.check(place)
    except AnchorscopeError as error:
        return Finding("error", "model", f"{name}: {error.what} ({place})", error.do)
    return Finding("ok", "model", f"{name}: {place}, of the present recipe ({recipe})")


def gpu(config: Config, named: Iterable[str]) -> Iterator[Finding]:
    """GPUs, where a model asks for one."""
    wanting = {n: config.models[n].resources for n in named if config.models[n].resources.gpus}
    if not wanting:
        return
    here = gpus_here()
    most = max(resources.gpus for resources in wanting.values())
    if here == 0:
        do = "run where there is a GPU, or on a cluster with `snakemake --profile slurm`"
        what = f"none here, and {', '.join(wanting)} would run on the CPU"
        yield Finding("warning", "gpu", what, do)
        return
    memory = gpu_memory()
    smallest = min(memory, default=0)
    what = f"{here} here, of {', '.join(gigabytes(size) for size in memory) or 'unknown size'}"
    if most > here:
        names = [name for name, resources in wanting.items() if resources.gpus > here]
        do = "its layers are spread over those there are; ask for more where it runs"
        yield Finding("warning", "gpu", f"{what}; {', '.join(names)} asks for {most}", do)
    small = [n for n, resources in wanting.items() if resources.gpu_mem_gb * 1e9 > smallest]
    if small and memory:
        asked = max(wanting[name].gpu_mem_gb for name in small)
        do = "lower `batch_tokens`, or ask for a larger GPU"
        what = f"{what}; {', '.join(small)} should have {asked} GB each"
        yield Finding("warning", "gpu", what, do)
    elif most <= here:
        yield Finding("ok", "gpu", what)


def gpu_memory() -> list[int]:
    """Bytes of each GPU that torch can use; none with a build of torch for the CPU."""
    import torch

    if not torch.cuda.is_available():
        return []
    count = torch.cuda.device_count()
    return [int(torch.cuda.get_device_properties(i).total_memory) for i in range(count)]


def dataset_findings(config: Config, named: Iterable[str]) -> Iterator[Finding]:
    """Rows of the user's own: whether they are there."""
    for name in named:
        local = config.local_of(name)
        if local is None:
            continue
        if Path(local).exists():
            yield Finding("ok", "dataset", f"{name}: {local}")
        else:
            do = "correct `local` or `data_folder` in config.yaml"
            yield Finding("error", "dataset", f"{name}: there is nothing at {local}", do)


def access(config: Config, named: Iterable[str], datasets: Iterable[str]) -> Iterator[Finding]:
    """What is still to be had from the hub, and whether it can be; asks it for these alone."""
    from huggingface_hub import constants, get_token

    wanted = [*_models_wanted(config, named), *_datasets_wanted(config, datasets)]
    offline = bool(constants.HF_HUB_OFFLINE)
    unreached = False
    for kind, name, hub_id, gated in wanted:
        what = f"{kind} {name} ({hub_id})"
        if offline:
            yield _offline(what, config.datasets[name] if kind == "dataset" else None)
        elif gated and get_token() is None:
            do = f"accept its terms at https://huggingface.co/{hub_id}, then set HF_TOKEN"
            yield Finding("error", "hub", f"{what} is gated, and there is no token here", do)
        elif unreached:
            yield Finding("error", "hub", f"{what} is not here, and the hub cannot be reached")
        else:
            found = ask(kind, hub_id, what)
            unreached = found.status == "error" and "cannot be reached" in found.what
            yield found


def _models_wanted(config: Config, named: Iterable[str]) -> Iterator[tuple[str, str, str, bool]]:
    """Kind, key, hub id and gate of the hub models whose weights are not on this machine."""
    for name in named:
        entry = config.models[name]
        if entry.hub:
            folder = sizes.cached(entry.hub, entry.revision)
            if folder is None or sizes.weight_bytes(folder) is None:
                yield "model", name, entry.hub, entry.gated


def _datasets_wanted(config: Config, named: Iterable[str]) -> Iterator[tuple[str, str, str, bool]]:
    for name in named:
        hub_id = config.datasets[name].hub
        if hub_id and not (Path(config.results) / "data" / f"{name}.parquet").is_file():
            yield "dataset", name, hub_id, False


def _offline(what: str, rows: Dataset | None) -> Finding:
    """What a run without the hub comes to: rows that were read before are here, all else is not.

    Args:
        what: the model or dataset in words.
        rows: entry of the dataset, if it is one.
    """
    do = "unset it, or fetch where there is network, with the same HF_HOME"
    if rows is not None and rows.hub is not None:
        commit = revisions.known_commit(rows.hub, rows.revision)
        if commit is None:
            what = f"{what}: nobody can say which commit this is, and HF_HUB_OFFLINE is set"
            do = f"{do} and the same revisions.lock.yaml; or set `revision` to a commit"
            return Finding("error", "hub", what, do)
        what += f" at commit {commit[:7]}"
        if reading.prepared(rows.hub, rows.config, commit):
            return Finding("ok", "hub", f"{what}: its rows are in the cache")
    return Finding("error", "hub", f"{what} is not here, and HF_HUB_OFFLINE is set", do)


def ask(kind: str, hub_id: str, what: str) -> Finding:
    """Whether the hub lets us have a model or dataset, and how large a dataset is.

    The only calls to the network here.
    """
    from huggingface_hub import HfApi

    try:
        with hub.errors(kind, hub_id):
            HfApi().auth_check(hub_id, repo_type=kind)
    except AnchorscopeError as error:
        return Finding("error", "hub", f"{what}: {error.what}", error.do)
    size = f", {_size_said(hub_id)}" if kind == "dataset" else ""
    return Finding("ok", "hub", f"{what} can be downloaded{size}")


def _size_said(hub_id: str) -> str:
    """The bytes of a dataset's files, as the hub has them; of a split it is part of them."""
    from huggingface_hub import HfApi

    try:
        with hub.errors("dataset", hub_id):
            files = HfApi().dataset_info(hub_id, files_metadata=True).siblings
    except AnchorscopeError:
        files = None
    sizes_of = [file.size for file in files or () if file.size is not None]
    return f"at most {gigabytes(sum(sizes_of))}" if sizes_of else "of unknown size, not counted"
