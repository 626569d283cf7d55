"""Scorers that are linear in hidden states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

    from anchorscope.detectors.method import Samples


@dataclass(frozen=True)
class LinearScorer:
    """A logit that is linear in the states of some layers of a read-out."""

    readout: str
    layers: tuple[int, ...]
    weights: np.ndarray  # float64 [layers, width]
    bias: float

    def score(self, samples: Samples) -> np.ndarray:
        """Return the logits of *wrong*, float64 [n]."""
        states = samples.states[self.readout]
        return self.of_states([states[layer : layer + 1][0] for layer in self.layers])

    def of_states(self, states: Sequence[np.ndarray | torch.Tensor]) -> np.ndarray:
        """Return the logits from the states of each layer, [n, width] each."""
        terms = [as_array(x) @ weights for x, weights in zip(states, self.weights, strict=True)]
        return np.sum(terms, axis=0) + self.bias


def as_array(states: np.ndarray | torch.Tensor) -> np.ndarray:
    """Return states as a float64 array."""
    if not isinstance(states, np.ndarray):  # a tensor, maybe bfloat16 on a GPU
        return states.detach().double().cpu().numpy()
    return states.astype(np.float64)
