"""Test which device a job takes."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow import devices


@pytest.mark.parametrize(("nodes", "visible", "expected"), [(2, None, 2), (4, "0,2,3", 3)])
def test_gpus_are_counted_as_cuda_shows_them(tmp_path, monkeypatch, nodes, visible, expected):
    for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{i}" for i in range(nodes))):
        (tmp_path / name).touch()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert devices.gpus_here(tmp_path) == expected


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three GPUs, the last with the most free memory."""
    import torch

    monkeypatch.delenv(devices.ON_CPU, raising=False)
    for name, does in {
        "is_available": lambda: True,
        "device_count": lambda: 3,
        "mem_get_info": lambda i: ((5, 4, 9)[i], 10),
        "get_device_properties": lambda i: SimpleNamespace(uuid=f"gpu-{i}"),
    }.items():
        monkeypatch.setattr(torch.cuda, name, does)
    monkeypatch.setattr(devices.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(devices, "_held", [])


@pytest.mark.usefixtures("gpus")
def test_jobs_that_start_together_take_different_gpus():
    taken = [devices.best_device("cuda") for _ in range(3)]
    assert taken == ["cuda:2", "cuda:0", "cuda:1"]
    assert devices.best_device("cuda") == "cuda:2"  # all are taken: the most free memory
    assert devices.best_device("cpu") == "cpu"
    for lock in devices._held:
        lock.release()
    assert devices.best_device("auto", 2) == "auto:0,2"
    assert devices.best_device("cuda") == "cuda:1", "a job of several leaves the others alone"
    assert devices.best_device("auto", 3) == devices.best_device("auto", 4) == "auto"


@pytest.mark.parametrize(("here", "job", "wanted"), [(0, "17", "cuda"), (2, "", "auto")])
def test_a_gpu_that_was_due_and_cannot_be_used_is_refused(monkeypatch, wanted, here, job):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(devices, "gpus_here", lambda: here)
    monkeypatch.delenv(devices.ON_CPU, raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", job)
    with pytest.raises(AnchorscopeError, match="requests a GPU.*finds no GPU") as caught:
        devices.best_device(wanted)
    assert "gpus: 0" in str(caught.value) and devices.ON_CPU in str(caught.value)
    assert ("SLURM job 17" in str(caught.value)) == bool(job)
    assert devices.best_device("cpu") == "cpu"
    monkeypatch.setenv(devices.ON_CPU, "1")
    assert devices.best_device(wanted) == "cpu"
