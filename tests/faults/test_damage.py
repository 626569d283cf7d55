"""Products damaged on the disk: found before a number is made of them, named, and made anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.conftest import Ledger
from faults.harness import (
    CELL,
    FULL,
    STAGES,
    Moment,
    Trial,
    World,
    batches,
    disturb,
    finish,
    remove,
    run,
    sigkill,
    tables,
)


def truncated(path: Path) -> None:
    """Cut short, as by a disk that was full or a copy that broke off."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])


def flipped(path: Path) -> None:
    """One bit flipped, in the last tenth: among the numbers, not in a header."""
    content = bytearray(path.read_bytes())
    content[-len(content) // 10] ^= 16
    path.write_bytes(content)


DAMAGES = [truncated, flipped]
Damage = Callable[[Path], None]


def damaged(path: Path, damage: Damage) -> None:
    """Damage a file; its times stay, as they do when a disk fails."""
    before = path.stat()
    damage(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("damage", DAMAGES if FULL else [flipped])
def test_a_damaged_batch_is_named_and_it_alone_made_anew(
    world: World, ledger: Ledger, tmp_path: Path, damage: Damage
) -> None:
    """Of finished activations: their times are as they were, so nothing reruns them by itself."""
    with world.before("scores", tmp_path / "clone") as clone:
        folder = clone.results / "activations" / CELL
        before = batches(clone)
        damaged(folder / "batch-00002.safetensors", damage)
        code, text = run(clone)
        named = code != 0 and "batch-00002" in text and "anchorscope failed" not in text
        finish(clone)
        after = batches(clone)
        anew = sorted(name for name, at in after.items() if before[name] != at)
        same = tables(clone) == world.tables
        lost = max(0, len(anew) - 1)
        ledger.add(f"batch {damage.__name__}", survived=named and same, lost=lost)
        assert named, text
        assert anew == ["batch-00002.safetensors"]
        assert same


@pytest.mark.skipif(not FULL, reason="make test-faults runs it")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_batch_of_an_unfinished_job_is_made_anew(
    world: World, ledger: Ledger, tmp_path: Path, damage: Damage
) -> None:
    with world.before("activations", tmp_path / "clone") as clone:
        trial = Trial("activations", Moment(batches=3), sigkill)
        kept = disturb(world, clone, trial)
        assert kept
        name = sorted(kept)[0]
        (path,) = (clone.results / ".partial").glob(f"activations*/{name}")
        damaged(path, damage)
        text = finish(clone)
        after = batches(clone)
        anew = sorted(one for one, at in kept.items() if after[one] != at)
        same = tables(clone) == world.tables
        survived = same and name in text
        ledger.add(f"batch {damage.__name__}", survived=survived, lost=max(0, len(anew) - 1))
        assert anew == [name] and name in text
        assert same


PRODUCTS = {
    f"answers/{CELL}.parquet": "activations",
    f"scores/{CELL}.parquet": "delta_p",
    f"delta_p/{CELL}.csv": "table",
    "models/tiny.json": "answers",
    "data/rows.parquet": "prompts",
}
"""Product → the stage that reads it next."""
CURVE = f"delta_p/{CELL}.csv"
CASES = [(name, flipped) for name in PRODUCTS] + [(CURVE, truncated)]


@pytest.mark.parametrize(("product", "damage"), CASES if FULL else [(CURVE, flipped)])
def test_a_damaged_product_is_named_and_made_anew_once_it_is_deleted(
    world: World, ledger: Ledger, tmp_path: Path, product: str, damage: Damage
) -> None:
    with world.before(PRODUCTS[product], tmp_path / "clone") as clone:
        path = clone.results / product
        damaged(path, damage)
        code, text = run(clone)
        named = code != 0 and product in text and "#unreadable-product" in text
        remove(path)
        finish(clone)
        same = tables(clone) == world.tables
        ledger.add(f"product {damage.__name__}", survived=named and same)
        assert named, text
        assert same


def test_every_stage_is_disturbed() -> None:
    """The table of stages is the workflow's: a new one between them must be put in."""
    rules = {path.stem for path in (Path(__file__).parents[2] / "rules").glob("*.smk")}
    assert set(STAGES) <= rules
