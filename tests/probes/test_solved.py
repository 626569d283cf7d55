"""Blocks of layers that fits are kept by: all layers once, in order, of a size that can be lost."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from anchorscope.probes import solved


@dataclass(frozen=True)
class Shaped:
    """Features of which nobody may ask for one."""

    shape: tuple[int, int, int]
    layers_at_once: int

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, layers: slice) -> torch.Tensor:
        raise AssertionError("features are read by the work alone")


@pytest.mark.parametrize("samples", [0, 100, 2000, 20_000])
@pytest.mark.parametrize("at_once", [1, 5, 32, 99])
@pytest.mark.parametrize("width", [64, 4096])
def test_all_layers_come_once_in_blocks_that_are_soon_solved(
    samples: int, at_once: int, width: int
) -> None:
    x = Shaped((32, samples, width), at_once)
    found = [block.layers for block in solved.blocks(x, "cpu")]
    assert [layer for layers in found for layer in layers] == list(range(32))
    for layers in found:
        assert len(layers) == 1 or 4 * samples * width * len(layers) <= solved.BLOCK_BYTES
        assert layers[0] // at_once == layers[-1] // at_once  # held at once
    if samples == 2000 and width == 4096:
        assert len(found) == 32
    if samples == 100 and width == 64:
        assert len(found) == -(-32 // at_once)


def test_a_gpu_gets_all_that_is_held_at_once() -> None:
    """The size of a block shows in its last digits."""
    found = [block.layers for block in solved.blocks(Shaped((32, 2000, 4096), 12), "cuda:1")]
    assert found == [range(12), range(12, 24), range(24, 32)]
