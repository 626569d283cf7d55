"""Read and write products. A file is written whole or not at all."""

import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from anchorscope.storage.errors import AnchorscopeError

WHOLE = 16 * 2**20
"""Size in bytes of the largest files that `digest` always reads."""
DIGESTS = Path(".snakemake", "anchorscope", "digests")
"""Folder of the digests of larger files, which all jobs of a run share."""


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield the path of a draft, which replaces `path` when the block ends without an error.

    The block may make a file or a folder at the draft's path. If it raises, the draft is removed,
    and `path` stays as it was. Each process has its own draft. So `path` is whole also if several
    processes write it; the last one to end counts.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for number, left in _drafts_here(path):
        if number == os.getpid() or not psutil.pid_exists(number):
            _remove(left)
    draft = path.with_name(f".{path.name}.{os.getpid()}@{platform.node()}.draft")
    try:
        yield draft
        if draft.is_dir():
            _apply_umask(draft.rglob("*.safetensors"))
            _remove(path)
        elif path.suffix == ".safetensors":
            _apply_umask([draft])
        draft.replace(path)
    finally:
        _remove(draft)


def _drafts_here(path: Path) -> Iterator[tuple[int, Path]]:
    """Yield the drafts of `path` that processes on this machine made, after the process's id."""
    name = re.compile(rf"\.{re.escape(path.name)}\.(\d+)@{re.escape(platform.node())}\.draft")
    for other in path.parent.iterdir():
        if found := name.fullmatch(other.name):
            yield int(found[1]), other


def _apply_umask(files: Iterable[Path]) -> None:
    """Give files the default mode; safetensors makes files that only one user can read."""
    umask = os.umask(0)
    os.umask(umask)
    for path in files:
        path.chmod(0o666 & ~umask)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def readable(path: str | Path, what: str) -> Iterator[None]:
    """Turn errors in reading `path` into an AnchorscopeError. `what` names the content."""
    try:
        yield
    except (pa.ArrowException, SafetensorError, ValueError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        message = f"cannot read the {what}: {reason}"
        do = "delete it (for a batch, its whole folder) and run snakemake again"
        raise AnchorscopeError(message, path, do, see="unreadable-product") from error


def write_parquet(frame: pd.DataFrame, path: str | Path) -> None:
    """Write a table; list columns stay lists."""
    write_parquet_parts([frame], path)


def write_parquet_parts(frames: Iterable[pd.DataFrame], path: str | Path) -> None:
    """Write a table part by part, so that only one part is in memory at a time.

    There must be at least one part. The first must have rows. All must have the same columns.
    """
    parts = iter(frames)
    first = pa.Table.from_pandas(next(parts), preserve_index=False)
    with atomic(path) as draft, pq.ParquetWriter(draft, first.schema) as writer:
        writer.write_table(first)
        for part in parts:
            rows = pa.Table.from_pandas(part, schema=writer.schema, preserve_index=False)
            writer.write_table(rows)


def read_parquet(path: str | Path) -> pd.DataFrame:
    """Read a table; list columns come back as Python lists, missing text as None."""
    with readable(path, "table"):
        table = pq.read_table(path)
    frame = table.to_pandas()
    for field in table.schema:
        is_text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        if is_text or pa.types.is_nested(field.type):
            frame[field.name] = pd.Series(table[field.name].to_pylist(), dtype=object)
    return frame


def write_csv(frame: pd.DataFrame, path: str | Path) -> None:
    """Write a CSV table, with floats at 6 significant digits."""
    with atomic(path) as draft:
        frame.to_csv(draft, index=False, float_format="%.6g", lineterminator="\n")


def read_csv(path: str | Path) -> pd.DataFrame:
    """Read a CSV table. Only an empty cell is missing: the text `NA` stays text."""
    with readable(path, "table"):
        return pd.read_csv(path, keep_default_na=False, na_values=[""])


def write_json(value: Any, path: str | Path) -> None:
    """Write indented JSON with sorted keys."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    with atomic(path) as draft:
        draft.write_text(text, encoding="utf-8")


def read_json(path: str | Path) -> Any:
    """Read a JSON file."""
    with readable(path, "record"):
        return json.loads(Path(path).read_text(encoding="utf-8"))


def write_arrays(path: str | Path, ids: Iterable[str], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays of samples as safetensors, with the samples' ids in the metadata."""
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    metadata = {"ids": json.dumps([*ids])}
    with atomic(path) as draft:
        save_file(contiguous, draft, metadata=metadata)


def read_arrays(path: str | Path, what: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Read the ids and arrays of `write_arrays`; `what` names the file's content in errors."""
    with readable(path, what), safe_open(path, framework="np") as file:
        ids = json.loads(file.metadata()["ids"])
        arrays = {name: file.get_tensor(name) for name in sorted(file.keys())}
    return np.array(ids, dtype=object), arrays


def digest(paths: Iterable[str | Path]) -> str:
    """Return one SHA-256 over the contents, sizes and names (without folders) of all files."""
    whole = hashlib.sha256()
    for path in map(Path, paths):
        whole.update(f"{path.name} {path.stat().st_size} {_content(path)}\n".encode())
    return whole.hexdigest()


def _content(path: Path) -> str:
    """Return the SHA-256 of a file. That of a large file is kept in `DIGESTS` and used again.

    It is computed anew if the file has another inode, size or time of change (ctime) than before.
    Unlike the time of modification, a program cannot choose the time of change.
    """
    found = path.stat()  # before reading, so that a later change is noticed
    if found.st_size <= WHOLE:
        return _sha256(path)
    kept = DIGESTS / f"{hashlib.sha256(bytes(path.resolve())).hexdigest()}.json"
    state = [found.st_ino, found.st_size, found.st_ctime_ns]
    with suppress(OSError, ValueError, TypeError, KeyError):
        before = json.loads(kept.read_text(encoding="utf-8"))
        if before["state"] == state:
            return str(before["sha256"])
    content = _sha256(path)
    with suppress(OSError):
        write_json({"state": state, "sha256": content}, kept)
    return content


def _sha256(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def check_ids(table: pd.DataFrame, name: str = "answers") -> None:
    """Raise an AnchorscopeError if two rows of a table have the same id."""
    repeated = table["id"][table["id"].duplicated()]
    if len(repeated):
        where, do = f"{name}, id {repeated.iloc[0]}", "make the ids unique"
        raise AnchorscopeError("an id occurs twice", where, do, see="repeated-id")
