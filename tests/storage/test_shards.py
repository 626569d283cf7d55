"""A part of a product that is lost is made again by the job that made it, and by no other."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from anchorscope.storage import checksums, partial, provenance, shards
from anchorscope.storage.errors import AnchorscopeError

PARTS = 3


def job(rule: str, *inputs: Path, **settings: Any) -> SimpleNamespace:
    """A job, as provenance sees it."""
    return SimpleNamespace(rule=rule, input=[*map(str, inputs)], params=settings, output=[])


@pytest.fixture
def parted(tmp_path: Path) -> tuple[Path, list[Path]]:
    """A product of five batches and an index, put together of three shards; and their folders."""
    folders = [tmp_path / f".shards/activations/m/d/{n + 1}-of-{PARTS}" for n in range(PARTS)]
    for number, folder in enumerate(folders):
        for at in range(5)[2 * number : 2 * number + 2]:
            partial.save({"x": torch.full((2,), at)}, partial.batch(folder, at))
        (folder / "index.parquet").write_text("index")
        waits = partial.place(tmp_path, folder, "f")
        provenance.of_shard(job("activations_shard", seed=1), folder, waits=str(waits))
        checksums.seal([folder, provenance.beside(folder)])
    product = tmp_path / "activations/m/d"
    product.mkdir(parents=True)
    (product / "index.parquet").write_text("index")
    (product / ".snakemake_timestamp").touch()
    partial.take(folders, product)
    whole = job("activations", *folders, seed=1)
    waits = str(partial.place(tmp_path, product, "f"))
    parts = shards.records(folders)
    provenance.of_stage(whole, product, waits=waits, shards=parts)
    return product, folders


def gone(folders: list[Path]) -> None:
    """Snakemake removes what the whole was put together of."""
    for folder in folders:
        shutil.rmtree(folder)
        provenance.beside(folder).unlink()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("hurt", range(5))
def test_a_damaged_batch_is_made_again_by_its_shard_alone(
    parted: tuple[Path, list[Path]], tmp_path: Path, hurt: int
) -> None:
    product, folders = parted
    held = {folder: names(folder) for folder in folders}
    gone(folders)
    damaged = partial.batch(product, hurt)
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    with pytest.raises(partial.Damaged), partial.given_back(product):
        partial.read(damaged)
    assert not product.exists()
    (lost,) = [folder for folder in folders if damaged.name in held[folder]]
    waiting = names(partial.place(tmp_path, lost, "f"))
    assert waiting == [name for name in held[lost] if name != damaged.name]
    assert not lost.exists() and not provenance.beside(lost).exists()
    rest = [folder for folder in folders if folder != lost]
    assert {folder: names(folder) for folder in rest} == {folder: held[folder] for folder in rest}
    checksums.verify(rest)
    provenance.check_shards(job("activations", *rest, seed=1))
    whole = partial.place(tmp_path, product, "f")
    partial.take(rest, whole)
    found = {int(partial.read(path)["x"][0]) for path in whole.glob("batch-*")}
    assert found == set(range(5)) - {hurt}


def test_what_is_of_no_shard_is_of_all_and_no_batch_is_lost(
    parted: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    product, folders = parted
    held = {folder: names(folder) for folder in folders}
    gone(folders)
    assert partial.give_back(product, product / "index.parquet")
    for folder in folders:
        waits = names(partial.place(tmp_path, folder, "f"))
        assert not folder.exists() and waits == [n for n in held[folder] if n != "index.parquet"]


def test_a_batch_damaged_before_it_is_put_together_leaves_the_others_waiting(
    parted: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    _, folders = parted
    damaged = partial.batch(folders[1], 3)
    content = damaged.read_bytes()
    damaged.unlink()
    damaged.write_bytes(content[:-1] + b"x")
    with pytest.raises(partial.Damaged):
        partial.take(folders, tmp_path / "whole")
    assert folders[0].is_dir() and folders[2].is_dir() and not folders[1].exists()
    assert "batch-00002.safetensors" in names(partial.place(tmp_path, folders[1], "f"))


def test_a_shard_of_other_settings_is_refused_and_that_work_was_split_is_no_setting(
    parted: tuple[Path, list[Path]],
) -> None:
    product, folders = parted
    whole = job("activations", *folders, seed=1)
    provenance.check_shards(whole)
    assert provenance.read(product)["identity"] == provenance.identity(job("activations", seed=1))
    assert provenance.read(product)["inputs"] == {}
    with pytest.raises(AnchorscopeError, match="other settings or inputs") as caught:
        provenance.check_shards(job("activations", *folders, seed=2))
    assert caught.value.where == str(folders[0]) and caught.value.see == "stale-product"
