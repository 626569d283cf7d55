"""Fields: what a row of any dataset says under the names of the schema."""

import ast
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from anchorscope.anchors import own_anchors
from anchorscope.anchors.labels import squad_normalise
from anchorscope.storage.errors import AnchorscopeError, nearest

NAMED = 5  # own anchors without a place that are named, for each reason
_SURROGATE = re.compile("[\ud800-\udfff]")

Row = Mapping[str, Any]
Fields = Mapping[str, Any]


def question_of(row: Row, fields: Fields) -> dict[str, Any]:
    """What a row asks, without its answers: question, subject, property, relation and titles."""
    question = value_at(row, fields["question"])
    titles = _flat(value_at(row, fields["titles"])) if fields.get("titles") else []
    return {
        "question": question if isinstance(question, str) else text_of(question),
        **{name: text_at(row, fields, name) for name in ("subject", "property", "relation")},
        "titles": list(dict.fromkeys(text for title in titles if (text := text_of(title)))),
    }


def text_at(row: Row, fields: Fields, name: str) -> str | None:
    """The text that a row has for a name of the schema, if it has one."""
    return text_of(value_at(row, fields[name])) if fields.get(name) else None


def column_paths(fields: Fields) -> Iterator[tuple[str, str]]:
    """Name in the schema and dotted path of every column that is read."""
    for name, paths in fields.items():
        for path in [paths] if isinstance(paths, str) else paths or []:
            yield name, path


def check_columns(rows: Sequence[Row], fields: Fields, source: object) -> None:
    """A column that no row has is a mistake; one that some rows lack is empty there."""
    if not rows:
        do = "check the file, or the split"
        raise AnchorscopeError("the dataset has no rows", source, do, see="rows-of-a-file")
    for name, path in column_paths(fields):
        if not any(_has(row, path) for row in rows):
            existing = dict.fromkeys(key for row in rows[:1000] for key in _column_names(row))
            raise AnchorscopeError(
                f"column `{path}` (field `{name}`) is missing",
                f"{source}; its columns are {', '.join(existing)}",
                nearest(path, existing, f"name an existing column under fields: {name}"),
                see="missing-column",
            )


def _column_names(row: Row) -> Iterator[str]:
    for name, value in row.items():
        yield name
        if isinstance(value, Mapping):
            yield from (f"{name}.{inner}" for inner in _column_names(value))


def _has(row: Any, path: str) -> bool:
    if isinstance(row, list):
        return not row or any(_has(item, path) for item in row)
    if not isinstance(row, Mapping):
        return row is None
    if path in row:
        return True
    head, _, rest = path.partition(".")
    return bool(rest) and head in row and _has(row[head], rest)


def value_at(row: Any, path: str) -> Any:
    """Value at a dotted path; lists of records give the list of their values."""
    if isinstance(row, list):
        return [value_at(item, path) for item in row]
    if not isinstance(row, Mapping):
        return None
    if path in row:
        return row[path]
    head, _, rest = path.partition(".")
    return value_at(row.get(head), rest) if rest else None


def mend_characters(row: Row, notes: Counter[str]) -> Row:
    """A row whose texts can be written as UTF-8."""
    mended = {name: _paired(value) for name, value in row.items()}
    # As text: a NaN equals nothing, not even itself.
    if repr(mended) == repr(dict(row)):
        return row
    notes["rows with broken characters mended"] += 1
    return mended


def _paired(value: Any) -> Any:
    if isinstance(value, str):
        if not _SURROGATE.search(value):
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {name: _paired(inner) for name, inner in value.items()}
    return [_paired(inner) for inner in value] if isinstance(value, list | tuple) else value


def digest(*parts: str) -> str:
    """SHA-256 of texts, which names rows and orders them whatever order they came in."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def text_of(value: Any) -> str | None:
    """A single value as text without white space around it; None if nothing is left."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip() or None


def number_of(text: str | None, where: str) -> float | None:
    """A popularity; an error names the row, `where`."""
    try:
        return None if text is None else float(text)
    except ValueError:
        what, do = f"popularity `{text}` is no number", "correct it or leave it empty"
        raise AnchorscopeError(what, where, do, see="label-or-popularity") from None


def anchors_of(
    question: str, value: Any, notes: Counter[str], where: str
) -> list[dict[str, Any]] | None:
    """A user's own anchors as places in the question; None if there are none."""
    value = _plain(value)
    listed = _listed(value) if isinstance(value, str) else value
    if not isinstance(listed, list | tuple):  # a single entry, or nothing
        listed = [value] if isinstance(value, Mapping) or text_of(value) else []
    if not listed:
        return None
    found, failed = own_anchors.resolve(question, [_plain(entry) for entry in listed])
    for reason, entry in failed:
        total = f"own anchors, {reason}"
        notes[total] += 1
        if notes[total] <= NAMED:
            notes[f"{total}: {where}, `{entry}`"] += 1
    return [{"start": start, "end": end, "role": role} for start, end, role in found]


def _plain(entry: Any) -> Any:
    """Arrays of a parquet file as lists; its structs carry keys that a row leaves empty."""
    if isinstance(entry, Mapping):
        return {name: value for name, value in entry.items() if value is not None}
    return entry if isinstance(entry, str) or not hasattr(entry, "tolist") else entry.tolist()


def _flat(value: Any) -> Iterator[Any]:
    """Single values of a value that may be a list, a string, or a string that holds a list."""
    if isinstance(value, str) and (listed := _listed(value)) is not None:
        value = listed
    if isinstance(value, list | tuple):
        for item in value:
            yield from _flat(item) if isinstance(item, list | tuple) else [item]
    else:
        yield value


def _listed(text: str) -> list[Any] | None:
    """The list that a string spells, as PopQA's columns do in JSON, or tables saved by pandas."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    for parse in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError):
            value = parse(text)
            return value if isinstance(value, list) else None
    return None


def gold_answers(raw: Iterable[Any], notes: Counter[str]) -> list[str]:
    """The different gold answers of a row; `notes` counts those that cannot be used."""
    answers: dict[str, None] = {}
    for value in raw:
        for item in _flat(value):
            text = text_of(item)
            if text is None:
                # No list at all is a row without answers, not an empty gold.
                notes["empty golds left out"] += int(item is not None)
            elif not squad_normalise(text):
                notes["golds that normalise to nothing left out"] += 1
            else:
                answers[text] = None
    return list(answers)


def label_of(text: str | None, where: str) -> int | None:
    """A label, 0 or 1; an error names the row, `where`."""
    labels = {None: None, "0": 0, "1": 1, "false": 0, "true": 1}
    try:
        return labels[text and text.lower()]
    except KeyError:
        do = "write 1 (true) for a hallucinated answer, 0 (false) for a right one"
        what = f"label `{text}` is none of 0, 1, true, false"
        raise AnchorscopeError(what, where, do, see="label-or-popularity") from None
