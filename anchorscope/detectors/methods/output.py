"""The model's own confidence as a detector: token probabilities, and what it says when asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from anchorscope.detectors.linear import LinearScorer
from anchorscope.detectors.method import Samples, Training
from anchorscope.detectors.methods import probe
from anchorscope.probes import platt
from anchorscope.storage.errors import AnchorscopeError

SPANS = ("exact", "answer")
"""The exact answer tokens; and all that the model wrote up to their end."""
STATISTICS = ("mean", "min", "max")
QUANTITIES = ("logprob", "logit", "entropy")
"""Of each token: log-probability, logit, and the entropy of the distribution it was taken from."""
FEATURES = (
    *(f"{span}_{what}_{how}" for span in SPANS for what in QUANTITIES for how in STATISTICS),
    *(f"{span}_tokens" for span in SPANS),
)
P_TRUE = "p_true"
LEAST = 1e-6
"""A probability is taken to be at least so far from 0 and 1."""


@dataclass(frozen=True)
class OutputScorer:
    """A logit that is linear in the features of the token probabilities."""

    columns: tuple[str, ...]
    weights: np.ndarray  # float64 [columns]
    bias: float

    def score(self, samples: Samples) -> np.ndarray:
        """Logits of *wrong*, float64 [n]."""
        return features(samples)[:, : len(self.columns)] @ self.weights + self.bias


@dataclass(frozen=True)
class OutputAndProbeScorer:
    """A logit that is linear in these features and in a probe's logit."""

    output: OutputScorer
    probe: LinearScorer
    weight: float  # of the probe's logit

    def score(self, samples: Samples) -> np.ndarray:
        """Logits of *wrong*, float64 [n]."""
        return self.output.score(samples) + self.weight * self.probe.score(samples)


@dataclass(frozen=True)
class PTrueScorer:
    """The log-odds of *false* that the model gives, calibrated."""

    slope: float
    offset: float

    def score(self, samples: Samples) -> np.ndarray:
        """Logits of *wrong*, float64 [n]."""
        return self.slope * self.raw(samples) + self.offset

    def raw(self, samples: Samples) -> np.ndarray:
        """Log-odds that the model calls its answer false, float64 [n]."""
        p = np.clip(_outputs(samples, (P_TRUE,))[:, 0], LEAST, 1 - LEAST)
        return np.log((1 - p) / p)


def fit_output(train: Training) -> OutputScorer:
    """A regression on all features, its penalty and calibration chosen as a probe's are."""
    return _regression(train, features(train.samples))[0]


def fit_output_and_probe(train: Training) -> OutputAndProbeScorer:
    """The same with the probe's logit, which for training samples is one held out."""
    readout = train.samples.readout
    logits = probe.held_out(train, readout, [probe.headline_layer(train, readout)])[0]
    scorer, rest = _regression(train, np.column_stack([features(train.samples), logits]))
    return OutputAndProbeScorer(scorer, probe.headline(train, readout), float(rest[0]))


def fit_p_true(train: Training) -> PTrueScorer:
    """The model's verdict; its direction is given, and only its scale is learned."""
    raw = PTrueScorer(1.0, 0.0).raw(train.samples)
    slope, offset = platt.calibrate(raw[None], train.label)
    return PTrueScorer(float(slope[0]), float(offset[0]))


def features(samples: Samples) -> np.ndarray:
    """The features of the token probabilities, float64 [n, features]."""
    return _outputs(samples, FEATURES)


def _outputs(samples: Samples, columns: tuple[str, ...]) -> np.ndarray:
    """Columns of the table of outputs.

    Raises AnchorscopeError: it is not there, or lacks a value.
    """
    if samples.outputs is None:
        what, do = "token probabilities were not measured", "run the rule `outputs` first"
        raise AnchorscopeError(what, "detection", do, see="not-measured")
    values = samples.outputs[list(columns)].to_numpy(dtype=np.float64)
    if len(strange := samples.answers["id"][~np.isfinite(values).all(1)]):
        what, do = "a token probability is not finite", "delete the cell's outputs and run again"
        raise AnchorscopeError(what, f"outputs, id {strange.iloc[0]}", do, see="unreadable-product")
    return values


def _regression(train: Training, x: np.ndarray) -> tuple[OutputScorer, np.ndarray]:
    """A calibrated regression on features [n, features].

    Those beyond `FEATURES` are left out of the scorer; their weights are given beside it.
    """
    fitted = probe.fit(train, torch.tensor(x, dtype=torch.float32)[None])
    scorer = probe.linear(fitted, "", 0)
    some = len(FEATURES)
    weights = scorer.weights[0]
    return OutputScorer(FEATURES, weights[:some], scorer.bias), weights[some:]
