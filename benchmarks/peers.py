"""Time how other projects (peers) measure states, each in an environment of its own.

The benchmark writes a folder with the model, the sequences and the expected states, and starts

    build/peers/nnsight/bin/python benchmarks/peers.py nnsight FOLDER

This process imports nothing of the project but `timing`. It times the peer's ways in turn with the
plain way `one-pass`. For each way, it prints a line of JSON with the ratio to `one-pass`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from timing import Way, compare

if TYPE_CHECKING:
    import pandas as pd

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "peers"
PINNED = ("torch", "transformers")
PACKAGES = {"nnsight": "nnsight>=0.8,<0.9", "pyvene": "pyvene==0.1.8"}
"""Name → what pip installs."""
AT_ONCE = 8
States = dict[tuple[int, int], torch.Tensor]
"""(sequence, 1 if blocked) → [layers, width]."""
Row = dict[str, Any]
Ways = dict[str, Way]


def write(
    name: str, model: Any, table: pd.DataFrame, states: Mapping[tuple[int, str, int], torch.Tensor]
) -> Path:
    """Write model, sequences and expected states for the peers. `states`: see `ways.one_pass`."""
    layers = range(model.config.num_hidden_layers)
    expected = {
        (number, cut): torch.stack([states[number, condition, layer] for layer in layers])
        for number in range(len(table))
        for cut, condition in enumerate(("clean", "knockout"))
    }
    sequences = [
        {"id": n, "ids": row["input_ids"], "cut": row["eq_tokens"], "final": row["final"]}
        for n, row in enumerate(table.to_dict("records"))
    ]
    folder = FOLDER / "given" / name
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    torch.save(expected, folder / "expected.pt")
    (folder / "sequences.json").write_text(json.dumps(sequences), encoding="utf-8")
    return folder


def measured(
    folder: Path, tolerance: float, *, rounds: int, threads: int
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the peers. Print which peers fail, or differ by more than `tolerance`."""
    given = ["--rounds", str(rounds), "--threads", str(threads)]
    for name, package in PACKAGES.items():
        try:
            command = [str(set_up(name, package)), __file__, name, str(folder), *given]
            run = subprocess.run(command, env=_environment(), stdout=subprocess.PIPE, check=True)
        except subprocess.CalledProcessError as error:
            print(f"{name} was not measured: {error}", file=sys.stderr)
            continue
        for line in run.stdout.decode().splitlines():
            row = json.loads(line) if line.startswith("{") else {}
            if row and row["max_difference"] <= tolerance:
                yield row
            elif row:
                print(f"{row['way']} differs by {row['max_difference']:.1e}", file=sys.stderr)


def _environment() -> dict[str, str]:
    """Return our environment variables without `PYTHONPATH` and with the hub offline."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | {"HF_HUB_OFFLINE": "1"}


def set_up(name: str, package: str) -> Path:
    """Return the Python of a peer's environment. Make the environment if it does not exist.

    Raises:
        CalledProcessError: pip cannot install the peer.
    """
    place = FOLDER / name
    python, ready = place / "bin" / "python", place / ".ready"
    if ready.exists():
        return python
    print(f"setting up {name} under {place}", file=sys.stderr)
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lock if line.partition("==")[0] in PINNED]
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, *pins, package], check=True)
    ready.touch()
    return python


def mask_of(rows: list[Row], cuts: list[list[int]]) -> torch.Tensor:
    """Return the additive mask [rows, 1, width, width]: causal, without attention to `cuts`."""
    width = max(len(row["ids"]) for row in rows)
    index = torch.arange(width)
    found = []
    for row, cut in zip(rows, cuts, strict=True):
        blocked = torch.isin(index, torch.tensor(cut, dtype=torch.long))
        is_open = (index <= index[:, None]) & (index < len(row["ids"]))
        is_open &= ~(blocked & ~blocked[:, None])
        is_open |= index == index[:, None]
        found.append(torch.zeros(width, width).masked_fill(~is_open, torch.finfo().min))
    return torch.stack(found)[:, None]


def stacked(rows: list[Row]) -> Iterator[tuple[list[Row], Any, Any, Any]]:
    """Yield rows in batches by length, with ids, masks and tokens to read (clean, then blocked)."""
    ordered = sorted(rows, key=lambda row: len(row["ids"]))
    for start in range(0, len(ordered), AT_ONCE):
        some = ordered[start : start + AT_ONCE]
        twice = [*some, *some]
        ids = [torch.tensor(row["ids"]) for row in twice]
        cuts: list[list[int]] = [[]] * len(some) + [row["cut"] for row in some]
        padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
        yield some, padded, mask_of(twice, cuts), [row["final"] for row in twice]


def named(some: list[Row], states: torch.Tensor) -> States:
    """Return `states` [2 × rows, layers, width] as a dict by sequence and condition."""
    halves = states.unflatten(0, (2, len(some)))
    return {(row["id"], k): halves[k, n] for k in (0, 1) for n, row in enumerate(some)}


def one_pass(model: Any, rows: list[Row]) -> States:
    """Read states with forward hooks on the base model: the plain way."""
    found: States = {}
    for some, ids, mask, finals in stacked(rows):
        seen: list[torch.Tensor] = []
        handles = [
            block.mlp.register_forward_hook(
                lambda _, __, out, seen=seen, finals=finals: seen.append(
                    out[range(len(finals)), finals]
                )
            )
            for block in model.model.layers
        ]
        with torch.inference_mode():
            model.model(input_ids=ids, attention_mask=mask, use_cache=False)
        for handle in handles:
            handle.remove()
        found |= named(some, torch.stack(seen, 1))
    return found


def nnsight(model: Any, rows: list[Row]) -> Ways:
    """Return two ways: one trace of the base model per batch, and a literal loop on some rows."""
    from nnsight import NNsight

    base, whole = NNsight(model.model), NNsight(model)
    depth = len(model.model.layers)

    def best() -> States:
        found: States = {}
        for some, ids, mask, finals in stacked(rows):
            every = list(range(len(finals)))
            with (
                torch.inference_mode(),
                base.trace(input_ids=ids, attention_mask=mask, use_cache=False),
            ):
                seen: Any = list().save()  # type: ignore[attr-defined]  # noqa: C408 -- nnsight's own
                for layer in base.layers:
                    seen.append(layer.mlp.output[every, finals])
            found |= named(some, torch.stack(list(seen), 1))
        return found

    timed = rows[:: max(1, len(rows) // 8)][:8]

    def literal() -> States:
        found: States = {}
        for row in timed:
            ids, final = torch.tensor([row["ids"]]), row["final"]
            clear, shut = mask_of([row], [[]]), mask_of([row], [row["cut"]])
            with torch.inference_mode(), whole.trace(input_ids=ids):
                clean: Any = list().save()  # type: ignore[attr-defined]  # noqa: C408
                for layer in whole.model.layers:
                    clean.append(layer.mlp.output[0, final])
            blocked = []
            for last in range(depth):
                with torch.inference_mode(), whole.trace(input_ids=ids):
                    for k, layer in enumerate(whole.model.layers):
                        args, given = layer.self_attn.inputs
                        given = {**given, "attention_mask": shut if k <= last else clear}
                        layer.self_attn.inputs = (args, given)
                        if k == last:
                            state = layer.mlp.output[0, final].save()
                blocked.append(state)
            found |= {
                (row["id"], 0): torch.stack(list(clean)),
                (row["id"], 1): torch.stack(blocked),
            }
        return found

    return {"nnsight": Way(best), "nnsight-literal-1": Way(literal, len(rows) / len(timed))}


def pyvene(model: Any, rows: list[Row]) -> Ways:
    """Return one way: a pass of the base model per batch. pyvene cannot loop over layers."""
    import pyvene as pv

    depth = len(model.model.layers)
    representations = [{"layer": k, "component": "mlp_output", "unit": "pos"} for k in range(depth)]
    config = pv.IntervenableConfig(
        [one | {"intervention_type": pv.CollectIntervention} for one in representations]
    )
    wrapped = pv.IntervenableModel(config, model=model.model)

    def best() -> States:
        found: States = {}
        for some, ids, mask, finals in stacked(rows):
            places = [[[final] for final in finals]] * depth
            with torch.inference_mode():
                (_, seen), _ = wrapped(
                    {"input_ids": ids, "attention_mask": mask, "use_cache": False},
                    unit_locations={"base": places},
                )
            states = torch.stack([one.reshape(len(finals), -1) for one in seen], 1)
            found |= named(some, states)
        return found

    return {"pyvene": Way(best)}


PEERS = {"nnsight": nnsight, "pyvene": pyvene}


def main() -> None:
    """Time one peer, and print a line of JSON for each of its ways."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", choices=[*PEERS])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(chosen.folder, dtype=torch.float32)
    model = model.eval().requires_grad_(False)
    rows = json.loads((chosen.folder / "sequences.json").read_text(encoding="utf-8"))
    expected = torch.load(chosen.folder / "expected.pt", weights_only=True)
    ways = {"one-pass": Way(partial(one_pass, model, rows))} | PEERS[chosen.name](model, rows)
    table = compare(ways, "one-pass", chosen.rounds, partial(differences, expected))
    for row in table[1:]:
        print(json.dumps(row))


def differences(expected: States, found: Mapping[str, States]) -> dict[str, float]:
    """Return each way's largest difference from the expected states, NaN if a state is NaN."""
    return {
        name: float(torch.stack([states[key] - expected[key] for key in states]).abs().max())
        for name, states in found.items()
    }


if __name__ == "__main__":
    main()
