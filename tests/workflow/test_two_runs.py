"""A job that outlives its run, a second run beside it, and interruptions: nothing is lost."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from workflow import Workspace, said

from anchorscope.storage import provenance
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_parquet
from anchorscope.workflow.interrupted import products, resume as resuming
from anchorscope.workflow.stage import stage

CELL = "tiny-llama/tiny-world"
PRODUCT = f"results/activations/{CELL}"
RESUME = resuming.MODULE
LATER = ("activations", "scores", "probes", "delta_p", "tables", "figures")
SLOW = """

_quick = save


def save(tensors, path, **notes):
    import time

    time.sleep(0.7)
    with open("saved", "a") as file:
        file.write(path.name + "\\n")
    _quick(tensors, path, **notes)
"""
"""Batches take some time from then on, and are named in the run's folder."""


class Wildcards(dict[str, str]):
    """A job's wildcards: a dict whose keys are also attributes."""

    def __getattr__(self, name: str) -> str:
        if name not in self:
            raise AttributeError(name)
        return self[name]


def job(root: Path, name: str = "d") -> SimpleNamespace:
    """A job of the rule `activations`, as scripts and the DAG have it."""
    product = f"{root}/activations/m/{name}"
    cell = Wildcards(model="m", dataset=name)
    output = [product, f"{product}.provenance.json"]
    return SimpleNamespace(
        rule="activations", wildcards=cell, input=[], output=output, log=[], params={}
    )


@pytest.mark.parametrize("rule", ["activations", "train"])
def test_a_run_is_refused_while_a_job_of_another_makes_its_product(
    tmp_path: Path, rule: str
) -> None:
    mine, other = job(tmp_path), job(tmp_path, "d2")
    if rule == "train":
        made = str(tmp_path / "models/m")
        mine = SimpleNamespace(**vars(mine) | {"rule": rule, "output": [made]})
        mine.wildcards = Wildcards(model="m")
    with stage(mine):
        products.refuse_held([other])
        with pytest.raises(AnchorscopeError, match=mine.output[0]) as caught:
            products.refuse_held([other, mine])
    for part in (f"process {os.getpid()} on ", "model m", "same command again"):
        assert part in str(caught.value)
    products.refuse_held([other, mine])


@pytest.mark.parametrize(("same", "made"), [(True, True), (False, True), (True, False)])
def test_a_job_that_waited_does_only_what_the_other_has_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: bool, made: bool
) -> None:
    mine, ran = job(tmp_path), []

    @contextlib.contextmanager
    def waited(product: str) -> Iterator[bool]:
        """While this waits, the other process makes the product."""
        if made:
            Path(product).mkdir(parents=True)
            identity = provenance.identity(mine) if same else "other"
            provenance.record(product, identity=identity, settings={})
        yield True

    monkeypatch.setattr(products, "locked", waited)
    with contextlib.ExitStack() as stack:
        if same and made:
            stack.enter_context(pytest.raises(SystemExit, match="0"))
        stack.enter_context(stage(mine))
        ran.append(True)
    assert ran == ([] if same and made else [True])
    assert Path(mine.output[0]).exists() == made


def test_a_job_whose_input_another_run_deleted_says_so_and_is_no_bug(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, given = job(tmp_path), tmp_path / "scores.parquet"
    given.touch()
    mine.input = [given]
    with pytest.raises(SystemExit) as ended, stage(mine):
        given.unlink()
        read_parquet(given)
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert f"where: {given}" in said and "another run" in said and "Traceback" not in said


class Run:
    """A run in a process group of its own."""

    def __init__(self, clone: Workspace) -> None:
        files = ("--configfile", "config.yaml", "overlay.yaml")
        command = [sys.executable, "-m", "snakemake", "--cores", "1", PRODUCT, *files]
        self.clone, self.said = clone, clone.root / "said"
        with self.said.open("w") as file:
            self.process = subprocess.Popen(
                command, cwd=clone.root, env=clone.environment(),
                stdout=file, stderr=file, start_new_session=True,
            )  # fmt: skip

    def until(self, happened: Callable[[], Any], seconds: float = 120.0) -> None:
        deadline = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < deadline, self.said.read_text()
            time.sleep(0.1)

    def end(self) -> str:
        """Wait until the process ends, and return its output."""
        self.process.wait(120)
        return self.said.read_text()


@pytest.fixture
def clone(tiny_run: Workspace, tmp_path: Path) -> Iterator[Workspace]:
    """A run in which activations come next, and take long."""
    copy = tiny_run.copy(tmp_path / "clone")
    for name in LATER:
        shutil.rmtree(copy.results / name)
    (copy.root / "overlay.yaml").write_text(yaml.safe_dump(copy.overlay), encoding="utf-8")
    library = copy.root / "anchorscope/storage/partial.py"
    library.write_text(library.read_text("utf-8") + SLOW, encoding="utf-8")
    yield copy
    if process := survivor(copy):
        os.kill(process, signal.SIGKILL)


def batches(clone: Workspace) -> list[str]:
    folder = (clone.root / PRODUCT).parent / ".partial"
    return sorted(path.name for path in folder.rglob("batch-*.safetensors"))


def survivor(clone: Workspace) -> int | None:
    """The process that makes the activations, if one does."""
    holder = products.holder(clone.root / PRODUCT)
    return int(holder.split()[1]) if holder else None


def killed(clone: Workspace) -> Run:
    """A run of which Snakemake was killed while its job measures; the job lives on."""
    run = Run(clone)
    run.until(lambda: len(batches(clone)) > 1)
    run.process.kill()
    run.process.wait()
    assert survivor(clone)
    return run


@pytest.mark.long
@pytest.mark.parametrize("unlocked", [False, True])
def test_a_second_run_leaves_the_job_of_a_killed_one_alone(
    clone: Workspace, unlocked: bool
) -> None:
    killed(clone)
    first = survivor(clone)
    if unlocked:  # as by the end of any other run in the folder
        shutil.rmtree(clone.root / ".snakemake/locks")
    text = Run(clone).end()
    assert "Error in rule" not in text
    said = [PRODUCT, f"process {first} "] if unlocked else ["LockException"]
    assert all(part in text for part in said)
    refused = clone.run(PRODUCT, module=RESUME)
    assert refused.returncode == 1 and PRODUCT in refused.stderr
    assert f"kill {first}" in refused.stderr and RESUME in refused.stderr
    assert survivor(clone) == first


@pytest.mark.long
@pytest.mark.parametrize("ends", ["killed", "finished", "finished, and a rerun fails"])
def test_what_a_job_did_that_outlived_its_run_is_not_done_again(
    clone: Workspace, ends: str
) -> None:
    run = killed(clone)
    process = survivor(clone)
    if ends == "killed":
        os.kill(process or 0, signal.SIGKILL)
    run.until(lambda: not resuming.owners(clone.root))
    kept = batches(clone)
    assert (clone.root / PRODUCT).exists() == (ends != "killed")
    if ends == "finished, and a rerun fails":
        script = clone.root / "scripts/activations.py"
        whole = script.read_text("utf-8")
        script.write_text(whole.replace("    partial.publish", "    raise OSError\n    print"))
        assert clone.run(PRODUCT, module=RESUME).returncode and not (clone.root / PRODUCT).exists()
        assert batches(clone) == kept
        script.write_text(whole, encoding="utf-8")
    said(clone.run(PRODUCT, module=RESUME))
    saved = (clone.root / "saved").read_text().split()
    assert len(saved) == len({*saved}) or ends == "killed"  # the batch in flight comes twice
    assert {*kept} <= {*saved} and len(saved) <= len({*saved}) + 1
    assert (clone.root / PRODUCT / "index.parquet").exists()


@pytest.mark.long
def test_a_rerun_that_fails_loses_no_finished_product_and_a_forced_one_measures_anew(
    clone: Workspace,
) -> None:
    clone.build(PRODUCT)
    saved = (clone.root / "saved").read_text()
    script = clone.root / "scripts/activations.py"
    whole = script.read_text("utf-8")
    failing = whole.replace("    activations.write", "    raise OSError\n    activations.write")
    assert failing != whole
    script.write_text(failing, "utf-8")
    assert clone.run(PRODUCT, change={"readouts": ["mlp/final"]}).returncode
    assert not (clone.root / PRODUCT).exists()
    script.write_text(whole, encoding="utf-8")
    clone.build(PRODUCT)
    assert (clone.root / PRODUCT / "index.parquet").exists()
    assert (clone.root / "saved").read_text() == saved
    clone.build(PRODUCT, "--force")
    assert (clone.root / "saved").read_text() == saved * 2


@pytest.mark.long
@pytest.mark.parametrize("interrupt", [os.killpg, os.kill])
def test_an_interrupted_run_ends_soon_and_says_how_it_goes_on(
    clone: Workspace, interrupt: Callable[[int, int], None]
) -> None:
    run = Run(clone)
    run.until(lambda: len(batches(clone)) > 1)
    begin = time.monotonic()
    interrupt(run.process.pid, signal.SIGINT)
    text = run.end()
    assert time.monotonic() - begin < 10
    assert (
        text.splitlines()[-1]
        == "interrupted; add --rerun-incomplete to the same command to continue"
    )
    assert "Traceback" not in text and survivor(clone) is None
    kept = batches(clone)
    clone.build(PRODUCT)
    saved = (clone.root / "saved").read_text().split()
    assert len(kept) > 1 and all(saved.count(name) == 1 for name in kept)
