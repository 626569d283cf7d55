"""The audit of the pinned versions: weak ones are named; without a network it says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools import audit


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An environment whose pip-audit is played by each test."""
    (tmp_path / "bin").mkdir()
    return tmp_path


def plays(home: Path, said: str, code: int = 0) -> None:
    (home / "said").write_text(said, encoding="utf-8")
    program = home / "bin" / "pip-audit"
    program.write_text(f'#!/bin/sh\ncat "{home}/said"\nexit {code}\n', encoding="utf-8")
    program.chmod(0o755)


def found(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": list(packages), "fixes": []})


SOUND = {"name": "pandas", "version": "2", "vulns": []}
WEAK = {
    "name": "old",
    "version": "1",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}, {"id": "PYSEC-2", "fix_versions": []}],
}


def test_weak_versions_are_named_and_fail(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plays(home, found(SOUND, WEAK), 1)
    assert audit.main(home=home) == 1
    said = capsys.readouterr().out
    assert "old 1: PYSEC-1, mended in 1.1" in said and "PYSEC-2, mended in no version" in said
    assert "2 packages, 1 with known weaknesses" in said


def test_sound_versions_pass_and_those_not_looked_up_are_named(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plays(home, found(SOUND, {"name": "own", "skip_reason": "not on the index"}))
    assert audit.main(home=home) == 0
    assert "own: not looked up, not on the index" in capsys.readouterr().out


def test_without_a_network_it_says_so_by_name(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for said in ("", found({"name": "own", "skip_reason": "not on the index"})):
        plays(home, said, 1)
        assert audit.main(home=home) == 0
        assert "audit NOT RUN" in capsys.readouterr().err
    monkeypatch.setattr(audit, "_installed", lambda home: False)
    assert audit.main(home=home / "nowhere") == 0
    assert "cannot be installed" in capsys.readouterr().err
