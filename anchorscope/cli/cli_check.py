"""`anchorscope check`: what would stop a run, or surprise, found before anything is downloaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from anchorscope.config.catalogue import Dataset
from anchorscope.config.settings import Config
from anchorscope.models import loading
from anchorscope.models.checkpoints import fits
from anchorscope.questions import hub, reading, revisions
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow.before import check_room
from anchorscope.workflow.devices import gpus_here
from anchorscope.workflow.resources import activation_bytes, in_cache, samples
from anchorscope.workflow.studies import Cell

Status = Literal["ok", "warning", "error"]


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


def check(config: Config, work: Mapping[str, Sequence[Cell]]) -> Iterator[Finding]:
    """Everything that the targets need, one finding after the other.

    Args:
        config: the checked config.
        work: target → its cells, see `studies.cells_of`.
    """
    every = {(c.study.root, c.model, c.dataset): c for cells in work.values() for c in cells}
    left = [cell for cell in every.values() if not cell.built]
    named = list(dict.fromkeys(cell.model for cell in left))
    datasets = list(dict.fromkeys(cell.dataset for cell in left))
    counted = [f"{len(getattr(config, c))} {c}" for c in ("models", "datasets", "figures")]
    yield Finding("ok", "config", f"valid: {', '.join(counted)}")
    for target, cells in work.items():
        yield target_finding(target, cells)
    yield disk(config, left)
    for name in named:
        yield from model(config, name)
    yield from gpu(config, named)
    for name in datasets:
        yield from dataset(config, name)
    yield from access(config, named, datasets)


def size(target: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """How much of a target is left to do, as plain data."""
    left = [cell for cell in cells if not cell.built]
    return {
        "target": target,
        "cells": len(cells),
        "built": len(cells) - len(left),
        "samples": sum(samples(cell.study.config, cell.dataset) for cell in left),
        "activation_bytes": sum(map(_bytes, left)),
    }


def _bytes(cell: Cell) -> int:
    return activation_bytes(cell.study.config, cell.model, cell.dataset)


def target_finding(target: str, cells: Sequence[Cell]) -> Finding:
    """What is left to do for a target, in words."""
    found = size(target, cells)
    if not cells:
        return Finding("ok", "target", f"{target}: no cell to measure")
    if found["built"] == len(cells):
        what = f"{target}: all {len(cells)} cells are there"
        return Finding("ok", "target", what, "whether they are up to date, `snakemake -n` says")
    what = (
        f"{target}: {len(cells) - found['built']} of {len(cells)} cells to measure, at most "
        f"{found['samples']:,} samples, activations about {gigabytes(found['activation_bytes'])}"
    )
    return Finding("ok", "target", what)


def disk(config: Config, left: Iterable[Cell]) -> Finding:
    """Room for activations beside the results."""
    try:
        need = check_room(map(_bytes, left), config.keep_activations, config.results)
    except AnchorscopeError as error:
        return Finding("error", "disk", f"{error.what} at {error.where}", error.do)
    return Finding("ok", "disk", f"about {gigabytes(need)} needed for activations, which are free")


def gigabytes(count: float) -> str:
    """Bytes in words."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"


def model(config: Config, name: str) -> Iterator[Finding]:
    """Local folders, and checkpoints trained here: whether they are what the config says."""
    entry = config.models[name]
    if entry.train:
        recipe = config.recipe_hash(name)
        places = [Path(config.results, "models", name), Path("resources/models", name)]
        place = next((place for place in places if fits(place, recipe)), None)
        what = f"{name}: no checkpoint of the present recipe ({recipe}), it is trained first"
        yield _folder(name, place) if place else Finding("warning", "model", what)
    elif entry.local:
        yield _folder(name, Path(entry.local).expanduser())


def _folder(name: str, folder: Path) -> Finding:
    try:
        loading.check(folder)
    except AnchorscopeError as error:
        return Finding("error", "model", f"{name}: {error.what} ({folder})", error.do)
    return Finding("ok", "model", f"{name}: {folder}")


def gpu(config: Config, named: Iterable[str]) -> Iterator[Finding]:
    """GPUs, where a model asks for one."""
    wanting = {n: config.models[n].resources for n in named if config.models[n].resources.gpus}
    here, memory = gpus_here(), gpu_memory() if wanting else []
    what = f"{here} here, of {', '.join(map(gigabytes, memory)) or 'unknown size'}"
    few = [name for name, wanted in wanting.items() if wanted.gpus > here]
    small = [n for n, w in wanting.items() if memory and w.gpu_mem_gb * 1e9 > min(memory)]
    if wanting and not here:
        do = "run where there is a GPU, or on a cluster with `snakemake --profile slurm`"
        yield Finding("warning", "gpu", f"none here, {', '.join(few)} would run on the CPU", do)
    elif few:
        do = "layers are spread over those there are; ask for more where it runs"
        yield Finding("warning", "gpu", f"{what}; too few for {', '.join(few)}", do)
    elif small:
        do = "lower `batch_tokens`, or ask for a larger GPU"
        yield Finding("warning", "gpu", f"{what}; too small for {', '.join(small)}", do)
    elif wanting:
        yield Finding("ok", "gpu", what)


def gpu_memory() -> list[int]:
    """Bytes of each GPU that torch can use; none with a build of torch for the CPU."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [int(torch.cuda.get_device_properties(i).total_memory) for i in range(count)]


def dataset(config: Config, name: str) -> Iterator[Finding]:
    """Rows of the user's own: whether they are there."""
    local = config.local_of(name)
    if local is not None and Path(local).exists():
        yield Finding("ok", "dataset", f"{name}: {local}")
    elif local is not None:
        do = "correct `local` or `data_folder` in config.yaml"
        yield Finding("error", "dataset", f"{name}: there is nothing at {local}", do)


def access(config: Config, named: Iterable[str], datasets: Iterable[str]) -> Iterator[Finding]:
    """What is still to be had from the hub, and whether it can be; asks it for these alone."""
    from huggingface_hub import constants

    unreached = False
    for kind, name, hub_id, gated in _wanted(config, named, datasets):
        what = f"{kind} {name} ({hub_id})"
        if constants.HF_HUB_OFFLINE:
            yield _offline(what, config.datasets[name] if kind == "dataset" else None)
        elif unreached:
            yield Finding("error", "hub", f"{what} is not here, and the hub cannot be reached")
        else:
            found = ask(kind, hub_id, what, gated)
            unreached = found.status == "error" and "cannot be reached" in found.what
            yield found


def _wanted(
    config: Config, named: Iterable[str], datasets: Iterable[str]
) -> Iterator[tuple[str, str, str, bool]]:
    """Kind, key, hub id and gate of the models and datasets that are not on this machine."""
    for name in named:
        entry = config.models[name]
        folder = in_cache(entry.hub, entry.revision) if entry.hub else None
        # Weights that were cut short are fetched again.
        if entry.hub and (folder is None or _folder(name, folder).status == "error"):
            yield "model", name, entry.hub, entry.gated
    for name in datasets:
        hub_id = config.datasets[name].hub
        if hub_id and not Path(config.results, "data", f"{name}.parquet").is_file():
            yield "dataset", name, hub_id, False


def _offline(what: str, rows: Dataset | None) -> Finding:
    """What a run without the hub comes to: rows that were read before are here, all else is not.

    `rows` is the entry of a dataset.
    """
    do = "unset it, or fetch where there is network, with the same HF_HOME"
    if rows is not None and rows.hub is not None:
        commit = revisions.known_commit(rows.hub, rows.revision)
        if commit and reading.prepared(rows.hub, rows.config, commit):
            return Finding("ok", "hub", f"{what} at commit {commit[:7]}: its rows are in the cache")
        do += " and revisions.lock.yaml"
    return Finding("error", "hub", f"{what} is not here, and HF_HUB_OFFLINE is set", do)


def ask(kind: str, hub_id: str, what: str, gated: bool = False) -> Finding:
    """Whether the hub lets us have a model or dataset: the only call to the network here.

    `gated` is what the config says, a hint for where the hub cannot be asked.
    """
    from huggingface_hub import HfApi

    try:
        with hub.errors(kind, hub_id):
            HfApi().auth_check(hub_id, repo_type=kind)
    except AnchorscopeError as error:
        do = error.do
        if gated and error.see == "hub-unreachable":
            do = f"{do}; its terms must be accepted at https://huggingface.co/{hub_id}"
        return Finding("error", "hub", f"{what}: {error.what}", do)
    return Finding("ok", "hub", f"{what} can be downloaded")
