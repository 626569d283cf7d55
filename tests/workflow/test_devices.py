"""Which device a job takes, and how it says how far it is."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow import devices


@pytest.mark.parametrize(
    ("nodes", "visible", "expected"), [(2, None, 2), (2, "-1", 0), (4, "0,2,3", 3), (0, "0", 0)]
)
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


@pytest.mark.parametrize("wanted", ["cuda", "auto"])
@pytest.mark.parametrize(("here", "job"), [(0, "17"), (2, None)])
def test_a_gpu_that_was_due_and_cannot_be_used_is_refused(monkeypatch, wanted, here, job):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(devices, "gpus_here", lambda: here)
    monkeypatch.delenv(devices.ON_CPU, raising=False)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    if job:
        monkeypatch.setenv("SLURM_JOB_ID", job)
    with pytest.raises(AnchorscopeError, match="asks for a GPU.*finds none") as caught:
        devices.best_device(wanted)
    assert "gpus: 0" in str(caught.value) and devices.ON_CPU in str(caught.value)
    assert ("SLURM job 17" in str(caught.value)) == (job is not None)
    assert devices.best_device("cpu") == "cpu"
    monkeypatch.setenv(devices.ON_CPU, "1")
    assert devices.best_device(wanted) == "cpu"


ON_A_TERMINAL = """
import io, sys
from types import SimpleNamespace
from anchorscope.storage.progress import Progress
from anchorscope.workflow import stage

out, sys.stderr = sys.stdout, io.StringIO()
sys.stderr.isatty = lambda: True
cell = {"root": "results", "model": "m", "dataset": "d"}
job = SimpleNamespace(rule="scores", input=[], output=[], log=[sys.argv[1]], wildcards=cell)
with stage.stage(job):
    stage.log.info("begins")
    with Progress(total=4, delay=0, ncols=80) as progress:
        progress.update(4)
        list(Progress(range(5), unit="parts"))
out.write(sys.stderr.getvalue())
"""


def test_a_terminal_shows_one_bar_a_job_and_the_log_has_lines(tmp_path):
    # In a process of its own, as a job is: bars and loggers belong to the whole process.
    command = [sys.executable, "-c", ON_A_TERMINAL, str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    shown, lines = done.stdout, (tmp_path / "log").read_text("utf-8")
    assert "begins" in shown and "scores m d: 100%" in shown and "4 of 4" not in shown
    assert "begins" in lines and "scores m d: 4 of 4 samples" in lines
    assert "parts" not in shown + lines, "parts are silent while the whole is open"
