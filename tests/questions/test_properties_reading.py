"""Whatever bytes a file of rows holds: its rows, or one clear error."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hostile import cases, short, text
from hypothesis import given
from hypothesis import strategies as st

from anchorscope.questions import reading
from anchorscope.storage.errors import AnchorscopeError

JSON = st.recursive(
    st.one_of(short, st.none(), st.booleans(), st.integers(), st.floats()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(short, inner, max_size=3)),
    max_leaves=6,
)
BYTES = st.one_of(
    st.binary(max_size=60),
    text.map(str.encode),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.sampled_from(
        [
            b"[" * 100_000,
            b'[{"a": ' + b"1" * 5000 + b"}]",
            b'{"a": ' + b"[" * 100_000,
            b'{"a": 1e999}',
            b"PAR1" + b"\0" * 40 + b"PAR1",
            b'a,b\n"1\n,2',
        ]
    ),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


@cases
@given(BYTES, st.sampled_from(sorted(reading.READERS)))
def test_any_bytes_are_rows_or_refused_in_words(folder: Path, content: bytes, ending: str) -> None:
    path = folder / f"rows{ending}"
    path.write_bytes(content)
    try:
        rows = reading.file_rows(path)
    except AnchorscopeError as error:
        assert str(path) in str(error.where) and error.do
    else:
        assert all(isinstance(row, dict) for row in rows)


@cases
@given(st.lists(st.fixed_dictionaries({"question": text, "answers": st.lists(short)}), max_size=4))
def test_json_lines_come_back_to_the_last_character(
    folder: Path, rows: list[dict[str, Any]]
) -> None:
    for name, raw in (("ascii", True), ("utf-8", False)):
        path = folder / f"{name}.jsonl"
        lines = [json.dumps(row, ensure_ascii=raw) for row in rows]
        path.write_text("\n".join(lines), encoding="utf-8", newline="\n")
        assert reading.file_rows(path) == rows


@cases
@given(st.lists(st.tuples(text, short), max_size=4))
def test_cells_of_a_csv_come_back_to_the_last_character(
    folder: Path, rows: list[tuple[str, str]]
) -> None:
    written = io.StringIO(newline="")
    csv.writer(written, quoting=csv.QUOTE_ALL).writerows([("question", "answer"), *rows])
    path = folder / "rows.csv"
    path.write_text(written.getvalue(), encoding="utf-8", newline="")
    assert [tuple(row.values()) for row in reading.file_rows(path)] == rows
