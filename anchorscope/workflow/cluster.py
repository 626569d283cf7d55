"""SLURM: where jobs go, whether the cluster can give it, and what an earlier run left there.

The profile `slurm/config.yaml` says where jobs go (`Site`), `demand` how much they
need, and `check` compares both with what the cluster reports before the first job is queued.
"""

from __future__ import annotations

import difflib
import getpass
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anchorscope.storage.errors import AnchorscopeError

PROFILE = "slurm/config.yaml"


@dataclass(frozen=True)
class Site:
    """The lines of the profile that a user edits; None where left out."""

    partition: str | None = None
    gpu_partition: str | None = None
    gpu_type: str | None = None
    max_runtime: int | None = None
    max_mem_gb: int | None = None

    def partition_of(self, gpus: int) -> str | None:
        """The partition of a job; None for the cluster's default."""
        return (self.gpu_partition or self.partition) if gpus else self.partition


def site(default_resources: Mapping[str, Any] | None) -> Site:
    """The profile's own lines, from Snakemake's default resources.

    Raises:
        AnchorscopeError: a limit that is no whole number.
    """
    given = {name: _raw(value) for name, value in (default_resources or {}).items()}
    text = {name: str(value) for name, value in given.items() if value not in (None, "")}
    return Site(
        text.get("slurm_partition"),
        text.get("gpu_partition"),
        text.get("gpu_type"),
        _limit(text, "max_runtime", "minutes, two days as 2880"),
        _limit(text, "max_mem_gb", "GB"),
    )


def _limit(text: Mapping[str, str], name: str, unit: str) -> int | None:
    said = text.get(name)
    if said is None or re.fullmatch(r"0*[1-9]\d*", said):
        return None if said is None else int(said)
    raise AnchorscopeError(
        f"`{name}: {said}` is not a whole number above 0",
        PROFILE,
        f"write it in {unit}",
        see="slurm-profile",
    )


def _raw(value: Any) -> Any:
    """A value as it stands in the profile, out of the quotes that keep it from being evaluated."""
    written = getattr(value, "raw", value)
    return written.strip("'\"") if isinstance(written, str) else written


@dataclass(frozen=True)
class Ask:
    """What one job will ask sbatch for; None where it leaves the choice to the cluster.

    `members` of the workflow's jobs are done in it: several in a group.
    """

    job: str
    partition: str | None = None
    gpus: int = 0
    gpu_type: str | None = None
    cpus: int = 1
    mem_mb: int | None = None
    runtime: int | None = None
    members: int = 1


@dataclass(frozen=True)
class Nodes:
    """Equal nodes of one partition. `limit` in minutes, None for none; `gpus`: type → count."""

    partition: str
    default: bool
    limit: int | None
    cpus: int
    mem_mb: int
    gpus: Mapping[str, int]

    def gpus_of(self, kind: str | None) -> int:
        """How many GPUs a job of one type could get on one node; of any type for None."""
        if kind is None:
            return max(self.gpus.values(), default=0)
        return {name.lower(): count for name, count in self.gpus.items()}.get(kind.lower(), 0)


def nodes_here() -> list[Nodes]:
    """The cluster's partitions and nodes, as `sinfo` tells them.

    Raises:
        AnchorscopeError: there is no SLURM here, or it does not answer.
    """
    said = _ask_slurm("sinfo", "--noheader", "--exact", "--all", "--format=%P|%l|%c|%m|%G")
    return [_nodes(line) for line in said.splitlines() if line.count("|") == 4]


def _nodes(line: str) -> Nodes:
    name, limit, cpus, memory, gres = (part.strip() for part in line.split("|"))
    return Nodes(
        name.rstrip("*"),
        name.endswith("*"),
        minutes(limit),
        _int(cpus),
        _int(memory),
        gpus_in(gres),
    )


def _int(text: str) -> int:
    return int(re.sub(r"\D", "", text) or 0)


def gpus_in(gres: str) -> dict[str, int]:
    """GPUs in a list of generic resources: `gpu:h200:4(S:0-1),tmp:10` → {"h200": 4}."""
    found: dict[str, int] = {}
    for part in re.sub(r"\([^)]*\)", "", gres).split(","):
        if match := re.fullmatch(r"gpu(?::([^:]*[^:\d][^:]*))?(?::(\d+))?", part.strip()):
            kind = match[1] or ""
            found[kind] = found.get(kind, 0) + int(match[2] or 1)
    return found


def minutes(limit: str) -> int | None:
    """SLURM's time limits: `1-12:00:00`, `8:00:00`, `30:00`, `infinite`."""
    if not re.search(r"\d", limit):
        return None
    days, _, rest = limit.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    hours, mins = (parts[0], parts[1]) if len(parts) == 3 else (0, parts[0])
    return int(days or 0) * 1440 + hours * 60 + mins


def check(asks: Iterable[Ask], nodes: list[Nodes]) -> None:
    """Refuse, before the queue, what the cluster could never run.

    Raises:
        AnchorscopeError: a partition that does not exist, or none of whose nodes has the GPUs, the
            memory, the cores or the time that a job asks for; one message for all jobs alike.
    """
    wrong: dict[tuple[str, str, str], list[str]] = {}
    for ask in asks:
        if mistake := _mistake(ask, nodes):
            wrong.setdefault(mistake, []).append(ask.job)
    for (what, where, do), jobs in wrong.items():
        more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        raise AnchorscopeError(what, f"{where}; {jobs[0]}{more}", do, see="slurm-profile")


def _mistake(ask: Ask, nodes: list[Nodes]) -> tuple[str, str, str] | None:
    """What no node can give, where, and what to do about it."""
    names = sorted({group.partition for group in nodes})
    if ask.partition is None:
        there = [group for group in nodes if group.default]
        if not there:
            do = f"set slurm_partition in {PROFILE} to one of: {', '.join(names)}"
            return "this cluster has no default partition", PROFILE, do
    else:
        there = [group for group in nodes if group.partition in ask.partition.split(",")]
    key = "gpu_partition" if ask.gpus else "slurm_partition"
    if not there:
        close = difflib.get_close_matches(str(ask.partition), names, n=1)
        hint = f"did you mean `{close[0]}`?" if close else f"use one of: {', '.join(names)}"
        return f"there is no partition `{ask.partition}` here", f"{PROFILE}, {key}", hint
    return _too_much(ask, there, key, nodes)


def _too_much(
    ask: Ask, there: list[Nodes], key: str, nodes: list[Nodes]
) -> tuple[str, str, str] | None:
    where = f"{PROFILE}, {key}; partition {there[0].partition}"
    if ask.gpus:
        kind = f"{ask.gpu_type} GPU" if ask.gpu_type else "GPU"
        fit = [group for group in there if group.gpus_of(ask.gpu_type) >= ask.gpus]
        if not fit:
            number = f"{ask.gpus} {kind}s" if ask.gpus > 1 else f"a {kind}"
            return f"no node of this partition has {number}", where, _where_gpus(nodes)
        there = fit
    for name, wanted, has in (
        ("MB of memory", ask.mem_mb, max(group.mem_mb for group in there)),
        ("cores", ask.cpus, max(group.cpus for group in there)),
    ):
        if wanted and wanted > has:
            what = f"a job asks for {wanted} {name}, no node that fits has more than {has}"
            return what, where, "choose another partition, or lower the model's `resources`"
    limits = [group.limit for group in there]
    if ask.runtime and None not in limits and ask.runtime > (longest := max(map(_known, limits))):
        does, fewer = "a job asks", ""
        if ask.members > 1:
            does = f"a group of {ask.members} jobs, whose times are added up, asks"
            fewer = ", put fewer into `group-components`"
        what = f"{does} for {ask.runtime} minutes, this partition allows {longest}"
        do = f"set max_runtime: {longest} in {PROFILE}{fewer}, or choose another partition"
        return what, where, do
    return None


def _known(limit: int | None) -> int:
    return limit or 0


def _where_gpus(nodes: list[Nodes]) -> str:
    """Which partition has which GPUs, as advice."""
    there = sorted(
        {
            f"{group.partition} ({count} {kind or 'untyped'} a node)"
            for group in nodes
            for kind, count in group.gpus.items()
        }
    )
    if not there:
        return "this cluster has none: give the model `gpus: 0`, or run elsewhere"
    return f"set gpu_partition and gpu_type in {PROFILE}; GPUs are in: {', '.join(there)}"


def check_status_command(command: str | None, config: str, first_check: int) -> None:
    """Refuse a status command with which a run would wait for ever.

    Args:
        command: `squeue` or `sacct`.
        config: what `scontrol show config` says.
        first_check: seconds until a job is first asked for.

    Raises:
        AnchorscopeError: `sacct` without accounting, or `squeue` where jobs are forgotten too soon.
    """
    known = dict(re.findall(r"^(\w+)\s*=\s*(.*?)\s*$", config, re.MULTILINE))
    key = f"{PROFILE}, slurm-status-command"
    if command == "sacct" and known.get("AccountingStorageType", "").endswith("/none"):
        what = "this cluster keeps no accounts of jobs, so `sacct` would be waited for in vain"
        raise AnchorscopeError(what, key, "set it to squeue", see="slurm-profile")
    age = _int(known.get("MinJobAge", "300").split()[0])
    if command == "squeue" and age < 3 * first_check:
        what = f"this cluster forgets a finished job after {age} s, too soon for `squeue`"
        do = f"set it to sacct, or slurm-init-seconds-before-status-checks to {max(1, age // 3)}"
        raise AnchorscopeError(what, key, do, see="slurm-profile")


def before_queue(
    asks: Iterable[Ask],
    status_command: str | None,
    first_check: int,
    max_mem_gb: int | None = None,
) -> None:
    """All that can be known before the first job is queued; called once, when a run starts.

    Args:
        asks: what the jobs will ask for.
        status_command, first_check: see `check_status_command`.
        max_mem_gb: the most that a node gives, where that is less than it has.

    Raises:
        AnchorscopeError: see `check`, `check_status_command`; or an earlier run's jobs still run.
    """
    if left := orphans(Path.cwd()):
        raise AnchorscopeError(
            f"{len(left)} jobs of an earlier run are still in the queue and would write the same"
            " files",
            f"{Path.cwd()}, job {', '.join(job.id for job in left[:5])}",
            "make resume PROFILE=slurm, which cancels them and goes on",
            see="jobs-in-the-queue",
        )
    check_status_command(status_command, _ask_slurm("scontrol", "show", "config"), first_check)
    nodes = nodes_here()
    if max_mem_gb:
        nodes = [replace(node, mem_mb=min(node.mem_mb, 1000 * max_mem_gb)) for node in nodes]
    check(asks, nodes)


def asks_of(jobs: Iterable[Any], group_of: Callable[[Any], Any] = lambda job: None) -> list[Ask]:
    """What Snakemake's jobs will ask for; those that run locally left out.

    Args:
        jobs: of the workflow.
        group_of: the group with which a job is submitted; None for a job by itself.
    """
    submitted = dict.fromkeys(group_of(job) or job for job in jobs)
    return [_ask(job) for job in submitted if not job.is_local]


def _ask(job: Any) -> Ask:
    """Of a job, or of a group, whose times and memory Snakemake has put together."""
    given = {name: value for name, value in job.resources.items() if value not in (None, "")}

    def number(name: str) -> int | None:
        # Not known yet while an input is missing.
        return given[name] if isinstance(given.get(name), int) else None

    members = list(job.jobs) if job.is_group() else [job]
    rules = ", ".join(sorted({member.rule.name for member in members}))
    cell = ", ".join(f"{name} {value}" for name, value in members[0].wildcards_dict.items())
    return Ask(
        (f"rule {rules}" if len(members) == 1 else f"{len(members)} jobs of the rules {rules}")
        + (f", {cell}" if cell else ""),
        str(given["slurm_partition"]) if "slurm_partition" in given else None,
        number("gpu") or 0,
        str(given["gpu_model"]) if "gpu_model" in given else None,
        job.threads,
        number("mem_mb"),
        number("runtime"),
        len(members),
    )


@dataclass(frozen=True)
class Queued:
    """A job in the queue: its id, and the run (`name`) that submitted it."""

    id: str
    name: str


def run_ids(text: str) -> list[str]:
    """The ids of the cluster runs that one of Snakemake's logs tells of."""
    return re.findall(r"^SLURM run ID: (\S+)$", text, re.MULTILINE)


def logs(folder: Path) -> list[str]:
    """Snakemake's logs of the runs in `folder`, the last one last; those a lock turned away left
    out."""
    paths = sorted((folder / ".snakemake" / "log").glob("*.snakemake.log"))
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in paths]
    return [text for text in texts if text and "LockException" not in text]


def orphans(folder: Path) -> list[Queued]:
    """Jobs in the queue that an earlier run in `folder` submitted.

    Raises:
        AnchorscopeError: the last run was on a cluster, and SLURM is not here or not answering.
    """
    texts = logs(folder)
    ids = {name for text in texts for name in run_ids(text)}
    # A folder that has moved on to a machine of its own needs no SLURM any more.
    if not ids or (shutil.which("squeue") is None and not run_ids(texts[-1])):
        return []
    said = _ask_slurm("squeue", "--noheader", f"--user={getpass.getuser()}", "--format=%i|%j")
    jobs = [Queued(*line.strip().split("|", 1)) for line in said.splitlines() if "|" in line]
    return [job for job in jobs if job.name in ids]


def cancel_orphans(folder: Path, patience: float = 180.0) -> list[Queued]:
    """Cancel what an earlier run left in the queue, and wait until its last process is gone.

    Returns:
        The jobs cancelled.

    Raises:
        AnchorscopeError: SLURM does not answer, or the jobs do not end in `patience` seconds.
    """
    left = found = orphans(folder)
    deadline = time.monotonic() + patience
    for name in sorted({job.name for job in found}):
        _ask_slurm("scancel", f"--user={getpass.getuser()}", f"--name={name}")
    while left:
        if time.monotonic() > deadline:
            raise AnchorscopeError(
                f"{len(left)} jobs of an earlier run do not end",
                f"job {', '.join(job.id for job in left[:5])}",
                "see `squeue --me`; once they are gone, run `make resume PROFILE=slurm` again",
                see="jobs-in-the-queue",
            )
        time.sleep(1.0)
        left = orphans(folder)
    return found


def _ask_slurm(*command: str) -> str:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=60
        ).stdout
    except FileNotFoundError:
        what, said = f"there is no SLURM on this machine (no `{command[0]}`)", ""
    except subprocess.TimeoutExpired:
        what, said = "SLURM does not answer", "no answer in a minute"
    except subprocess.CalledProcessError as error:
        what, said = "SLURM does not answer", error.stderr.strip()
    where = f"`{command[0]}`" + (f": {said}" if said else "")
    do = "run it where `sinfo` works, a login node; or without --profile slurm"
    raise AnchorscopeError(what, where, do, see="slurm-profile")
