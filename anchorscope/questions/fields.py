"""Find the cell of each field (`question`, `answers`) in a dataset's row, and check its type."""

import ast
import hashlib
import json
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from io import StringIO
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.anchors.labels import says_something
from anchorscope.anchors.question_anchors import own_spans
from anchorscope.storage.errors import AnchorscopeError, nearest

NAMED = 5  # most examples in notes: of anchors that mark nothing (per reason), and of shared ids
UNWRAPPED = "lists of one text unwrapped"
EMPTIED = "texts that a program writes for an empty cell (such as `nan`) are left out"
# These texts stand for an empty cell. A response may be the second kind, which are words, too.
_EMPTY, _EMPTY_OR_WORD = {"nan", "NaN", "<NA>", "NaT"}, {"None", "null", "NULL"}
LONGEST = 17  # characters; a number whose digits need more is written with an exponent
UNREADABLE = (ValueError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError)
# Texts that look like a collection: a bracket before a quotation mark; brackets that hold a comma,
# two or more numbers, `key: value` or nothing; `array([...])`, `c("a", "b")`, `set()`,
# `character(0)`, `[np.str_('a')]`; a printed Series; `<StringArray>`; `[None 'a']`.
_COLLECTION = re.compile(
    r"[\[{][\s\[({]*[bru]{0,2}['\"].*|\{(?:[^,]*:.*|\s*)\}"
    r"|[\[{](?:[^,]*,.*|\s*[-+.]?\d[-+.\de]*(?:\s+[-+.]?\d[-+.\de]*)+\s*)[\]}]"
    r"|[\w.]+\(\s*(?:[\[{(]|['\"][^,]*,).*\)|set\(\)|character\(0\)|\[\s*[\w.]+\(['\"\d].*\)\s*\]"
    r"|.*\ndtype: \w+|shape: \(\d.*|<[\w.]+Array\b[^>]*>\s*\[.*"
    r"|\[\s*(?:None|nan|[-+.\d]+)\s.*['\"]\s*\]",
    re.DOTALL,
)
TRUTHS = {"0": 0, "1": 1, "false": 0, "true": 1}

Row = Mapping[str, Any]
Fields = Mapping[str, Any]
_MISSING = object()


@dataclass(frozen=True, slots=True)
class RowCells:
    """The cells of one row. `fields` maps names, such as `answers`, to columns of the row.

    Methods raise an AnchorscopeError for a cell of a wrong type.
    """

    row: Row  # column → cell
    fields: Fields  # name in the schema → dotted path of a column
    where: str  # name of the row in errors
    notes: Counter[str]  # counts of cells that are left out or converted

    def text(self, name: str, *, number: bool = False) -> str | None:
        """Return the cell's text, stripped; None if it is empty. `number` also allows a number."""
        return self._text(name, self._unwrapped(name), number)

    @property
    def question(self) -> str | None:
        """The question, unchanged."""
        return self._verbatim("question", self._unwrapped("question"))

    @property
    def titles(self) -> list[str]:
        """The titles of the row, without duplicates."""
        cell = self._value("titles")
        texts = (self._text("titles", item) for item in self._items("titles", cell))
        return list(dict.fromkeys(filter(None, texts)))

    @property
    def golds(self) -> list[str]:
        """The gold answers, without duplicates. Unusable ones are counted in `notes`."""
        paths = [path for name, path in column_paths(self.fields) if name == "answers"]
        answers: dict[str, None] = {}
        values = (value_at(self.row, path) for path in paths)
        for item in (item for value in values for item in self._items("answers", value)):
            text = self._text("answers", item, number=True)
            if text is None:
                # None means that the row has no answers. `_verbatim` counts texts such as `nan`.
                self.notes["empty golds left out"] += int(item is not None and _is_empty(item))
            elif not says_something(text):
                self.notes["golds that normalise to nothing left out"] += 1
            else:
                # pandas writes a column of years with gaps as "1999.0"
                answers |= dict.fromkeys((text, re.sub(r"^(\d+)\.0$", r"\1", text)))
        return list(answers)

    @property
    def popularity(self) -> float | None:
        """The popularity, or None if the column is empty in this row."""
        text = self.text("popularity", number=True)
        try:
            return None if text is None else float(text)
        except ValueError:
            what, do = f"popularity `{text}` is not a number", "correct it or leave it empty"
            raise AnchorscopeError(what, self.where, do, see="label-or-popularity") from None

    @property
    def label(self) -> int | None:
        """The label, 0 (right) or 1 (wrong), or None if the cell is empty."""
        return self._truth(
            "label", "write 1 (true) for a hallucinated answer, 0 (false) for a right one"
        )

    @property
    def swap(self) -> bool:
        """Whether the row takes part in swapped answers; true if the cell is empty."""
        return self._truth("swap", "write 0 (false) to keep a row out of swapped answers") != 0

    def anchors(self, question: str) -> list[dict[str, Any]] | None:
        """Return the user's own anchors as places in the question, or None if the row has none."""
        value = self._value("anchors")
        entries = self._parsed("anchors", value) if isinstance(value, str) else value
        if not isinstance(entries, list):  # a single entry, or nothing
            entries = [] if _is_empty(value) else [value]
        if not entries:
            return None
        spans, failed = own_spans(question, entries)
        for reason, entry in failed:
            note = f"own anchors, {reason}"
            self.notes[note] += 1
            if self.notes[note] <= NAMED:
                self.notes[f"{note}: {self.where}, `{entry}`"] += 1
        return [{"start": span.start, "end": span.end, "role": span.role} for span in spans]

    def _truth(self, name: str, do: str) -> int | None:
        """Return 1 for true, 0 for false, and None for an empty cell. `do` says what to write."""
        value = self._value(name)
        text = str(value) if isinstance(value, bool) else self.text(name, number=True)
        if text is None:
            return None
        if text.lower() not in TRUTHS:
            what = f"{name} `{text}` is not one of {', '.join(TRUTHS)}"
            raise AnchorscopeError(what, self.where, do, see="label-or-popularity")
        return TRUTHS[text.lower()]

    def _value(self, name: str) -> Any:
        """Return the row's value for a field, unchanged; None if the dataset lacks the column."""
        path = self.fields.get(name)
        return _plain(value_at(self.row, path)) if path else None

    def _unwrapped(self, name: str) -> Any:
        """Return the cell, or its only text if it is a list of one text."""
        value = self._value(name)
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
            self.notes[UNWRAPPED] += 1
            return value[0]
        return value

    def _items(self, name: str, value: Any) -> Iterator[Any]:
        """Iterate over the values in a list, a string, or a string that spells a list."""
        if isinstance(value, list) and any(isinstance(item, tuple) for item in value):
            return iter(value)  # entries of a Parquet map, which are no answers
        items = self._parsed(name, value) if isinstance(value, str) else _plain(value)
        return _flat(items) if isinstance(items, list) else iter([_plain(value)])

    def _parsed(self, name: str, text: str) -> list[Any] | None:
        """Return the list that a string spells, or None for plain text."""
        items = _parsed_list(text.strip())
        if items is None and _is_collection(text.strip()):
            what = f"field `{name}` looks like a list, but cannot be read as one: {text!r:.80}"
            do = 'write ["one", "two"], with quotes and commas, or ["(one)"] for text in brackets'
            raise AnchorscopeError(what, self.where, do, see="cell-type")
        return items

    def _text(self, name: str, value: Any, number: bool = False) -> str | None:
        text = self._verbatim(name, value, number)
        return text and text.strip()

    def _verbatim(self, name: str, value: Any, number: bool = False) -> str | None:
        """Return the cell's text unchanged; None if it is empty. `number` also allows a number."""
        if _is_empty(value):
            return None
        if number and isinstance(value, int | float) and not isinstance(value, bool):
            return shortest(value)
        if not isinstance(value, str):
            kind = "text or a number" if number else "text"
            what = f"field `{name}` must be {kind}, found {type(value).__name__}: {value!r:.80}"
            do = "write the text itself, or name another column under `fields`"
            raise AnchorscopeError(what, self.where, do, see="cell-type")
        try:
            value.encode()
        except UnicodeEncodeError:
            broken = "a broken character (half of a surrogate pair)"
            what = f"field `{name}` holds {broken}: {value!a:.80}"
            do = "save the file again as UTF-8"
            raise AnchorscopeError(what, self.where, do, see="cell-type") from None
        words = set() if name == "response" else _EMPTY_OR_WORD
        if value.strip() in _EMPTY | words:
            self.notes[f"{EMPTIED}: field `{name}`"] += 1
            return None
        return value


def column_paths(fields: Fields) -> Iterator[tuple[str, str]]:
    """Yield (name in the schema, dotted path) of every column that is read."""
    for name, paths in fields.items():
        for path in [paths] if isinstance(paths, str) else paths or []:
            yield name, path


def check_columns(rows: Sequence[Row], fields: Fields, source: object) -> None:
    """Refuse a dataset without rows, or with a column that is missing in all rows.

    If only some rows lack a column, their cells count as empty.
    """
    if not rows:
        do = "check the file, or the split"
        raise AnchorscopeError("the dataset has no rows", source, do, see="rows-of-a-file")
    for name, path in column_paths(fields):
        if not any(_has(row, path) for row in rows):
            existing = dict.fromkeys(key for row in rows[:1000] for key in _column_names(row))
            what = f"column `{path}` (field `{name}`) is missing"
            where = f"{source}; its columns are {', '.join(existing)}"
            do = f"name an existing column under fields: {name}, or rename one"
            do = nearest(path, existing, do)
            raise AnchorscopeError(what, where, do, see="missing-column")


def _column_names(row: Row) -> Iterator[str]:
    for name, value in row.items():
        yield name
        if isinstance(value, Mapping):
            yield from (f"{name}.{inner}" for inner in _column_names(value))


def _has(row: Row, path: str) -> bool:
    value = value_at(row, path, _MISSING)
    items = value if isinstance(value, list) and value else [value]
    return any(item is not _MISSING for item in items)


def value_at(row: Any, path: str, missing: Any = None) -> Any:
    """Return the value at a dotted `path`; for a list of rows, the list of their values."""
    if isinstance(row, list):
        return [value_at(item, path, missing) for item in row]
    if not isinstance(row, Mapping):
        return None if row is None else missing
    if path in row:
        return row[path]
    head, _, rest = path.partition(".")
    return value_at(row[head], rest, missing) if rest and head in row else missing


def digest(*parts: str) -> str:
    """Return the SHA-256 of texts. It serves as an id, and to sort rows in a fixed order."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _is_empty(value: Any) -> bool:
    return not value.strip() if isinstance(value, str) else pd.isna(value) is True


def _plain(value: Any) -> Any:
    """Convert a numpy array or a tuple to a list, and a numpy number to a Python number."""
    value = widened(value) if isinstance(value, np.ndarray | np.floating) else value
    value = value.tolist() if hasattr(value, "tolist") else value
    return list(value) if isinstance(value, tuple) else value


def widened(values: Any) -> Any:
    """Convert numpy floats to 64 bits by their shortest texts: 7.4 stays 7.4, not 7.400000095."""
    narrow = values.dtype.kind == "f" and values.dtype.itemsize < np.dtype(float).itemsize
    return values.astype(str).astype(float) if narrow else values


def shortest(value: float) -> str:
    """Return the shortest text that means a number, without an exponent if it is short enough."""
    if (value % 1 == 0 and abs(value) < 2**53) or isinstance(value, int):
        return str(int(value))
    text = f"{Decimal(str(value)):f}"
    return text if len(text) <= LONGEST else str(value).replace("e+", "e")


def _flat(items: list[Any]) -> Iterator[Any]:
    """Yield the single values of nested lists."""
    for item in map(_plain, items):
        yield from _flat(item) if isinstance(item, list) else [item]


def _parsed_list(text: str) -> list[Any] | None:
    """Return a text's list if it spells one in JSON (PopQA) or Python (pandas' CSV), else None."""
    if text.startswith("[") and text.endswith("]"):
        for parse in (json.loads, _python):
            with suppress(*UNREADABLE):
                value = parse(text)
                return value if isinstance(value, list) else None
    return None


def _python(text: str) -> Any:
    """Return the value of a Python literal.

    Raises:
        ValueError: Two strings have no comma between them. numpy writes lists like that, and Python
            would join the strings.
    """
    kinds = [token.type for token in tokenize.generate_tokens(StringIO(text).readline)]
    kinds = [kind for kind in kinds if kind != tokenize.NL]
    if (tokenize.STRING, tokenize.STRING) in pairwise(kinds):
        raise ValueError("strings without a comma between them")
    return ast.literal_eval(text)


def _is_collection(text: str) -> bool:
    """Return whether a text looks like a collection that `_parsed_list` cannot read.

    Examples are a tuple, set, dict or array, a list without quotes, or a list encoded twice.
    """
    if _COLLECTION.fullmatch(text):
        return True
    with suppress(*UNREADABLE):
        if text.startswith('"['):
            return _parsed_list(json.loads(text)) is not None
        return text.startswith("(") and isinstance(_python(text), tuple)
    return False
