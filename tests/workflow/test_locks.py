"""The lock of a cell's job: held by one process, named while it lives, gone when it dies."""

import errno
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from anchorscope.workflow.interrupted import products

HOLD = """
import sys, time
from anchorscope.workflow.interrupted import products

print("begins", flush=True)
with products.locked(sys.argv[1]) as waited:
    print(waited, flush=True)
    time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def product(tmp_path: Path) -> Path:
    return tmp_path / "activations/m/d"


@pytest.fixture
def hold(tmp_path: Path, product: Path) -> Iterator[Callable[[float], subprocess.Popen[str]]]:
    """`hold(seconds)`: a process that holds the lock of `product`, or waits for it, and says so."""
    begun = []

    def begin(seconds: float) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOLD, str(product), str(seconds)]
        begun.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert said(begun[-1]) == "begins"
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.wait()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_lock_names_its_process(product):
    assert products.holder(product) is None
    with products.locked(product) as waited:
        assert not waited
        assert str(products.holder(product)).startswith("process ")
        assert products.holder(product.with_name("d2")) is None
    assert products.holder(product) is None


def test_a_killed_process_holds_nothing(product, hold):
    first = hold(60)
    assert said(first) == "False"
    assert f"process {first.pid} on " in str(products.holder(product))
    first.kill()
    first.wait()
    assert products.lock_of(product).exists()
    assert products.holder(product) is None
    with products.locked(product) as waited:
        assert not waited


def test_the_next_ones_wait_and_hold_it_one_after_the_other(product, hold):
    first = hold(60)
    assert said(first) == "False"
    others = [hold(0.5), hold(0.5)]
    time.sleep(0.5)  # until both wait
    first.kill()
    begin = time.monotonic()
    assert [said(other) for other in others] == ["True", "True"]
    assert all(other.wait() == 0 for other in others)
    assert time.monotonic() - begin >= 1.0


def test_a_run_on_a_disk_without_locks_is_warned_and_no_job_waits(
    tmp_path, product, monkeypatch, capsys
):
    products.warn_without_locks(tmp_path)
    assert capsys.readouterr().err == ""
    no_locks = OSError(errno.ENOLCK, "No locks available")
    monkeypatch.setattr(products.fcntl, "flock", Mock(side_effect=no_locks))
    products.warn_without_locks(tmp_path)
    told = capsys.readouterr().err
    assert "warning: " in told and "start no other run" in told and "#no-locks" in told
    with products.locked(product) as waited, products.locked(product) as too:
        assert (waited, too) == (False, False) and products.holder(product) is None
