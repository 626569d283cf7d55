"""Partial: the finished batches of an unfinished job, so that a job that dies loses one batch.

Snakemake removes what an unfinished job has declared before it runs it again. So batches wait in a
folder that nobody declared, `<root>/.partial/<product>+<hash>/`, until the product is read. They
are written whole or not at all, and say what they are of, so that none is taken for another.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import safe_open

from anchorscope.storage import provenance
from anchorscope.storage.files import atomic, readable
from anchorscope.storage.identity import identity

if TYPE_CHECKING:
    import torch

FOLDER = ".partial"

log = logging.getLogger(__name__)


def folder_for(snakemake: Any, product: str | Path, device: object, batches: object) -> Path:
    """Make the folder where a job's batches wait; those made under other settings are dropped.

    Numbers differ a little from device to device; `batches` is what makes them up, and what was
    read that no identity tells.
    """
    made_from = {
        "identity": provenance.identity(snakemake),
        "libraries": provenance.libraries(),
        "device": str(device),
        "batches": hashlib.sha256(repr(batches).encode()).hexdigest(),
    }
    root = Path(snakemake.wildcards.root)
    name = "+".join(Path(product).relative_to(root).parts)
    folder = root / FOLDER / f"{name}+{identity(made_from)}"
    for other in _waiting(folder.parent, name):
        if other != folder:
            log.info("batches made under other settings are dropped: %s", other)
            shutil.rmtree(other)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def publish(folder: Path, product: str | Path) -> None:
    """Put what waits in a folder into a finished product, by links.

    The batches wait on: a job that is killed in its last moment loses its product, not them.
    """
    with atomic(product) as draft:
        shutil.copytree(folder, draft, copy_function=_link)


def _link(source: str, target: str) -> None:
    """A hard link, or a copy where the file system has none."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def drop(products: Iterable[str | Path]) -> None:
    """Remove what waited for products that are finished and read now."""
    for path in map(Path, products):
        for root in path.parents:
            for waits in _waiting(root / FOLDER, "+".join(path.relative_to(root).parts)):
                shutil.rmtree(waits, ignore_errors=True)


def _waiting(folder: Path, product: str) -> list[Path]:
    return [found for found in folder.glob("*+*") if found.name.rpartition("+")[0] == product]


def batch(folder: Path, number: int) -> Path:
    """The file of a batch."""
    return folder / f"batch-{number:05d}.safetensors"


def signature(samples: Sequence[str]) -> str:
    """What a batch's notes hold under `samples`: a hash of them, in the order of its rows."""
    return hashlib.sha256(json.dumps(list(samples)).encode()).hexdigest()


def save(tensors: Mapping[str, torch.Tensor], path: Path, **notes: str) -> None:
    """Write a batch, whole or not at all, with some notes."""
    from safetensors.torch import save_file

    with atomic(path) as draft:
        save_file(dict(tensors), draft, metadata=notes)


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """A batch, as `safetensors.safe_open` gives it."""
    with readable(path, "batch"), safe_open(path, framework="pt") as file:
        yield file


def notes(path: Path) -> dict[str, str]:
    """What `save` was told beside the tensors."""
    with opened(path) as file:
        return dict(file.metadata() or {})


def finished(path: Path, samples: str) -> bool:
    """Whether an earlier try has finished this batch, see `signature`."""
    return path.exists() and notes(path).get("samples") == samples


def once(
    path: Path | None, make: Callable[[], Mapping[str, torch.Tensor]], samples: str
) -> Mapping[str, torch.Tensor]:
    """A batch of `samples` that an earlier try has finished, else made now and kept.

    Without a path nothing is kept.
    """
    if path is None:
        return make()
    if not finished(path, samples):
        save(make(), path, samples=samples)
    with opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
