"""A tiny workflow that is disturbed on purpose: started, watched, killed, and finished again."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from workflow import Workspace, merged, workspace

from anchorscope.workflow.resume import owners

FULL = os.environ.get("FAULTS") == "full"
"""Whether every fault is injected as often as `make test-all` promises."""
SEED = int(os.environ.get("FAULTS_SEED") or random.SystemRandom().randrange(10**6))
CELL = "tiny/rows"
TARGET = "results/tables/tiny.csv"
GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL; a cluster gives thirty."""
PATIENCE = 1800.0
IMPORTS = 2.0
"""Seconds that a job takes at least, whatever it does."""
TOKEN = "hf_PlantedInEveryRunOfTheFaults"
"""In the environment of every run; it must turn up nowhere."""

STAGES = {
    "dataset": ["data"],
    "train": ["models/tiny", "models/.tiny.fresh"],
    "model": ["models/tiny.json", "models/tiny.json.provenance.json"],
    "prompts": ["prompts"],
    "answers": ["answers"],
    "activations": ["activations"],
    "scores": ["scores"],
    "delta_p": ["delta_p"],
    "table": ["tables"],
}
"""Every stage on the way to the table, in running order, with what it leaves in `results`."""

LATER = {
    "refits": ("refits", "results/tables/tiny.refits.csv"),
    "truth": ("truth", "results/truth/tiny/rows.parquet"),
    "figure": ("figure", "results/figures/tiny.vl.json"),
    "view": ("view", "results/figures/tiny.controls.vl.json"),
    "report_page": ("report", "results/report/index.html"),
}
"""Rules that come after the table, each with its script and a file that takes it."""

TINY: dict[str, Any] = {
    "targets": ["tiny"],
    "conditions": {"noop": {"samples": 8}},
    "batch_tokens": 384,
    "bootstrap": {"draws": 20, "min_n": 3, "min_clusters": 2},
    "generation": {"max_new_tokens": 6},
    "probe": {"folds": 2, "inner_folds": 2, "grid": [0.01, 1.0]},
    "models": {
        "tiny": {
            "train": {
                "architecture": "llama",
                "datasets": ["rows"],
                "curriculum": "plain",
                "layers": 2,
                "width": 16,
                "heads": 2,
                "kv_heads": 1,
                "mlp": 32,
                "vocabulary": 300,
                "steps": 500,
                "settle": 0,
                "batch_rows": 16,
            },
            "prompt": "plain",
            "dtype": "float32",
            "resources": {"gpus": 0, "mem_gb": 1, "gpu_mem_gb": 0, "runtime_min": 5},
        }
    },
    "datasets": {
        "rows": {
            "local": "rows.jsonl",
            "fields": {
                "question": "question",
                "answers": ["answer"],
                "subject": "subject",
                "property": "property",
                "response": "response",
            },
        }
    },
    "figures": {"tiny": {"models": ["tiny"], "datasets": ["rows"]}},
}
"""48 questions, a third of them answered by a model of two layers: a minute for all stages."""

FIRST = "Anna Boris Carla Dmitri Eva Farid Greta Hugo Irene Jonas Karin Lucas".split()
LAST = "Lund Orlov Diaz Holm".split()
JOBS = "painter singer lawyer baker pilot doctor".split()


def rows() -> list[dict[str, Any]]:
    """Questions; two of three bring an answer along, as often right as wrong."""
    found = []
    names = [f"{first} {last}" for last in LAST for first in FIRST]
    for number, name in enumerate(names):
        gold, other = (JOBS[(number * 7 + shift) % len(JOBS)] for shift in (0, 1))
        row = {
            "question": f"What is the usual occupation of {name}?",
            "answer": gold,
            "subject": name,
            "property": "occupation",
        }
        given = {"response": gold if number % 2 else other} if number % 3 else {}
        found.append(row | given)
    return found


@dataclass(frozen=True)
class World:
    """A finished, undisturbed run.

    Attributes:
        finished: where it lies; copied, never changed.
        seconds: what each stage took.
        tables: its final tables, to the byte.
    """

    finished: Workspace
    seconds: dict[str, float]
    tables: dict[str, bytes]

    @contextmanager
    def before(self, stage: str, root: Path) -> Iterator[Workspace]:
        """A copy in which this stage comes next; gone afterwards."""
        clone = self.finished.copy(root)
        for name in list(STAGES)[list(STAGES).index(stage) :]:
            for product in STAGES[name]:
                remove(clone.results / product)
        try:
            yield clone
        finally:
            shutil.rmtree(root, ignore_errors=True)


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def undisturbed(root: Path) -> World:
    """Run everything once."""
    made = workspace(root, TINY)
    shutil.rmtree(root / "resources" / "models")
    lines = [json.dumps(row) for row in rows()]
    (root / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    finish(made)
    seconds = {}
    for name in STAGES:
        (path,) = (made.results / "benchmarks" / name).rglob("*.tsv")
        seconds[name] = float(path.read_text(encoding="utf-8").splitlines()[1].split("\t")[0])
    return World(made, seconds, tables(made))


def tables(clone: Workspace) -> dict[str, bytes]:
    """The final tables, to the byte."""
    return {path.name: path.read_bytes() for path in (clone.results / "tables").glob("*.csv")}


def start(
    clone: Workspace,
    *arguments: str,
    module: str = "snakemake",
    change: dict[str, Any] | None = None,
    env: dict[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start the command whose table is compared, in a process group of its own."""
    import yaml

    text = yaml.safe_dump(merged(clone.overlay, change or {}))
    (clone.root / "overlay.yaml").write_text(text, encoding="utf-8")
    words = [*(arguments or (TARGET,)), "--cores", "1", "--nocolor"]
    with (clone.root / "said.txt").open("ab") as said:
        return subprocess.Popen(
            [sys.executable, "-m", module, *words, "--configfile", "config.yaml", "overlay.yaml"],
            cwd=clone.root,
            env=clone.environment() | {"HF_TOKEN": TOKEN} | (env or {}),
            stdout=said,
            stderr=said,
            start_new_session=True,
        )


def run(clone: Workspace, *arguments: str, **more: Any) -> tuple[int, str]:
    """Run the command to its end: its exit code, and what it said."""
    before = len(said(clone))
    code = start(clone, *arguments, **more).wait(PATIENCE)
    return code, said(clone)[before:]


def said(clone: Workspace) -> str:
    """What all commands said here."""
    path = clone.root / "said.txt"
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def finish(clone: Workspace, *arguments: str, **more: Any) -> str:
    """The same command again, or `make resume`'s where a lock was left; it must end well."""
    code, text = run(clone, *arguments, **more)
    if "cannot be locked" in text or "IncompleteFilesException" in text:
        code, text = resume(clone)
    assert code == 0, f"seed {SEED}\n{text[-4000:]}"
    return text


def resume(clone: Workspace) -> tuple[int, str]:
    """`make resume`'s command; while what was left behind still runs it must refuse."""
    deadline = time.monotonic() + PATIENCE
    while True:
        code, text = run(clone, module="anchorscope.workflow.resume")
        if "still going on" not in text or time.monotonic() > deadline:
            return code, text
        assert code != 0
        time.sleep(1)


def go_on(clone: Workspace, *targets: str) -> subprocess.Popen[bytes]:
    """Start the same command again, or `make resume`'s once what was left behind has ended."""
    left = (clone.root / ".snakemake" / kind for kind in ("locks", "incomplete"))
    if not any(any(folder.rglob("*")) for folder in left):
        return start(clone, *targets)
    wait(lambda: not owners(clone.root), "what a killed run left behind")
    return start(clone, *targets, module="anchorscope.workflow.resume")


def wait(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Wait until something is found, and return it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.01)
    raise TimeoutError(f"waited in vain for {what}")


_SCRIPT = re.compile(r"/\.snakemake/scripts/[^/]*\.(\w+)\.py$")


def job(pid: int, stage: str) -> psutil.Process | None:
    """The process of a stage below a Snakemake, None where it does not run."""
    with suppress(psutil.Error):
        for child in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error):
                words = child.cmdline()
                if any((m := _SCRIPT.search(word)) and m[1] == stage for word in words):
                    return child
    return None


KEEPING = {
    "train": ("models", 2),
    "answers": ("answers", 1),
    "activations": ("activations", 6),
    "scores": ("scores", 4),
    "refits": ("refits", 2),
}
"""The stages that keep finished batches: in which folder of `results` their product lies, and how
many batches are surely there before the last."""


def batches(clone: Workspace, stage: str = "activations") -> dict[str, int]:
    """Finished batches, of a finished job or not: name → time of writing, in nanoseconds."""
    found: dict[str, int] = {}
    waiting = (clone.results / ".partial").glob(f"{KEEPING.get(stage, (stage,))[0]}+*")
    for folder in (*waiting, clone.results / stage):
        for path in folder.rglob("batch-*.safetensors"):
            with suppress(FileNotFoundError):  # it was moved to where it belongs meanwhile
                found[path.name] = path.stat().st_mtime_ns
    return found


@contextmanager
def watched(clone: Workspace) -> Iterator[dict[tuple[str, str], int]]:
    """The time of writing last seen of every batch: most go once their product is read."""
    seen: dict[tuple[str, str], int] = {}
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            for stage in KEEPING:
                with suppress(OSError):  # a folder that is moved while it is listed
                    seen.update({(stage, name): at for name, at in batches(clone, stage).items()})

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


@dataclass(frozen=True)
class Moment:
    """When to disturb: after a share of the stage's own time, or once so many batches are there."""

    share: float | None = None
    batches: int | None = None

    def come(
        self, clone: Workspace, stage: str, process: psutil.Process, seconds: float
    ) -> dict[str, int] | None:
        """Wait for it: the batches finished by then, None where the stage had ended before."""
        end = process.create_time() + (self.share or 0) * seconds
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            counted = self.batches is not None and len(batches(clone, stage)) >= self.batches
            if counted or (self.batches is None and time.time() >= end):
                return batches(clone, stage)
            time.sleep(0.002)
        return None


def sigkill(running: subprocess.Popen[bytes], process: psutil.Process) -> None:
    """As the kernel does when memory runs out."""
    process.kill()
    running.wait(PATIENCE)


def sigterm(running: subprocess.Popen[bytes], process: psutil.Process) -> None:
    """As SLURM ends a job: its processes are asked, those that are left are killed."""
    asked(tree(process))
    running.wait(PATIENCE)


def sigterm_all(running: subprocess.Popen[bytes], process: psutil.Process) -> None:
    """The same of a job that Snakemake itself runs in."""
    del process
    asked(tree(psutil.Process(running.pid)))
    running.wait(PATIENCE)


def tree(process: psutil.Process) -> list[psutil.Process]:
    """A process and all below it."""
    with suppress(psutil.Error):
        return [process, *process.children(recursive=True)]
    return []


def asked(processes: Sequence[psutil.Process]) -> None:
    """SIGTERM, a grace period, SIGKILL."""
    for one in processes:
        with suppress(psutil.Error):
            one.terminate()
    _, left = psutil.wait_procs(processes, timeout=GRACE)
    for one in left:
        with suppress(psutil.Error):
            one.kill()


def sigkill_snakemake(running: subprocess.Popen[bytes], process: psutil.Process) -> None:
    """Snakemake alone: its job is left behind and runs on."""
    del process
    first = psutil.Process(running.pid)  # `make resume` starts another
    with suppress(psutil.Error):
        found = [one for one in (first, *first.children()) if "snakemake" in one.cmdline()]
        found[0].kill()
    running.wait(PATIENCE)


Kill = Callable[[subprocess.Popen[bytes], psutil.Process], None]


@dataclass(frozen=True)
class Trial:
    """One disturbance of one stage."""

    stage: str
    moment: Moment
    kill: Kill


def disturb(world: World, clone: Workspace, trial: Trial, *targets: str) -> dict[str, int] | None:
    """Run until the moment, then kill.

    Args:
        targets: what is asked for, if not the table.

    Returns:
        The batches that were finished at that moment, None where the stage had ended before.
    """
    running = go_on(clone, *targets)
    try:
        process = wait(
            lambda: job(running.pid, trial.stage) or running.poll() is not None,
            f"a job of {trial.stage}",
        )
        seconds = world.seconds.get(trial.stage, IMPORTS)
        done = None if process is True else trial.moment.come(clone, trial.stage, process, seconds)
        if done is None:
            running.wait(PATIENCE)
        else:
            trial.kill(running, process)
        return done
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait(PATIENCE)


def disturb_in_time(world: World, clone: Workspace, trial: Trial, target: str) -> dict[str, int]:
    """The same, earlier and anew where the stage had ended before."""
    for _ in range(4):
        done = disturb(world, clone, trial, target)
        if done is not None:
            return done
        remove(clone.root / target)
        trial = earlier(trial)
    raise AssertionError(f"a kill of {trial.stage} came too late (seed {SEED})")


def earlier(trial: Trial) -> Trial:
    """The same disturbance, in half the time."""
    return Trial(trial.stage, Moment((trial.moment.share or 0.5) / 2), trial.kill)


@dataclass(frozen=True)
class Outcome:
    """What a disturbed run came to.

    Attributes:
        trials: what was tried, one after the other.
        hits: for each disturbance whether its stage still ran at the moment chosen.
        same: whether the final tables are those of the undisturbed run, to the byte.
        lost: finished batches that were made again.
        failed: why the run did not finish, empty if it did.
    """

    trials: tuple[Trial, ...]
    hits: tuple[bool, ...]
    same: bool
    lost: int
    failed: str = ""

    @property
    def injected(self) -> list[Trial]:
        """What was done; of a run that failed at least one."""
        found = [trial for trial, hit in zip(self.trials, self.hits, strict=True) if hit]
        return found or [*self.trials[: bool(self.failed)]]

    @property
    def missed(self) -> list[Trial]:
        """What came too late."""
        pairs = zip(self.trials, self.hits, strict=True)
        return [] if self.failed else [trial for trial, hit in pairs if not hit]


def survive(world: World, root: Path, trials: Sequence[Trial]) -> Outcome:
    """Disturb one run, again and again, then let the same command finish.

    What goes wrong on the way is told, not raised: it belongs into the table first.
    """
    hits, kept, failed = list[bool](), dict[tuple[str, str], int](), ""
    with world.before(trials[0].stage, root) as clone, watched(clone) as made:
        try:
            for trial in trials:
                done = disturb(world, clone, trial)
                hits.append(done is not None)
                first = {(trial.stage, name): at for name, at in (done or {}).items()}
                kept = first | kept
            finish(clone)
        except (AssertionError, TimeoutError, subprocess.TimeoutExpired, psutil.Error) as error:
            failed = str(error) or type(error).__name__
            hits += [False] * (len(trials) - len(hits))
        lost = [name for name, at in kept.items() if made.get(name) != at]
        same = not failed and tables(clone) == world.tables
        return Outcome(tuple(trials), tuple(hits), same, len(lost), failed)
