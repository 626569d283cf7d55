"""Activations on disk: the same numbers as all at once, and no more held than allowed."""

import json
from pathlib import Path

import pytest
import torch

from anchorscope.passes import activations
from anchorscope.passes.features import StoredStates, at, reordered
from anchorscope.storage import partial
from anchorscope.storage.errors import AnchorscopeError

LAYERS, SAMPLES, WIDTH = 7, 12, 4
IDS = [f"id {place}" for place in range(SAMPLES)]
NAME = "clean.0/mlp.final"
LAYER_BYTES = 4 * SAMPLES * WIDTH
PLACES = [[3, 0, 7], [1, 2, 11, 10, 4], [5, 6, 9, 8]]


@pytest.fixture
def whole() -> torch.Tensor:
    draws = torch.Generator().manual_seed(0)
    return torch.randn(LAYERS, SAMPLES, WIDTH, generator=draws)


@pytest.fixture
def folder(whole: torch.Tensor, tmp_path: Path) -> Path:
    """The samples in three files, each with one row that is nobody's, and a file of others."""
    for number, places in enumerate(PLACES):
        rows = whole[:, places].transpose(0, 1)
        tensor = torch.cat([torch.full((1, LAYERS, WIDTH), torch.nan), rows]).contiguous()
        ids = json.dumps(["nobody", *(IDS[place] for place in places)])
        partial.save({NAME: tensor}, partial.batch(tmp_path, number), ids=ids)
    partial.save({"noop.0/mlp.final": tensor}, partial.batch(tmp_path, 3), ids="[]")
    return tmp_path


def stored(folder: Path, layers_held: float = 100) -> StoredStates:
    return StoredStates.find(folder, NAME, IDS, block_bytes=int(layers_held * LAYER_BYTES))


@pytest.mark.parametrize("layers_held", [0.5, 1, 2, 3, 100])
def test_layers_are_what_was_written_however_few_are_held(
    whole: torch.Tensor, folder: Path, layers_held: float
) -> None:
    found = stored(folder, layers_held)
    assert len(found) == LAYERS and found.shape == whole.shape
    asked = [slice(0, 1), slice(2, 3), slice(1, 4), slice(None), slice(6, 7), slice(0, 2)]
    for layers in [*asked, slice(3, 3), slice(-1, None)]:
        assert torch.equal(found[layers], whole[layers])
    assert torch.equal(at(found, [5, 0, 2]), whole[[5, 0, 2]])


def test_states_and_samples_that_are_in_no_file_are_refused(folder: Path) -> None:
    with pytest.raises(AnchorscopeError, match="was not measured"):
        StoredStates.find(folder, "random.0/mlp.final", IDS)
    with pytest.raises(AnchorscopeError, match="holds the states of 1 samples, such as id 99"):
        StoredStates.find(folder, NAME, [*IDS, "id 99"])
    with pytest.raises(AnchorscopeError, match="there is no read-out 'mlp/fina'"):
        activations.read(folder, "mlp/fina", "clean")


def test_reordered_features_come_in_the_order_asked_for(whole: torch.Tensor) -> None:
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(0))
    found = reordered(whole, order.numpy())
    assert found.shape == whole.shape and torch.equal(found[2:4], whole[2:4][:, order])
