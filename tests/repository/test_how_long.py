"""docs/how-long.md holds the table that its formula gives."""

from __future__ import annotations

import importlib

import pytest
from workflow import PROJECT


def test_the_table_is_the_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROJECT / "benchmarks"))
    page = (PROJECT / "docs" / "how-long.md").read_text(encoding="utf-8")
    assert importlib.import_module("how_long").table() in page
