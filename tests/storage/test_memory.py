"""Memory does not grow with the number of samples: not of the passes, not of the probes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import CORPUS
from instrument import answers_table

from anchorscope.models import activations
from anchorscope.storage.room import ABREAST_BYTES

ROOT = Path(__file__).parents[2]
GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""Memory that was freed is not kept for later: else the peak depends on the order of sizes."""
PEAK = """
status = Path("/proc/self/status").read_text().splitlines()
print(next(line for line in status if line.startswith("VmHWM")).split()[1])
"""

FIT = """
import sys
from pathlib import Path

import torch

from anchorscope.probes import probes

LAYERS, WIDTH = 64, 96
n = int(sys.argv[1])
probes.ABREAST_BYTES = int(sys.argv[3])  # what memory may grow by until then


class Stored:
    # Features that exist only while somebody holds them, as those of files.
    shape = (LAYERS, n, WIDTH)

    def __len__(self):
        return LAYERS

    def __getitem__(self, layers):
        chosen = range(LAYERS)[layers]
        draws = torch.Generator().manual_seed(chosen.start)
        return torch.randn(len(chosen), n, WIDTH, generator=draws)


torch.set_num_threads(1)
z = (torch.arange(n) % 3 == 0).long()
masks = torch.stack([torch.arange(n) % 5 != k for k in range(5)])
features = Stored()
if sys.argv[2] == "whole":
    features = torch.cat([features[k : k + 1] for k in range(LAYERS)])
solved = probes.fit(features, z, masks, torch.ones(5), max_iterations=3)
assert torch.isfinite(solved.weights).all()
"""

SCORE = """
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from anchorscope.probes import scores
from anchorscope.storage.files import write_parquet_parts

LAYERS, WIDTH = 64, 768
n, draws, how, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
ids = [f"q{number}" for number in range(n)]


class Stored:
    # Features that exist only while somebody holds them, a layer at a time, as those of files.
    shape, layers_at_once = (LAYERS, n, WIDTH), 1

    def __init__(self, moved):
        self.moved = moved

    def __len__(self):
        return LAYERS

    def __getitem__(self, layers):
        chosen = range(LAYERS)[layers]
        draws = torch.Generator().manual_seed(chosen.start)
        return torch.randn(len(chosen), n, WIDTH, generator=draws).sub_(self.moved)


def read(condition, draw):
    features = Stored({"clean": 0.0, "knockout": 0.5}.get(condition, 0.1 * draw))
    if how == "whole":
        features = torch.cat([features[k : k + 1] for k in range(LAYERS)])
    return ids, features


torch.set_num_threads(1)
label = (np.arange(n) % 3 == 0).astype(int)
table = {"id": ids, "question": ids, "subject": ids, "label": label, "dropped": None}
answers = pd.DataFrame(table)
conditions = [("knockout", 0), *(("question", draw) for draw in range(draws))]
settings = {"scoring": "published", "folds": 2, "inner_folds": 2}
found = scores.frames(read, answers, "mlp/final", conditions, settings)
if how == "table":
    found = [pd.concat(found, ignore_index=True)]
write_parquet_parts(found, path)
"""


def live_bytes() -> int:
    """Bytes of all tensors that anything still holds."""
    gc.collect()
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in gc.get_objects()
        if issubclass(type(tensor), torch.Tensor)  # asks no lazy object for its class
    }
    return sum(storages.values())


def most_bytes(loaded, plan) -> int:
    """Most bytes of tensors at the end of any batch, beyond those before the first."""
    before, most = live_bytes(), 0
    for batch, tensors in activations.measure(loaded, plan, ["mlp/final", "attn/final"]):
        assert batch.samples and tensors
        most = max(most, live_bytes() - before)
        del tensors
    return most


def test_passes_keep_nothing_of_the_batches_before(load):
    loaded = load("llama", "metaspace")
    plans = [
        activations.plan(
            answers_table(loaded.tokenizer, CORPUS[:1] * samples),
            conditions={"knockout": {}},
            batch_tokens=200,
        )
        for samples in (8, 64)
    ]
    assert 1 < len(plans[0].batches) < len(plans[1].batches) / 6
    few, many = (most_bytes(loaded, plan) for plan in plans)
    assert 0 < many <= 1.1 * few


def peak(script: str, *given: object) -> int:
    """Peak memory in kB of a process that runs a script."""
    run = subprocess.run(
        [sys.executable, "-c", script + PEAK, *map(str, given)],
        env=os.environ | GIVES_BACK | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return int(run.stdout.split()[-1])


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs Linux's /proc"
)


@needs_proc
def test_eight_times_the_samples_do_not_raise_the_peak_of_the_probes():
    few, many, whole = (
        peak(FIT, samples, how, 8 << 20)
        for samples, how in ((500, "read"), (4000, "read"), (4000, "whole"))
    )
    assert many <= 1.1 * few
    assert whole > 1.1 * few  # the test would see features that are held whole


@needs_proc
def test_as_shipped_the_peak_of_the_probes_grows_by_no_more_than_all_threads_may_hold():
    few, many = (peak(FIT, samples, "read", ABREAST_BYTES) for samples in (500, 4000))
    layer = 4 * 4000 * 96
    assert many - few <= (ABREAST_BYTES + 5 * layer) / 1024


@needs_proc
def test_scoring_eight_times_the_samples_takes_little_beside_their_features(tmp_path):
    features = 64 * 768 * 4 * (1000 - 125) / 1024
    few, many, whole = (
        peak(SCORE, samples, 1, how, tmp_path / "table")
        for samples, how in ((125, "read"), (1000, "read"), (1000, "whole"))
    )
    assert many - few < 0.5 * features
    assert whole - few > features  # the test would see features that are held whole


@needs_proc
def test_sixty_times_the_conditions_do_not_raise_the_peak_of_scoring(tmp_path):
    few, many, whole = (
        peak(SCORE, 125, draws, how, tmp_path / "table")
        for draws, how in ((1, "read"), (60, "read"), (60, "table"))
    )
    assert many <= 1.1 * few
    assert whole > 1.15 * few  # the test would see a table that is held whole
