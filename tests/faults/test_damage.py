"""Products damaged on the disk: found before a number is made of them, named, and made anew."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.conftest import Ledger
from faults.harness import (
    CELL,
    FULL,
    LATER,
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
    with (
        ledger.entering(f"batch {damage.__name__}") as entry,
        world.before("scores", tmp_path / "clone") as clone,
    ):
        folder = clone.results / "activations" / CELL
        before = batches(clone)
        damaged(folder / "batch-00002.safetensors", damage)
        code, text = run(clone)
        named = code != 0 and "batch-00002" in text and "anchorscope failed" not in text
        finish(clone)
        after = batches(clone)
        anew = sorted(name for name, at in after.items() if before[name] != at)
        entry.lost = max(0, len(anew) - 1)
        assert named, text
        assert anew == ["batch-00002.safetensors"]
        assert tables(clone) == world.tables


@pytest.mark.skipif(not FULL, reason="make test-all runs it")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_batch_of_an_unfinished_job_is_made_anew(
    world: World, ledger: Ledger, tmp_path: Path, damage: Damage
) -> None:
    with (
        ledger.entering(f"batch {damage.__name__}") as entry,
        world.before("activations", tmp_path / "clone") as clone,
    ):
        trial = Trial("activations", Moment(batches=3), sigkill)
        kept = disturb(world, clone, trial)
        assert kept
        name = sorted(kept)[0]
        (path,) = (clone.results / ".partial").glob(f"activations*/{name}")
        damaged(path, damage)
        text = finish(clone)
        after = batches(clone)
        anew = sorted(one for one, at in kept.items() if after[one] != at)
        entry.lost = max(0, len(anew) - 1)
        assert anew == [name] and name in text
        assert tables(clone) == world.tables


@pytest.mark.skipif(not FULL, reason="make test-all runs it")
def test_a_damaged_batch_of_a_shared_cell_is_made_anew_by_its_own_job(
    world: World, ledger: Ledger, tmp_path: Path
) -> None:
    shared = {"models": {"tiny": {"resources": {"shards": 2}}}}
    with (
        ledger.entering("batch flipped, of a shard") as entry,
        world.before("answers", tmp_path / "clone") as clone,
    ):
        folder = clone.results / "activations" / CELL
        finish(clone, str(folder.relative_to(clone.root)), change=shared)
        before = batches(clone)
        damaged(folder / "batch-00002.safetensors", flipped)
        code, text = run(clone, change=shared)
        told = finish(clone, change=shared)
        after = batches(clone)
        anew = sorted(name for name, at in after.items() if before[name] != at)
        entry.lost = max(0, len(anew) - 1)
        assert code != 0 and "batch-00002" in text, text
        assert anew == ["batch-00002.safetensors"]
        assert told.count("measuring") == 2, "one shard, and putting them together"
        assert tables(clone) == world.tables


PRODUCTS = {
    f"answers/{CELL}.parquet": "activations",
    f"scores/{CELL}.parquet": "delta_p",
    f"scores/{CELL}.text.parquet": "delta_p",
    f"delta_p/{CELL}.csv": "table",
    f"delta_p/{CELL}.controls.csv": "table",
    "models/tiny.json": "answers",
    "data/rows.parquet": "prompts",
}
"""Product → the stage that reads it next."""
CURVE, SECOND = f"delta_p/{CELL}.csv", f"delta_p/{CELL}.controls.csv"
CASES = [(name, flipped) for name in PRODUCTS] + [(CURVE, truncated)]


@pytest.mark.parametrize(("product", "damage"), CASES if FULL else [(SECOND, flipped)])
def test_a_damaged_product_is_named_and_made_anew_once_it_is_deleted(
    world: World, ledger: Ledger, tmp_path: Path, product: str, damage: Damage
) -> None:
    with (
        ledger.entering(f"product {damage.__name__}"),
        world.before(PRODUCTS[product], tmp_path / "clone") as clone,
    ):
        path = clone.results / product
        damaged(path, damage)
        code, text = run(clone)
        named = code != 0 and product in text and "#unreadable-product" in text
        remove(path)
        finish(clone)
        assert named, text
        assert tables(clone) == world.tables


@pytest.mark.parametrize("damage", DAMAGES if FULL else [flipped])
def test_damaged_weights_are_named_before_they_are_loaded(
    world: World, ledger: Ledger, tmp_path: Path, damage: Damage
) -> None:
    """A flipped bit among them would load like any other."""
    with (
        ledger.entering(f"weights {damage.__name__}"),
        world.before("answers", tmp_path / "clone") as clone,
    ):
        weights = clone.results / "models" / "tiny" / "model.safetensors"
        whole, times = weights.read_bytes(), weights.stat()
        damaged(weights, damage)
        code, text = run(clone)
        assert code != 0 and "not what was located" in text and weights.name in text, text
        weights.write_bytes(whole)
        os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
        finish(clone)
        assert tables(clone) == world.tables


ELSEWHERE = {
    *("answers_shard", "activations_shard"),
    *("calibration_cell", "calibration_table", "calibration_figure", "null_controls"),
    *("refits_table", "reproduction_table"),
}
"""Rules that test_more_kills.py kills."""
UNDISTURBED = {
    "sensitivity_table": "a second of joining tables, as `calibration_table`; for its inputs five "
    "more studies would be measured",
}
"""Rules that no fault is injected into, and why."""
_RULE = re.compile(
    r"^(?:use rule \w+ as |rule )(\w+)(?: with)?:\n((?:[ \t].*\n|\n)*)", re.MULTILINE
)


def test_every_stage_is_disturbed_or_named_with_a_reason() -> None:
    """A new rule that makes a product must be put into one of the tables."""
    folder = Path(__file__).parents[2] / "rules"
    found = [m for path in folder.glob("*.smk") for m in _RULE.finditer(path.read_text())]
    making = {rule[1] for rule in found if re.search(r"^ +output:", rule[2], re.MULTILINE)}
    assert "table" in making and "retrain" not in making
    tables = ({*STAGES, *LATER}, ELSEWHERE, {*UNDISTURBED})
    assert making == set.union(*tables) and len(making) == sum(map(len, tables))
