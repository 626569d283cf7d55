"""Checksums of products: a bit that flipped on the disk, or an edit by hand, is named and refused.

The record beside a job's product holds the SHA-256 of every file that the job made; whoever reads
one compares. Batches of activations carry checksums of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from anchorscope.errors import AnchorscopeError
from anchorscope.files import digest, read_json, write_json

RECORD = ".provenance.json"
KEY = "sha256"


def seal(outputs: Iterable[str | Path]) -> None:
    """Write the checksums of a job's files into its record; nothing without a record."""
    paths = [Path(path) for path in outputs]
    record = next((path for path in paths if path.name.endswith(RECORD)), None)
    if record is None or not record.is_file():
        return
    made = {path.name: digest([path]) for path in paths if path != record and path.is_file()}
    if made:
        write_json(read_json(record) | {KEY: made}, record)


def verify(inputs: Iterable[str | Path]) -> None:
    """Compare files with the checksums of their records; those without one are passed over.

    Raises:
        AnchorscopeError: a file is not what was written there.
    """
    for path in map(Path, inputs):
        record = path.with_name(path.name + RECORD)
        if not (path.is_file() and record.is_file()):
            continue
        written = read_json(record).get(KEY, {}).get(path.name)
        if written is not None and written != digest([path]):
            raise AnchorscopeError(
                "the product is not what was written: it was changed or damaged since",
                path,
                "delete it and run snakemake again: only what depends on it is made anew",
                see="unreadable-product",
            )
