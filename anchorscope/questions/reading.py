"""Read rows of a dataset from the hub or from local files."""

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from huggingface_hub import constants

from anchorscope.questions import hub as the_hub, revisions
from anchorscope.questions.fields import check_columns, column_paths, widened
from anchorscope.storage.errors import AnchorscopeError

SourceRows = list[dict[str, Any]]
# Records that libraries keep beside the data in a dataset's folder.
_NOT_DATA = re.compile(
    r"\..*|.*\.provenance\.json|dataset_infos?\.json|dataset_dict\.json|state\.json"
)

_MARK = re.compile("(?:^|(?<=\n))\ufeff+")


def load_rows(dataset: Mapping[str, Any], split: str | None) -> tuple[SourceRows, str | None]:
    """Read the rows of a split, with only the columns that `fields` names.

    In a local folder, a split consists of the files `<split>*`. If the dataset's `config` names a
    subfolder, the files are read from this subfolder.

    Returns:
        The rows, and their commit (None for local rows).

    Raises:
        AnchorscopeError: The hub, a file, a row or a column cannot be read.
    """
    fields, config, hub = dataset["fields"], dataset.get("config"), dataset.get("hub")
    paths = {path for _, path in column_paths(fields)}
    columns = paths | {path.split(".")[0] for path in paths}
    rows: SourceRows = []
    if hub:
        configured = dataset.get("revision")
        commit = revisions.commit_of_dataset(hub, revisions.wanted("datasets", hub, configured))
        data = hub_split(hub, config, split, commit)
        # Checked before columns are dropped, so that the error lists all of them.
        check_columns([dict.fromkeys(data.column_names)], fields, hub)
        chosen = data.select_columns([n for n in data.column_names if n in columns])
        rows = _arrow_rows(chosen.with_format("arrow")[:])
        check_columns(rows, fields, hub)
        revisions.keep("datasets", hub, commit, configured)
        return rows, commit
    for file in local_files(Path(dataset["local"]).expanduser(), config, split):
        file_content = file_rows(file)
        check_columns(file_content, fields, file)
        rows += [
            {key: value for key, value in row.items() if key in columns} for row in file_content
        ]
    return rows, None


def hub_split(hub_id: str, config: str | None, split: str | None, commit: str) -> Any:
    """Read a split of a hub dataset, as a `datasets.Dataset`.

    Raises:
        AnchorscopeError: See `hub.errors`.
    """
    # Imported here: it takes seconds, and a run on local files does not need it.
    import datasets
    from datasets.packaged_modules import _PACKAGED_DATASETS_MODULES as READERS_OF_FILES
    from datasets.packaged_modules.cache.cache import Cache
    from huggingface_hub import auth_check

    if hub_id in READERS_OF_FILES or Path(hub_id).exists():
        what = "the library `datasets` would read files of this machine, not the hub's"
        do = "name a repository `owner/name`; to read local files, name them with `local:`"
        raise AnchorscopeError(what, f"hub: {hub_id}", do, see="no-such-repository")

    def load() -> Any:
        try:
            # Rows of a commit never change, but only the hub knows the default configuration.
            ask = config is None and not constants.HF_HUB_OFFLINE
            folders = [] if ask else prepared(hub_id, config, commit)
            if len(folders) == 1:
                *_, name, version, _ = folders[0].parts
                of = {"repo_id": hub_id, "dataset_name": hub_id.split("/")[-1]}
                return Cache(**of, config_name=name, version=version, hash=commit).as_dataset(split)
            return datasets.load_dataset(hub_id, config, split=split, revision=commit)
        except datasets.exceptions.DatasetNotFoundError:
            # The library says "gated" only in words. This call then raises a GatedRepoError.
            auth_check(hub_id, repo_type="dataset")
            raise
        except datasets.exceptions.DatasetsError as error:
            raise RuntimeError(str(error)) from error

    where = f"{the_hub.place(hub_id, commit)}, config {config}, split {split}"
    rows = the_hub.fetch(load, "dataset", where)
    # If the hub is down, the library reads the newest cached rows. Their folder's name is a commit.
    commits = {Path(file["filename"]).parent.name for file in rows.cache_files}
    if others := [name for name in commits if revisions.pinned(name) and name != commit]:
        what = f"the hub cannot be reached, and the cached rows are of another commit, {others[0]}"
        do = "run this where there is a network (HF_HUB_OFFLINE unset), with the same HF_HOME"
        raise AnchorscopeError(what, where, do, see="hub-unreachable")
    return rows


def prepared(hub_id: str, config: str | None, commit: str) -> list[Path]:
    """Return the folders that hold a commit's cached rows, which can be read without the hub.

    Without `config`, return one folder for each configuration that was read before.
    """
    from datasets.config import HF_DATASETS_CACHE
    from datasets.naming import camelcase_to_snakecase

    *owner, name = hub_id.split("/")
    folder = Path(HF_DATASETS_CACHE) / "___".join([*owner, camelcase_to_snakecase(name)])
    return sorted(path for path in folder.glob(f"{config or '*'}/*/{commit}") if path.is_dir())


def local_files(path: Path, config: str | None, split: str | None) -> list[Path]:
    """Return the data files at `path`: the file itself, or a folder's files for config and split.

    Raises:
        AnchorscopeError: There is no data file, or the choice is ambiguous.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        do = "check `local:`; a relative path counts from `data_folder`, or from the project's root"
        raise _no_file("no such file or folder", path, do)
    folder = path / config if config and (path / config).is_dir() else path
    in_folder = _data_files(folder)
    files = in_folder
    if split is not None and len(in_folder) > 1:
        named = re.compile(rf"{re.escape(split)}(?![A-Za-z0-9])")
        files = [f for f in in_folder if named.match(f.name) or named.fullmatch(f.parent.name)]
    if not in_folder and (saved := _saved_to_disk(folder, split)):
        raise saved
    if len({file.suffix for file in files}) != 1:
        what = "data files of several kinds" if files else "no data file"
        what += f" of split `{split}`" if split else ""
        do = "name one file with `local:`, or set `split:` to the beginning of a file's name"
        names = ", ".join(file.name for file in in_folder) or "none"
        raise _no_file(f"{what}; found: {names}", folder, do)
    return files


def _saved_to_disk(folder: Path, split: str | None) -> AnchorscopeError | None:
    """Return the error for a folder written by `save_to_disk` of `datasets`; None for others."""
    if not (tables := sorted(folder.glob("**/*.arrow"))):
        return None
    chosen = f"[{(split or tables[0].parent.name)!r}]" if tables[0].parent != folder else ""
    code = f"load_from_disk({str(folder)!r}){chosen}.to_parquet('rows.parquet')"
    do = f"name a file that Python writes: from datasets import load_from_disk; {code}"
    return _no_file("a folder of `save_to_disk`, which only `datasets` reads", folder, do)


def _data_files(folder: Path) -> list[Path]:
    """Return the data files in a folder or, if it holds none, in its subfolders."""
    for pattern in ("*", "**/*"):
        files = (p for p in folder.glob(pattern) if p.is_file() and p.suffix.lower() in READERS)
        if data := sorted(p for p in files if not _NOT_DATA.fullmatch(p.name)):
            return data
    return []


def file_rows(path: Path) -> SourceRows:
    """Read the rows of one file with the reader for its suffix.

    Raises:
        AnchorscopeError: The file cannot be read. The error names a broken line.
    """
    if reader := READERS.get(path.suffix.lower()):
        return reader(path)
    what = f"files ending in `{path.suffix}` are not read"
    raise _no_file(what, path, f"use {', '.join(READERS)}")


def _no_file(what: str, where: object, do: str) -> AnchorscopeError:
    return AnchorscopeError(what, where, do, see="no-such-file")


def _broken(what: str, where: object, do: str = "correct or remove it") -> AnchorscopeError:
    return AnchorscopeError(what, where, do, see="rows-of-a-file")


def _text(path: Path) -> str:
    """Return a file's text without byte-order marks at its start or, in joined files, of lines."""
    try:
        return _MARK.sub("", path.read_bytes().decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _broken(f"not UTF-8 text ({error})", path, "save it as UTF-8") from None


def _json(text: str, where: object, kind: type, expected: str) -> Any:
    """Parse JSON, and refuse a value whose type is not `kind`."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise _broken(f"broken JSON: {error}", where) from None
    if not isinstance(value, kind):
        raise _broken(f"expected {expected}, found {type(value).__name__}", where)
    return value


def _jsonl(path: Path) -> SourceRows:
    # Split at \n only: str.splitlines() also splits at U+0085 and U+2028, which occur in questions.
    lines = [(f"{path}, line {n}", line) for n, line in enumerate(_text(path).split("\n"), 1)]
    row = 'a row such as {"question": ..., "answers": [...]}'
    return [_json(line, where, dict, row) for where, line in lines if line.strip(" \t\r")]


def _json_file(path: Path) -> SourceRows:
    rows = _json(_text(path), path, list, "a list of rows (or .jsonl, with a row a line)")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise _broken(f"expected a row, found {type(row).__name__}", f"{path}, row {number}")
    return rows


def _csv(path: Path) -> SourceRows:
    csv.field_size_limit(sys.maxsize)
    reader = csv.DictReader(io.StringIO(_text(path), newline=""), strict=True)
    rows = []
    try:
        names = list(filter(None, reader.fieldnames or ()))
        if separator := _other_separator(names):
            code = f"pd.read_csv({path.name!r}, sep={separator!r}).to_csv({path.name!r})"
            what = f"the cells are separated by {separator!r}, not by commas"
            raise _broken(what, path, f"save the file with commas; in Python: {code}")
        if twice := [name for name in names if names.count(name) > 1]:
            raise csv.Error(f"two columns have the name `{twice[0]}`")
        for row in reader:
            if None in row or None in row.values():
                raise csv.Error("a row has more or fewer cells than the header")
            if all(name == cell for name, cell in row.items()):
                raise csv.Error("the header again, as if files had been joined")
            rows.append(row)
    except csv.Error as error:
        do = "correct the line; a cell with a comma or a quote stands in double quotes"
        raise _broken(f"broken CSV: {error}", f"{path}, line {reader.line_num}", do) from None
    return rows


def _other_separator(names: list[str]) -> str | None:
    """Return the separator of a CSV file that has no comma in its header; None for one column."""
    return next((one for one in ";\t|" if len(names) == 1 and one in names[0]), None)


def _parquet(path: Path) -> SourceRows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return _arrow_rows(pq.read_table(path))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _broken(f"broken parquet file: {error}", path, "get it again") from None


def _arrow_rows(table: Any) -> SourceRows:
    """Return the rows of an Arrow table. Short floats become the 64-bit floats of the same text."""
    columns = {
        field.name: [_widened(value, field.type) for value in table[field.name].to_pylist()]
        for field in table.schema
        if re.search(r"\b(?:half)?float\b", str(field.type))
    }
    rows = table.to_pylist()
    for name, values in columns.items():
        for row, value in zip(rows, values, strict=True):
            row[name] = value
    return rows


def _widened(value: Any, kind: Any) -> Any:
    """Return a value of an Arrow type, in which short floats are widened (see `fields.widened`)."""
    import pyarrow as pa

    if value is None:
        return None
    if pa.types.is_floating(kind):
        return widened(np.dtype(kind.to_pandas_dtype()).type(value)).tolist()
    if pa.types.is_struct(kind):
        return {field.name: _widened(value[field.name], field.type) for field in kind.fields}
    if isinstance(value, list) and not pa.types.is_map(kind):
        return [_widened(item, kind.value_type) for item in value]
    return value


READERS: dict[str, Callable[[Path], SourceRows]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".json": _json_file,
    ".csv": _csv,
    ".parquet": _parquet,
}
