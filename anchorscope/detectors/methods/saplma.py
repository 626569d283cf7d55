"""SAPLMA: a small network on the states of one layer (Azaria & Mitchell, 2023).

As published: hidden layers of 256, 128 and 64 units with ReLU, Adam, 5 epochs of batches of 32.
States are standardised first: published on one model's raw states, which differ in size.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from anchorscope.detectors.method import Samples, Training
from anchorscope.detectors.methods.probe import by_inner_folds, calibration, headline_layer

HIDDEN = (256, 128, 64)
EPOCHS, BATCH, LEARNING_RATE = 5, 32, 1e-3


@dataclass(frozen=True)
class NetworkScorer:
    """A network on the states of one layer, calibrated."""

    readout: str
    layer: int
    centre: np.ndarray  # of the states, float32 [width]
    scale: np.ndarray  # likewise
    weights: tuple[np.ndarray, ...]  # of each layer, float32 [out, in]
    biases: tuple[np.ndarray, ...]  # float32 [out]
    slope: float
    offset: float

    def score(self, samples: Samples) -> np.ndarray:
        """Logits of *wrong*, float64 [n]."""
        states = samples.states[self.readout][self.layer : self.layer + 1][0]
        return self.of_states(states.float().cpu().numpy())

    def of_states(self, states: np.ndarray) -> np.ndarray:
        """The same of states [n, width] of its layer."""
        x = ((states - self.centre) / self.scale).astype(np.float64)
        for weights, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = np.maximum(x @ weights.T + bias, 0)
        logits = (x @ self.weights[-1].T + self.biases[-1])[:, 0]
        return self.slope * logits + self.offset


def fit(train: Training) -> NetworkScorer:
    """At the probe's headline layer, calibrated by the inner folds."""
    readout, z = train.samples.readout, train.label
    layer = headline_layer(train, readout)
    states = train.samples.states[readout][layer : layer + 1][0].float().to(train.device)
    centre, scale = states.mean(0), states.std(0)
    scale = torch.where(scale > 0, scale, 1.0)
    x = (states - centre) / scale

    def held_out(here: np.ndarray) -> np.ndarray:
        network = _trained(x[~here], z[~here], train.settings.seed)
        with torch.inference_mode():
            return network(x[here])[:, 0].cpu().numpy()

    slope, offset = calibration(train, by_inner_folds(train, held_out))
    whole = [one for one in _trained(x, z, train.settings.seed) if isinstance(one, nn.Linear)]
    return NetworkScorer(
        readout,
        layer,
        centre.cpu().numpy(),
        scale.cpu().numpy(),
        tuple(one.weight.detach().cpu().numpy() for one in whole),
        tuple(one.bias.detach().cpu().numpy() for one in whole),
        slope,
        offset,
    )


def _trained(x: Tensor, z: np.ndarray, seed: int) -> nn.Sequential:
    """A network fitted to standardised states [n, width]; the seed decides all that is random."""
    generator = torch.Generator().manual_seed(seed)
    network = _network(x.shape[1], generator).to(x.device)
    target = torch.as_tensor(z, dtype=torch.float32, device=x.device)
    optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x), generator=generator).split(BATCH):
            rows = rows.to(x.device)
            loss = nn.functional.binary_cross_entropy_with_logits(
                network(x[rows])[:, 0], target[rows]
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return network


def _network(width: int, generator: torch.Generator) -> nn.Sequential:
    """The network before training, initialised as `nn.Linear` is, but by the generator."""
    sizes, layers = (width, *HIDDEN, 1), list[nn.Module]()
    for number, (inputs, outputs) in enumerate(pairwise(sizes)):
        linear = nn.utils.skip_init(nn.Linear, inputs, outputs)
        bound = inputs**-0.5
        for parameter in (linear.weight, linear.bias):
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        layers += [linear] if number == len(HIDDEN) else [linear, nn.ReLU()]
    return nn.Sequential(*layers)
