"""A clone of its own for the command `anchorscope`, and what the command says there."""

import json
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from anchorscope.cli import main as cli

TOKEN = "hf_" + "x" * 30
CONFIG = Path(__file__).parents[1] / "data" / "own_config.yaml"


@dataclass
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def about(self, name: str) -> list[tuple[str, str]]:
        """(status, text) of the findings about something."""
        rows = [line.split(maxsplit=2) for line in self.out.splitlines() if line.strip()]
        return [(row[0], row[2]) for row in rows if len(row) == 3 and row[1] == name]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: Callable[..., Path]) -> Path:
    """A root with a config, rows, a checkpoint and room; no network, and nothing in the cache."""
    shutil.copy(CONFIG, tmp_path / "config.yaml")
    rows = [
        json.dumps({"q": f"Who is {name}?", "a": "Ann", "z": name > "f"}) for name in "abcdefghijkl"
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
    shutil.copytree(checkpoint("llama"), tmp_path / "checkpoint")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    room = shutil.disk_usage(tmp_path)._replace(free=10**12)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: room)

    def shut(*given: Any) -> None:
        raise AssertionError(f"the network was asked for: {given[1:]}")

    monkeypatch.setattr(socket.socket, "connect", shut)
    return tmp_path


@pytest.fixture
def run(clone: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """`run(argument, …)`: what the command says in the clone."""

    def command(*arguments: str) -> Said:
        code = cli.main(arguments)
        return Said(code, *capsys.readouterr())

    return command
