"""Reading the rows of a dataset, from the hub or from local files, with errors one can act on."""

import csv
import json
import re
import sys
from collections.abc import Callable
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
    folders = {Path(file["filename"]).parent.name for file in found.cache_files}
    others = sorted(name for name in folders - {revision} if pinned(name))
    if pinned(revision) and others:
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
        do = "check `local:`; a relative path counts from `data_folder`, or from the project's root"
        raise AnchorscopeError("no such file or folder", path, do, see="no-such-file")
    folder = path / config if config and (path / config).is_dir() else path
    files = data_files(folder)
    names = ", ".join(file.name for file in files)
    if split is not None and len(files) > 1:
        begins = re.compile(rf"{re.escape(split)}(?![A-Za-z0-9])")
        files = [f for f in files if begins.match(f.name) or begins.fullmatch(f.parent.name)]
    if len({file.suffix for file in files}) != 1:
        of_split = f" of split `{split}`" if split else ""
        what = f"{'data files of several kinds' if files else 'no data file'}{of_split}"
        do = "name one file with `local:`, or set `split:` to the beginning of a file's name"
        raise AnchorscopeError(f"{what} among: {names or 'none'}", folder, do, see="no-such-file")
    return files


def data_files(folder: Path) -> list[Path]:
    """The data files in a folder, or where it has none those below it."""
    for pattern in ("*", "**/*"):
        files = [p for p in folder.glob(pattern) if p.is_file() and p.suffix.lower() in READERS]
        if found := sorted(p for p in files if not _NOT_DATA.fullmatch(p.name)):
            return found
    return []


def file_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of one file, by its ending.

    Raises:
        AnchorscopeError: unknown ending, or a broken line, named by its number.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        what, do = f"files ending in `{path.suffix}` are not read", f"use {', '.join(READERS)}"
        raise AnchorscopeError(what, path, do, see="no-such-file")
    return reader(path)


def _broken(what: str, where: object, do: str = "correct or remove it") -> AnchorscopeError:
    return AnchorscopeError(what, where, do, see="rows-of-a-file")


def _text(raw: bytes, where: object) -> str:
    try:
        return raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"not UTF-8 text ({error.reason} at byte {error.start})"
        raise _broken(what, where, "save it as UTF-8") from None


def _json(text: str, where: object) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # too many digits, too deep, or no JSON
        raise _broken(f"broken JSON: {error}", where) from None


def _record(value: Any, where: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        what = f"expected an object with named columns, found {type(value).__name__}"
        raise _broken(what, where, 'write one row as {"question": ..., "answers": [...]}')
    return value


def _jsonl(path: Path) -> list[dict[str, Any]]:
    rows = []
    # On \n only: str.splitlines() also cuts at U+0085 and U+2028, which occur inside questions.
    for number, raw in enumerate(path.read_bytes().split(b"\n"), 1):
        where = f"{path}, line {number}"
        if line := _text(raw, where).strip(" \t\r"):
            rows.append(_record(_json(line, where), where))
    return rows


def _json_file(path: Path) -> list[dict[str, Any]]:
    value = _json(_text(path.read_bytes(), path), path)
    if not isinstance(value, list):
        do = "write [{...}, {...}], or one row a line as .jsonl"
        raise _broken("expected a list of rows", path, do)
    return [_record(row, f"{path}, row {number}") for number, row in enumerate(value, 1)]


def _csv(path: Path) -> list[dict[str, Any]]:
    csv.field_size_limit(sys.maxsize)
    text = _text(path.read_bytes(), path)
    reader = csv.reader(re.findall(r"[^\n]*\n|[^\n]+$", text), strict=True)
    try:
        header = next(reader, [])
        if twice := [name for name in header if header.count(name) > 1]:
            raise csv.Error(f"the column `{twice[0]}` stands twice")
        rows = []
        for cells in filter(None, reader):
            if len(cells) != len(header):
                raise csv.Error(f"{len(cells)} cells where the header has {len(header)}")
            rows.append(dict(zip(header, cells, strict=True)))
        return rows
    except csv.Error as error:
        where = f"{path}, line {reader.line_num}"
        do = "correct the line; a cell with a comma or a quote stands in double quotes"
        raise _broken(f"broken CSV: {error}", where, do) from None


def _parquet(path: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _broken(f"broken parquet file: {error}", path, "get it again") from None


READERS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".json": _json_file,
    ".csv": _csv,
    ".parquet": _parquet,
}
