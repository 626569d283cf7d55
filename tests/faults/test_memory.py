"""A device whose memory is too small for a batch: it is halved, said so, and the numbers stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from workflow import Workspace

from anchorscope.storage import partial
from anchorscope.storage.files import read_csv, read_json, read_parquet
from faults.conftest import Ledger
from faults.harness import CELL, FULL, World, run

KEY = ["id", "layer", "readout", "condition", "draw", "probe"]
FITS = 250
"""Tokens of a call that fit: the 8 rows of a single sample, and no whole batch."""
LARGER = {"batch_tokens": 768}
"""So a batch holds three samples; by the harness's own it holds one, which cannot be halved."""
SMALL = """
import torch
from transformers.models.llama.modeling_llama import LlamaModel

_whole = LlamaModel.forward


def _limited(self, input_ids=None, **more):
    if input_ids.numel() > {fits}:
        raise {error}
    return _whole(self, input_ids=input_ids, **more)


LlamaModel.forward = _limited
"""
ERRORS = {
    "GPU": 'torch.OutOfMemoryError("CUDA out of memory.")',
    "CPU": 'RuntimeError("[enforce fail] DefaultCPUAllocator: you tried to allocate 9 bytes")',
}
"""What torch raises, by device."""


def numbers(clone: Workspace) -> dict[str, np.ndarray]:
    """Every measured state of the cell, by sample, condition and read-out."""
    folder = clone.results / "activations" / CELL
    where = read_parquet(folder / "index.parquet")
    found = {}
    for number, rows in where[where["batch"] >= 0].groupby("batch"):
        for name, states in partial.read(folder / f"batch-{number:05d}.safetensors").items():
            for sample, row in zip(rows["id"], rows["row"], strict=True):
                found[f"{sample} {name}"] = states[int(row)].float().numpy()
    return found


@pytest.mark.parametrize("device", ERRORS if FULL else ["CPU"])
def test_batches_that_do_not_fit_are_halved_and_the_numbers_stay(
    world: World, ledger: Ledger, tmp_path: Path, device: str
) -> None:
    with (
        ledger.entering("out of memory"),
        world.before("answers", tmp_path / "clone") as clone,
    ):
        for stage in ("answers", "activations") if FULL else ("activations",):
            script = clone.root / "scripts" / f"{stage}.py"
            text = script.read_text(encoding="utf-8")
            small = SMALL.format(fits=FITS, error=ERRORS[device])
            script.write_text(text.replace('"""\n', f'"""\n{small}', 1), encoding="utf-8")
        code, text = run(clone, change=LARGER)
        assert code == 0, text[-4000:]
        record = read_json(clone.results / f"activations/{CELL}.provenance.json")
        halved = record["passes"]["halved_batches"]
        before, after = numbers(world.finished), numbers(clone)
        apart = max(float(np.abs(before[name] - after[name]).max()) for name in before)
        tables = [read_csv(c.results / "tables/tiny.csv") for c in (world.finished, clone)]
        moved = (tables[0]["delta_p"] - tables[1]["delta_p"]).abs().max()
        scores = [c.results / f"scores/{CELL}.parquet" for c in (world.finished, clone)]
        p, q = (read_parquet(path).set_index(KEY)["p"] for path in scores)
        assert halved > 0 and "halved" in text
        assert set(after) == set(before) and apart < 1e-5
        assert p.index.equals(q.index) and (p - q).abs().max() < 1e-5
        # In percentage points: 1e-5 of a probability.
        assert moved < 1e-3
