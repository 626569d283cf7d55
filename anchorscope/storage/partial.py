"""Finished batches of a job, kept so that no interruption and no failing rerun loses them.

Snakemake deletes a job's declared outputs before it runs the job again, even if the new run fails.
So batches are kept in a folder that no rule declares, `.partial/<product>/<hash>/` beside the
product. The hash covers the settings. When the product is made, batches with another hash are
removed. Each file notes the `signature` of its samples, so that batches cannot be confused.
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
from anchorscope.storage.progress import Progress

if TYPE_CHECKING:
    import torch

FOLDER = ".partial"

log = logging.getLogger(__name__)


def folder_for(
    snakemake: Any,
    product: str | Path,
    device: object,
    batches: object,
    identity_of_inputs: str | None = None,
) -> Path:
    """Make the folder for the batches of a job's product, and return its path.

    The path depends on the device, because numbers differ a little between devices. `repr(batches)`
    must show everything else that the batches depend on and the identity leaves out. By default,
    this is the identity of the job. A job whose batches depend on some inputs only, apart from what
    their `signature` shows, passes the identity of these as `identity_of_inputs`.
    """
    made_from = {
        "identity": identity_of_inputs or provenance.identity(snakemake),
        "libraries": provenance.libraries(),
        "device": str(device),
        "batches": hashlib.sha256(repr(batches).encode()).hexdigest(),
    }
    folder = waiting(product) / identity(made_from)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def settle(folder: Path) -> None:
    """Remove the batches made under other settings, now that the product of `folder` is made."""
    for other in folder.parent.glob("*"):
        if other != folder:
            log.info("removing batches made under other settings: %s", other)
            shutil.rmtree(other)


def publish(folder: Path, product: str | Path) -> None:
    """Make the product from a folder of batches, as the last step of its job.

    The files are hard-linked, so they take no more space. On a file system without hard links, the
    folder is moved, and a failing rerun loses its batches.
    """
    with atomic(product) as draft:
        try:
            drafts = shutil.ignore_patterns("*.draft")  # of processes that were killed
            shutil.copytree(folder, draft, copy_function=os.link, ignore=drafts)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            folder.rename(draft)
    settle(folder)


def drop(products: Iterable[str | Path]) -> None:
    """Remove all batches of `products`, whatever their settings."""
    for product in products:
        shutil.rmtree(waiting(product), ignore_errors=True)


def waiting(product: str | Path) -> Path:
    """Return the folder of a product's batches, with a subfolder for each hash of settings."""
    return Path(product).parent / FOLDER / Path(product).name


def batch(folder: Path, number: int) -> Path:
    """Return the path of batch `number`."""
    return folder / f"batch-{number:05d}.safetensors"


def signature(samples: Sequence[str]) -> str:
    """Hash the ids of a batch's samples, in row order. `once` saves it as the note `samples`."""
    return hashlib.sha256(json.dumps(list(samples)).encode()).hexdigest()


def save(tensors: Mapping[str, torch.Tensor], path: Path, **notes: str) -> None:
    """Write the tensors of a batch, whole or not at all, with `notes` in the file's metadata."""
    from safetensors.torch import save_file

    with atomic(path) as draft:
        save_file(dict(tensors), draft, metadata=notes)


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a batch with `safetensors.safe_open`."""
    with readable(path, "batch"), safe_open(path, framework="pt") as file:
        yield file


def notes(path: Path) -> dict[str, str]:
    """Read the notes that `save` wrote beside the tensors."""
    with opened(path) as file:
        return dict(file.metadata() or {})


def finished(path: Path, samples: str) -> bool:
    """Return whether an earlier job finished the batch with this `signature` of its samples."""
    return path.exists() and notes(path).get("samples") == samples


def once(
    path: Path | None, make: Callable[[], Mapping[str, torch.Tensor]], samples: str
) -> Mapping[str, torch.Tensor]:
    """Return a batch's tensors. Read them if an earlier job finished it; else make and save them.

    `samples` is the batch's `signature`. If `path` is None, nothing is read or written.
    """
    if path is None:
        return make()
    if finished(path, samples):
        Progress.kept = True
    else:
        save(make(), path, samples=samples)
    with opened(path) as file:
        return {name: file.get_tensor(name) for name in sorted(file.keys())}
