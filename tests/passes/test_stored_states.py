"""Activations on disk: the same numbers as all at once, and no more held than allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from anchorscope.passes.features import Reordered, at
from anchorscope.passes.stored import Rows, Stored
from anchorscope.storage import partial
from anchorscope.storage.errors import AnchorscopeError

LAYERS, SAMPLES, WIDTH = 7, 12, 4
IDS = [f"id {place}" for place in range(SAMPLES)]
LAYER_BYTES = 4 * SAMPLES * WIDTH


@pytest.fixture
def whole() -> torch.Tensor:
    draws = torch.Generator().manual_seed(0)
    return torch.randn(LAYERS, SAMPLES, WIDTH, generator=draws)


@pytest.fixture
def batches(whole: torch.Tensor, tmp_path: Path) -> list[Rows]:
    """The samples in three files, each with one row that is nobody's."""
    found = []
    for number, places in enumerate([[3, 0, 7], [1, 2, 11, 10, 4], [5, 6, 9, 8]]):
        rows = whole[:, places].transpose(0, 1)
        tensor = torch.cat([torch.full((1, LAYERS, WIDTH), torch.nan), rows]).contiguous()
        path = partial.batch(tmp_path, number)
        signed = partial.signature(["nobody", *map(str, places)])
        partial.save({"clean.0/mlp.final": tensor}, path, samples=signed)
        found.append(Rows(path, [*range(1, len(places) + 1)], places, signed))
    return found


@pytest.mark.parametrize("layers_held", [0.5, 1, 2, 3, 100])
def test_layers_are_what_was_written_however_few_are_held(
    whole: torch.Tensor, batches: list[Rows], layers_held: float
) -> None:
    held = int(layers_held * LAYER_BYTES)
    stored = Stored("clean.0/mlp.final", batches, IDS, block_bytes=held)
    assert len(stored) == LAYERS and stored.shape == whole.shape
    asked = [slice(0, 1), slice(2, 3), slice(1, 4), slice(None), slice(6, 7), slice(0, 2)]
    for layers in [*asked, slice(3, 3), slice(-1, None)]:
        assert torch.equal(stored[layers], whole[layers])
    assert torch.equal(at(stored, [5, 0, 2]), whole[[5, 0, 2]])


def test_no_more_is_read_and_held_than_the_block(
    batches: list[Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    plain = Stored._read

    def noted(stored: Stored, start: int, stop: int) -> torch.Tensor:
        read.append(stop - start)
        return plain(stored, start, stop)

    monkeypatch.setattr(Stored, "_read", noted)
    stored = Stored("clean.0/mlp.final", batches, IDS, block_bytes=3 * LAYER_BYTES)
    for layer in range(LAYERS):
        stored[layer : layer + 1]
        assert stored._block is not None and stored._block.nbytes <= 3 * LAYER_BYTES
    assert read == [3, 3, 1]  # no layer twice


def test_a_file_of_other_samples_or_of_nobody_knows_whom_is_refused(
    batches: list[Rows], tmp_path: Path
) -> None:
    aside, one, two = tmp_path / "aside", batches[0].path, batches[2].path
    one.rename(aside)
    two.rename(one)
    aside.rename(two)
    with pytest.raises(AnchorscopeError, match="not of the samples") as caught:
        Stored("clean.0/mlp.final", batches, IDS)
    assert caught.value.where == one
    partial.save({"clean.0/mlp.final": torch.ones(4, LAYERS, WIDTH)}, one)
    with pytest.raises(AnchorscopeError, match="not of the samples"):
        Stored("clean.0/mlp.final", batches, IDS)


def test_a_file_that_was_cut_short_is_found_before_any_layer_is_read(batches: list[Rows]) -> None:
    batches[1].path.write_bytes(batches[1].path.read_bytes()[:-3])
    with pytest.raises(AnchorscopeError, match="cannot read the batch"):
        Stored("clean.0/mlp.final", batches, IDS)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_states_that_are_no_numbers_are_named_by_sample_and_layer(
    batches: list[Rows], value: float
) -> None:
    """No stage of ours has written them."""
    name, path = "clean.0/mlp.final", batches[1].path
    states = partial.read(path)[name]
    states[3, 4, 1] = value
    partial.save({name: states}, path, samples=batches[1].samples)
    stored = Stored(name, batches, IDS, block_bytes=2 * LAYER_BYTES)
    assert len(stored[0:4]) == 4
    with pytest.raises(AnchorscopeError, match="sample id 11 is not finite at layer 4") as caught:
        stored[4:5]
    assert caught.value.where == path


def test_reordered_features_come_in_the_order_asked_for(whole: torch.Tensor) -> None:
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(0))
    reordered = Reordered(whole, order)
    assert reordered.shape == whole.shape and torch.equal(reordered[2:4], whole[2:4][:, order])
