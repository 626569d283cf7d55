"""Partial: the finished batches of an unfinished job. A job that dies loses the one in flight.

Snakemake removes what an unfinished job has declared before it runs it again. So batches wait in a
folder that nobody declared, `<root>/.partial/<product>+<fit>/`, until the job is done. Each file
holds a checksum of every tensor, which is compared whenever the tensor is read; those of
activations also the signature of their samples, so that no file is taken for another.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anchorscope import provenance
from anchorscope.errors import AnchorscopeError
from anchorscope.files import atomic, move
from anchorscope.identity import identity

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
        batches: what makes them up.
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
    product = folder.name.rpartition("+")[0]
    for other in folder.parent.glob("*+*"):
        if other != folder and other.name.rpartition("+")[0] == product:
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
    for path in inputs:
        if provenance.beside(path).is_file() and (waits := provenance.read(path).get("waits")):
            shutil.rmtree(waits, ignore_errors=True)


def parts_of(shard: str | None) -> tuple[int, int]:
    """(2, 7) of `2-of-7`; (1, 1) of None, the whole."""
    if shard is None:
        return 1, 1
    part, _, parts = shard.partition("-of-")
    return int(part), int(parts)


def share(sizes: Sequence[int], samples: int, part: int, parts: int) -> range:
    """The batches, by number, of one of several jobs: a run of them with an equal part of all.

    Args:
        sizes: tokens of each batch.
        samples: how many there are in all.
        part: from 1 to `parts`.
        parts: how many jobs there are.

    Raises:
        AnchorscopeError: there are fewer samples than jobs.
    """
    if parts > samples > 0:
        raise AnchorscopeError(
            f"{parts} shards for {samples} samples",
            "models, resources.shards",
            f"ask for {samples} shards at most",
            see="too-many-shards",
        )
    ends = np.cumsum([0, *sizes])
    # A batch belongs to the job in whose equal part of all tokens its middle lies.
    middles = (ends[1:] + ends[:-1]) / 2
    first, last = np.searchsorted(middles, [ends[-1] * at / parts for at in (part - 1, part)])
    return range(int(first), int(last))


def save(tensors: Mapping[str, torch.Tensor], path: Path, **notes: str) -> None:
    """Write a batch, whole or not at all, with the checksum of each tensor and some notes."""
    from safetensors.torch import save_file

    with atomic(path) as draft:
        sums = {name: _checksum(tensor) for name, tensor in tensors.items()}
        save_file(dict(tensors), draft, metadata=notes | sums)


def notes(path: Path) -> dict[str, str]:
    """What `save` was told beside the tensors."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        held = set(file.keys())
        return {name: said for name, said in (file.metadata() or {}).items() if name not in held}


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
        samples: signature that its notes must hold; None reads whatever it is of.

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
                raise Damaged(path, "its rows are not of the samples that the index says")
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


def depth(folder: Path) -> int:
    """How many layers the batches of a folder hold, from the head of one of them."""
    from safetensors import safe_open

    with safe_open(min(folder.glob("batch-*")), framework="pt") as file:
        return int(file.get_slice(next(iter(file.keys()))).get_shape()[1])


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


def take(shards: Iterable[Path], into: Path, samples: Mapping[str, str] | None = None) -> None:
    """Put the batches of several jobs into one folder, without copying where the disk can.

    Args:
        shards: the jobs' folders.
        into: where the batches go; sound ones that are there stay.
        samples: file name → signature that its notes must hold, see `read`.

    Raises:
        Damaged: a batch of a shard, whose folder is removed: so its job, and it alone, runs again.
    """
    for folder in shards:
        for path in sorted(folder.glob("batch-*")):
            aim, signed = into / path.name, (samples or {}).get(path.name)
            if finished(aim, samples=signed) is not None:
                continue
            try:
                read(path, samples=signed)
            except Damaged:
                shutil.rmtree(folder)
                raise
            with atomic(aim) as draft:
                try:
                    draft.hardlink_to(path)
                except OSError:
                    shutil.copyfile(path, draft)


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
    beside = provenance.beside(product)
    waits = provenance.read(product).get("waits") if beside.is_file() else None
    if waits:
        damaged.unlink(missing_ok=True)
        move(product, waits)
    return bool(waits)


def _checksum(tensor: torch.Tensor) -> str:
    """SHA-256 over dtype, shape and content."""
    import torch

    whole = hashlib.sha256(f"{tensor.dtype} {list(tensor.shape)} ".encode())
    whole.update(tensor.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return whole.hexdigest()
