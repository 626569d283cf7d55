"""Rate and time left: of what this process did."""

import time
from pathlib import Path

import torch

from anchorscope.storage import partial
from anchorscope.storage.progress import Progress


def rows(folder: Path, number: int) -> None:
    def slow() -> dict[str, torch.Tensor]:
        time.sleep(0.02)
        return {"x": torch.zeros(1)}

    partial.once(partial.batch(folder, number), slow, "samples")


def test_batches_of_an_earlier_process_change_neither_rate_nor_time_left(tmp_path: Path) -> None:
    for number in range(0, 30, 3):
        rows(tmp_path, number)
    with Progress(total=300) as progress:
        for number in range(30):
            rows(tmp_path, number)
            progress.update(10)
        state = progress.format_dict
    assert state["n"] == 300 and state["initial"] == 100
    rate = (state["n"] - state["initial"]) / state["elapsed"]
    assert state["rate"] is None and rate <= 500  # 20 ms for 10 rows
