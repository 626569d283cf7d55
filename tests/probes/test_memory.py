"""Memory of scoring does not grow with the features of the samples: layers are read in blocks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""Memory that was freed is not kept for later: else the peak depends on the order of sizes."""
PEAK = """
status = Path("/proc/self/status").read_text().splitlines()
print(next(line for line in status if line.startswith("VmHWM")).split()[1])
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
n, how, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
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
conditions = [("knockout", 0), ("question", 0)]
settings = {"scoring": "published", "folds": 2, "inner_folds": 2}
found = scores.frames(read, answers, "mlp/final", conditions, settings)
write_parquet_parts(found, path)
"""


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


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_scoring_eight_times_the_samples_takes_little_beside_their_features(tmp_path: Path) -> None:
    features = 64 * 768 * 4 * (1000 - 125) / 1024
    few, many, whole = (
        peak(SCORE, samples, how, tmp_path / "table")
        for samples, how in ((125, "read"), (1000, "read"), (1000, "whole"))
    )
    assert many - few < 0.5 * features
    assert whole - few > features  # the test would see features that are held whole
