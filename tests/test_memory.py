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

from anchorscope import activations

ROOT = Path(__file__).parents[1]

FIT = """
import sys
from pathlib import Path

import torch

from anchorscope import probes

LAYERS, WIDTH = 64, 96
n = int(sys.argv[1])


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
status = Path("/proc/self/status").read_text().splitlines()
print(next(line for line in status if line.startswith("VmHWM")).split()[1])
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


def peak(samples: int, how: str) -> int:
    """Peak memory in kB of a process that fits probes to so many samples."""
    run = subprocess.run(
        [sys.executable, "-c", FIT, str(samples), how],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return int(run.stdout.split()[-1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_eight_times_the_samples_do_not_raise_the_peak_of_the_probes():
    few, many, whole = peak(500, "read"), peak(4000, "read"), peak(4000, "whole")
    assert many <= 1.1 * few
    assert whole > 1.1 * few  # the test would see features that are held whole
