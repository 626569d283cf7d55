"""A training ends in the same checkpoint every time, to the byte."""

from pathlib import Path
from typing import Any

import pytest
import torch

from anchorscope.calibration import training
from anchorscope.questions import world

WORLD: dict[str, Any] = {"style": "relation", "seed": 0, "pathways": "both", "words_per_group": 4}
RECIPE = {
    "architecture": "llama", "layers": 2, "width": 16, "heads": 2, "kv_heads": 1, "mlp": 24,
    "vocabulary": 300, "curriculum": "planted", "graded": True, "frameless": 0.15, "seed": 0,
    "batch_rows": 8, "learning_rate": 4e-3, "warmup": 0.2, "early_verdict": 0.05, "steps": 9,
    "settle": 5, "settle_frameless": 3,
}  # fmt: skip


def made(folder: Path) -> dict[str, bytes]:
    facts = world.facts(**WORLD, scored=6, redundant=6, neutral=4, unseen=4)
    training.make(folder, {"w": facts}, worlds={"w": WORLD}, train=RECIPE, recipe="hash")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_training_done_again_ends_in_the_same_checkpoint(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        one, two = (made(tmp_path / name) for name in ("one", "two"))
    finally:
        torch.set_num_threads(threads)
    assert one == two and {"model.safetensors", "recipe.json"} <= set(one)


def test_the_rate_rises_over_the_warm_up_and_falls_to_nothing() -> None:
    shares = [training._share_of_rate(step, 100, 0.2) for step in range(100)]
    assert shares[0] == pytest.approx(0.05) and shares[19] == shares[39] == 1.0
    assert shares[99] == 0.0
    assert shares == [*sorted(shares[:20]), *sorted(shares[20:], reverse=True)]
