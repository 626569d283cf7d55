"""A training that dies goes on from its last state and ends in the same checkpoint, to the byte."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from anchorscope.calibration import training
from anchorscope.calibration.curriculum import Row
from anchorscope.storage import partial

EVERY = 4
STEPS = (17, 8, 5)
DEATHS = 5
TRIALS = """
import json, os, signal, sys
from pathlib import Path

import torch
from anchorscope.storage import partial
from anchorscope.calibration import recipes, training
from anchorscope.questions import world

torch.set_num_threads(1)
every, stages, deaths, folder = json.loads(sys.argv[1])
folder, training.EVERY = Path(folder), every
settings = {"style": "relation", "seed": 0, "pathways": "both", "words_per_group": 4}
facts = world.facts(**settings, scored=6, redundant=6, neutral=4, unseen=4)
recipe = dict(
    architecture="llama", layers=2, width=16, heads=2, kv_heads=1, mlp=24, vocabulary=300,
    curriculum="planted", graded=True, frameless=0.15, seed=0, batch_rows=8, learning_rate=4e-3,
    warmup=0.2, early_verdict=0.05,
    **dict(zip(("steps", "settle", "settle_frameless"), stages)),
)


def dies(real, at):
    # In call number `at` the process is killed.
    left = [at]

    def call(*given, **more):
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return real(*given, **more)

    return call


def trial(name, keep, how, at):
    process = os.fork()
    if process:
        return os.waitpid(process, 0)[1]
    real = training._step

    def counted(*given):
        with (folder / f"{name}.steps").open("a") as steps:
            steps.write(".")
        return real(*given)

    training._step = counted
    if how == "step":
        training._step = dies(counted, at)
    if how == "writing":  # the draft is there, and not yet in its place
        Path.replace = dies(Path.replace, at)
    given = dict(worlds={"w": settings}, train=recipe, recipe="hash", keep=keep)
    recipes.make(folder / name, {"w": facts}, **given)
    os._exit(0)


ends = [trial("undisturbed", None, "", 0)]
with partial.kept(folder / ".partial" / "models+tiny+fit") as keep:
    for how, at in deaths:
        ends.append(trial("killed", keep, how, at))
    ends.append(trial("killed", keep, "", 0))
print(json.dumps(ends))
"""


def test_a_training_killed_again_and_again_ends_in_the_same_checkpoint(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print("seed", seed)
    dice = random.Random(seed)
    # Of the steps a process does, and of the states it writes: fewer than are left at the time.
    deaths = [("step", dice.randint(0, EVERY)) for _ in range(DEATHS - 2)]
    deaths += [("writing", dice.randint(0, 1)), ("step", dice.randint(0, EVERY))]
    dice.shuffle(deaths)
    run = subprocess.run(
        [sys.executable, "-c", TRIALS, json.dumps([EVERY, STEPS, deaths, str(tmp_path)])],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    ends = json.loads(run.stdout.splitlines()[-1])
    assert ends == [0, *[9] * DEATHS, 0], f"seed {seed}"
    steps = {
        name: (tmp_path / f"{name}.steps").stat().st_size for name in ("undisturbed", "killed")
    }
    assert steps["undisturbed"] == sum(STEPS)
    assert steps["killed"] <= sum(STEPS) + DEATHS * EVERY, f"seed {seed}"
    one, two = (files(tmp_path / name) for name in ("undisturbed", "killed"))
    assert "model.safetensors" in one
    assert one == two, f"seed {seed}"


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def rows(asked: str = "city") -> list[Row]:
    return [Row(f"Which {asked} has {n}?", f"answer {n % 5}", bool(n % 2)) for n in range(30)]


def trained(taught: Sequence[Row], steps: int = 9, **more: Any) -> list[bytes]:
    """The weights of a model of two layers."""
    tokenizer = training.train_tokenizer([row.text for row in rows()], vocabulary=290)
    shape = training.Shape(layers=2, width=16, heads=2, kv_heads=1, mlp=24)
    model = training.new_model(shape, tokenizer, seed=0)
    given = {"batch_rows": 8, "learning_rate": 4e-3, "warmup": 0.2, "early_verdict": 0.05}
    training.train(model, taught, tokenizer, steps=steps, seed=0, **given, **more)
    return [weights.detach().numpy().tobytes() for weights in model.parameters()]


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Grows by one with every step; states are kept every two."""
    done: list[int] = []
    real: Callable[..., float] = training._step

    def counted(*given: Any) -> float:
        done.append(1)
        return real(*given)

    monkeypatch.setattr(training, "_step", counted)
    monkeypatch.setattr(training, "EVERY", 2)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield done
    torch.set_num_threads(threads)


def test_a_finished_training_is_taken_over_without_a_step(
    tmp_path: Path, stepped: list[int]
) -> None:
    whole = trained(rows(), keep=tmp_path)
    assert len(stepped) == 9
    assert trained(rows(), keep=tmp_path) == whole
    assert len(stepped) == 9


def test_states_do_not_pile_up(tmp_path: Path, stepped: list[int]) -> None:
    trained(rows(), keep=tmp_path)
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "batch-00008.safetensors", "batch-00009.safetensors",
    ]  # fmt: skip


def test_a_damaged_state_is_named_and_the_one_before_taken(
    tmp_path: Path, stepped: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    whole = trained(rows(), keep=tmp_path)
    last = partial.batch(tmp_path, 9)
    content = bytearray(last.read_bytes())
    content[-1] ^= 1
    last.write_bytes(content)
    assert trained(rows(), keep=tmp_path) == whole
    assert len(stepped) == 10 and last.name in caplog.text


@pytest.mark.parametrize("change", [{"steps": 10}, {"taught": rows("river")}])
def test_a_state_of_another_training_is_not_gone_on_from(
    tmp_path: Path, stepped: list[int], change: dict[str, Any]
) -> None:
    trained(rows(), keep=tmp_path)
    given: dict[str, Any] = {"taught": rows()} | change
    assert trained(**given, keep=tmp_path) == trained(**given)
    assert len(stepped) == 9 + 2 * given.get("steps", 9)


def test_the_rate_rises_over_the_warm_up_and_falls_to_nothing() -> None:
    shares = [training._share_of_rate(step, 100, 0.2) for step in range(100)]
    assert shares[0] == pytest.approx(0.05) and shares[19] == shares[39] == 1.0
    assert shares[99] == 0.0
    assert shares == [*sorted(shares[:20]), *sorted(shares[20:], reverse=True)]
