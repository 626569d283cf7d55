"""Real hidden states: a shipped model reads lines of its own world and their verdicts."""

import random
from pathlib import Path

import numpy as np
import torch

from anchorscope.calibration import curriculum
from anchorscope.models import families, loading
from anchorscope.models.families import Loaded
from anchorscope.questions import world

CHECKPOINT = Path(__file__).parents[1] / "resources" / "models" / "calibration-llama"
AT_ONCE = 128


def states(samples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features float32 [layers, samples, width], labels (the line is wrong) and folds [samples].

    The MLP outputs at the token that closes the answer, of different lines in random order.
    """
    loaded = loading.load(CHECKPOINT)
    facts = world.facts("relation", seed=0)
    lines = {
        row.text.rpartition(" ")[0]: not row.right
        for row in curriculum.planted(facts, world.words("relation", seed=0), seed=0)
    }
    draws = random.Random(0)
    chosen = draws.sample(sorted(lines), min(samples, len(lines)))
    z = np.array([lines[text] for text in chosen], dtype=np.int64)
    ids = [loaded.tokenizer(text)["input_ids"] for text in chosen]
    x = np.concatenate(
        [_read(loaded, ids[start : start + AT_ONCE]) for start in range(0, len(ids), AT_ONCE)], 1
    )
    return x, z, np.random.default_rng(0).permutation(len(z)) % 5


def _read(loaded: Loaded, ids: list[list[int]]) -> np.ndarray:
    """[layers, rows, width] at each row's last token."""
    seen: list[torch.Tensor] = []
    rows, places = range(len(ids)), [len(row) - 1 for row in ids]
    handles = [
        families.part(loaded, block, "mlp").register_forward_hook(
            lambda _, __, output: seen.append(output[rows, places])
        )
        for block in families.layers(loaded)
    ]
    with torch.inference_mode():
        padded = [torch.tensor(row) for row in ids]
        loaded.model.base_model(torch.nn.utils.rnn.pad_sequence(padded, batch_first=True))
    for handle in handles:
        handle.remove()
    return torch.stack(seen).numpy()
