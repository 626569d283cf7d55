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
CONFIG = """\
# A config of one's own, with remarks.
targets: [mine]
conditions: {knockout: {}, random: {draws: 2}, question: {}, noop: {samples: 4}}

models:   # the catalogue

    # the first
    far:
        hub: owner/far   # gated
        gated: true
        prompt: chat
    open: {hub: owner/open}
    llama: {hub: meta-llama/Llama-3.2-1B, resources: {gpus: 1, mem_gb: 16, gpu_mem_gb: 8}}
    near: {local: checkpoint, dtype: float32, prompt: plain, resources: {gpus: 0}}
    taught:
        train: {architecture: llama, datasets: [world], steps: 10}
        resources: {gpus: 0}

datasets:
  rows: {local: rows.jsonl, fields: {question: q, answers: [a]}, sample_size: 10}
  web: {hub: owner/rows, split: test, fields: {question: q, answers: [a]}}
  world: {world: {style: relation, scored: 2, redundant: 2, neutral: 1, unseen: 1}}

figures:
  mine: {models: [near], datasets: [rows]}
  remote: {models: [far, open], datasets: [web]}
  large: {models: [llama], datasets: [rows, web]}
  learned: {models: [taught], datasets: [world]}
"""


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
    """A root with a config, rows and a checkpoint; the network is shut, and the cache empty."""
    (tmp_path / "config.yaml").write_text(CONFIG, encoding="utf-8")
    rows = [
        json.dumps({"q": f"Who is {name}?", "a": "Ann", "z": name > "f"}) for name in "abcdefghijkl"
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
    shutil.copytree(checkpoint("llama"), tmp_path / "checkpoint")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)

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
