"""Reading the rows of a dataset, from the hub or from local files, with errors one can act on."""

import csv
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from anchorscope.questions import hub
from anchorscope.questions.revisions import pinned
from anchorscope.storage.errors import AnchorscopeError

# Records that libraries keep beside the data of a dataset's folder.
_NOT_DATA = re.compile(
    r"\..*|.*\.provenance\.json|dataset_infos?\.json|dataset_dict\.json|state\.json"
)


def hub_split(hub_id: str, config: str | None, split: str | None, revision: str | None) -> Any:
    """A split of a hub dataset, as a `datasets.Dataset`.

    Raises:
        AnchorscopeError: not reached, gated, missing, no such config, split or revision, or an id
            that the library would take for files of this machine.
    """
    # Imported here: it takes seconds, and a run on local files does without it.
    import datasets
    from datasets.packaged_modules import _PACKAGED_DATASETS_MODULES as READERS_OF_FILES
    from huggingface_hub import auth_check

    split = split or "train"
    if hub_id in READERS_OF_FILES or Path(hub_id).exists():
        raise AnchorscopeError(
            "the library would read files of this machine, not the hub's",
            f"hub: {hub_id}",
            "rename what has this name here; if it is meant, give it with `local:`",
            see="no-such-repository",
        )

    def load() -> Any:
        try:
            return datasets.load_dataset(hub_id, config, split=split, revision=revision)
        except datasets.exceptions.DatasetNotFoundError:
            # The library says "gated" in words alone; this says it by its type.
            auth_check(hub_id, repo_type="dataset")
            raise

    found = hub.fetch(load, "dataset", hub_id, revision, f"config {config}, split {split}")
    _check_commit(found, hub_id, revision)
    return found


def _check_commit(found: Any, hub_id: str, revision: str | None) -> None:
    """Refuse prepared rows of another commit: without the hub the library takes the newest.

    The library names the folder of prepared rows by their commit.
    """
    if revision is None or not pinned(revision):
        return
    folders = {Path(file["filename"]).parent.name for file in found.cache_files}
    others = sorted(name for name in folders - {revision} if pinned(name))
    if others:
        raise AnchorscopeError(
            f"the hub cannot be reached, and the cache holds the rows of commit {others[0]}",
            f"{hub_id}, revision {revision}",
            "run this where there is network (HF_HUB_OFFLINE unset), with the same HF_HOME",
            see="hub-unreachable",
        )


def prepared(hub_id: str, config: str | None, commit: str) -> bool:
    """Whether rows of a commit were read before, so that they can be read without the hub."""
    from datasets.config import HF_DATASETS_CACHE
    from datasets.naming import camelcase_to_snakecase

    *owner, name = hub_id.split("/")
    folder = Path(HF_DATASETS_CACHE) / "___".join([*owner, camelcase_to_snakecase(name)])
    return any(path.is_dir() for path in folder.glob(f"{config or '*'}/*/{commit}"))


def local_files(path: Path, config: str | None, split: str | None) -> list[Path]:
    """The data files of a path: itself, or in a folder those of the config and split.

    Raises:
        AnchorscopeError: nothing there, or more than one way to take it.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise AnchorscopeError(
            "no such file or folder",
            path,
            "check `local:`; a relative path counts from `data_folder`, or from the project's root "
            "where that is not set",
            see="no-such-file",
        )
    folder = path / config if config and (path / config).is_dir() else path
    files = data_files(folder)
    if not files:
        raise AnchorscopeError(
            "the folder holds no data file",
            folder,
            f"put a {', '.join(READERS)} file there",
            see="no-such-file",
        )
    if split is not None and len(files) > 1:
        files = _of_split(files, split, folder)
    if len({file.suffix for file in files}) > 1:
        raise AnchorscopeError(
            f"data files of several kinds: {_names(files)}",
            folder,
            "name one file with `local:`",
            see="no-such-file",
        )
    return files


def data_files(folder: Path) -> list[Path]:
    """The data files in a folder, or where it has none those below it."""
    return _data_files(folder.glob("*")) or _data_files(folder.rglob("*"))


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
            see="no-such-file",
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
            f"files ending in `{path.suffix}` are not read",
            path,
            f"use {', '.join(READERS)}",
            see="no-such-file",
        )
    return reader(path)


def _decoded(raw: bytes, where: object) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise AnchorscopeError(
            f"not UTF-8 text ({error.reason} at byte {error.start})",
            where,
            "save it as UTF-8",
            see="rows-of-a-file",
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
            see="rows-of-a-file",
        ) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, deep nesting
        raise AnchorscopeError(
            f"broken JSON: {error}", where, "correct or remove it", see="rows-of-a-file"
        ) from None


def _record(value: Any, where: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise AnchorscopeError(
            f"expected an object with named columns, found {type(value).__name__}",
            where,
            'write one row as {"question": ..., "answers": [...]}',
            see="rows-of-a-file",
        )
    return value


def _json_file(path: Path) -> list[dict[str, Any]]:
    text = _decoded(path.read_bytes().removeprefix(b"\xef\xbb\xbf"), path)
    value = _json(text, path)
    if not isinstance(value, list):
        raise AnchorscopeError(
            "expected a list of rows",
            path,
            "write [{...}, {...}], or one row a line as .jsonl",
            see="rows-of-a-file",
        )
    return [_record(row, f"{path}, row {number}") for number, row in enumerate(value, 1)]


def _csv(path: Path) -> list[dict[str, Any]]:
    csv.field_size_limit(sys.maxsize)
    text = _decoded(path.read_bytes().removeprefix(b"\xef\xbb\xbf"), path)
    reader = csv.reader(re.findall(r"[^\n]*\n|[^\n]+$", text), strict=True)
    rows = []
    try:
        header = next(reader, [])
        if len(set(header)) < len(header):
            twice = next(name for name in header if header.count(name) > 1)
            raise AnchorscopeError(
                f"broken CSV: the column `{twice}` stands twice",
                f"{path}, line 1",
                "give each column a name of its own",
                see="rows-of-a-file",
            )
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise AnchorscopeError(
                    f"{len(cells)} cells where the header has {len(header)}",
                    f"{path}, line {reader.line_num}",
                    "correct the line; a cell with a comma or a quote stands in double quotes",
                    see="rows-of-a-file",
                )
            rows.append(dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise AnchorscopeError(
            f"broken CSV: {error}",
            f"{path}, line {reader.line_num}",
            "correct the line",
            see="rows-of-a-file",
        ) from None
    return rows


def _parquet(path: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise AnchorscopeError(
            f"broken parquet file: {error}", path, "get it again", see="rows-of-a-file"
        ) from None


READERS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".json": _json_file,
    ".csv": _csv,
    ".parquet": _parquet,
}
