"""Choose the device of a job: the CPU or GPUs. Prefer GPUs that no other job has taken."""

import logging
import os
import re
import tempfile
from pathlib import Path

from filelock import FileLock, Timeout

from anchorscope.storage.errors import AnchorscopeError

ON_CPU = "ANCHORSCOPE_CPU"
"""Environment variable: 1 makes every job run on the CPU, whatever it requests."""

log = logging.getLogger(__name__)

_held: list[FileLock] = []  # locks on the GPUs taken by this process, held until it ends


def gpus_here(devices: Path = Path("/dev")) -> int:
    """Count the NVIDIA GPUs that this process may use, without loading torch."""
    present = sum(bool(re.fullmatch(r"nvidia\d+", path.name)) for path in devices.glob("nvidia*"))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return present
    names = [name for name in visible.split(",") if name.strip() not in ("", "-1")]
    return min(present, len(names))


def best_device(wanted: str, gpus: int = 1) -> str:
    """Choose a job's device: the CPU, one GPU (`cuda:1`), several (`auto:0,2`) or all (`auto`).

    `wanted` is `cpu`, `cuda` for one GPU, or `auto` to spread the layers over `gpus` GPUs.

    Raises:
        AnchorscopeError: SLURM gave the job a GPU, or the machine has one, but torch cannot use it.
    """
    import torch

    if wanted == "cpu" or os.environ.get(ON_CPU) == "1":
        return "cpu"
    if not torch.cuda.is_available():
        _refuse_unusable_gpus(str(torch.__version__))
        log.warning("no GPU here: this runs on the CPU, which may take days for a large model")
        return "cpu"
    if wanted == "cuda":
        return f"cuda:{_chosen(1)[0]}"
    chosen = sorted(_chosen(gpus))
    everything = len(chosen) == torch.cuda.device_count()
    return "auto" if everything else "auto:" + ",".join(map(str, chosen))


def _chosen(number: int) -> list[int]:
    """Choose `number` GPUs. Prefer GPUs no other job has taken, then GPUs with more free memory."""
    import torch

    free = [torch.cuda.mem_get_info(i)[0] for i in range(torch.cuda.device_count())]
    order = sorted(range(len(free)), key=lambda i: -free[i])
    chosen = list[int]()
    for i in order:
        # Jobs that start together see the same free memory, so each job locks the GPUs it takes.
        if len(chosen) < number and _take(str(torch.cuda.get_device_properties(i).uuid)):
            chosen.append(i)
    return [*chosen, *(i for i in order if i not in chosen)][:number]


def _take(name: str) -> bool:
    """Take a GPU for this process. Return whether it was free."""
    lock = FileLock(Path(tempfile.gettempdir()) / f"anchorscope-{os.getuid()}-{name}.guard")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    _held.append(lock)
    return True


def _refuse_unusable_gpus(torch_version: str) -> None:
    """Raise an error if torch ought to find a GPU: in a SLURM job, or on a machine with GPUs."""
    job = os.environ.get("SLURM_JOB_ID")
    if not job and not gpus_here():
        return
    what = f"this job requests a GPU, but torch {torch_version} finds no GPU that it can use"
    do = (
        "check `nvidia-smi` on that machine, and gpu_partition and gpu_type in slurm/config.yaml; "
        f"to use the CPU, give the model `resources: {{gpus: 0}}`, or set {ON_CPU}=1"
    )
    where = os.uname().nodename + (f", SLURM job {job}" if job else "")
    raise AnchorscopeError(what, where, do, see="no-gpu")
