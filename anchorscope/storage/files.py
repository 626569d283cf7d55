"""Reading and writing products: whole or not at all, with nothing changed on the way."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from anchorscope.storage.errors import AnchorscopeError


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a path beside `path` that takes its place when the block ends well.

    The block may make a file or a folder there. If it raises, whatever it made is removed and
    `path` is left as it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    _remove(draft)
    try:
        yield draft
        if draft.is_dir():
            _remove(path)
        draft.replace(path)
    finally:
        _remove(draft)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def readable(path: str | Path, what: str) -> Iterator[None]:
    """Name a file that the block cannot read, and `what` it holds, in an AnchorscopeError."""
    try:
        yield
    except (pa.ArrowException, SafetensorError, ValueError, OSError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        what = f"cannot read the {what}: {said}"
        do = "delete it, of batches with their folder, and run snakemake again"
        raise AnchorscopeError(what, path, do, see="unreadable-product") from error


def write_parquet(frame: pd.DataFrame, path: str | Path) -> None:
    """Write a table; list columns stay lists."""
    write_parquet_parts([frame], path)


def write_parquet_parts(frames: Iterable[pd.DataFrame], path: str | Path) -> None:
    """Write a table of which one part at a time is in memory, each as a group of rows.

    There is at least one part; all have the columns of the first, which has rows.
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
    """Write a CSV table, floats at 6 significant digits."""
    with atomic(path) as draft:
        frame.to_csv(draft, index=False, float_format="%.6g", lineterminator="\n")


def read_csv(path: str | Path) -> pd.DataFrame:
    """Read a CSV table; only an empty cell is missing, the text `NA` stays text."""
    with readable(path, "table"):
        return pd.read_csv(path, keep_default_na=False, na_values=[""])


def write_json(value: Any, path: str | Path) -> None:
    """Write JSON, readable and with a stable order of keys."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    with atomic(path) as draft:
        draft.write_text(text, encoding="utf-8")


def read_json(path: str | Path) -> Any:
    """Read a JSON file."""
    with readable(path, "record"):
        return json.loads(Path(path).read_text(encoding="utf-8"))


def write_arrays(path: str | Path, ids: Iterable[object], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays of some samples as safetensors; the ids stand in the file's metadata."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with atomic(path) as draft:
        save_file(whole, draft, metadata={"ids": json.dumps([str(one) for one in ids])})


def read_arrays(path: str | Path, what: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The ids and arrays that `write_arrays` wrote; an error says `what` the file holds."""
    with readable(path, what), safe_open(path, framework="np") as file:
        ids = json.loads(file.metadata()["ids"])
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return np.array(ids, dtype=object), found


def digest(paths: Iterable[str | Path]) -> str:
    """SHA-256 over names and content of files, wherever their folder lies; read in pieces."""
    whole = hashlib.sha256()
    for path in map(Path, paths):
        with path.open("rb") as opened:
            content = hashlib.file_digest(opened, "sha256").hexdigest()
        whole.update(f"{path.name} {path.stat().st_size} {content}\n".encode())
    return whole.hexdigest()


def check_ids(table: pd.DataFrame, name: str = "answers") -> None:
    """Refuse a table of which two rows have one id."""
    repeated = table["id"][table["id"].duplicated()]
    if len(repeated):
        where, do = f"{name}, id {repeated.iloc[0]}", "make the ids unique"
        raise AnchorscopeError("an id comes twice", where, do, see="repeated-id")
