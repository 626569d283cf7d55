"""Hostile text written and read back: nothing changed, nothing run by a spreadsheet."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pandas as pd
import pytest
from hostile import FORMULAS, MARKUP, cases, short, text
from hypothesis import given
from hypothesis import strategies as st

from anchorscope.storage import files

LEADS = ("=", "+", "-", "@", "\t", "\r")
# A cell that is a number, or empty, has another type when it comes back: CSV knows no types.
words = st.one_of(short, text, st.sampled_from(FORMULAS + MARKUP)).map(lambda t: f"{t}x")
numbers = st.floats(allow_nan=False, width=32)


def readable(said: str) -> str:
    """What no CSV reader holds is replaced."""
    return said.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")


def written(folder: Path, frame: pd.DataFrame) -> tuple[Path, pd.DataFrame]:
    path = folder / "table.csv"
    files.write_csv(frame, path)
    return path, files.read_csv(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("written")


@cases
@given(st.lists(st.tuples(words, numbers), min_size=1, max_size=5))
def test_text_and_numbers_of_a_csv_come_back(folder: Path, rows: list[tuple[str, float]]) -> None:
    frame = pd.DataFrame(rows, columns=["said", "delta_p"])
    path, back = written(folder, frame)
    assert list(back["said"]) == [readable(said) for said, _ in rows]
    assert back["delta_p"].to_numpy(dtype=float) == pytest.approx(
        frame["delta_p"].to_numpy(), rel=1e-5
    )
    again, _ = written(folder, back)
    assert again.read_bytes() == path.read_bytes()


@cases
@given(st.lists(words, min_size=1, max_size=5))
def test_no_text_cell_of_a_csv_starts_like_a_formula(folder: Path, said: list[str]) -> None:
    path, _ = written(folder, pd.DataFrame({"said": said}))
    with path.open(encoding="utf-8", newline="") as opened:
        cells = [cell for row in csv.reader(opened) for cell in row]
    assert not [cell for cell in cells if cell.startswith(LEADS)]


def test_negative_numbers_among_text_stay_numbers(tmp_path: Path) -> None:
    path, back = written(tmp_path, pd.DataFrame({"value": [-3.2, "-3.2", None], "p": -math.inf}))
    assert path.read_text(encoding="utf-8") == "value,p\n-3.2,-inf\n'-3.2,-inf\n,-inf\n"
    assert back["p"][0] == -math.inf


@cases
@given(st.lists(st.tuples(text, st.lists(text, max_size=3)), max_size=4))
def test_parquet_brings_everything_back(folder: Path, rows: list[tuple[str, list[str]]]) -> None:
    frame = pd.DataFrame(
        {
            "said": pd.Series([said for said, _ in rows], dtype=object),
            "golds": pd.Series([golds for _, golds in rows], dtype=object),
        }
    )
    files.write_parquet(frame, folder / "table.parquet")
    back = files.read_parquet(folder / "table.parquet")
    assert list(back["said"]) == list(frame["said"])
    assert list(back["golds"]) == list(frame["golds"])


def test_a_path_that_leaves_the_folder_is_outside(tmp_path: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    data.mkdir()
    other.mkdir()
    (data / "link").symlink_to(other)
    assert files.inside(data, [data])
    assert files.inside(data / "a" / ".." / "rows.csv", [other, data])
    for path in ("../other/rows.csv", "link/rows.csv", "/etc/passwd", "../data-2/rows.csv", ".."):
        assert not files.inside(data / path, [data]), path
    assert not files.inside(data, [])
