"""Features that are not all held at once."""

import torch


class Held:
    """Features of which two layers are held at once; notes which layers are asked for."""

    layers_at_once = 2

    def __init__(self, x: torch.Tensor, asked: list[int]) -> None:
        self.x, self.shape, self.asked = x, x.shape, asked

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, layers: slice) -> torch.Tensor:
        some = range(len(self.x))[layers]
        assert len(some) <= self.layers_at_once
        self.asked += some
        return self.x[layers]
