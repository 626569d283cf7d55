"""Text and numbers written and read back: nothing changed."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest
from hostile import cases, text
from hypothesis import given
from hypothesis import strategies as st

from anchorscope.storage import files


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("written")


def test_text_and_numbers_of_a_csv_come_back(tmp_path: Path) -> None:
    said = ["NA", 'a "b", c', "two\nlines", None]
    frame = pd.DataFrame({"said": said, "p": [-math.inf, 1 / 3, -3.2, 1e-9]})
    files.write_csv(frame, tmp_path / "t.csv")
    back = files.read_csv(tmp_path / "t.csv")
    assert back["said"].tolist()[:3] == said[:3] and back["said"].isna().tolist()[3]
    assert back["p"].tolist() == pytest.approx(frame["p"].tolist(), rel=1e-5)


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
