"""Checksums of products: a bit that flipped on the disk, or an edit by hand, is named and refused.

The record beside a job's product holds the SHA-256 of every file that the job made; whoever reads
one compares. Batches of activations carry checksums of their own; the index beside them has its
own in the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from anchorscope.storage import partial
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import digest, read_json, write_json

RECORD = ".provenance.json"
KEY = "sha256"


def seal(outputs: Iterable[str | Path]) -> None:
    """Write the checksums of a job's files into its record; nothing without a record."""
    paths = [Path(path) for path in outputs]
    record = next((path for path in paths if path.name.endswith(RECORD)), None)
    if record is None or not record.is_file():
        return
    made = {name: digest([file]) for path in paths if path != record for name, file in _held(path)}
    if made:
        write_json(read_json(record) | {KEY: made}, record)


def _held(path: Path) -> Iterator[tuple[str, Path]]:
    """Files of an output by their names in the record: neither batches nor hidden files."""
    if path.is_file():
        yield path.name, path
    elif path.is_dir():
        found = (file for file in sorted(path.iterdir()) if not file.name.startswith("."))
        others = (file for file in found if file.is_file() and not partial.is_batch(file))
        yield from ((f"{path.name}/{file.name}", file) for file in others)


def verify(inputs: Iterable[str | Path]) -> None:
    """Compare files with the checksums of their records; those without one are passed over.

    A file's record is the one that names it: a rule with several products has one for all of them.

    Raises:
        Damaged: a file in a folder of batches is not what was written there; the batches wait for
            the next try.
        AnchorscopeError: any other file is not what was written.
    """
    known: dict[Path, Mapping[str, set[str]]] = {}
    for path in map(Path, inputs):
        if path.exists():
            sealed = known.setdefault(path.parent, _sealed(path.parent))
            names = [path.name] if path.is_file() else [n for n in sealed if _inside(n, path)]
            for name in names:
                _compare(path, path.parent / name, sealed.get(name))


def _inside(name: str, folder: Path) -> bool:
    return name.startswith(f"{folder.name}/")


def _sealed(folder: Path) -> dict[str, set[str]]:
    """The checksums that the records of a folder hold, by the name of the file."""
    found: dict[str, set[str]] = {}
    for record in folder.glob(f"*{RECORD}"):
        # Another job may be making its product, and record, anew; a broken one names nothing.
        with suppress(OSError, AnchorscopeError, AttributeError):
            for name, written in read_json(record).get(KEY, {}).items():
                found.setdefault(name, set()).add(written)
    return found


def _compare(product: Path, file: Path, written: set[str] | None) -> None:
    """Refuse a file with none of the checksums written; without any it is passed over."""
    if not written or (file.is_file() and digest([file]) in written):
        return
    if product.is_dir() and partial.give_back(product, file):
        raise partial.Damaged(file, "it is not what was written there")
    raise AnchorscopeError(
        "the product is not what was written: it was changed or damaged since",
        file,
        "delete it and run snakemake again: only what depends on it is made anew",
        see="unreadable-product",
    )
