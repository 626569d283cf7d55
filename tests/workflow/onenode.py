"""A real SLURM cluster of one node on this machine: own daemons, own folder, GPUs that are none.

Needs Debian's packages slurmctld, slurmd, slurm-client and munge; no root, no systemd, no
database. Everything that it starts is a child of this process or bears its token.
"""

import ctypes
import getpass
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "munged", "sinfo", "srun")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
TOKEN = "ONENODE_CLUSTER"

SLURM_CONF = (Path(__file__).parents[1] / "data" / "slurm.conf").read_text(encoding="utf-8")

ASKED = (
    "Partition TimeLimit MinMemoryNode NumNodes NumTasks CPUs/Task"
    " ReqTRES TresPerNode TresPerJob TresPerTask NtasksPerTRES"
).split()
"""All that a job asks for, by the names of `scontrol`."""

# Snakemake's job step drops SLURM_CONF, which a cluster outside /etc/slurm needs.
SRUN = """\
#!/bin/sh
export SLURM_CONF={conf}
exec {srun} "$@"
"""


def missing() -> list[str]:
    """Programs that are needed and not installed."""
    return [name for name in PROGRAMS if not shutil.which(name, path=PATH)]


@dataclass(frozen=True)
class Job:
    """A job as SLURM remembers it."""

    id: str
    run: str
    what: str
    state: str
    partition: str
    mem_mb: int
    gpus: int
    asked: tuple[str, ...]


@dataclass(frozen=True)
class OneNode:
    """The running cluster."""

    root: Path
    token: str
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to use this cluster."""
        conf, path = f"{self.root}/slurm.conf", f"{self.root}/bin:{PATH}"
        return {"SLURM_CONF": conf, "PATH": path, TOKEN: self.token}

    def ask(self, *command: str) -> str:
        """What a SLURM command says."""
        environment = os.environ | self.environment
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    def queue(self) -> list[str]:
        """Ids of the jobs that wait, run, or are about to end."""
        return self.ask("squeue", "--noheader", "--format=%i").split()

    def stop(self, jobs: Sequence[str]) -> None:
        """Let jobs stand where they are: none starts, and none ends unless it is cancelled."""
        environment = os.environ | self.environment
        for job in jobs:  # one of the two refuses, by whether the job has started
            for command in (["scontrol", "hold"], ["scancel", "--full", "--signal=STOP"]):
                subprocess.run([*command, job], env=environment, capture_output=True, check=False)

    def preempt(self) -> None:
        """Run a job that needs the whole node and goes before all others, to its end."""
        self.ask("srun", "--partition=urgent", "--cpus-per-task=4", "--time=1", "true")

    def forget(self) -> None:
        """Start the controller anew, without its memory of jobs."""
        controller = self.daemons.pop(1)
        controller.terminate()
        controller.wait(60)
        _daemon(self, "slurmctld", "-D", "-c", "-f", f"{self.root}/slurm.conf")
        wait(lambda: _state(self) == "idle", 300, f"the node; see {self.root}/log")

    def jobs(self) -> list[Job]:
        """All jobs since the start."""
        said = self.ask("scontrol", "show", "job", "--details", "--oneliner")
        return [_job(line) for line in said.splitlines() if line.startswith("JobId=")]

    def processes(self) -> list[int]:
        """Ids of the live processes that the cluster, or a run on it, started."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                ours = f"{TOKEN}={self.token}".encode() in (folder / "environ").read_bytes()
            except OSError:
                continue
            if ours and int(folder.name) != os.getpid():
                found.append(int(folder.name))
        return found


def _job(line: str) -> Job:
    def value(key: str, otherwise: str = "") -> str:
        match = re.search(rf"(?:^| ){key}=(\S*)", line)
        return match[1] if match else otherwise

    memory = value("MinMemoryNode", "0")
    gpus = re.search(r" JOB_GRES=gpu(?::[a-z]\w*)?:(\d+)", line)
    return Job(
        *map(value, ("JobId", "JobName", "Comment", "JobState", "Partition")),
        int(float(memory.rstrip("GM")) * (1024 if memory[-1] == "G" else 1)),
        int(gpus[1]) if gpus else 0,
        tuple(map(value, ASKED)),
    )


@contextmanager
def running(root: Path) -> Iterator[OneNode]:
    """The cluster, from its first daemon to its last; its processes are gone afterwards."""
    cluster = OneNode(root, secrets.token_hex(8))
    _write(cluster)
    try:
        _start(cluster)
        yield cluster
    finally:
        _stop(cluster)


def _write(cluster: OneNode) -> None:
    root, host = cluster.root, socket.gethostname().split(".")[0]
    for name in ("munge", "ctld", "slurmd", "log", "bin"):
        (root / name).mkdir(parents=True, mode=0o700)
    key = root / "munge" / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    conf, ports = root / "slurm.conf", _free_ports()
    known = {"host": host, "user": getpass.getuser(), "root": root, "ports": ports}
    conf.write_text(SLURM_CONF.format(**known, last_port=ports[2] + 60))
    gpus = [f"NodeName={host} Name=gpu Type=fake File=/dev/{one}\n" for one in ("null", "zero")]
    (root / "gres.conf").write_text("".join(gpus))
    srun = root / "bin" / "srun"
    srun.write_text(SRUN.format(conf=conf, srun=shutil.which("srun", path=PATH)))
    srun.chmod(0o755)


def _free_ports() -> tuple[int, int, int]:
    """Two ports for the daemons, and the first of a range for steps."""
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1], 20000 + secrets.randbelow(9000)


def _start(cluster: OneNode) -> None:
    munge, conf = cluster.root / "munge", str(cluster.root / "slurm.conf")
    names = {"socket": "munge.sock", "key-file": "munge.key", "pid-file": "munged.pid"}
    names |= {"log-file": "munged.log", "seed-file": "munged.seed"}
    options = [f"--{option}={munge / name}" for option, name in names.items()]
    _daemon(cluster, "munged", "-F", "--force", *options)
    wait(lambda: (munge / "munge.sock").exists(), 120, "munged")
    _daemon(cluster, "slurmctld", "-D", "-f", conf)
    _daemon(cluster, "slurmd", "-D", "-f", conf, "-N", socket.gethostname().split(".")[0])
    wait(lambda: _state(cluster) == "idle", 300, f"the node; see {cluster.root}/log")


def _daemon(cluster: OneNode, name: str, *arguments: str) -> None:
    with open(cluster.root / "log" / f"{name}.out", "wb") as out:
        cluster.daemons.append(
            subprocess.Popen(
                [name, *arguments],
                env=os.environ | cluster.environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        )


def _end_with_parent() -> None:
    """Ask the kernel for a SIGTERM once this test process is gone, however it went."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _state(cluster: OneNode) -> str:
    try:
        return cluster.ask("sinfo", "--noheader", "--format=%T").split()[0]
    except (subprocess.CalledProcessError, IndexError):
        return "unknown"


def _stop(cluster: OneNode) -> None:
    """End jobs, then daemons, the last started first, then what is left."""
    if len(cluster.daemons) == 3:
        with suppress(subprocess.CalledProcessError, TimeoutError):
            cluster.ask("scancel", f"--user={getpass.getuser()}")
            wait(lambda: not cluster.queue(), 120, "an empty queue")
    for daemon in reversed(cluster.daemons):
        daemon.terminate()
        try:
            daemon.wait(60)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
    for process in cluster.processes():
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def wait(until: Callable[[], object], seconds: float, what: str) -> None:
    """Wait until something holds.

    Raises:
        TimeoutError: it does not, in so many seconds.
    """
    deadline = time.monotonic() + seconds
    while not until():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.2)
