"""Partial: the finished batches of an unfinished job. A job that dies loses what is in flight: one
batch, and on a GPU, where the next is passed while one is written, what was passed of that, too.

Snakemake removes what an unfinished job has declared before it runs it again. So batches wait in a
folder that nobody declared, `<root>/.partial/<product>+<fit>/`, until the job is done. What a batch
is the stage says: samples that were passed, layers whose probes are fitted, steps of a training.
Each file holds a checksum of every tensor, which is compared whenever the tensor is read, and the
signature of what it is of, so that no file is taken for another.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anchorscope.storage import provenance
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic, move
from anchorscope.storage.identity import identity

if TYPE_CHECKING:
    import torch

FOLDER = ".partial"

log = logging.getLogger(__name__)


class Damaged(AnchorscopeError):
    """A file of a batch is cut short, not what was written, or another batch's.

    Attributes:
        path: the file.
    """

    def __init__(self, path: Path, found: str) -> None:
        super().__init__(
            f"the batch is damaged: {found}",
            path,
            "run the same command again: what is sound is kept, the rest is made anew",
            see="damaged-batch",
        )
        self.path = path


def fit(snakemake: Any, device: object, batches: object) -> str:
    """Hash of all that the batches of a job depend on.

    Args:
        snakemake: the job; its run identity counts.
        device: where they are made; numbers differ a little from device to device.
        batches: what makes them up, and what was read that no identity tells.
    """
    made_from = {
        "identity": provenance.identity(snakemake),
        "libraries": provenance.libraries(),
        "device": str(device),
        "batches": hashlib.sha256(repr(batches).encode()).hexdigest(),
    }
    return identity(made_from)


def place(root: str | Path, product: str | Path, fit: str) -> Path:
    """Where the batches of a product wait.

    Args:
        root: the study's folder.
        product: what they will be, inside `root`.
        fit: hash of all that they depend on.
    """
    name = "+".join([*Path(product).relative_to(root).parts, fit])
    return Path(root) / FOLDER / name


def batch(folder: Path, number: int) -> Path:
    """The file of a batch."""
    return folder / f"batch-{number:05d}.safetensors"


def named(folder: Path, name: str) -> Path:
    """The file of a batch that has a name rather than a number; `/` in it is no folder."""
    return folder / f"batch-{name.replace('/', '.')}.safetensors"


def is_batch(path: Path) -> bool:
    """Whether a file is one of a folder's batches."""
    return path.name.startswith("batch-")


@contextmanager
def kept(folder: Path) -> Iterator[Path]:
    """Make the folder of a product's batches; those that fit no longer are dropped.

    It stays when the block has ended: a job that is killed in its last moment, or whose Snakemake
    has died, loses its product, and finds all batches here. The first stage that reads the finished
    product drops it (`drop`). The block may move it to where it belongs instead.
    """
    for other in _waiting(folder.parent, folder.name.rpartition("+")[0]):
        if other != folder:
            log.info("batches made under other settings are dropped: %s", other)
            shutil.rmtree(other)
    folder.mkdir(parents=True, exist_ok=True)
    yield folder


def linked(folder: Path, product: str | Path) -> None:
    """Put what waits in a folder into a finished product, by links; moved where there are none."""
    try:
        with atomic(product) as draft:
            draft.mkdir()
            for path in folder.iterdir():
                (draft / path.name).hardlink_to(path)
    except OSError:  # a file system without hard links: what a late kill would lose is made again
        move(folder, product)


def drop(inputs: Iterable[str | Path]) -> None:
    """Remove what waited for products that are finished and read now."""
    for path in map(Path, inputs):
        for root in path.parents:
            for waits in _waiting(root / FOLDER, "+".join(path.relative_to(root).parts)):
                shutil.rmtree(waits, ignore_errors=True)


def _waiting(folder: Path, product: str) -> list[Path]:
    """What waits for a product, whatever it fits."""
    return [found for found in folder.glob("*+*") if found.name.rpartition("+")[0] == product]


def save(tensors: Mapping[str, torch.Tensor], path: Path, **notes: str) -> None:
    """Write a batch, whole or not at all, with the checksum of each tensor and some notes."""
    from safetensors.torch import save_file

    with atomic(path) as draft:
        sums = {name: _checksum(tensor) for name, tensor in tensors.items()}
        save_file(dict(tensors), draft, metadata=notes | sums)


def notes(path: Path) -> dict[str, str]:
    """What `save` was told beside the tensors.

    Raises:
        Damaged: the head cannot be read.
    """
    held, said = _head(path)
    return {name: text for name, text in said.items() if name not in held}


def _head(path: Path) -> tuple[set[str], dict[str, str]]:
    """The names of a batch's tensors, and what else its head says."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return set(file.keys()), dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise Damaged(path, type(error).__name__) from error


def signature(ids: Sequence[str]) -> str:
    """What stands in a batch's notes for the ids of its samples, in the order of its rows."""
    return hashlib.sha256(json.dumps(list(ids)).encode()).hexdigest()


def read(
    path: Path, names: Iterable[str] | None = None, *, samples: str | None = None
) -> dict[str, torch.Tensor]:
    """Tensors of a batch, as they were written; all of them, or those named that it holds.

    Args:
        path: the file.
        names: of tensors.
        samples: signature of what it must be of, as its notes hold it; None reads any.

    Raises:
        Damaged: the file is not there, cut short, of other samples, or a tensor has another
            checksum.
    """
    from safetensors import SafetensorError, safe_open

    found: dict[str, torch.Tensor] = {}
    try:
        with safe_open(path, framework="pt") as file:
            sums = file.metadata() or {}
            if samples is not None and sums.get("samples") != samples:
                raise Damaged(path, "it is not of the samples that it should be of")
            held = set(file.keys())
            for name in sorted(held if names is None else held & set(names)):
                found[name] = file.get_tensor(name)
                if sums.get(name) != _checksum(found[name]):
                    raise Damaged(path, f"{name} has another checksum than when it was written")
    except (SafetensorError, OSError) as error:
        raise Damaged(path, type(error).__name__) from error
    return found


def layers(path: Path, name: str, some: slice) -> torch.Tensor:
    """Some layers of a tensor [rows, layers, width] of a batch that was found sound before."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return file.get_slice(name)[:, some]


def devices(folder: Path) -> str:
    """Where the batches of a folder were made, as `save` was told."""
    return ", ".join(sorted({notes(path)["device"] for path in folder.glob("batch-*")}))


def finished(path: Path, *, samples: str | None = None) -> dict[str, torch.Tensor] | None:
    """A batch that an earlier try has finished; None if there is none.

    A damaged one, or one of other samples (see `read`), is named in the log and removed, so that
    it is made anew.
    """
    if not path.exists():
        return None
    try:
        return read(path, samples=samples)
    except Damaged as error:
        log.warning("made anew: %s", error)
        path.unlink()
        return None


def once(
    path: Path | None, make: Callable[[], Mapping[str, torch.Tensor]], samples: str
) -> Mapping[str, torch.Tensor]:
    """What an earlier try has finished; else what is made now, and waits for the next try.

    Args:
        path: the file; None keeps nothing.
        make: the work.
        samples: signature of what it is of.
    """
    if path is None:
        return make()
    found: Mapping[str, torch.Tensor] | None = finished(path, samples=samples)
    if found is None:
        found = make()
        save(found, path, samples=samples)
    return found


@contextmanager
def given_back(product: str | Path) -> Iterator[None]:
    """Let a folder of batches wait as an unfinished product if the block finds one damaged.

    Without that batch: so the next try makes that one only.

    Raises:
        Damaged: as the block did.
    """
    try:
        yield
    except Damaged as error:
        give_back(Path(product), error.path)
        raise


def give_back(product: Path, damaged: Path) -> bool:
    """Let a folder of batches wait as an unfinished product, without a file of it.

    Returns:
        Whether it does; not, where its record does not say in which place.
    """
    known = provenance.read(product) if provenance.beside(product).is_file() else {}
    if waits := known.get("waits"):
        damaged.unlink(missing_ok=True)
        move(product, waits)
    return bool(waits)


def _checksum(tensor: torch.Tensor) -> str:
    """SHA-256 over dtype, shape and content."""
    import torch

    whole = hashlib.sha256(f"{tensor.dtype} {list(tensor.shape)} ".encode())
    whole.update(tensor.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return whole.hexdigest()
