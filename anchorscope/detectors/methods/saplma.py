"""SAPLMA: a small network on the states of one layer (Azaria & Mitchell, 2023).

As published, hidden layers have 256, 128 and 64 units with ReLU, and Adam trains for 5 epochs in
batches of 32. The published method used raw states of one model. Here, states are standardised
first, because their size differs between models.
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
    """A calibrated network on the states of one layer."""

    readout: str
    layer: int
    centre: Tensor  # mean of the states, float32 [width]
    scale: Tensor  # standard deviation of the states, float32 [width]
    network: nn.Module  # takes standardised states, float64
    slope: float
    offset: float

    def score(self, samples: Samples) -> np.ndarray:
        """Return the logits of *wrong*, float64 [n]."""
        states = samples.states[self.readout][self.layer : self.layer + 1][0].float().cpu()
        with torch.inference_mode():
            logits = self.network(((states - self.centre) / self.scale).double())[:, 0].numpy()
        return self.slope * logits + self.offset


def fit(train: Training) -> NetworkScorer:
    """Fit the network at the probe's headline layer. Calibrate it on the inner folds."""
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
    whole = _trained(x, z, train.settings.seed).cpu().double()
    return NetworkScorer(readout, layer, centre.cpu(), scale.cpu(), whole, slope, offset)


def _trained(x: Tensor, z: np.ndarray, seed: int) -> nn.Sequential:
    """Fit a network to standardised states [n, width]. The seed determines all randomness."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        network = _network(x.shape[1]).to(x.device)
        target = torch.as_tensor(z, dtype=torch.float32, device=x.device)
        optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(x)).split(BATCH):
                rows = rows.to(x.device)
                logits = network(x[rows])[:, 0]
                loss = nn.functional.binary_cross_entropy_with_logits(logits, target[rows])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
    return network


def _network(width: int) -> nn.Sequential:
    """Return the network before training."""
    sizes = (width, *HIDDEN)
    hidden = [(nn.Linear(inputs, outputs), nn.ReLU()) for inputs, outputs in pairwise(sizes)]
    return nn.Sequential(*(part for pair in hidden for part in pair), nn.Linear(HIDDEN[-1], 1))
