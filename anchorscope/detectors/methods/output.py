"""The model's own confidence as a detector: token probabilities, and its verdict when asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anchorscope.detectors.method import LinearScorer, Samples, Training
from anchorscope.detectors.methods import probe

SPANS = ("exact", "answer")
"""The exact answer tokens, and all that the model wrote up to their end."""
STATISTICS = ("mean", "min", "max")
QUANTITIES = ("logprob", "logit", "entropy")
"""Quantities per token: log-probability, logit, and entropy of the predicted distribution."""
FEATURES = (
    *(f"{span}_{what}_{how}" for span in SPANS for what in QUANTITIES for how in STATISTICS),
    *(f"{span}_tokens" for span in SPANS),
)
P_TRUE = "p_true"
LEAST = 1e-6
"""Probabilities are clipped to [`LEAST`, 1 − `LEAST`]."""


@dataclass(frozen=True)
class OutputScorer:
    """A scorer that is linear in the features of the tokens and, if given, a probe's logit."""

    linear: LinearScorer  # of the features; the probe's logit comes last
    probe: LinearScorer | None = None

    def score(self, samples: Samples) -> np.ndarray:
        """Return the logits of *wrong*, float64 [n]."""
        x = _outputs(samples, FEATURES)
        if self.probe is not None:
            x = np.column_stack([x, self.probe.score(samples)])
        return self.linear.of_states([x])


@dataclass(frozen=True)
class PTrueScorer:
    """A scorer that calibrates P(True), the probability that the model calls its answer true."""

    slope: float
    offset: float

    def score(self, samples: Samples) -> np.ndarray:
        """Return the logits of *wrong*, float64 [n]."""
        return self.slope * self.raw(samples) + self.offset

    def raw(self, samples: Samples) -> np.ndarray:
        """Return float64 [n]: uncalibrated log-odds of the model calling its answer false."""
        p = np.clip(_outputs(samples, (P_TRUE,))[:, 0], LEAST, 1 - LEAST)
        return np.log((1 - p) / p)


def fit_output(train: Training) -> OutputScorer:
    """Fit a regression on all features, with penalty and calibration chosen as for a probe."""
    return OutputScorer(probe.of_numbers(train, _outputs(train.samples, FEATURES)))


def fit_output_and_probe(train: Training) -> OutputScorer:
    """Fit a regression on all features and on the held-out logits of the headline probe."""
    readout = train.samples.readout
    logits = probe.held_out(train, readout, [probe.headline_layer(train, readout)])[0]
    x = np.column_stack([_outputs(train.samples, FEATURES), logits])
    return OutputScorer(probe.of_numbers(train, x), probe.headline(train, readout))


def fit_p_true(train: Training) -> PTrueScorer:
    """Fit the offset and the positive slope that calibrate the model's verdict on its answers."""
    raw = PTrueScorer(1.0, 0.0).raw(train.samples)
    return PTrueScorer(*probe.calibration(train, raw))


def _outputs(samples: Samples, columns: tuple[str, ...]) -> np.ndarray:
    return samples.outputs[list(columns)].to_numpy(dtype=np.float64, copy=True)
