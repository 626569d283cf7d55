"""Runs that are killed, cut off or damaged: a clear end, and the same tables after."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from workflow import Workspace, call

CELL = "tiny-llama/tiny-world"
TABLE = "results/tables/tiny.csv"
CHAIN = ("answers", "activations", "scores", "delta_p", "tables")
TOKEN = "hf_PlantedInEveryRunOfTheFaults"
"""In the environment of every run; it must turn up nowhere."""

KILL = """
import os, signal
from anchorscope.storage import partial

_save, _left = partial.save, [3]


def _killed(*given, **more):
    if not _left[0]:
        os.killpg(0, signal.SIGKILL)
    _left[0] -= 1
    _save(*given, **more)


partial.save = _killed
"""
"""Ends the whole run, Snakemake too, as its job is about to write the fourth batch."""

FILL = """
with open("results/ballast", "wb", buffering=0) as _taken:
    try:
        while True:
            _taken.write(bytes(4096))
    except OSError:
        pass
"""


def run(clone: Workspace, *words: str, module: str = "snakemake") -> tuple[int, str]:
    """Run to the end in a process group of its own: the exit code, and what was said."""
    (clone.root / "overlay.yaml").write_text(yaml.safe_dump(clone.overlay), encoding="utf-8")
    environment = clone.environment() | {"HF_TOKEN": TOKEN}
    files = ("--configfile", "config.yaml", "overlay.yaml")
    done = call(clone.root, environment, *words, *files, module=module, alone=True)
    return done.returncode, done.stdout + done.stderr


def clear(text: str, *named: str) -> bool:
    """Whether a message says all this, and no traceback of ours is seen."""
    return all(part in text for part in named) and "anchorscope failed" not in text


def before(finished: Workspace, root: Path, stage: str) -> Workspace:
    """A copy in which this stage comes next."""
    clone = finished.copy(root)
    for name in (*CHAIN[CHAIN.index(stage) :], "figures"):
        shutil.rmtree(clone.results / name)
    return clone


def put_first(clone: Workspace, stage: str, code: str) -> None:
    """Let a stage begin with this code."""
    script = clone.root / "scripts" / f"{stage}.py"
    text = script.read_text(encoding="utf-8")
    script.write_text(text.replace('"""\n', f'"""\n{code}', 1), encoding="utf-8")


def same_tables(clone: Workspace, finished: Workspace) -> bool:
    made = {path.name: path for path in (finished.results / "tables").glob("tiny*.csv")}
    return bool(made) and all(
        (clone.results / "tables" / name).read_bytes() == path.read_bytes()
        for name, path in made.items()
    )


def batches(folder: Path) -> dict[str, int]:
    """Finished batches and when they were written, in nanoseconds."""
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("batch-*.safetensors")}


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Put a folder, with what it holds, onto a disk of 64 MB."""
    aside = folder.with_name(folder.name + ".aside")
    folder.rename(aside)
    folder.mkdir()
    try:
        mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
        try:
            shutil.copytree(aside, folder, symlinks=True, dirs_exist_ok=True)
            yield
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
    finally:
        shutil.rmtree(aside)


@pytest.mark.parametrize(
    ("stage", "product"),
    [("answers", f"answers/{CELL}.parquet"), ("activations", f"activations/{CELL}")],
)
def test_a_killed_run_ends_with_the_same_tables_and_repeats_no_finished_batch(
    tiny_run: Workspace, tmp_path: Path, stage: str, product: str
) -> None:
    clone = before(tiny_run, tmp_path / "clone", stage)
    put_first(clone, stage, KILL)
    assert run(clone, TABLE)[0] < 0
    kept = batches(clone.results / ".partial")
    assert len(kept) == 3 and not (clone.results / product).exists()
    assert "cannot be locked" in run(clone, TABLE)[1]
    shutil.copy2(tiny_run.root / f"scripts/{stage}.py", clone.root / "scripts")
    code, text = run(clone, f"results/{product}", module="anchorscope.workflow.resume")
    assert code == 0, text
    after = batches(clone.results / ".partial")
    assert len(after) > len(kept) and {name: after[name] for name in kept} == kept
    code, text = run(clone, TABLE)
    assert code == 0, text
    assert same_tables(clone, tiny_run)
    assert not batches(clone.results / ".partial")
    held = [path for path in clone.root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path for path in held if TOKEN.encode() in path.read_bytes()] == []


def test_a_disk_that_fills_up_is_named_and_loses_nothing(
    tiny_run: Workspace, tmp_path: Path
) -> None:
    clone = before(tiny_run, tmp_path / "clone", "scores")
    with small_disk(clone.results):
        put_first(clone, "scores", FILL)
        code, text = run(clone, TABLE)
        assert code != 0 and clear(text, "the disk is full", "rule scores", "#disk-full"), text
        assert not [p for p in (clone.results / "scores").rglob("*") if p.is_file()]
        (clone.results / "ballast").unlink()
        shutil.copy2(tiny_run.root / "scripts/scores.py", clone.root / "scripts")
        code, text = run(clone, TABLE)
        assert code == 0 and same_tables(clone, tiny_run), text


@pytest.mark.parametrize(
    ("product", "next_stage"),
    [
        (f"answers/{CELL}.parquet", "activations"),
        (f"activations/{CELL}/batch-00001.safetensors", "scores"),
    ],
)
def test_a_damaged_product_is_refused_by_name(
    tiny_run: Workspace, tmp_path: Path, product: str, next_stage: str
) -> None:
    clone = before(tiny_run, tmp_path / "clone", next_stage)
    path = clone.results / product
    content, times = path.read_bytes(), path.stat()
    path.write_bytes(content[: len(content) // 2])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    code, text = run(clone, TABLE)
    assert code != 0
    assert clear(text, "cannot read the", product, "delete it", "#unreadable-product"), text
