"""Reading the rows of a dataset, from the hub or from local files, with errors one can act on."""

import csv
import difflib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from anchorscope.errors import AnchorscopeError

# Records that libraries keep beside the data of a dataset's folder.
_NOT_DATA = re.compile(
    r"\..*|.*\.provenance\.json|dataset_infos?\.json|dataset_dict\.json|state\.json"
)


def nearest(name: str, existing: Iterable[str]) -> str | None:
    """`did you mean ...`, or None where nothing is near."""
    close = difflib.get_close_matches(name, list(existing), n=1)
    return f"did you mean `{close[0]}`?" if close else None


def hub_rows(
    hub: str, config: str | None, split: str | None, revision: str | None, columns: list[str]
) -> list[dict[str, Any]]:
    """Rows of a split on the hub, with those of `columns` that it has."""
    # Imported here: it takes seconds, and a run on local files does without it.
    import datasets

    split = split or "train"
    try:
        data = datasets.load_dataset(hub, config, split=split, revision=revision)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        raise _hub_error(error, hub, config, split, revision) from None
    named = [name for name in data.column_names if name in columns]
    # With none of them the rows stay whole, so that the error can list the columns there are.
    return (data.select_columns(named) if named else data.select(range(1))).to_list()


def _hub_error(
    error: Exception, hub: str, config: str | None, split: str, revision: str | None
) -> AnchorscopeError:
    """What went wrong on the hub, in one line, without the user's token."""
    said = redacted(f"{type(error).__name__}: {error}")
    where = f"hub dataset {hub}, config {config}, split {split}, revision {revision or 'newest'}"
    chain = [said.lower()]
    cause = error.__cause__
    while cause is not None:
        chain.append(f"{type(cause).__name__} {cause}".lower())
        cause = cause.__cause__
    text = " ".join(chain)
    if "gated" in text or "401" in text or "403" in text or "unauthorized" in text:
        return AnchorscopeError(
            f"access to the dataset is refused ({said})",
            where,
            "accept its terms on its page on the hub, and set HF_TOKEN to a token of that account",
        )
    if isinstance(error, ConnectionError) or "offline" in text or "couldn't reach" in text:
        return AnchorscopeError(
            f"the hub cannot be reached and the dataset is not in the cache ({said})",
            where,
            "fetch it where there is a network (unset HF_HUB_OFFLINE, share HF_HOME), "
            "or give a local file or folder of the same columns with `local:`",
        )
    if "doesn't exist" in text or "cannot be accessed" in text:
        return AnchorscopeError(
            f"there is no such dataset or revision ({said})",
            where,
            "check the id and the revision; a private one needs HF_TOKEN",
        )
    return AnchorscopeError(
        f"the dataset cannot be read ({said})", where, "check config, split and revision"
    )


def redacted(text: str) -> str:
    """Text without the user's hub token, or anything that looks like one."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACEHUB_API_TOKEN"):
        if token := os.environ.get(name, "").strip():
            text = text.replace(token, "<token>")
    return re.sub(r"\bhf_[A-Za-z0-9]{8,}", "<token>", text)


def local_files(path: Path, config: str | None, split: str | None) -> list[Path]:
    """The data files of a path: itself, or in a folder those of the config and split.

    Raises:
        AnchorscopeError: nothing there, or more than one way to take it.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise AnchorscopeError(
            "no such file or folder", path, "check `local:`; it counts from the project's root"
        )
    folder = path / config if config and (path / config).is_dir() else path
    files = _data_files(folder.glob("*")) or _data_files(folder.rglob("*"))
    if not files:
        raise AnchorscopeError(
            "the folder holds no data file", folder, f"put a {', '.join(READERS)} file there"
        )
    if split is not None and len(files) > 1:
        files = _of_split(files, split, folder)
    if len({file.suffix for file in files}) > 1:
        raise AnchorscopeError(
            f"data files of several kinds: {_names(files)}", folder, "name one file with `local:`"
        )
    return files


def _data_files(paths: Iterable[Path]) -> list[Path]:
    return sorted(
        p
        for p in paths
        if p.is_file() and p.suffix.lower() in READERS and not _NOT_DATA.fullmatch(p.name)
    )


def _of_split(files: list[Path], split: str, folder: Path) -> list[Path]:
    begins = re.compile(rf"{re.escape(split)}(?![A-Za-z0-9])")
    chosen = [f for f in files if begins.match(f.name) or begins.fullmatch(f.parent.name)]
    if not chosen:
        raise AnchorscopeError(
            f"no file of split `{split}` among {_names(files)}",
            folder,
            "set `split:` to the beginning of a file's name, or to null for all files",
        )
    return chosen


def _names(files: list[Path]) -> str:
    return ", ".join(file.name for file in files)


def file_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of one file, by its ending.

    Raises:
        AnchorscopeError: unknown ending, or a broken line, named by its number.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise AnchorscopeError(
            f"files ending in `{path.suffix}` are not read", path, f"use {', '.join(READERS)}"
        )
    return reader(path)


def _decoded(raw: bytes, where: object) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise AnchorscopeError(
            f"not UTF-8 text ({error.reason} at byte {error.start})", where, "save it as UTF-8"
        ) from None


def _jsonl(path: Path) -> list[dict[str, Any]]:
    rows = []
    # On \n only: str.splitlines() also cuts at U+0085 and U+2028, which occur inside questions.
    for number, raw in enumerate(path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        where = f"{path}, line {number}"
        if line := _decoded(raw, where).strip(" \t\r"):
            rows.append(_record(_json(line, where), where))
    return rows


def _json(text: str, where: object) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise AnchorscopeError(
            f"broken JSON: {error.msg} (line {error.lineno}, column {error.colno} of it)",
            where,
            "correct or remove it",
        ) from None


def _record(value: Any, where: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise AnchorscopeError(
            f"expected an object with named columns, found {type(value).__name__}",
            where,
            'write one row as {"question": ..., "answers": [...]}',
        )
    return value


def _json_file(path: Path) -> list[dict[str, Any]]:
    text = _decoded(path.read_bytes().removeprefix(b"\xef\xbb\xbf"), path)
    value = _json(text, path)
    if not isinstance(value, list):
        raise AnchorscopeError(
            "expected a list of rows", path, "write [{...}, {...}], or one row a line as .jsonl"
        )
    return [_record(row, f"{path}, row {number}") for number, row in enumerate(value, 1)]


def _csv(path: Path) -> list[dict[str, Any]]:
    csv.field_size_limit(sys.maxsize)
    text = _decoded(path.read_bytes().removeprefix(b"\xef\xbb\xbf"), path)
    reader = csv.reader(re.findall(r"[^\n]*\n|[^\n]+$", text), strict=True)
    rows = []
    try:
        header = next(reader, [])
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise AnchorscopeError(
                    f"{len(cells)} cells where the header has {len(header)}",
                    f"{path}, line {reader.line_num}",
                    "correct the line; a cell with a comma or a quote stands in double quotes",
                )
            rows.append(dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise AnchorscopeError(
            f"broken CSV: {error}", f"{path}, line {reader.line_num}", "correct the line"
        ) from None
    return rows


def _parquet(path: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path).to_pylist()
    except (pa.ArrowInvalid, OSError) as error:
        raise AnchorscopeError(f"broken parquet file: {error}", path, "get it again") from None


READERS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".json": _json_file,
    ".csv": _csv,
    ".parquet": _parquet,
}
