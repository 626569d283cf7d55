"""Other projects' ways to states, each in an environment of its own."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import baselines
import torch
import ways
import workloads

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "peers"
PINNED = ("torch", "transformers")
PEERS = {
    "nnsight": ("nnsight>=0.8,<0.9",),
    "pyvene": ("pyvene==0.1.8",),
    "transformer-lens": ("transformer-lens>=4.3,<5",),
}
"""Name → what pip installs."""
DIFFERENCE = 1e-5
"""Largest of two ways; of states larger than 1, that share of the largest."""


def added(
    rows: Sequence[dict[str, Any]],
    todo: Sequence[workloads.Workload],
    chosen: argparse.Namespace,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """The rows of a table, and those of the peers, in the order of workloads and stages."""
    found = list(rows)
    for work in todo:
        plain = [r for r in rows if _cell(r) == (work.name, "measure")]
        seconds = next((r["seconds"] for r in plain if r["way"] == "one-pass"), None)
        if seconds is None:
            continue
        folder, largest = given(work)
        for name, packages in PEERS.items():
            for one in _run(name, packages, folder, DIFFERENCE * largest, chosen, say):
                more = {"workload": work.name, "stage": "measure", "rounds": chosen.rounds}
                found.append(more | one | {"seconds": one["ratio"] * seconds})
    order = {key: n for n, key in enumerate(dict.fromkeys(map(_cell, rows)))}
    return sorted(found, key=lambda row: order[_cell(row)])


def _cell(row: dict[str, Any]) -> tuple[str, str]:
    return row["workload"], row["stage"]


def given(work: workloads.Workload) -> tuple[Path, float]:
    """A folder with what a peer needs, and the largest size of a state, 1 if none is larger.

    It holds the model, the sequences and the states expected.
    """
    loaded, table, _ = ways.model_and_sequences(work)
    states = baselines.one_pass(loaded, table)
    layers = range(work.shape.layers)
    expected = {
        (number, cut): torch.stack([states[number, name, layer] for layer in layers])
        for number in range(len(table))
        for cut, name in enumerate(("clean", "knockout"))
    }
    sequences = [
        {"id": n, "ids": row["input_ids"], "cut": row["eq_tokens"], "final": row["final"]}
        for n, row in enumerate(table.to_dict("records"))
    ]
    folder = FOLDER / "given" / work.name
    folder.mkdir(parents=True, exist_ok=True)
    loaded.model.save_pretrained(folder)
    torch.save(expected, folder / "expected.pt")
    (folder / "sequences.json").write_text(json.dumps(sequences), encoding="utf-8")
    return folder, max(1.0, *(float(state.abs().max()) for state in expected.values()))


def _run(
    name: str,
    packages: Sequence[str],
    folder: Path,
    tolerance: float,
    chosen: argparse.Namespace,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """What a peer printed; nothing, with the reason, where it fails or gives other numbers."""
    try:
        python = set_up(name, packages, say)
        command = [
            str(python), str(Path(__file__).with_name("peer.py")), name, str(folder),
            "--rounds", str(chosen.rounds), "--threads", str(chosen.threads),
            "--clock", chosen.clock,
        ]  # fmt: skip
        run = subprocess.run(command, env=_environment(), capture_output=True, text=True)
        if run.returncode:
            raise RuntimeError(_why(run))
    except (subprocess.CalledProcessError, RuntimeError) as error:
        print(f"{name} was not measured: {error}", file=sys.stderr)
        return []
    rows = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    for row in rows:
        if not row["max_difference"] <= tolerance:
            print(f"{row['way']} differs by {row['max_difference']:.1e}", file=sys.stderr)
    return [row for row in rows if row["max_difference"] <= tolerance]


def _why(run: subprocess.CompletedProcess[str]) -> str:
    """The last line that a peer left, and how it ended: one that was killed may leave none."""
    ended = f"signal {-run.returncode}" if run.returncode < 0 else f"exit {run.returncode}"
    *_, last = ["", *run.stderr.strip().splitlines()]
    return f"{last} ({ended})" if last else f"it said nothing ({ended})"


def _environment() -> dict[str, str]:
    """Ours without what would lead to other environments, or to the network."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | {"HF_HUB_OFFLINE": "1"}


def set_up(name: str, packages: Sequence[str], say: Callable[[str], None]) -> Path:
    """The Python of a peer's environment, made if it is not there.

    Raises:
        CalledProcessError: pip cannot install it.
    """
    place = FOLDER / name
    python, ready = place / "bin" / "python", place / ".ready"
    if ready.exists():
        return python
    say(f"setting up {name} under {place}")
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lock if line.partition("==")[0] in PINNED]
    install = [str(python), "-m", "pip", "install", "--quiet"]
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    subprocess.run([*install, *(pin for pin in pins if pin.startswith("torch"))], check=True)
    try:
        subprocess.run([*install, *pins, *packages], check=True)
    except subprocess.CalledProcessError:
        # It does not go with the pinned transformers: it may bring its own.
        subprocess.run([*install, pins[0], *packages], check=True)
    ready.touch()
    return python
